import { type Hash, parseHash, parseSha256, type Sha256, zipHash } from '../address/hash.ts';
import { Platform } from '../address/platform.ts';
import { UpstreamInvalid } from '../errors.ts';
import type { Logger } from '../logger.ts';
import type { FetchedBody } from './http-client.ts';
import { isObject, parseJsonObject, stringsOf } from './json-answer.ts';
import type { PackageDocument, ReleaseStatement } from './registry-answers.ts';

type Packages = PackageDocument['packages'];

/** Of what is handed on as it is. Real documents have four levels; writing out JSON takes stack for each. */
const MAX_NESTING = 32;

/** What was asked for: the answer must be about that. */
export interface AskedPackage {
  readonly platform: Platform;
  /** File name to fall back on. */
  readonly canonicalFilename: string;
  /** For messages: `acme/widget 1.2.3`. */
  readonly subject: string;
}

/**
 * Reads the answer to "find a provider package". What Larder needs must be right; what it does not need may be odd.
 * @throws UpstreamInvalid
 */
export function parsePackageDocument(answer: FetchedBody, asked: AskedPackage, logger: Logger): PackageDocument {
  const { url } = answer;
  const subject = `${asked.subject} for ${asked.platform}`;
  const invalid = (detail: string) => new UpstreamInvalid(url.host, `${detail} for ${subject}`);
  const document = parseJsonObject(answer, subject);

  if (document['os'] !== asked.platform.os || document['arch'] !== asked.platform.arch) {
    throw invalid('answered with the package of another platform');
  }
  const sha256 = shasumOf(document['shasum']);
  if (!sha256) throw invalid('gives no SHA-256 checksum (shasum)');
  const downloadUrl = absoluteUrl(document['download_url'], url);
  if (!downloadUrl) throw invalid('gives no usable download_url');

  if (['signing_keys', 'packages'].some((name) => isNestedDeeperThan(MAX_NESTING, document[name]))) {
    throw invalid('nests its values absurdly deep');
  }
  const packages = parsePackages(document['packages'], asked.platform, sha256);
  const isUsable = typeof packages !== 'string';
  if (!isUsable) {
    logger.warn('the hashes that upstream gives for all platforms are left out', {
      host: url.host,
      subject,
      why: packages,
    });
  }
  const keys = parseSigningKeys(document['signing_keys']);
  return {
    platform: asked.platform,
    filename: lastSegment(document['filename']) ?? lastSegment(downloadUrl.href) ?? asked.canonicalFilename,
    downloadUrl,
    sha256,
    shasumsUrl: absoluteUrl(document['shasums_url'], url),
    signatureUrl: absoluteUrl(document['shasums_signature_url'], url),
    signingKeys: keys.gpg_public_keys.map((key) => String(key['ascii_armor'])),
    statement: {
      signing_keys: keys,
      protocols: parseProtocols(document['protocols']),
      ...(isUsable && packages.size > 0 && { packages: document['packages'] as Record<string, unknown> }),
    },
    packages: isUsable ? packages : new Map(),
  };
}

/** Only numbers: anything else would end up in headers and logs one day. */
export function parseProtocols(value: unknown): string[] {
  return stringsOf(value).filter((protocol) => /^\d{1,3}(\.\d{1,3})?$/.test(protocol));
}

function isNestedDeeperThan(levels: number, value: unknown): boolean {
  if (typeof value !== 'object' || value === null) return false;
  return levels === 0 || Object.values(value).some((inner) => isNestedDeeperThan(levels - 1, inner));
}

function shasumOf(value: unknown): Sha256 | undefined {
  try {
    return typeof value === 'string' ? parseSha256(value) : undefined;
  } catch {
    return undefined;
  }
}

/** Relative addresses are relative to where the document was found. */
function absoluteUrl(value: unknown, base: URL): URL | undefined {
  if (typeof value !== 'string' || value === '' || !URL.canParse(value, base.href)) return undefined;
  const url = new URL(value, base);
  return url.protocol === 'https:' || url.protocol === 'http:' ? url : undefined;
}

/** Some registries give a whole URL, or a path, as the file name. */
function lastSegment(value: unknown): string | undefined {
  if (typeof value !== 'string') return undefined;
  const path = URL.canParse(value) ? decoded(new URL(value).pathname) : value;
  const name = path.split(/[/\\]/).pop();
  const usable = name && name !== '.' && name !== '..' && name.length <= 255 && !/\p{C}/u.test(name);
  return usable ? name : undefined;
}

function decoded(path: string): string {
  try {
    return decodeURIComponent(path);
  } catch {
    return path;
  }
}

/** Absent, null, empty and holes in the list all occur: then there are no keys. What else is said of a key stays. */
function parseSigningKeys(value: unknown): ReleaseStatement['signing_keys'] {
  const given = isObject(value) ? value : {};
  const listed = given['gpg_public_keys'];
  const keys = Array.isArray(listed) ? listed.filter(isObject) : [];
  return { ...given, gpg_public_keys: keys.filter((key) => stringsOf([key['ascii_armor']]).some((key) => key.trim())) };
}

/** Hashes and sizes of every platform, or why they are not to be believed: they must agree with the rest. */
function parsePackages(value: unknown, platform: Platform, sha256: Sha256): Packages | string {
  const packages = new Map<string, { hashes: readonly Hash[]; size: number }>();
  if (value === undefined || value === null) return packages;
  if (!isObject(value)) return 'they are not an object';
  if (Object.keys(value).length === 0) return packages;
  for (const [name, entry] of Object.entries(value)) {
    const size = isObject(entry) ? entry['package_size'] : undefined;
    if (!isObject(entry) || !Number.isSafeInteger(size) || (size as number) <= 0) return `${name} has no size`;
    try {
      // Schemes that are yet to be invented are no contradiction.
      const known = stringsOf(entry['hashes']).filter((hash) => /^(h1|zh):/.test(hash));
      packages.set(String(Platform.parse(name)), { hashes: known.map(parseHash), size: size as number });
    } catch (error) {
      return (error as Error).message;
    }
  }
  const own = packages.get(String(platform));
  if (!own) return `${platform} is not among them`;
  if (!own.hashes.includes(zipHash(sha256))) return `they do not hold the checksum ${sha256} of ${platform}`;
  return packages;
}
