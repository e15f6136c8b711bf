import type { IncomingMessage } from 'node:http';

/** A DNS name, an IPv4 address or a bracketed IPv6 address, then optionally a port. Nothing that needs escaping. */
const AUTHORITY = /^(?:[a-z0-9](?:[a-z0-9.-]{0,251}[a-z0-9])?|\[[0-9a-f:.]{2,45}\])(?::[0-9]{1,5})?$/i;

/**
 * The base URL under which whoever asks reached Larder, without a slash at its end: for text shown to people only.
 *
 * The configured one wins. Else it is what the proxy in front says (`X-Forwarded-Host`, `X-Forwarded-Proto`), else what
 * the client said. All of these are the asker's words: they go back to the asker alone, and only when they have the
 * form of an address. `undefined` when they do not.
 */
export function publicAddress(req: IncomingMessage, configured?: string | undefined): string | undefined {
  if (configured !== undefined) return configured.replace(/\/+$/, '');
  const host = first(req.headers['x-forwarded-host']) ?? req.headers.host;
  const encrypted = 'encrypted' in req.socket && req.socket.encrypted === true;
  const scheme = (first(req.headers['x-forwarded-proto']) ?? (encrypted ? 'https' : 'http')).toLowerCase();
  if (host === undefined || !AUTHORITY.test(host) || (scheme !== 'https' && scheme !== 'http')) return undefined;
  return `${scheme}://${host.toLowerCase().replace(scheme === 'https' ? /:443$/ : /:80$/, '')}`;
}

/** Of several proxies in a row, the outermost speaks first. */
function first(header: string | string[] | undefined): string | undefined {
  const text = (Array.isArray(header) ? header[0] : header)?.split(',')[0]?.trim();
  return text === '' ? undefined : text;
}
