import { randomBytes } from 'node:crypto';
import { z } from 'zod';

/** What links are signed with. */
export interface LinkKey {
  /** Names it in links: letters and digits. */
  readonly id: string;
  readonly secret: Buffer;
}

/**
 * A new key signs only after so long, in milliseconds: by then every process that shares the ring has read it. Twice as
 * long as anybody takes to look.
 */
const ACTIVATION_MS = 30_000;
/** A key that has signed for so long is followed by another, in milliseconds. */
const ROTATION_MS = 30 * 24 * 3_600_000;
/** Clocks of the processes that share the ring may differ by so much, in milliseconds. */
const CLOCK_SKEW_MS = 300_000;
const SECRET_BYTES = 32;
const ID_BYTES = 6;

const entry = z.strictObject({
  id: z.string().regex(/^[0-9a-f]{12}$/),
  /** Base64url; `null` once the key is revoked. */
  secret: z
    .string()
    .regex(/^[\w-]{43}$/)
    .nullable(),
  createdAt: z.number().int().nonnegative(),
  /** From then on it signs, if no newer one does. */
  activeAt: z.number().int().nonnegative(),
});
const document = z.strictObject({ version: z.literal(1), keys: z.array(entry) });

type Entry = Readonly<z.output<typeof entry>>;

/**
 * Keys for links, oldest first: the newest active one signs, those before it verify until all they have signed is over.
 *
 * Rings are merged, never replaced: several processes may change theirs at once, or be without their common store for a
 * while, and end up with the same one. For that a revoked key stays in the ring, without its secret.
 */
export class LinkKeyRing {
  readonly #entries: readonly Entry[];

  private constructor(entries: Iterable<Entry>) {
    this.#entries = [...entries].sort((a, b) => a.activeAt - b.activeAt || (a.id < b.id ? -1 : 1));
  }

  static readonly empty = new LinkKeyRing([]);

  /** `undefined` for what is none. */
  static parse(text: string): LinkKeyRing | undefined {
    try {
      return new LinkKeyRing(document.parse(JSON.parse(text)).keys);
    } catch {
      return undefined;
    }
  }

  /** Equal rings give equal texts. */
  toString(): string {
    return `${JSON.stringify({ version: 1, keys: this.#entries }, undefined, 2)}\n`;
  }

  /** What both know, without the keys that nothing good for `lifetimeMs` can have been signed with any more. */
  merge(other: LinkKeyRing, { now, lifetimeMs }: { now: number; lifetimeMs: number }): LinkKeyRing {
    const merged = new Map<string, Entry>();
    for (const entry of [...this.#entries, ...other.#entries]) {
      const known = merged.get(entry.id);
      if (!known || entry.secret === null) merged.set(entry.id, entry);
    }
    const entries = [...merged.values()].sort((a, b) => a.activeAt - b.activeAt);
    return new LinkKeyRing(
      entries.filter((_entry, index) => {
        const successor = entries.slice(index + 1).find(({ secret }) => secret !== null);
        return !successor || now < successor.activeAt + lifetimeMs + CLOCK_SKEW_MS;
      }),
    );
  }

  /** With one more key. The first signs at once, and so does one that follows upon a revocation. */
  withNewKey(now: number): LinkKeyRing {
    const isNeeded = !this.#entries.some(({ secret }) => secret !== null);
    const entry: Entry = {
      id: randomBytes(ID_BYTES).toString('hex'),
      secret: randomBytes(SECRET_BYTES).toString('base64url'),
      createdAt: now,
      activeAt: isNeeded ? now : now + ACTIVATION_MS,
    };
    return new LinkKeyRing([...this.#entries, entry]);
  }

  /** Without any key that is good: whatever was signed is no longer. */
  revoked(): LinkKeyRing {
    return new LinkKeyRing(this.#entries.map((entry) => ({ ...entry, secret: null })));
  }

  /** The key for new links; `undefined` of a ring without keys. */
  signing(now: number): LinkKey | undefined {
    const good = this.#entries.filter(({ secret }) => secret !== null);
    // With no clock far enough, the one that comes first is the one that others know.
    const chosen = good.findLast(({ activeAt }) => activeAt <= now) ?? good[0];
    return chosen && asKey(chosen);
  }

  find(id: string): LinkKey | undefined {
    const found = this.#entries.find((entry) => entry.id === id);
    return found && asKey(found);
  }

  /** Whether the newest key has been there for so long that another should follow. */
  isDue(now: number): boolean {
    const newest = this.#entries.findLast(({ secret }) => secret !== null);
    return newest === undefined || now - newest.createdAt >= ROTATION_MS;
  }
}

function asKey({ id, secret }: Entry): LinkKey | undefined {
  return secret === null ? undefined : { id, secret: Buffer.from(secret, 'base64url') };
}
