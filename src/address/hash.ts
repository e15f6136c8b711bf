import { InvalidAddress } from '../errors.ts';

declare const brand: unique symbol;

/** A package hash as lock files hold it: `h1:` + base64 of Go's dirhash, or `zh:` + lower-case hex SHA-256 of the zip. */
export type Hash = string & { readonly [brand]: 'Hash' };

/** Lower-case hex SHA-256, 64 characters. */
export type Sha256 = string & { readonly [brand]: 'Sha256' };

/** Accepts `h1:` and `zh:` in the exact spelling the clients accept. @throws InvalidAddress */
export function parseHash(text: string): Hash {
  if (/^h1:[A-Za-z0-9+/]{43}=$/.test(text) || /^zh:[0-9a-f]{64}$/.test(text)) return text as Hash;
  throw new InvalidAddress('hash', text, 'write h1: and 44 base64 characters, or zh: and 64 lower-case hex digits');
}

/** Accepts hex in any case. @throws InvalidAddress */
export function parseSha256(text: string): Sha256 {
  if (/^[0-9a-f]{64}$/i.test(text)) return text.toLowerCase() as Sha256;
  throw new InvalidAddress('SHA-256 digest', text, 'it must be 64 hex digits');
}

/** The `zh:` form of an archive's digest. */
export function zipHash(sha256: Sha256): Hash {
  return `zh:${sha256}` as Hash;
}

/** The digest inside a `zh:` hash, `undefined` for other schemes. */
export function sha256Of(hash: Hash): Sha256 | undefined {
  return hash.startsWith('zh:') ? (hash.slice(3) as Sha256) : undefined;
}
