import { statfsSync } from 'node:fs';
import { access, constants, rename, stat } from 'node:fs/promises';
import { dirname } from 'node:path';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { crc32 } from 'node:zlib';
import { Keyv, type KeyvStoreAdapter } from 'keyv';
import { open, type RootDatabase } from 'lmdb';
import { LRUCache } from 'lru-cache';
import { StorageFailed } from '../errors.ts';
import type { Logger } from '../logger.ts';
import { KeyvMetadataStore } from './keyv-metadata-store.ts';
import { makeDirectory, mayNotWrite } from './make-directory.ts';
import { examineMetadata, type MetadataVerdict, metadataFile } from './metadata-examination.ts';
import type { MetadataStore } from './metadata-store.ts';

const NAMESPACE = 'larder';
/** Everything here is a memory look-up or a write to the page cache: more means that the disk is in trouble. */
const TIME_LIMIT_MS = 1_000;
const PRUNE_INTERVAL_MS = 60 * 60 * 1000;
/** What a write takes besides its value: a copy of each page on the way to it. */
const SPARE_BYTES = 256 * 1024;
/** Entries looked at before the event loop gets its turn. */
const PRUNE_BATCH = 100;
/** Where there is no file. */
const ENTRIES_IN_MEMORY = 20_000;

/**
 * Metadata in a file of its own, for a process without Redis. Several processes may share it.
 *
 * A file that turns out damaged is moved aside and a new one begun: what it held can be fetched again.
 *
 * Where nothing may be written, it is kept in memory instead.
 *
 * @param deps.isInUse other workers have it open: then it is not damaged, and not to be moved away from under them
 * @param deps.examined what an examination that was begun before says of the file
 * @throws StorageFailed when the file cannot be opened
 */
export async function openEmbeddedMetadata(
  directory: string,
  deps: { logger: Logger; isInUse?: boolean | undefined; examined?: Promise<MetadataVerdict> | undefined },
): Promise<MetadataStore> {
  const file = metadataFile(directory);
  try {
    // What upstreams and operators say may hold secrets.
    await makeDirectory(directory, { mode: 0o700 });
    await demandLockFile(`${file}-lock`);
    if (!deps.isInUse && (await (deps.examined ?? examineMetadata(directory))) === 'damaged') {
      const aside = `${file}.damaged`; // one is kept, so that they cannot pile up
      await rename(file, aside);
      deps.logger.warn('the metadata file is damaged: it was moved aside and a new one begun', { movedTo: aside });
    }
    return storeOver(new EmbeddedKeyvStorage(file));
  } catch (error) {
    if (!mayNotWrite(error)) throw new StorageFailed('opening the metadata file', error);
    deps.logger.warn(
      'the data directory cannot be written: what is stored is served, nothing is added to it, and metadata is forgotten with the process',
      { error },
    );
    return storeOver(new LRUCache<string, object>({ max: ENTRIES_IN_MEMORY }));
  }
}

/** @throws with `ENOSPC` */
function demandRoom(directory: string, bytes: number): void {
  const { bavail, bsize } = statfsSync(directory);
  if (bavail * bsize >= bytes) return;
  throw Object.assign(new Error('the disk of the metadata file is full'), { code: 'ENOSPC' });
}

/**
 * A lock file that cannot be opened, somebody else's say, ends the process by a signal, and that of an examination as well:
 * it says nothing of the metadata.
 * @throws the system's error
 */
async function demandLockFile(path: string): Promise<void> {
  const found = await stat(path).catch(() => undefined);
  if (found === undefined || (found.isFile() && found.blocks === 0)) {
    // It is still to be written, through memory: where the disk has no room for that, it is a signal again.
    demandRoom(dirname(path), SPARE_BYTES);
  }
  if (found === undefined) return;
  if (!found.isFile()) throw Object.assign(new Error(`${path} is no file`), { code: 'EEXIST' });
  await access(path, constants.R_OK | constants.W_OK);
}

function storeOver(store: EmbeddedKeyvStorage | LRUCache<string, object>): MetadataStore {
  const keyv = new Keyv({ store, namespace: NAMESPACE, useKeyPrefix: false });
  return new KeyvMetadataStore({ keyv, timeLimitMs: TIME_LIMIT_MS });
}

/**
 * Keyv storage in an LMDB file.
 *
 * Writes are synchronous and leave flushing to the operating system: 30 µs each. The asynchronous writes of lmdb-js
 * answer a full disk with unhandled rejections and then a corrupted heap; the synchronous ones throw most of the time, and work again
 * once there is room. A killed process loses nothing. A power cut may tear pages, hence the checksum in every record
 * and the examination at start.
 */
export class EmbeddedKeyvStorage implements KeyvStoreAdapter {
  readonly opts = { dialect: 'lmdb', url: '' };
  namespace: string | undefined;
  readonly #db: RootDatabase<string, string>;
  readonly #directory: string;
  readonly #pruning: NodeJS.Timeout;
  #closed = false;

  constructor(file: string, options: { pruneIntervalMs?: number } = {}) {
    this.#directory = dirname(file);
    this.#db = open<string, string>({
      path: file,
      noSubdir: true,
      encoding: 'string',
      noSync: true,
      overlappingSync: false,
    });
    this.#pruning = setInterval(() => {
      // Leftovers of an interrupted round wait for the next one.
      this.prune().catch(() => {});
    }, options.pruneIntervalMs ?? PRUNE_INTERVAL_MS);
    this.#pruning.unref();
  }

  /** Keyv forwards storage events; there are none. */
  on(): this {
    return this;
  }

  async get<Value>(key: string): Promise<Value | undefined> {
    const found = this.#read(this.#prefixed(key));
    return found as Value | undefined;
  }

  async has(key: string): Promise<boolean> {
    return this.#read(this.#prefixed(key)) !== undefined;
  }

  async set(key: string, value: string, ttl?: number): Promise<void> {
    const place = this.#prefixed(key);
    const expires = ttl ? Date.now() + ttl : undefined;
    const record = writeRecord(place, value, expires);
    this.#withRoom(record.length).putSync(place, record);
  }

  async delete(key: string): Promise<boolean> {
    return this.#withRoom().removeSync(this.#prefixed(key));
  }

  async deleteMany(keys: string[]): Promise<boolean> {
    const removed = await Promise.all(keys.map((key) => this.delete(key)));
    return removed.some((one) => one);
  }

  /** Removes the entries of this namespace only. */
  async clear(): Promise<void> {
    await this.#sweep(this.#range(this.namespace), () => true);
  }

  async *iterator<Value>(namespace?: string): AsyncGenerator<[string, Value], void> {
    const range = this.#range(namespace);
    const prefix = namespace === undefined ? 0 : namespace.length + SEPARATOR.length;
    for await (const place of this.#places(range)) {
      const value = this.#read(place);
      if (value !== undefined) yield [place.slice(prefix), value as Value];
    }
  }

  /** Removes what has expired or is damaged, of all namespaces, a few entries at a time. */
  async prune(): Promise<void> {
    const now = Date.now();
    await this.#sweep({}, (record, place) => {
      const read = readRecord(place, record);
      return read === undefined || read.expires <= now;
    });
  }

  async disconnect(): Promise<void> {
    if (this.#closed) return;
    // Before anything else: used after closing, lmdb-js throws where nobody can catch it.
    this.#closed = true;
    clearInterval(this.#pruning);
    await this.#db.close();
  }

  #opened(): RootDatabase<string, string> {
    if (this.#closed) throw new Error('the metadata file is closed');
    return this.#db;
  }

  /**
   * To be written to. A write that the disk has no room for is an error of lmdb-js most of the time, and now and then the end of the
   * process (it frees what it has not allocated): so it is not begun. @throws with `ENOSPC`
   */
  #withRoom(bytes = 0): RootDatabase<string, string> {
    demandRoom(this.#directory, SPARE_BYTES + 2 * bytes);
    return this.#opened();
  }

  #prefixed(key: string): string {
    return this.namespace === undefined ? key : `${this.namespace}${SEPARATOR}${key}`;
  }

  #read(place: string): string | undefined {
    const record = this.#opened().get(place);
    const read = record === undefined ? undefined : readRecord(place, record);
    return read && read.expires > Date.now() ? read.value : undefined;
  }

  #range(namespace: string | undefined): { start?: string; end?: string } {
    if (namespace === undefined) return {};
    const start = `${namespace}${SEPARATOR}`;
    return { start, end: `${start}\u{10FFFF}` };
  }

  /** Keys in order, read in batches: no read transaction is held open between them. */
  async *#places(range: { start?: string; end?: string }): AsyncGenerator<string> {
    let after: { start?: string; exclusiveStart?: boolean } = {};
    for (;;) {
      if (this.#closed) return;
      const batch = [...this.#db.getKeys({ ...range, ...after, limit: PRUNE_BATCH })];
      yield* batch;
      const last = batch.at(-1);
      if (last === undefined || batch.length < PRUNE_BATCH) return;
      after = { start: last, exclusiveStart: true };
      await nextTurn();
    }
  }

  async #sweep(
    range: { start?: string; end?: string },
    isUnwanted: (record: string, place: string) => boolean,
  ): Promise<void> {
    for await (const place of this.#places(range)) {
      if (this.#closed) return;
      const record = this.#db.get(place);
      if (record !== undefined && isUnwanted(record, place)) this.#withRoom().removeSync(place);
    }
  }
}

const SEPARATOR = '::';

/** `CHECKSUM EXPIRES\nVALUE`. The checksum covers the key too, so that a record that strayed is not taken for another. */
function writeRecord(place: string, value: string, expires: number | undefined): string {
  const rest = `${expires ?? 'never'}\n${value}`;
  return `${checksum(place, rest)} ${rest}`;
}

function readRecord(place: string, record: string): { value: string; expires: number } | undefined {
  const space = record.indexOf(' ');
  const rest = record.slice(space + 1);
  if (space === -1 || record.slice(0, space) !== checksum(place, rest)) return undefined;
  const line = rest.indexOf('\n');
  const expires = rest.slice(0, line);
  return { value: rest.slice(line + 1), expires: expires === 'never' ? Number.POSITIVE_INFINITY : Number(expires) };
}

function checksum(place: string, rest: string): string {
  return crc32(rest, crc32(place)).toString(16);
}
