import type { Readable } from 'node:stream';
import type { Sha256 } from '../address/hash.ts';
import { Platform } from '../address/platform.ts';
import type { ProviderAddress } from '../address/provider.ts';
import { Version } from '../address/version.ts';
import { hasCode, IntegrityMismatch, UpstreamInvalid } from '../errors.ts';
import type { Logger } from '../logger.ts';
import { loggerFor } from '../request-origin.ts';
import { authenticatesFile } from './credentials.ts';
import { endpoint } from './endpoint.ts';
import { absentAs } from './failures.ts';
import type { HttpClient } from './http-client.ts';
import { isObject, parseJsonObject, stringsOf } from './json-answer.ts';
import { parsePackageDocument, parseProtocols } from './package-document.ts';
import { publicationDate } from './publication-date.ts';
import type {
  PackageDocument,
  ProviderVersions,
  PublishedVersion,
  ReleaseChecksums,
  SignatureVerdict,
} from './registry-answers.ts';
import { parseShasums } from './shasums.ts';
import { verifySignature } from './signature.ts';
import type { Upstream } from './upstream.ts';

/** The largest real answer (468 versions) has 220 KB; a registry that lists every build may have much more. */
const MAX_VERSIONS_BYTES = 16 * 1024 * 1024;
/** Signing keys and the hashes of fifteen platforms make some 20 KB. */
const MAX_DOCUMENT_BYTES = 4 * 1024 * 1024;
/** Some registries add the documentation of everything in it. */
const MAX_DETAILS_BYTES = 16 * 1024 * 1024;
/** SHA256SUMS has about 100 bytes a file. */
const MAX_SHASUMS_BYTES = 1024 * 1024;
const MAX_SIGNATURE_BYTES = 256 * 1024;
/** Go's limit, which the clients have. */
const MAX_REDIRECTS = 10;
/** A signature that is only to be passed on is not waited for any longer. */
const OPTIONAL_SIGNATURE_MS = 2_000;

/**
 * The provider registry protocol, towards an upstream. `base` is what discovery gave for `providers.v1`.
 *
 * Every method throws UpstreamUnreachable, UpstreamRefused and UpstreamInvalid, and NotFound where named.
 */
export class ProviderRegistry {
  readonly #http: HttpClient;
  readonly #logger: Logger;

  constructor(deps: { http: HttpClient; logger: Logger }) {
    this.#http = deps.http;
    this.#logger = deps.logger;
  }

  /** `GET NAMESPACE/TYPE/versions`. @throws NotFound when upstream has no such provider */
  async versions(
    upstream: Upstream,
    base: URL,
    provider: ProviderAddress,
    signal: AbortSignal,
  ): Promise<ProviderVersions> {
    const { namespace, type } = provider;
    const url = endpoint(base, namespace, type, 'versions');
    const answer = await this.#fetchMetadata(upstream, url, MAX_VERSIONS_BYTES, signal).catch(
      absentAs(`${upstream.hostname} has no provider ${namespace}/${type}`),
    );
    const document = parseJsonObject(answer, `the versions of ${provider}`);
    const listed = document['versions'];
    if (!Array.isArray(listed)) {
      // Never read as "none": an outage would pass for an absence.
      throw new UpstreamInvalid(answer.url.host, `answered with no list of versions for ${provider}`);
    }
    if (listed.length > 0 && !listed.some((entry) => isObject(entry) && typeof entry['version'] === 'string')) {
      // A list of something else, as other APIs of registries have it.
      throw new UpstreamInvalid(answer.url.host, `answered with a list that holds no versions for ${provider}`);
    }
    return { ...parseVersions(listed), warnings: stringsOf(document['warnings']) };
  }

  /**
   * `GET NAMESPACE/TYPE/VERSION/download/OS/ARCH`, the version as upstream spells it.
   * @throws NotFound when upstream has no such package
   */
  async findPackage(
    upstream: Upstream,
    base: URL,
    provider: ProviderAddress,
    publishedVersion: string,
    platform: Platform,
    signal: AbortSignal,
  ): Promise<PackageDocument> {
    const { namespace, type } = provider;
    const url = endpoint(base, namespace, type, publishedVersion, 'download', platform.os, platform.arch);
    const version = Version.fromPublished(publishedVersion) ?? publishedVersion;
    const answer = await this.#fetchMetadata(upstream, url, MAX_DOCUMENT_BYTES, signal).catch(
      absentAs(`${upstream.hostname} has no package of ${namespace}/${type} ${version} for ${platform}`),
    );
    return parsePackageDocument(
      answer,
      {
        platform,
        canonicalFilename: `terraform-provider-${provider.type}_${version}_${platform}.zip`,
        subject: `${provider} ${version}`,
      },
      this.#logger,
    );
  }

  /** `GET NAMESPACE/TYPE/VERSION`, which some registries have: its date, `undefined` where there is none. */
  async publishedAt(
    upstream: Upstream,
    base: URL,
    { namespace, type }: ProviderAddress,
    publishedVersion: string,
    signal: AbortSignal,
  ): Promise<Date | undefined> {
    const url = endpoint(base, namespace, type, publishedVersion);
    return publicationDate(this.#fetchMetadata(upstream, url, MAX_DETAILS_BYTES, signal));
  }

  /**
   * SHA256SUMS of the document's version and its signature, checked as `upstream.signatures` demands. One call serves
   * all platforms of the version. Where no checksum list is needed and none can be had, the document's own digest is
   * all there is.
   * @throws IntegrityMismatch when signature, list and document do not agree, or a demanded signature does not exist
   */
  async checksums(upstream: Upstream, document: PackageDocument, signal: AbortSignal): Promise<ReleaseChecksums> {
    const policy = upstream.signatures;
    const hasKeys = document.signingKeys.length > 0;
    const mustVerify = policy !== 'ignore' && hasKeys;
    if (policy === 'require' && !hasKeys) {
      throw new IntegrityMismatch(
        `${document.filename} is not signed: ${upstream.hostname} gives no signing keys, and signatures are required of it`,
        { hint: 'Set signatures: verify for this upstream to accept what is not signed.' },
      );
    }
    const [shasums, signature] = await Promise.all([
      this.#fetchShasums(upstream, document, !mustVerify, signal),
      this.#fetchSignature(upstream, document, !mustVerify, signal),
    ]);
    const unverified: SignatureVerdict = {
      state: policy === 'ignore' ? 'unchecked' : 'unsigned',
      keyId: undefined,
      notes: [],
    };
    if (!shasums) {
      const digests = new Map([[document.filename, document.sha256]]);
      return { digests, shasums: Buffer.alloc(0), signature: undefined, verdict: unverified };
    }
    // Before the signature: an error page is nonsense, not a forgery.
    const digests = parseShasums(shasums, document.shasumsUrl?.host);
    const verdict =
      mustVerify && signature
        ? await verifySignature({ shasums, signature, armoredKeys: document.signingKeys }).catch((error: unknown) => {
            throw sayingWhose(upstream, document, error);
          })
        : unverified;
    assertListed(document, digests);
    return { digests, shasums, signature, verdict };
  }

  /** The archive's bytes from `offset` on. @throws NotFound */
  openArchive(
    upstream: Upstream,
    document: PackageDocument,
    offset: number,
    signal: AbortSignal,
  ): Promise<{ body: Readable; offset: number; size: number | undefined }> {
    return this.#http.openBody({ upstream, url: document.downloadUrl, offset, signal });
  }

  /** Bytes, or `undefined` when upstream does not tell. Never throws. */
  archiveLength(upstream: Upstream, document: PackageDocument, signal: AbortSignal): Promise<number | undefined> {
    return this.#http.headLength({ upstream, url: document.downloadUrl, signal });
  }

  #fetchMetadata(upstream: Upstream, url: URL, maxBytes: number, signal: AbortSignal) {
    const accept = 'application/json';
    return this.#http.fetchBody({
      upstream,
      url,
      accept,
      authenticate: true,
      maxBytes,
      maxRedirects: MAX_REDIRECTS,
      signal,
    });
  }

  async #fetchShasums(
    upstream: Upstream,
    document: PackageDocument,
    optional: boolean,
    signal: AbortSignal,
  ): Promise<Buffer | undefined> {
    const { shasumsUrl: url } = document;
    try {
      if (url) return await this.#fetchRelease(upstream, url, MAX_SHASUMS_BYTES, signal);
    } catch (error) {
      if (!hasCode(error, 'NOT_FOUND')) throw error;
    }
    if (optional) return undefined;
    throw lacks(upstream, url, `SHA256SUMS for ${document.filename}`);
  }

  async #fetchSignature(
    upstream: Upstream,
    document: PackageDocument,
    optional: boolean,
    signal: AbortSignal,
  ): Promise<Buffer | undefined> {
    const { signatureUrl: url } = document;
    const patience = optional ? AbortSignal.any([signal, AbortSignal.timeout(OPTIONAL_SIGNATURE_MS)]) : signal;
    try {
      if (url) return await this.#fetchRelease(upstream, url, MAX_SIGNATURE_BYTES, patience);
    } catch (error) {
      if (!optional && !hasCode(error, 'NOT_FOUND')) throw error;
      loggerFor(upstream.origin, this.#logger).debug('no signature to pass on', { host: url?.host, error });
    }
    if (optional) return undefined;
    throw lacks(upstream, url, `the signature of SHA256SUMS for ${document.filename}`);
  }

  /** Without credentials, as the clients do, unless the operator lists their host: these files may be anywhere. */
  async #fetchRelease(upstream: Upstream, url: URL, maxBytes: number, signal: AbortSignal): Promise<Buffer> {
    const { body } = await this.#http.fetchBody({
      upstream,
      url,
      authenticate: authenticatesFile(upstream, url),
      maxBytes,
      maxRedirects: MAX_REDIRECTS,
      signal,
    });
    return body;
  }
}

function parseVersions(listed: readonly unknown[]): Pick<ProviderVersions, 'versions' | 'skipped'> {
  const versions = new Map<string, PublishedVersion>();
  const skipped: string[] = [];
  for (const entry of listed) {
    const published = isObject(entry) ? entry['version'] : undefined;
    const version = typeof published === 'string' ? Version.fromPublished(published) : undefined;
    if (!isObject(entry) || typeof published !== 'string' || !version) {
      skipped.push(typeof published === 'string' ? published.slice(0, 100) : 'an entry without a version');
      continue;
    }
    // `v1.0.0` beside `1.0.0`: the clients know but one, and ask for it by its canonical name.
    if (versions.has(String(version)) && published !== String(version)) continue;
    const { protocols, platforms } = entry;
    versions.set(String(version), {
      version,
      published,
      protocols: parseProtocols(protocols),
      platforms: parsePlatforms(platforms),
    });
  }
  return { versions: [...versions.values()], skipped };
}

function parsePlatforms(value: unknown): Platform[] {
  if (!Array.isArray(value)) return [];
  return value.flatMap((entry) => {
    try {
      return isObject(entry) ? [new Platform(String(entry['os']), String(entry['arch']))] : [];
    } catch {
      return [];
    }
  });
}

/** Some registries list the archive under another name than they give: then it must be there by its digest. */
function assertListed({ filename, sha256 }: PackageDocument, digests: ReadonlyMap<string, Sha256>): void {
  const listed = digests.get(filename);
  if (listed === sha256) return;
  if (listed !== undefined) {
    throw new IntegrityMismatch(
      `the registry gives ${sha256} as the SHA-256 of ${filename}, but SHA256SUMS lists ${listed}`,
    );
  }
  if (![...digests.values()].includes(sha256)) {
    throw new IntegrityMismatch(`SHA256SUMS lists neither ${filename} nor its SHA-256 ${sha256}`);
  }
}

/** The clients show nothing but a status, so that the log line has to say all of it. */
function sayingWhose(upstream: Upstream, { filename }: PackageDocument, error: unknown): unknown {
  if (!hasCode(error, 'INTEGRITY_MISMATCH')) return error;
  return new IntegrityMismatch(`${upstream.hostname}, ${filename}: ${error.message}`, {
    hint: error.hint,
    cause: error,
  });
}

function lacks(upstream: Upstream, url: URL | undefined, what: string): UpstreamInvalid {
  return url
    ? new UpstreamInvalid(url.host, `does not have ${what}`)
    : new UpstreamInvalid(String(upstream.hostname), `does not say where ${what} is`);
}
