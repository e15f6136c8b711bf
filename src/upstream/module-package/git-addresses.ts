import type { LookupAddress } from 'node:dns';
import { isIP } from 'node:net';
import { promisify } from 'node:util';
import { UpstreamInvalid } from '../../errors.ts';
import { lookupPublic, refuseInternalHost } from '../address-guard.ts';
import { transportFailure } from '../failures.ts';
import type { Upstream } from '../upstream.ts';

const lookupAll = promisify((name: string, callback: (error: Error | null, found: readonly LookupAddress[]) => void) =>
  lookupPublic(name, { all: true }, (error, found) => callback(error, Array.isArray(found) ? found : [])),
);

/**
 * The addresses that a host may be connected to, looked up once: git is to connect to these and look nothing up by
 * itself, or a name could stand for another machine by then. Empty when any address will do.
 * @throws UpstreamInvalid for internal hosts of upstreams that are not on a private network; UpstreamUnreachable
 */
export async function addressesFor(url: URL, upstream: Upstream, signal: AbortSignal): Promise<readonly string[]> {
  if (upstream.privateNetwork) return [];
  refuseInternalHost(asWebAddress(url));
  if (isIP(bareHost(url)) !== 0) return [];
  try {
    return (await lookupAll(url.hostname)).map(({ address }) => address);
  } catch (error) {
    throw transportFailure(url, error, signal);
  }
}

/** Without the brackets of IPv6. */
export function bareHost(url: URL): string {
  return url.hostname.replace(/^\[|\]$/g, '');
}

/** The parser normalises only hosts of web addresses: what stands behind `ssh://` may be `2130706433`, which is 127.0.0.1. */
function asWebAddress(url: URL): URL {
  const address = `https://${url.host}/`;
  if (!URL.canParse(address)) throw new UpstreamInvalid(url.host, 'is named for git with a host that cannot be one');
  return new URL(address);
}
