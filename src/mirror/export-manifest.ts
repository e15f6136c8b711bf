import { z } from 'zod';
import { ProviderArchive } from '../address/archive.ts';
import { parseHash, parseSha256 } from '../address/hash.ts';
import { ModuleAddress, ModuleRelease } from '../address/module.ts';
import { Platform } from '../address/platform.ts';
import { ProviderAddress } from '../address/provider.ts';
import { Version } from '../address/version.ts';
import type { CarriedArchive, CarriedPackage } from './carried.ts';

/** Raised when an older Larder could not make sense of it any more. */
const FORMAT = 1;

export const MANIFEST_FILE = 'larder-export.json';

/** Everything that a directory holds, whenever it was put there. */
export interface ExportManifest {
  readonly archives: readonly CarriedArchive[];
  readonly packages: readonly CarriedPackage[];
}

const shape = z.object({
  format: z.literal(FORMAT),
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
    const { archives, packages } = shape.parse(JSON.parse(bytes.toString('utf8')));
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
    };
  } catch {
    return undefined;
  }
}

/** The same things give the same bytes. */
export function manifestText({ archives, packages }: ExportManifest): string {
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
  };
  return `${JSON.stringify(document, null, 1)}\n`;
}
