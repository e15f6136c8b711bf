import {
  createMessage,
  enums,
  type Key,
  type KeyID,
  readKeys,
  readSignature,
  SignaturePacket,
  type Subkey,
} from 'openpgp';
import { IntegrityMismatch } from '../errors.ts';
import type { SignatureVerdict } from './registry-answers.ts';
import type { SignatureCheck } from './signature.ts';

/** A registry hands out a few keys; more than this is an attempt to keep us busy. */
const MAX_KEYS = 64;
/** Below this the library (and common sense) refuses RSA. */
const MIN_RSA_BITS = 2047;

const FORGEABLE_DIGESTS: ReadonlyMap<unknown, string> = new Map([
  [enums.hash.md5, 'MD5'],
  [enums.hash.sha1, 'SHA-1'],
  [enums.hash.ripemd, 'RIPEMD-160'],
]);

/** @see verifySignature */
export async function checkSignature(check: SignatureCheck): Promise<SignatureVerdict> {
  const now = check.now ?? new Date();
  const packets = await parseSignature(check.signature);
  const { keys, notes } = await parseKeys(check.armoredKeys);
  if (keys.length === 0) {
    throw new IntegrityMismatch(`the signature of SHA256SUMS cannot be checked: ${notes.join('; ') || 'no keys'}`);
  }

  const objections: string[] = [];
  for (const packet of packets) {
    const issuer = packet.issuerKeyID.toHex();
    const candidates = keys.flatMap((key) => key.getKeys(packet.issuerKeyID).map((signer) => ({ key, signer })));
    for (const { key, signer } of candidates) {
      const outcome = await verifyBy(key, signer, packet, check.shasums, now);
      if ('objection' in outcome) objections.push(`key ${issuer} ${outcome.objection}`);
      else return { state: 'signed', keyId: issuer, notes: [...notes, ...outcome.notes] };
    }
    if (candidates.length === 0) {
      const offered = keys
        .map((key) =>
          key
            .getKeyIDs()
            .map((id) => id.toHex())
            .join('/'),
        )
        .join(', ');
      objections.push(`it was made by key ${issuer}, which is unknown: the registry offers ${offered}`);
    }
  }
  // The same key may have come in several blocks: one objection is enough.
  throw new IntegrityMismatch(`the signature of SHA256SUMS is not good: ${[...new Set(objections)].join('; ')}`);
}

async function parseSignature(bytes: Uint8Array): Promise<SignaturePacket[]> {
  try {
    const text = Buffer.from(bytes).toString('latin1').trimStart();
    const signature = text.startsWith('-----BEGIN PGP')
      ? await readSignature({ armoredSignature: text })
      : await readSignature({ binarySignature: bytes });
    // Packets of versions unknown to the library come out as something else.
    const packets = [...signature.packets].filter((packet) => packet instanceof SignaturePacket);
    if (packets.length > 0) return packets;
  } catch (error) {
    throw new IntegrityMismatch('the signature of SHA256SUMS cannot be read as an OpenPGP signature', { cause: error });
  }
  throw new IntegrityMismatch('the signature of SHA256SUMS holds no signature that is understood');
}

async function parseKeys(armored: readonly string[]): Promise<{ keys: Key[]; notes: string[] }> {
  const keys: Key[] = [];
  const notes: string[] = [];
  // The library reads only the first of several blocks that follow each other.
  const blocks = armored.flatMap(
    (text) => text.match(/-----BEGIN PGP PUBLIC KEY BLOCK-----[\s\S]*?-----END PGP PUBLIC KEY BLOCK-----/g) ?? [text],
  );
  for (const block of blocks.slice(0, MAX_KEYS)) {
    try {
      keys.push(...(await readKeys({ armoredKeys: block })).map((key) => key.toPublic()));
    } catch (error) {
      notes.push(`one of the ${blocks.length} signing keys cannot be read: ${reason(error)}`);
    }
  }
  return { keys, notes };
}

/** Checks one signature against one key: the algorithms, the bytes, then the key's standing. */
async function verifyBy(
  key: Key,
  signer: Key | Subkey,
  packet: SignaturePacket,
  shasums: Uint8Array,
  now: Date,
): Promise<{ notes: string[] } | { objection: string }> {
  const weakness = weaknessOf(packet, [key, signer]);
  if (weakness) return { objection: `is refused: ${weakness}` };
  try {
    const literal = (await createMessage({ binary: shasums })).packets.findPacket(enums.packet.literalData);
    await packet.verify(signer.keyPacket, packet.signatureType as enums.signature, literal as object, now, true);
  } catch (error) {
    const altered = /digest did not match|verification failed/.test(reason(error));
    return { objection: altered ? 'did not sign these bytes' : `made a signature that is refused: ${reason(error)}` };
  }
  try {
    const signedAt = packet.created ?? now;
    if (await key.isRevoked(undefined, undefined, signedAt)) return { objection: 'has been revoked' };
    const expiry = await expiryOf(key, signer);
    await proveFitForSigning(key, packet.issuerKeyID, [signedAt, now, expiry && new Date(expiry.getTime() - 1000)]);
    if (expiry === undefined || expiry > now) return { notes: [] };
    const late = expiry <= signedAt ? ', before it made the signature' : '';
    return {
      notes: [`the key ${packet.issuerKeyID.toHex()} expired on ${expiry.toISOString().slice(0, 10)}${late}`],
    };
  } catch (error) {
    return { objection: `is not usable for signing: ${reason(error)}` };
  }
}

/**
 * Proves that the key, or the subkey, belongs to the primary key, is meant for signing and was not revoked, as of one of
 * the dates. Normally that is when it signed. A key exported after it was renewed carries no older self-signature, and
 * stands as of now; one that had expired before it signed is judged by its last valid second, because the library has
 * no way of leaving expiry out.
 */
async function proveFitForSigning(key: Key, id: KeyID, dates: readonly (Date | undefined)[]): Promise<void> {
  let first: unknown;
  for (const date of dates) {
    if (!date) continue;
    try {
      await key.getSigningKey(id, date);
      return;
    } catch (error) {
      first ??= error;
    }
  }
  throw first;
}

/** What makes it worthless however well it verifies. */
function weaknessOf(packet: SignaturePacket, signers: readonly (Key | Subkey)[]): string | undefined {
  // Other types do not cover the document: a "standalone" signature would fit any.
  if (packet.signatureType !== enums.signature.binary && packet.signatureType !== enums.signature.text) {
    return 'the signature is not one over a document';
  }
  const forgeable = FORGEABLE_DIGESTS.get(packet.hashAlgorithm);
  if (forgeable) return `the signature uses ${forgeable}, which can be forged`;
  for (const signer of signers) {
    const { algorithm, bits } = signer.getAlgorithmInfo();
    if (algorithm === 'dsa' || algorithm === 'elgamal') return `${algorithm.toUpperCase()} keys are too weak`;
    if (algorithm.startsWith('rsa') && (bits ?? 0) < MIN_RSA_BITS) return `an RSA key of ${bits} bits is too short`;
  }
  return undefined;
}

/** The earlier of the primary key's and the subkey's expiry. `undefined` when neither ever expires. */
async function expiryOf(key: Key, signer: Key | Subkey): Promise<Date | undefined> {
  const dates = [await key.getExpirationTime(), 'mainKey' in signer ? await signer.getExpirationTime() : null].filter(
    (date) => date instanceof Date,
  );
  return dates.sort((a, b) => a.getTime() - b.getTime())[0];
}

function reason(error: unknown): string {
  return error instanceof Error ? error.message.replace(/\s+/g, ' ').slice(0, 200) : 'unknown reason';
}
