import type { ModuleAddress } from '../address/module.ts';
import { Version } from '../address/version.ts';
import { hasCode, NotFound, UpstreamInvalid } from '../errors.ts';
import { endpoint } from './endpoint.ts';
import { absentAs } from './failures.ts';
import type { FetchedBody, HttpClient } from './http-client.ts';
import { isObject, parseJsonObject } from './json-answer.ts';
import { publicationDate } from './publication-date.ts';
import type { Upstream } from './upstream.ts';

/** Some registries add inputs, outputs and submodules of every version. */
const MAX_VERSIONS_BYTES = 16 * 1024 * 1024;
/** Inputs, outputs and the whole README. */
const MAX_DETAILS_BYTES = 16 * 1024 * 1024;
/** A location and little else; one that is signed has some 2 KB. */
const MAX_LOCATION_BYTES = 1024 * 1024;
/** Go's limit, which the clients have. */
const MAX_REDIRECTS = 10;
/**
 * Registries answer by the client's version: older ones are sent to a repository instead of an archive. All clients get
 * the answer to this one, whatever they are.
 */
const CLIENT_VERSION = '1.11.4';

export interface PublishedModuleVersion {
  readonly version: Version;
  /** As upstream spells it: `v1.2.3`. */
  readonly published: string;
}

/** Answer to `GET …/versions`, sifted. */
export interface ModuleVersions {
  readonly versions: readonly PublishedModuleVersion[];
  /** Entries that are no versions, left out: for the log. */
  readonly skipped: readonly string[];
}

/** Answer to `GET …/VERSION/download`. JSON-compatible. */
export interface LocationAnswer {
  /** As upstream gives it, in the dialect of go-getter: not yet looked at. May hold secrets. */
  readonly location: string;
  /** The URL that was asked, wherever it redirected: what a relative location is relative to. */
  readonly base: string;
  /** The package is to be fetched with the credentials of the registry. */
  readonly useRegistryCredentials: boolean;
  /** It says whether to: then clients that know of that fetch the package themselves, without go-getter. */
  readonly isDirect: boolean;
}

/**
 * The module registry protocol, towards an upstream. `base` is what discovery gave for `modules.v1`. Modules are asked
 * for in the case in which they were written.
 *
 * Every method throws UpstreamUnreachable, UpstreamRefused and UpstreamInvalid, and NotFound where named.
 */
export class ModuleRegistry {
  readonly #http: HttpClient;

  constructor(deps: { http: HttpClient }) {
    this.#http = deps.http;
  }

  /** `GET NAMESPACE/NAME/SYSTEM/versions`. @throws NotFound when upstream has no such module */
  async versions(upstream: Upstream, base: URL, module: ModuleAddress, signal: AbortSignal): Promise<ModuleVersions> {
    const answer = await this.#http
      .fetchBody({
        upstream,
        url: endpoint(base, module.namespace, module.name, module.system, 'versions'),
        accept: 'application/json',
        authenticate: true,
        maxBytes: MAX_VERSIONS_BYTES,
        maxRedirects: MAX_REDIRECTS,
        signal,
      })
      .catch(absentAs(`${upstream.hostname} has no module ${module.written}`));
    const document = parseJsonObject(answer, `the versions of ${module}`);
    // The clients look at the first module alone.
    const [first] = Array.isArray(document['modules']) ? document['modules'] : [];
    const listed = isObject(first) ? first['versions'] : undefined;
    if (!Array.isArray(listed)) {
      // Never read as "none": an outage would pass for an absence.
      throw new UpstreamInvalid(answer.url.host, `answered with no list of versions for ${module}`);
    }
    if (listed.length > 0 && !listed.some((entry) => publishedOf(entry) !== undefined)) {
      throw new UpstreamInvalid(answer.url.host, `answered with a list that holds no versions for ${module}`);
    }
    return parseVersions(listed);
  }

  /** `GET NAMESPACE/NAME/SYSTEM/VERSION`, which some registries have: its date, `undefined` where there is none. */
  async publishedAt(
    upstream: Upstream,
    base: URL,
    { namespace, name, system }: ModuleAddress,
    published: string,
    signal: AbortSignal,
  ): Promise<Date | undefined> {
    return publicationDate(
      this.#http.fetchBody({
        upstream,
        url: endpoint(base, namespace, name, system, published),
        accept: 'application/json',
        authenticate: true,
        maxBytes: MAX_DETAILS_BYTES,
        maxRedirects: MAX_REDIRECTS,
        signal,
      }),
    );
  }

  /**
   * `GET NAMESPACE/NAME/SYSTEM/VERSION/download`: where the package of a version is. Most registries know versions
   * without the `v` that their lists have, some only with it: other spellings are tried where one is absent.
   * @throws NotFound when upstream has no such version, however it is spelled
   */
  async download(
    upstream: Upstream,
    base: URL,
    module: ModuleAddress,
    published: string,
    signal: AbortSignal,
  ): Promise<LocationAnswer> {
    let absent: NotFound | undefined;
    for (const spelling of spellingsOf(published)) {
      const url = endpoint(base, module.namespace, module.name, module.system, spelling, 'download');
      try {
        return await this.#location(upstream, url, `the location of ${module} ${spelling}`, signal);
      } catch (error) {
        if (!hasCode(error, 'NOT_FOUND')) throw error;
        absent ??= error;
      }
    }
    throw new NotFound(`${upstream.hostname} has no version ${published} of ${module.written}`, { cause: absent });
  }

  async #location(upstream: Upstream, url: URL, what: string, signal: AbortSignal): Promise<LocationAnswer> {
    const answer = await this.#http.fetchBody({
      upstream,
      url,
      accept: 'application/json',
      headers: { 'x-terraform-version': CLIENT_VERSION },
      statuses: [200, 204],
      authenticate: true,
      maxBytes: MAX_LOCATION_BYTES,
      maxRedirects: MAX_REDIRECTS,
      signal,
    });
    return { base: url.href, ...readLocation(answer, what) };
  }
}

/** Without its `v`, as it was published, and in canonical form, each once. */
function spellingsOf(published: string): Iterable<string> {
  const canonical = Version.fromPublished(published);
  return new Set([published.replace(/^v(?=\d)/i, ''), published, ...(canonical ? [String(canonical)] : [])]);
}

/** The body where it names a location, the header otherwise. @throws UpstreamInvalid when neither does */
function readLocation(answer: FetchedBody, what: string): Omit<LocationAnswer, 'base'> {
  const given = answer.headers['x-terraform-get'];
  // A header's bytes come as one character each; registries and clients mean UTF-8 by them.
  const header = given ? Buffer.from(given, 'latin1').toString() : undefined;
  const document = jsonObjectOf(answer);
  const location = document?.['location'];
  if (typeof location === 'string' && location !== '') {
    const flag = document?.['use_registry_credentials'];
    return { location, useRegistryCredentials: flag === true, isDirect: typeof flag === 'boolean' };
  }
  if (header !== undefined) return { location: header, useRegistryCredentials: false, isDirect: false };
  if (!document && answer.body.length > 0) parseJsonObject(answer, what);
  throw new UpstreamInvalid(answer.url.host, `answered ${what} without one`);
}

function jsonObjectOf(answer: FetchedBody): Record<string, unknown> | undefined {
  try {
    return parseJsonObject(answer, 'a location');
  } catch {
    return undefined;
  }
}

function publishedOf(entry: unknown): string | undefined {
  const published = isObject(entry) ? entry['version'] : undefined;
  return typeof published === 'string' ? published : undefined;
}

function parseVersions(listed: readonly unknown[]): ModuleVersions {
  const versions = new Map<string, PublishedModuleVersion>();
  const skipped: string[] = [];
  for (const entry of listed) {
    const published = publishedOf(entry);
    const version = published === undefined ? undefined : Version.fromPublished(published);
    if (published === undefined || !version) {
      skipped.push(published?.slice(0, 100) ?? 'an entry without a version');
      continue;
    }
    // `v1.0.0` beside `1.0.0`: one version, asked for by its canonical name.
    if (versions.has(String(version)) && published !== String(version)) continue;
    versions.set(String(version), { version, published });
  }
  return { versions: [...versions.values()], skipped };
}
