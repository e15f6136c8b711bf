import type { ProxySettings } from '../connections.ts';
import { proxyUrl } from '../connections.ts';

const DEFAULT_PORTS: Readonly<Record<string, number>> = { 'https:': 443, 'http:': 80 };

/**
 * The egress proxy for a URL, `undefined` for none: chosen as for everything else that leaves Larder, where the http
 * proxy also serves https when there is no other.
 * @throws InvalidConfiguration when it is no usable URL
 */
export function egressProxyFor(url: URL, proxy: ProxySettings): string | undefined {
  const chosen = (url.protocol === 'https:' && proxyUrl(proxy.https)) || proxyUrl(proxy.http);
  return chosen === '' || isExempt(url, proxy.no ?? '') ? undefined : chosen;
}

/** Names with everything below them, `.name` and `*.name` alike, each possibly with a port; or `*`. */
function isExempt(url: URL, list: string): boolean {
  if (list === '*') return true;
  const host = url.hostname.toLowerCase();
  const port = Number(url.port) || DEFAULT_PORTS[url.protocol];
  return list
    .split(/[,\s]/)
    .filter(Boolean)
    .some((entry) => {
      const [, named = entry, onlyPort] = /^(.+):(\d+)$/.exec(entry) ?? [];
      const name = named.replace(/^\*?\./, '').toLowerCase();
      if (onlyPort !== undefined && Number(onlyPort) !== port) return false;
      return host === name || host.endsWith(`.${name}`);
    });
}
