import { type Hash, parseHash } from '../address/hash.ts';
import { Version } from '../address/version.ts';

/** What VERSION.json says of one platform's archive. */
export interface ArchiveRecord {
  /** File name, or whatever else a foreign mirror wrote there. */
  readonly url: string;
  /** Package hashes first. */
  readonly hashes: readonly Hash[];
  /** Bytes. Our own addition, which the clients ignore: only archives that we verified have it. */
  readonly size: number | undefined;
  /**
   * When the file was last written, when its digest was known: milliseconds since 1970. Our own addition, too; older
   * records do not have it, nor have those of buckets.
   */
  readonly mtimeMs?: number | undefined;
}

/** By platform. */
export type Records = ReadonlyMap<string, ArchiveRecord>;

/** VERSION.json with one platform's archive in it, or without; the rest as it stands there. `undefined`: nothing is left of it. */
export function changedDocument(
  document: Record<string, unknown>,
  change: (archives: Map<string, unknown>) => unknown,
): string | undefined {
  const archives = new Map(Object.entries(archivesOf(document)));
  change(archives);
  if (archives.size === 0) return undefined;
  const sorted = Object.fromEntries([...archives].sort(([a], [b]) => (a < b ? -1 : 1)));
  return asJson({ ...document, archives: sorted });
}

/** index.json for the files of a provider: a version is in it when it has a document. `undefined`: there are none. */
export function indexFor(names: readonly string[]): string | undefined {
  const versions = names.flatMap((name) => versionOfDocument(name) ?? []).sort(Version.compare);
  if (versions.length === 0) return undefined;
  return asJson({ versions: Object.fromEntries(versions.map((version) => [version.toString(), {}])) });
}

/** `undefined` when it cannot be read. */
export function parsedDocument(content: Uint8Array): Record<string, unknown> | undefined {
  try {
    const document: unknown = JSON.parse(Buffer.from(content).toString());
    if (isObject(document)) return document;
  } catch {
    // Falls through: damaged and nonsensical are the same here.
  }
  return undefined;
}

/** `1.2.3.json` → 1.2.3; `undefined` for every other name. */
export function versionOfDocument(name: string): Version | undefined {
  if (!name.endsWith('.json')) return undefined;
  const text = name.slice(0, -'.json'.length);
  const version = Version.fromPublished(text);
  return version?.toString() === text ? version : undefined;
}

/** By platform. What makes no sense is passed over. */
export function recordsOf(document: Record<string, unknown>): Records {
  const records = new Map<string, ArchiveRecord>();
  for (const [platform, entry] of Object.entries(archivesOf(document))) {
    if (!isObject(entry) || typeof entry['url'] !== 'string') continue;
    const hashes = Array.isArray(entry['hashes']) ? entry['hashes'].flatMap(readableHash) : [];
    const size = wholeNumber(entry['size']);
    const mtimeMs = wholeNumber(entry['mtime']);
    records.set(platform, { url: entry['url'], hashes, size, ...(mtimeMs !== undefined && { mtimeMs }) });
  }
  return records;
}

/** As they stand there. */
export function archivesOf(document: Record<string, unknown>): Record<string, unknown> {
  return isObject(document['archives']) ? document['archives'] : {};
}

function readableHash(text: unknown): Hash[] {
  try {
    return [parseHash(String(text))];
  } catch {
    return [];
  }
}

export function wholeNumber(value: unknown): number | undefined {
  return Number.isSafeInteger(value) ? (value as number) : undefined;
}

export function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** As people can read it. */
export function asJson(document: unknown): string {
  return `${JSON.stringify(document, null, 2)}\n`;
}
