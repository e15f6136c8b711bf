import type { SignatureVerdict } from './registry-answers.ts';

/** What is to be checked, against what. */
export interface SignatureCheck {
  readonly shasums: Uint8Array;
  readonly signature: Uint8Array;
  readonly armoredKeys: readonly string[];
  readonly now?: Date;
}

/**
 * Checks a detached signature (armored or binary) over SHA256SUMS against the ASCII-armored keys that a registry
 * gives. One good signature by one of the keys is enough. Keys that cannot be read are left out with a note.
 *
 * An expired key is accepted with a note, as the clients do: releases outlive keys, and registries do not renew them.
 * Revoked keys and weak algorithms (DSA, short RSA, SHA-1) are not.
 *
 * @throws IntegrityMismatch naming the signing key, the keys offered and what is wrong
 */
export async function verifySignature(check: SignatureCheck): Promise<SignatureVerdict> {
  const { checkSignature } = await import('./signature-check.ts');
  return checkSignature(check);
}

/** Loads what the first check needs: making its tables takes long enough to be left out of a start. Never rejects. */
export async function prepareSignatures(): Promise<void> {
  try {
    await import('./signature-check.ts');
  } catch {
    // Told to whoever asks.
  }
}
