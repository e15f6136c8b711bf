import { createHash, createHmac, randomBytes, timingSafeEqual } from 'node:crypto';
import { LRUCache } from 'lru-cache';
import { z } from 'zod';
import type { Logger } from '../../logger.ts';
import { metadataKeys } from '../../store/keys.ts';
import type { MetadataStore } from '../../store/metadata-store.ts';

/** Whoever signs in in the morning does not have to again before the evening, in milliseconds. */
const LIFE_MS = 12 * 3_600_000;
/** An unattended browser is signed out after so long without a request, in milliseconds. */
const IDLE_MS = 2 * 3_600_000;
/** A session is written down again after so long, in milliseconds: not with each request. */
const TOUCH_MS = 5 * 60_000;
const ID_BYTES = 32;
const MAX_HERE = 1_000;
/** Sessions that could not be taken out of the store are tried again so often, in milliseconds. */
const END_AGAIN_MS = 2_000;

const shape = z.object({
  /** `token:NAME`. */
  subject: z.string(),
  /** Of the token that it was begun with. */
  fingerprint: z.string(),
  /** Milliseconds since 1970. */
  begunAt: z.number(),
  usedAt: z.number(),
});

/** Somebody who has signed in. */
export type Session = Readonly<z.output<typeof shape>>;

/**
 * Who is signed in to the dashboard. Kept in the metadata store, so that every replica knows them; the browser holds a
 * random id, of which only the digest is kept. While the store does not answer, each replica goes by what it knows.
 */
export class Sessions {
  readonly #store: Pick<MetadataStore, 'get' | 'put' | 'delete'>;
  readonly #logger: Logger;
  readonly #now: () => number;
  /** As this replica last saw them; `undefined` of those that were ended. */
  readonly #here = new LRUCache<string, { session: Session | undefined; isKept: boolean }>({ max: MAX_HERE });
  /** Ended here while the store was away, which still has them: other replicas would let them in. */
  readonly #leftInStore = new LRUCache<string, true>({ max: MAX_HERE });
  readonly #endAgainMs: number;
  #timer: NodeJS.Timeout | undefined;

  constructor(deps: {
    store: Pick<MetadataStore, 'get' | 'put' | 'delete'>;
    logger: Logger;
    /** Milliseconds since 1970. */
    now?: () => number;
    endAgainMs?: number;
  }) {
    this.#store = deps.store;
    this.#logger = deps.logger;
    this.#now = deps.now ?? Date.now;
    this.#endAgainMs = deps.endAgainMs ?? END_AGAIN_MS;
  }

  /** @returns its id, for the browser and nobody else */
  async begin({ subject, fingerprint }: Pick<Session, 'subject' | 'fingerprint'>): Promise<string> {
    const id = randomBytes(ID_BYTES).toString('base64url');
    await this.#put(digestOf(id), { subject, fingerprint, begunAt: this.#now(), usedAt: this.#now() });
    return id;
  }

  /**
   * The session of this id, if it is still good. Never rejects.
   * @param options.isUse whether that counts as a request of theirs
   */
  async find(id: string, { isUse = true }: { isUse?: boolean } = {}): Promise<Session | undefined> {
    const digest = digestOf(id);
    const session = await this.#look(digest);
    if (!session || !this.#isGood(session)) return undefined;
    if (!isUse || this.#now() - session.usedAt < TOUCH_MS) return session;
    const used = { ...session, usedAt: this.#now() };
    await this.#put(digest, used);
    return used;
  }

  /** Never rejects. */
  async end(id: string): Promise<void> {
    const digest = digestOf(id);
    this.#here.set(digest, { session: undefined, isKept: false });
    await this.#takeOut(digest);
    if (this.#leftInStore.size > 0) this.#timer ??= setInterval(() => void this.#endAgain(), this.#endAgainMs).unref();
  }

  async #takeOut(digest: string): Promise<void> {
    try {
      await this.#store.delete(metadataKeys.session(digest));
      this.#leftInStore.delete(digest);
    } catch (error) {
      this.#leftInStore.set(digest, true);
      this.#away(error);
    }
  }

  async #endAgain(): Promise<void> {
    await Promise.all([...this.#leftInStore.keys()].map((digest) => this.#takeOut(digest)));
    if (this.#leftInStore.size > 0) return;
    clearInterval(this.#timer);
    this.#timer = undefined;
  }

  async #look(digest: string): Promise<Session | undefined> {
    const here = this.#here.get(digest);
    if (here && !here.session) return undefined;
    try {
      const entry = await this.#store.get(metadataKeys.session(digest));
      const session = shape.safeParse(entry?.value).data;
      // Begun while the store was away: nobody else has heard of it yet.
      if (!session && here?.session && !here.isKept) {
        await this.#put(digest, here.session);
        return here.session;
      }
      if (session) this.#here.set(digest, { session, isKept: true });
      else this.#here.delete(digest);
      return session;
    } catch (error) {
      this.#away(error);
      return here?.session;
    }
  }

  async #put(digest: string, session: Session): Promise<void> {
    const entry = { value: session, fetchedAt: session.usedAt };
    const isKept = await this.#store.put(metadataKeys.session(digest), entry, IDLE_MS + TOUCH_MS).then(
      () => true,
      (error: unknown) => this.#away(error),
    );
    this.#here.set(digest, { session, isKept });
  }

  #isGood({ begunAt, usedAt }: Session): boolean {
    return this.#now() - begunAt < LIFE_MS && this.#now() - usedAt < IDLE_MS;
  }

  #away(error: unknown): false {
    this.#logger.debug('the metadata store does not answer about sessions', { error });
    return false;
  }
}

/** What forms of a session carry: nobody who does not know its id can make it. */
export function formTokenOf(id: string): string {
  return createHmac('sha256', id).update('form').digest('base64url');
}

export function isFormToken(id: string, given: string): boolean {
  const expected = Buffer.from(formTokenOf(id));
  const presented = Buffer.from(given);
  return expected.length === presented.length && timingSafeEqual(expected, presented);
}

function digestOf(id: string): string {
  return createHash('sha256').update(id).digest('base64url');
}
