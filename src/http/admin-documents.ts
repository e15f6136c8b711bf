import type { Drift } from '../mirror/drift.ts';
import type { InventoryEntry } from '../mirror/inventory.ts';
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
  /** SHA-256 of what upstream publishes instead. */
  readonly published?: string;
}

/** An archive of which upstream published other bytes than it first did. */
export interface DriftDocument {
  readonly address: string;
  readonly version: string;
  readonly platform: string;
  /** SHA-256 of what was seen first. */
  readonly first: string;
  /** SHA-256 of what upstream published later. */
  readonly published: string;
  readonly noticedAt: string;
}

/** What was removed of one version, or would be. */
export interface PurgeDocument {
  readonly address: string;
  readonly version: string;
  readonly archives: readonly { readonly platform: string; readonly size: number; readonly sha256: string }[];
  /** SHA256SUMS and its signature, too. */
  readonly checksums: boolean;
  readonly settled: readonly DriftDocument[];
  readonly unsettled: readonly DriftDocument[];
}

export function archiveDocument({ stored, drift }: InventoryEntry): ArchiveDocument {
  const { archive, size, sha256, h1, storedAt } = stored;
  return {
    address: archive.provider.toString(),
    version: archive.version.toString(),
    platform: archive.platform.toString(),
    size,
    sha256,
    ...(h1 && { h1 }),
    storedAt: storedAt.toISOString(),
    ...(drift && { published: drift.published }),
  };
}

export function driftDocument({ archive, first, published, noticedAt }: Drift): DriftDocument {
  return {
    address: archive.provider.toString(),
    version: archive.version.toString(),
    platform: archive.platform.toString(),
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
}: PurgedVersion): PurgeDocument {
  return {
    address: provider.toString(),
    version: version.toString(),
    archives: archives.map(({ archive, size, sha256 }) => ({ platform: archive.platform.toString(), size, sha256 })),
    checksums,
    settled: settled.map(driftDocument),
    unsettled: unsettled.map(driftDocument),
  };
}
