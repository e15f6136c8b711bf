import { randomUUID } from 'node:crypto';
import { link, mkdir, open, readFile, rename, rm } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { StorageFailed } from '../errors.ts';
import { type Logger, silentLogger } from '../logger.ts';
import { paths, redisKeys } from './keys.ts';
import { type LinkKey, LinkKeyRing } from './link-key-ring.ts';
import type { RedisConnection } from './redis-connection.ts';
import type { RedisSettings } from './redis-link.ts';

/** Running servers look so often whether somebody else has changed the ring, in milliseconds. */
const REFRESH_MS = 10_000;
/** An unknown key may be one that another process has just made: looked for at most so often, in milliseconds. */
const UNKNOWN_KEY_RECHECK_MS = 1_000;

/** Where processes share a ring, as text. */
interface RingStore {
  read(): Promise<string | undefined>;
  /** Unless there is one already. Resolves to what is there then. */
  create(ring: string): Promise<string>;
  replace(ring: string): Promise<void>;
  close(): void;
}

/**
 * The keys that links are signed with, shared by everybody who must accept these: through `links.json` in the data
 * directory, and through Redis where there is one (of which the file then keeps a copy, so that a start without Redis
 * finds its keys).
 */
export class LinkKeys {
  readonly #file: RingStore;
  readonly #redis: RingStore | undefined;
  readonly #lifetimeMs: number;
  readonly #logger: Logger;
  readonly #now: () => number;
  #ring = LinkKeyRing.empty;
  #refreshing: Promise<void> | undefined;
  #isTroubled = false;
  #recheckedAt = Number.NEGATIVE_INFINITY;
  #timer: NodeJS.Timeout | undefined;

  private constructor(deps: LinkKeysDeps, redis: RingStore | undefined) {
    this.#file = new RingFile(join(deps.directory, paths.linkKeys));
    this.#redis = redis;
    this.#lifetimeMs = deps.lifetimeMs;
    this.#logger = deps.logger;
    this.#now = deps.now ?? Date.now;
  }

  /**
   * Reads the keys, and makes the first where there is none. Processes that start at once agree on it.
   * @throws StorageFailed when the data directory cannot be read or written
   * @throws InvalidConfiguration when the URL of Redis cannot be one
   */
  static async open(deps: LinkKeysDeps): Promise<LinkKeys> {
    const redis = deps.redis && (await RingInRedis.open(deps.redis));
    const keys = new LinkKeys(deps, redis);
    try {
      await keys.#begin();
    } catch (error) {
      redis?.close();
      throw error;
    }
    return keys;
  }

  /** For new links. */
  signing(): LinkKey {
    const key = this.#ring.signing(this.#now());
    if (!key) throw new StorageFailed('finding a key for links', new Error('there is none'));
    return key;
  }

  /** The key of this name, if it is still good. Another process may just have made it: then it is looked up. */
  async find(id: string): Promise<LinkKey | undefined> {
    const known = this.#ring.find(id);
    if (known) return known;
    const now = this.#now();
    if (now - this.#recheckedAt >= UNKNOWN_KEY_RECHECK_MS) {
      this.#recheckedAt = now;
      await this.refresh();
    } else {
      await this.#refreshing;
    }
    return this.#ring.find(id);
  }

  /** Goes on looking for what others change, and replaces keys that have grown old. */
  watch(): void {
    this.#timer ??= setInterval(() => void this.refresh(), REFRESH_MS).unref();
  }

  /** Takes up what others have changed. Never rejects: what cannot be read now may be later. */
  refresh(): Promise<void> {
    this.#refreshing ??= this.#refresh()
      .then(() => this.#reportShared())
      .catch((error: unknown) => this.#reportTrouble(error))
      .finally(() => {
        this.#refreshing = undefined;
      });
    return this.#refreshing;
  }

  /**
   * Adds a key that signs from soon on. Links signed before stay good until they expire, or are revoked at once: then
   * running servers refuse them as soon as they look, within seconds.
   * @throws StorageFailed when it cannot be shared
   */
  async rotate({ revoke }: { revoke: boolean }): Promise<void> {
    await this.#take(this.#file);
    if (this.#redis) await this.#take(this.#redis);
    this.#ring = (revoke ? this.#ring.revoked() : this.#ring).withNewKey(this.#now());
    await this.#redis?.replace(this.#ring.toString());
    await this.#file.replace(this.#ring.toString());
  }

  close(): void {
    clearInterval(this.#timer);
    this.#redis?.close();
  }

  async #begin(): Promise<void> {
    await this.#take(this.#file);
    // Redis has the say where there is one: what is there is what the other replicas use.
    if (this.#redis) await this.#take(this.#redis).catch((error: unknown) => this.#reportTrouble(error));
    if (!this.#ring.signing(this.#now())) await this.#createFirst();
    await this.refresh();
    // Not written: then it must have been read.
    if (!this.#ring.signing(this.#now()))
      throw new StorageFailed('making a key for links', new Error('it is not there'));
  }

  async #createFirst(): Promise<void> {
    const first = this.#ring.withNewKey(this.#now()).toString();
    let agreed: string | undefined;
    try {
      agreed = await this.#redis?.create(first);
    } catch (error) {
      this.#reportTrouble(error);
    }
    this.#add(await this.#file.create(agreed ?? first));
    if (agreed !== undefined) this.#add(agreed);
  }

  async #refresh(): Promise<void> {
    const stores = this.#redis ? [this.#redis, this.#file] : [this.#file];
    const told = await Promise.allSettled(stores.map((store) => this.#take(store)));
    const failed = told.find((result) => result.status === 'rejected');
    // Not while others could not learn of it.
    if (!failed && this.#ring.isDue(this.#now())) this.#ring = this.#ring.withNewKey(this.#now());
    const ring = this.#ring.toString();
    for (const [index, store] of stores.entries()) {
      const result = told[index];
      if (result?.status === 'fulfilled' && result.value !== ring) await store.replace(ring);
    }
    if (failed) throw failed.reason;
  }

  /** Adds what is in a store to what is known. Resolves to its text. */
  async #take(store: RingStore): Promise<string | undefined> {
    const text = await store.read();
    this.#add(text);
    return text;
  }

  #add(text: string | undefined): void {
    const other = text === undefined ? LinkKeyRing.empty : LinkKeyRing.parse(text);
    if (!other) this.#logger.error('the keys for links cannot be read, and are made anew');
    this.#ring = this.#ring.merge(other ?? LinkKeyRing.empty, { now: this.#now(), lifetimeMs: this.#lifetimeMs });
  }

  /** Looked at every few seconds: the change is news, the state is not. */
  #reportTrouble(error: unknown): void {
    if (!this.#isTroubled)
      this.#logger.warn('the keys for links are not shared with other processes for now', { error });
    this.#isTroubled = true;
  }

  #reportShared(): void {
    if (this.#isTroubled) this.#logger.info('the keys for links are shared again');
    this.#isTroubled = false;
  }
}

export interface LinkKeysDeps {
  /** The data directory. */
  readonly directory: string;
  readonly redis?: RedisSettings | undefined;
  /** How long the longest-lived link is good for. */
  readonly lifetimeMs: number;
  readonly logger: Logger;
  readonly now?: () => number;
}

/** Readable by its owner alone, and always whole. */
class RingFile implements RingStore {
  readonly #file: string;

  constructor(file: string) {
    this.#file = file;
  }

  async read(): Promise<string | undefined> {
    try {
      return await readFile(this.#file, 'utf8');
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined;
      throw new StorageFailed('reading the keys for links', error);
    }
  }

  async create(ring: string): Promise<string> {
    const present = await this.read();
    // What is no ring is in the way of one.
    if (present !== undefined && !LinkKeyRing.parse(present)) await rm(this.#file, { force: true });
    const place = async (aside: string) => {
      try {
        // Unlike a rename, a link never replaces what is there.
        await link(aside, this.#file);
      } catch (error) {
        if ((error as NodeJS.ErrnoException).code !== 'EEXIST') await rename(aside, this.#file);
      }
    };
    await this.#write(ring, place);
    return (await this.read()) ?? ring;
  }

  replace(ring: string): Promise<void> {
    return this.#write(ring, (aside) => rename(aside, this.#file));
  }

  close(): void {}

  async #write(ring: string, place: (aside: string) => Promise<void>): Promise<void> {
    const aside = `${this.#file}.${randomUUID()}.new`;
    try {
      await mkdir(dirname(this.#file), { recursive: true });
      const handle = await open(aside, 'wx', 0o600);
      try {
        await handle.writeFile(ring);
        await handle.sync();
      } finally {
        await handle.close();
      }
      await place(aside);
    } catch (error) {
      throw new StorageFailed('keeping the keys for links', error);
    } finally {
      await rm(aside, { force: true });
    }
  }
}

class RingInRedis implements RingStore {
  readonly #client: RedisConnection;

  private constructor(client: RedisConnection) {
    this.#client = client;
  }

  /** Silent: the metadata store tells how its Redis fares, and this is the same one. */
  static async open(redis: RedisSettings): Promise<RingInRedis> {
    // Only where there is one.
    const { connectRedis } = await import('./redis-connection.ts');
    return new RingInRedis(await connectRedis({ ...redis, logger: silentLogger }));
  }

  async read(): Promise<string | undefined> {
    return (await shared(this.#client.get(redisKeys.linkKeys))) ?? undefined;
  }

  async create(ring: string): Promise<string> {
    await shared(this.#client.set(redisKeys.linkKeys, ring, { condition: 'NX' }));
    return (await this.read()) ?? ring;
  }

  async replace(ring: string): Promise<void> {
    await shared(this.#client.set(redisKeys.linkKeys, ring));
  }

  close(): void {
    this.#client.destroy();
  }
}

/** @throws StorageFailed when Redis does not answer, or not in time, which the connection sees to */
async function shared<T>(answer: Promise<T>): Promise<T> {
  try {
    return await answer;
  } catch (error) {
    throw new StorageFailed('sharing the keys for links through redis', error);
  }
}
