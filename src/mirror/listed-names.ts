import type { ProviderArchive } from '../address/archive.ts';
import type { Sha256 } from '../address/hash.ts';
import { Platform } from '../address/platform.ts';

// Registries name archives as they like: what SHA256SUMS calls one tells what it calls the others.

/** An archive by the name that SHA256SUMS has for it. */
export interface NamedArchive {
  readonly filename: string;
  readonly platform: Platform;
}

/** The name under which a digest is listed; what a name stands for is its digest. `undefined` when it is not listed. */
export function nameOf(
  digests: ReadonlyMap<string, Sha256>,
  { filename, platform }: ProviderArchive,
  sha256: Sha256,
): string | undefined {
  if (digests.get(filename) === sha256) return filename;
  const names = [...digests].flatMap(([name, digest]) => (digest === sha256 ? [name] : []));
  // Archives of two platforms may be the same.
  return names.find((name) => name.endsWith(`_${platform}.zip`)) ?? names[0];
}

/** The name that SHA256SUMS has for another platform's archive, judging by one that is known. */
export function nameLike({ filename, platform: known }: NamedArchive, platform: Platform): string {
  const suffix = `_${known}.zip`;
  return filename.endsWith(suffix)
    ? `${filename.slice(0, -suffix.length)}_${platform}.zip`
    : `${filename} of ${platform}`;
}

/** The platforms of archives that are named like one that is known. */
export function platformsLike(
  { filename, platform: known }: NamedArchive,
  digests: ReadonlyMap<string, Sha256>,
): Platform[] {
  const suffix = `_${known}.zip`;
  if (!filename.endsWith(suffix)) return [known];
  const prefix = `${filename.slice(0, -suffix.length)}_`;
  return [...digests.keys()].flatMap((name) => {
    const [, os, arch] = name.startsWith(prefix)
      ? (/^([a-z0-9]{1,32})_([a-z0-9]{1,32})\.zip$/.exec(name.slice(prefix.length)) ?? [])
      : [];
    return os && arch ? [new Platform(os, arch)] : [];
  });
}
