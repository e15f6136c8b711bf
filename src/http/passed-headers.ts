import type { IncomingHttpHeaders, IncomingMessage } from 'node:http';

/** Of one connection, not of what is said over it (RFC 9110, 7.6.1). */
const HOP_BY_HOP: readonly string[] = [
  'connection',
  'keep-alive',
  'proxy-authenticate',
  'proxy-authorization',
  'proxy-connection',
  'te',
  'trailer',
  'transfer-encoding',
  'upgrade',
];

/**
 * What a client says of what it wants and what it can read. Nothing else travels on: headers may hold tokens and cookies,
 * tell of machines in here, or make a request another one than it was looked at for (`X-HTTP-Method-Override`).
 */
const OF_CLIENT: ReadonlySet<string> = new Set([
  'accept',
  'accept-encoding',
  'accept-language',
  'content-encoding',
  'content-language',
  'content-length',
  'content-type',
  'if-match',
  'if-modified-since',
  'if-none-match',
  'if-range',
  'if-unmodified-since',
  'range',
  'user-agent',
  'x-terraform-version',
]);

/** What upstream says of its own host, which a client would take for said of Larder's. Location and caching are told anew. */
const OF_UPSTREAM: ReadonlySet<string> = new Set([
  ...HOP_BY_HOP,
  'alt-svc',
  'cache-control',
  'clear-site-data',
  'content-security-policy',
  'content-security-policy-report-only',
  'location',
  'nel',
  'public-key-pins',
  'report-to',
  'reporting-endpoints',
  'service-worker-allowed',
  'set-cookie',
  'set-cookie2',
  'sourcemap',
  'strict-transport-security',
  'x-content-type-options',
  'x-request-id',
]);

/** The headers of a client's request that travel on, by lower-case name. */
export function headersForUpstream(given: IncomingHttpHeaders): Record<string, string | string[]> {
  const named = namedIn(given.connection);
  return Object.fromEntries(
    Object.entries(given).filter(
      (entry): entry is [string, string | string[]] =>
        entry[1] !== undefined && OF_CLIENT.has(entry[0]) && !named.has(entry[0]),
    ),
  );
}

/** Those of upstream's answer that travel on: names and values in turn, as they came. */
export function headersForClient({ rawHeaders, headers }: IncomingMessage): string[] {
  const named = namedIn(headers.connection);
  const kept: string[] = [];
  for (let index = 0; index + 1 < rawHeaders.length; index += 2) {
    const [given = '', value = ''] = rawHeaders.slice(index, index + 2);
    const name = given.toLowerCase();
    if (!OF_UPSTREAM.has(name) && !name.startsWith('access-control-') && !named.has(name)) kept.push(given, value);
  }
  return kept;
}

/**
 * A connection may have headers of its own, and says which. What tells where a body ends is none of them: bytes that go
 * on without it are the next request to whoever gets them.
 */
function namedIn(connection: string | undefined): ReadonlySet<string> {
  const named = new Set((connection ?? '').split(',').map((name) => name.trim().toLowerCase()));
  named.delete('content-length');
  return named;
}
