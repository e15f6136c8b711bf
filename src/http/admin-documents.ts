import { type Drift, isOfArchive } from '../mirror/drift.ts';
import type { InventoryEntry, ModuleInventoryEntry } from '../mirror/inventory.ts';
import type { PurgedModule } from '../mirror/module-purge.ts';
import type { PurgedVersion } from '../mirror/purge.ts';

/** A stored archive, as JSON. */
export interface ArchiveDocument {
  readonly address: string;
  readonly version: string;
  readonly platform: string;
  /** Bytes. */
  readonly size: number;
  readonly sha256: string;
  /** Absent until it is computed. */
  readonly h1?: string;
  /** RFC 3339. */
  readonly storedAt: string;
  /** RFC 3339; when it was stored, if it was never used. Absent where the server is older than that. */
  readonly lastUse?: string;
  /** It is not evicted, and purged only when that is said. */
  readonly pinned?: true;
  /** SHA-256 of what upstream publishes instead. */
  readonly published?: string;
}

/** A stored module package, as JSON. */
export interface ModuleDocument {
  readonly address: string;
  readonly version: string;
  /** Bytes. */
  readonly size: number;
  readonly sha256: string;
  /** Where in the package the module is; absent for its root. */
  readonly subdir?: string;
  /** What the package was made of. */
  readonly source: string;
  /** Changes when upstream has something else there. Absent where it gave none, and of servers that do not tell. */
  readonly fingerprint?: string;
  /** RFC 3339. */
  readonly storedAt: string;
  /** RFC 3339; when it was stored, if it was never used. Absent where the server is older than that. */
  readonly lastUse?: string;
  /** It is not evicted, and purged only when that is said. */
  readonly pinned?: true;
  /** SHA-256 of what is made of it now that upstream has moved this version. */
  readonly published?: string;
}

/** An archive or a module version of which upstream published other bytes than it first did. */
export interface DriftDocument {
  readonly address: string;
  readonly version: string;
  /** Absent for modules, which have none. */
  readonly platform?: string;
  /** SHA-256 of what was seen first. */
  readonly first: string;
  /** SHA-256 of what upstream published later. */
  readonly published: string;
  readonly noticedAt: string;
}

/** What was removed of one version of a provider, or would be. */
export interface PurgeDocument {
  readonly address: string;
  readonly version: string;
  readonly archives: readonly { readonly platform: string; readonly size: number; readonly sha256: string }[];
  /** SHA256SUMS and its signature, too. */
  readonly checksums: boolean;
  readonly settled: readonly DriftDocument[];
  readonly unsettled: readonly DriftDocument[];
  /** Nothing of this is removed, because it is pinned. */
  readonly pinned?: true;
}

/** What was removed of one version of a module, or would be. */
export interface ModulePurgeDocument {
  readonly address: string;
  readonly version: string;
  /** Absent when only what was remembered of it was there. */
  readonly package?: { readonly size: number; readonly sha256: string };
  /** What was remembered of the package as it was first made. */
  readonly record: boolean;
  readonly settled: readonly DriftDocument[];
  /** Nothing of this is removed, because it is pinned. */
  readonly pinned?: true;
}

export function archiveDocument({ stored, drift, lastUse, isPinned }: InventoryEntry): ArchiveDocument {
  const { archive, size, sha256, h1, storedAt } = stored;
  return {
    address: archive.provider.toString(),
    version: archive.version.toString(),
    platform: archive.platform.toString(),
    size,
    sha256,
    ...(h1 && { h1 }),
    storedAt: storedAt.toISOString(),
    lastUse: lastUse.toISOString(),
    ...(isPinned && { pinned: true }),
    ...(drift && { published: drift.published }),
  };
}

export function moduleDocument({ stored, drift, lastUse, isPinned }: ModuleInventoryEntry): ModuleDocument {
  const { release, size, sha256, subdir, source, fingerprint, storedAt } = stored;
  return {
    address: release.module.toString(),
    version: release.version.toString(),
    size,
    sha256,
    ...(subdir !== '' && { subdir }),
    source,
    ...(fingerprint !== undefined && { fingerprint }),
    storedAt: storedAt.toISOString(),
    lastUse: lastUse.toISOString(),
    ...(isPinned && { pinned: true }),
    ...(drift && { published: drift.published }),
  };
}

export function driftDocument(drift: Drift): DriftDocument {
  const { first, published, noticedAt } = drift;
  return {
    ...(isOfArchive(drift)
      ? {
          address: drift.archive.provider.toString(),
          version: drift.archive.version.toString(),
          platform: drift.archive.platform.toString(),
        }
      : { address: drift.release.module.toString(), version: drift.release.version.toString() }),
    first,
    published,
    noticedAt: noticedAt.toISOString(),
  };
}

export function purgeDocument({
  provider,
  version,
  archives,
  checksums,
  settled,
  unsettled,
  isPinned,
}: PurgedVersion): PurgeDocument {
  return {
    address: provider.toString(),
    version: version.toString(),
    archives: archives.map(({ archive, size, sha256 }) => ({ platform: archive.platform.toString(), size, sha256 })),
    checksums,
    settled: settled.map(driftDocument),
    unsettled: unsettled.map(driftDocument),
    ...(isPinned && { pinned: true }),
  };
}

export function modulePurgeDocument({
  release,
  package: stored,
  record,
  settled,
  isPinned,
}: PurgedModule): ModulePurgeDocument {
  return {
    address: release.module.toString(),
    version: release.version.toString(),
    ...(stored && { package: { size: stored.size, sha256: stored.sha256 } }),
    record,
    settled: settled.map(driftDocument),
    ...(isPinned && { pinned: true }),
  };
}
