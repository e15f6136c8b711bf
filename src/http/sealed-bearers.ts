import { createCipheriv, createDecipheriv, createHmac, hkdfSync } from 'node:crypto';
import type { LinkKey } from '../store/link-key-ring.ts';
import type { LinkKeySource } from './links.ts';

/** Links hold what is sealed here, and a link has to fit into a request line. */
const MAX_BEARER_LENGTH = 3_000;

const PURPOSE = 'larder sealed bearer 1';
const KEY_BYTES = 32;
const NONCE_BYTES = 12;
const TAG_BYTES = 16;

/**
 * Tokens of clients, put into the links that are made out to them so that nobody but Larder can read them: an upstream
 * that is asked with its clients' own tokens has to be asked again when the archive is fetched, and for that the clients
 * send none. Nothing is stored, so any process that has the keys can serve the link.
 */
export class SealedBearers {
  readonly #keys: LinkKeySource;

  constructor({ keys }: { keys: LinkKeySource }) {
    this.#keys = keys;
  }

  /** The same token gives the same text for as long as the key signs. `undefined` for tokens too long for a link. */
  seal(bearer: string): string | undefined {
    if (bearer.length > MAX_BEARER_LENGTH) return undefined;
    const signing = this.#keys.signing();
    // Made of the token itself, so that no nonce serves two tokens.
    const nonce = createHmac('sha256', signing.secret)
      .update(`${PURPOSE}\n${bearer}`)
      .digest()
      .subarray(0, NONCE_BYTES);
    const cipher = createCipheriv('aes-256-gcm', keyOf(signing), nonce);
    const sealed = Buffer.concat([nonce, cipher.update(bearer), cipher.final(), cipher.getAuthTag()]);
    return `${signing.id}.${sealed.toString('base64url')}`;
  }

  /** `undefined` for what was not sealed here, or with a key that is gone. */
  async open(text: string): Promise<string | undefined> {
    const [id = '', encoded = ''] = text.split('.');
    const key = await this.#keys.find(id);
    const bytes = Buffer.from(encoded, 'base64url');
    if (!key || bytes.length <= NONCE_BYTES + TAG_BYTES) return undefined;
    try {
      const decipher = createDecipheriv('aes-256-gcm', keyOf(key), bytes.subarray(0, NONCE_BYTES));
      decipher.setAuthTag(bytes.subarray(-TAG_BYTES));
      return Buffer.concat([decipher.update(bytes.subarray(NONCE_BYTES, -TAG_BYTES)), decipher.final()]).toString();
    } catch {
      return undefined;
    }
  }
}

/** Links are signed with the secret itself. */
function keyOf({ secret }: LinkKey): Buffer {
  return Buffer.from(hkdfSync('sha256', secret, '', PURPOSE, KEY_BYTES));
}
