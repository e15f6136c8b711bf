import { createHash } from 'node:crypto';
import type { ByteSource } from './byte-source.ts';
import { largeProviderZip, type ProviderZip, smallProviderZip, zipFromBuffer } from './provider-zip.ts';
import { SigningKey } from './signing-key.ts';

export interface ProviderOptions {
  readonly namespace: string;
  readonly type: string;
  /** Canonical: `1.0.0`. */
  readonly version: string;
  /** `['linux_amd64']` unless given. */
  readonly platforms?: readonly string[];
  /** `['5.0']` unless given. */
  readonly protocols?: readonly string[];
  /** How the registry spells the version, when that is not canonical: `v1.0.0`. */
  readonly published?: string;
  /** Other bytes in the place of the packages. */
  readonly zip?: Buffer | ((platform: string) => Buffer);
  /** Exact size of each package, of incompressible bytes made while being read. */
  readonly sizeBytes?: number;
  /** Invents the digests: the packages can be talked of, but not downloaded. For big sets that are never fetched. */
  readonly digestsOnly?: boolean;
  /** Who signs SHA256SUMS; with several keys the file holds a signature of each. `'none'`: the registry hands out no key. */
  readonly sign?: SigningKey | readonly SigningKey[] | 'none';
  /** The keys the registry hands out, if they are not those that sign. */
  readonly publishedKeys?: readonly SigningKey[];
  /** When the signature is made; now unless given. */
  readonly signedAt?: Date;
  /** Names `shasums_url` and `shasums_signature_url`; true unless given. */
  readonly namesShasums?: boolean;
  /** Adds OpenTofu's `packages` to the download documents. */
  readonly withPackages?: boolean;
  readonly extraShasumsLines?: readonly string[];
  /** Leaves these platforms out of SHA256SUMS. */
  readonly unlistedPlatforms?: readonly string[];
  /** File name of a platform's package, when it is not the canonical one. */
  readonly filename?: (platform: string) => string;
  /** Download documents hold relative URLs, to files on the registry's own origin. */
  readonly relativeUrls?: boolean;
  /** Packages have directory entries. */
  readonly directoryEntries?: boolean;
}

/** One platform's package of a published version, with what clients should come to know of it. */
export interface PublishedPackage {
  readonly platform: string;
  readonly filename: string;
  /** Lower-case hex. */
  readonly sha256: string;
  readonly size: number;
  readonly zh: string;
  /** `undefined` where the bytes came from the test or exist in name only. */
  readonly h1: string | undefined;
  /** `undefined` with `digestsOnly`. */
  readonly bytes: ByteSource | undefined;
}

/** A version of a provider as its publisher released it: packages, checksums and signature, all real. */
export interface PublishedVersion {
  readonly namespace: string;
  readonly type: string;
  readonly version: string;
  readonly published: string;
  readonly protocols: readonly string[];
  readonly packages: ReadonlyMap<string, PublishedPackage>;
  readonly shasumsFilename: string;
  readonly shasums: Buffer;
  readonly signature: Buffer;
  readonly keys: readonly SigningKey[];
  readonly namesShasums: boolean;
  readonly withPackages: boolean;
  readonly relativeUrls: boolean;
}

export async function publish(options: ProviderOptions): Promise<PublishedVersion> {
  const { namespace, type, version } = options;
  const packages = new Map<string, PublishedPackage>();
  for (const platform of options.platforms ?? ['linux_amd64']) {
    packages.set(platform, await packageFor(options, platform));
  }
  const lines = [...packages.values()]
    .filter(({ platform }) => !options.unlistedPlatforms?.includes(platform))
    .map(({ sha256, filename }) => `${sha256}  ${filename}`);
  const shasums = Buffer.from([...lines, ...(options.extraShasumsLines ?? [])].map((line) => `${line}\n`).join(''));

  const sign = options.sign ?? (await SigningKey.shared());
  const signers = sign === 'none' ? [await SigningKey.shared()] : sign instanceof SigningKey ? [sign] : sign;
  return {
    namespace,
    type,
    version,
    published: options.published ?? version,
    protocols: options.protocols ?? ['5.0'],
    packages,
    shasumsFilename: `terraform-provider-${type}_${version}_SHA256SUMS`,
    shasums,
    signature: await SigningKey.signTogether(shasums, signers, options.signedAt ? { at: options.signedAt } : {}),
    keys: options.publishedKeys ?? (sign === 'none' ? [] : signers),
    namesShasums: options.namesShasums ?? true,
    withPackages: options.withPackages ?? false,
    relativeUrls: options.relativeUrls ?? false,
  };
}

async function packageFor(options: ProviderOptions, platform: string): Promise<PublishedPackage> {
  const { type, version, sizeBytes } = options;
  const filename = options.filename?.(platform) ?? `terraform-provider-${type}_${version}_${platform}.zip`;
  if (options.digestsOnly) {
    const sha256 = createHash('sha256').update(`invented ${options.namespace}/${filename}`).digest('hex');
    return { platform, filename, sha256, size: sizeBytes ?? 1, zh: `zh:${sha256}`, h1: undefined, bytes: undefined };
  }
  const { bytes, sha256, h1 } = await zipFor(options, platform);
  return { platform, filename, sha256, size: bytes.size, zh: `zh:${sha256}`, h1, bytes };
}

function zipFor(options: ProviderOptions, platform: string): Promise<ProviderZip> {
  const { type, version, sizeBytes, directoryEntries, zip } = options;
  if (zip !== undefined) return zipFromBuffer(typeof zip === 'function' ? zip(platform) : zip);
  const about = { type, version, platform, directoryEntries };
  return sizeBytes === undefined ? smallProviderZip(about) : largeProviderZip({ ...about, sizeBytes });
}
