import { createHmac, timingSafeEqual } from 'node:crypto';
import { ModuleRelease } from '../address/module.ts';
import type { ProviderAddress } from '../address/provider.ts';
import { LinkExpired, LinkNotValid } from '../errors.ts';
import type { LinkKey } from '../store/link-key-ring.ts';

/** A provider's archive, or a file that goes with it. Its text is unique over all files of all providers. */
interface ProviderFile {
  readonly provider: ProviderAddress;
  readonly filename: string;
  toString(): string;
}

/** What links are for. */
export type LinkedFile = ProviderFile | ModuleRelease;

/** Where keys come from. */
export interface LinkKeySource {
  signing(): LinkKey;
  find(id: string): Promise<LinkKey | undefined>;
}

/** What is signed begins with it, so that no signature made for another purpose, or of another form, is one of a link. */
const PURPOSE = 'larder download link 1';

/** Version, expiry (base 36, milliseconds), key, subject (base64url), signature (HMAC-SHA-256, base64url). */
const CAPABILITY = /^(1)\.([1-9a-z][0-9a-z]{0,9})\.([0-9a-z]{1,32})\.([\w-]{1,6000})\.([\w-]{43})$/;

/** Expiries lie on a grid of this part of the lifetime: for so long the same client gets the same link, hence the same ETag. */
const GRID = 1 / 4;

/** The longest that a link can be good for, rounding included. */
export function longestLife(lifetimeMs: number): number {
  return Math.ceil(lifetimeMs * (1 + GRID));
}

/**
 * Download links that need no token: `get/CAPABILITY/HOSTNAME/NAMESPACE/TYPE/FILENAME`, and
 * `get/CAPABILITY/HOSTNAME/NAMESPACE/NAME/SYSTEM/VERSION/FILENAME` for packages of modules.
 *
 * The clients send no token for archives, so a list that somebody was allowed to read carries these. A capability is for
 * one subject (the client that it was made out to), one file and some time. It is in the path, not in the query, because
 * clients reorder and escape queries. It can be used again and again until it expires, at any process that has the keys.
 */
export class Links {
  readonly #keys: LinkKeySource;
  readonly #lifetimeMs: number;
  readonly #gridMs: number;
  readonly #now: () => number;

  constructor(deps: { keys: LinkKeySource; lifetimeMs: number; now?: () => number }) {
    this.#keys = deps.keys;
    this.#lifetimeMs = deps.lifetimeMs;
    this.#gridMs = Math.max(1, Math.floor(deps.lifetimeMs * GRID));
    this.#now = deps.now ?? Date.now;
  }

  /** As long as it stays the same, so do all links that are made out to this subject. */
  stampOf(subject: string): string {
    return this.#signedParts(subject).join('.');
  }

  /** The path of a link, percent-encoded, relative to where Larder's own paths begin. */
  pathFor(file: LinkedFile, subject: string): string {
    return `get/${this.#capabilityFor(file.toString(), subject)}/${encodeURI(pathOf(file))}`;
  }

  /**
   * The subject that a capability for this file was made out to. Whether they may still have it is for the caller to
   * find out.
   * @throws LinkExpired of one that was good
   * @throws LinkNotValid of everything else
   */
  async verify(capability: string, file: LinkedFile): Promise<string> {
    const [, version, expiry = '', keyId = '', encodedSubject = '', signature = ''] = CAPABILITY.exec(capability) ?? [];
    const key = version === undefined ? undefined : await this.#keys.find(keyId);
    if (!key) throw linkNotValid('its form or its key is not known');
    // Compared as it is spelled: whatever else decodes to the same bytes is not what was given out.
    const expected = signatureOf(key, [expiry, keyId, encodedSubject], file.toString());
    if (!timingSafeEqual(Buffer.from(expected), Buffer.from(signature))) {
      throw linkNotValid('it was not signed for this file');
    }
    if (this.#now() >= Number.parseInt(expiry, 36)) {
      throw new LinkExpired('this download link has expired', {
        hint: 'ask for the list of packages again: it has new ones',
      });
    }
    return Buffer.from(encodedSubject, 'base64url').toString();
  }

  #capabilityFor(file: string, subject: string): string {
    const key = this.#keys.signing();
    const signed = this.#signedParts(subject, key);
    return ['1', ...signed, signatureOf(key, signed, file)].join('.');
  }

  /** Expiry, key and subject, as they stand in a capability. */
  #signedParts(subject: string, key = this.#keys.signing()): string[] {
    const expiry = Math.ceil((this.#now() + this.#lifetimeMs) / this.#gridMs) * this.#gridMs;
    return [expiry.toString(36), key.id, Buffer.from(subject).toString('base64url')];
  }
}

function pathOf(file: LinkedFile): string {
  if (!(file instanceof ModuleRelease)) return `${file.provider}/${file.filename}`;
  const { module, version, filename } = file;
  // As it was written, since an upstream that decides who may have it is asked so; what is signed is the identity.
  return `${module.hostname}/${module.written}/${version}/${filename}`;
}

/**
 * Told of links that are forged, changed, aimed at another file, revoked, or whose holder is gone. Which of these it is
 * only logs tell: `why` does not get to the client.
 */
export function linkNotValid(why: string): LinkNotValid {
  return new LinkNotValid('this download link is not valid', {
    cause: new Error(why),
    hint: 'ask for the list of packages again, and use the link that it has for this very file',
  });
}

/** None of the parts can hold a line break, so no two ways to cut the text give the same one. */
function signatureOf({ secret }: LinkKey, parts: readonly string[], file: string): string {
  return createHmac('sha256', secret)
    .update([PURPOSE, ...parts, file].join('\n'))
    .digest('base64url');
}
