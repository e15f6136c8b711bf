import type { Hostname } from '../address/hostname.ts';
import { hasCode, UpstreamInvalid } from '../errors.ts';
import type { FetchedBody, HttpClient } from './http-client.ts';
import { parseJsonObject } from './json-answer.ts';
import type { Upstream } from './upstream.ts';

/** Absolute URLs with a trailing slash by service id: `providers.v1`. JSON-compatible. */
export type Services = Readonly<Record<string, string>>;

/** The clients' own limits. */
const MAX_BYTES = 1024 * 1024;
const MAX_REDIRECTS = 3;

/** Services that Larder lives by: a bad address of one of these is told, one of any other is left out. */
const NEEDED: ReadonlySet<string> = new Set(['providers.v1', 'modules.v1']);

/** Remote service discovery: `GET https://HOST/.well-known/terraform.json` tells where a host's registry lives. */
export class ServiceDiscovery {
  readonly #http: HttpClient;

  constructor(deps: { http: HttpClient }) {
    this.#http = deps.http;
  }

  /**
   * @throws UpstreamInvalid when the host offers no services or answers something else (a portal's page)
   * @throws UpstreamUnreachable, UpstreamRefused
   */
  async discover(upstream: Upstream, signal: AbortSignal): Promise<Services> {
    const host = String(upstream.hostname);
    const answer = await this.#fetch(upstream, signal);
    const mediaType = (answer.headers['content-type'] ?? '').split(';', 1)[0]?.trim().toLowerCase();
    if (mediaType !== 'application/json') {
      const came = mediaType ? JSON.stringify(mediaType.slice(0, 100)) : 'something without a content type';
      throw new UpstreamInvalid(host, `answered service discovery with ${came} instead of application/json`);
    }
    const document = parseJsonObject(answer, 'service discovery');
    // Anything but a string means "not provided": an object is a service of another kind (login).
    const offered = Object.entries(document).filter((entry): entry is [string, string] => typeof entry[1] === 'string');
    return Object.fromEntries(
      offered.flatMap(([id, value]) => {
        const url = parseServiceUrl(value, answer.url);
        if (typeof url === 'string') return [[id, url]];
        if (NEEDED.has(id)) throw new UpstreamInvalid(host, `offers ${id} at an address that ${url.why}`);
        return [];
      }),
    );
  }

  async #fetch(upstream: Upstream, signal: AbortSignal): Promise<FetchedBody> {
    try {
      return await this.#http.fetchBody({
        upstream,
        url: new URL('/.well-known/terraform.json', upstream.hostname.origin),
        accept: 'application/json',
        authenticate: true,
        maxBytes: MAX_BYTES,
        maxRedirects: MAX_REDIRECTS,
        signal,
      });
    } catch (error) {
      if (!hasCode(error, 'NOT_FOUND')) throw error;
      throw new UpstreamInvalid(
        String(upstream.hostname),
        'offers no services: it has no /.well-known/terraform.json, so it is no registry',
        { cause: error },
      );
    }
  }
}

/** @throws UpstreamInvalid when the host does not offer that service */
export function serviceUrl(services: Services, id: string, hostname: Hostname): URL {
  const url = Object.hasOwn(services, id) ? services[id] : undefined;
  if (url === undefined) throw new UpstreamInvalid(String(hostname), `does not offer ${id}`);
  return new URL(url);
}

/** Relative addresses are relative to where discovery ended up. Query and fragment are dropped, as the clients do. */
function parseServiceUrl(value: string, base: URL): string | { why: string } {
  if (!URL.canParse(value, base.href)) return { why: 'is no URL' };
  const url = new URL(value, base);
  if (url.protocol !== 'https:' && url.protocol !== 'http:') return { why: `begins with ${url.protocol}` };
  if (url.username || url.password) return { why: 'holds a user name or password' };
  url.search = '';
  url.hash = '';
  if (!url.pathname.endsWith('/')) url.pathname += '/';
  return url.href;
}
