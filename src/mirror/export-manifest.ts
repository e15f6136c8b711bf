import { createHash } from 'node:crypto';
import { z } from 'zod';
import { ProviderArchive } from '../address/archive.ts';
import { parseHash, parseSha256, type Sha256 } from '../address/hash.ts';
import { ModuleAddress, ModuleRelease } from '../address/module.ts';
import { Platform } from '../address/platform.ts';
import { ProviderAddress } from '../address/provider.ts';
import { Version } from '../address/version.ts';
import type { ReleaseFiles } from '../store/archive-store.ts';
import type { CarriedArchive, CarriedPackage } from './carried.ts';

/** Raised when an older Larder could not make sense of it any more. */
const FORMAT = 1;

export const MANIFEST_FILE = 'larder-export.json';

/** Everything that a directory holds, whenever it was put there. */
export interface ExportManifest {
  readonly archives: readonly CarriedArchive[];
  readonly packages: readonly CarriedPackage[];
  readonly releases: readonly ListedRelease[];
}

/** SHA256SUMS of a version, with what goes with it. */
export interface ListedRelease {
  readonly provider: ProviderAddress;
  readonly version: Version;
  /** See `releaseDigest`. */
  readonly sha256: Sha256;
}

/** One digest of SHA256SUMS, signature and statement together: each with its length before it, nothing of what is not there. */
export function releaseDigest({ shasums, signature, statement }: ReleaseFiles): Sha256 {
  const digest = createHash('sha256');
  for (const file of [shasums, signature, statement]) digest.update(`${file?.length ?? '-'}\n`).update(file ?? '');
  return parseSha256(digest.digest('hex'));
}

/** Identity of what a list of digests says of a version's SHA256SUMS. */
export function releaseName(provider: ProviderAddress, version: Version): string {
  return `${provider} ${version} SHA256SUMS`;
}

const shape = z.object({
  format: z.literal(FORMAT),
  releases: z.array(z.object({ address: z.string(), version: z.string(), sha256: z.string() })).default([]),
  archives: z.array(
    z.object({
      address: z.string(),
      version: z.string(),
      platform: z.string(),
      size: z.number().int().nonnegative(),
      sha256: z.string(),
      h1: z.string().optional(),
    }),
  ),
  packages: z.array(
    z.object({
      address: z.string(),
      version: z.string(),
      size: z.number().int().nonnegative(),
      sha256: z.string(),
      subdir: z.string(),
      source: z.string(),
      fingerprint: z.string().optional(),
    }),
  ),
});

/** `undefined` of what is none, was cut off, or was written by a Larder that is too new: files are then looked at anew. */
export function parseManifest(bytes: Buffer): ExportManifest | undefined {
  try {
    const { archives, packages, releases } = shape.parse(JSON.parse(bytes.toString('utf8')));
    return {
      archives: archives.map(({ address, version, platform, size, sha256, h1 }) => ({
        archive: new ProviderArchive(ProviderAddress.parse(address), Version.parse(version), Platform.parse(platform)),
        size,
        sha256: parseSha256(sha256),
        h1: h1 === undefined ? undefined : parseHash(h1),
      })),
      packages: packages.map(({ address, version, sha256, fingerprint, ...rest }) => ({
        ...rest,
        release: new ModuleRelease(ModuleAddress.parse(address), Version.parse(version)),
        sha256: parseSha256(sha256),
        fingerprint,
      })),
      releases: releases.map(({ address, version, sha256 }) => ({
        provider: ProviderAddress.parse(address),
        version: Version.parse(version),
        sha256: parseSha256(sha256),
      })),
    };
  } catch {
    return undefined;
  }
}

/** The same things give the same bytes. */
export function manifestText({ archives, packages, releases }: ExportManifest): string {
  const byName = <T extends { readonly name: string }>(a: T, b: T) => (a.name < b.name ? -1 : 1);
  const document = {
    format: FORMAT,
    archives: archives
      .map((carried) => ({ carried, name: `${carried.archive}` }))
      .sort(byName)
      .map(({ carried: { archive, size, sha256, h1 } }) => ({
        address: `${archive.provider}`,
        version: `${archive.version}`,
        platform: `${archive.platform}`,
        size,
        sha256,
        ...(h1 && { h1 }),
      })),
    packages: packages
      .map((carried) => ({ carried, name: `${carried.release}` }))
      .sort(byName)
      .map(({ carried: { release, size, sha256, subdir, source, fingerprint } }) => ({
        address: `${release.module}`,
        version: `${release.version}`,
        size,
        sha256,
        subdir,
        source,
        ...(fingerprint !== undefined && { fingerprint }),
      })),
    releases: releases
      .map((listed) => ({ listed, name: releaseName(listed.provider, listed.version) }))
      .sort(byName)
      .map(({ listed: { provider, version, sha256 } }) => ({ address: `${provider}`, version: `${version}`, sha256 })),
  };
  return `${JSON.stringify(document, null, 1)}\n`;
}
