import { UpstreamInvalid } from '../errors.ts';
import { refuseInternalHost } from './address-guard.ts';
import type { Upstream } from './upstream.ts';

const REDIRECTS: ReadonlySet<number> = new Set([301, 302, 303, 307, 308]);

export function isRedirect(status: number): boolean {
  return REDIRECTS.has(status);
}

/**
 * Judges an address before anything is sent there: the first one of a request and each one that it is redirected to.
 * Plain http is for upstreams on private networks, archives and what they name in it included.
 * @throws UpstreamInvalid
 */
export function assertAllowed(url: URL, upstream: Upstream): void {
  if (url.protocol !== 'https:' && url.protocol !== 'http:') {
    throw new UpstreamInvalid(url.host || String(upstream.hostname), `is named with ${url.protocol}, not https:`);
  }
  if (url.protocol === 'http:' && !upstream.privateNetwork) {
    throw new UpstreamInvalid(url.host, 'is named with http://, which anyone on the way could alter', {
      hint: 'Only upstreams with privateNetwork: true may use http://.',
    });
  }
  if (url.username || url.password) {
    throw new UpstreamInvalid(url.host, 'is named with a user name or password in the URL, which is not supported');
  }
  if (!upstream.privateNetwork) refuseInternalHost(url);
}

/** Where a redirect leads. @throws UpstreamInvalid when it leads nowhere, or from https to http */
export function redirectTarget(from: URL, location: string | undefined): URL {
  const target = location && URL.canParse(location, from.href) ? new URL(location, from) : undefined;
  if (!target) throw new UpstreamInvalid(from.host, 'redirects without saying where to');
  if (from.protocol === 'https:' && target.protocol === 'http:') {
    throw new UpstreamInvalid(from.host, `redirects from https to plain http (${target.host}), which is refused`);
  }
  target.hash = '';
  return target;
}
