import { createMessage, generateKey, type PrivateKey, readPrivateKey, reformatKey, sign } from 'openpgp';
import { once } from './certificates.ts';

export type SigningKeyType = 'rsa2048' | 'rsa4096' | 'ed25519';

const YEAR_MS = 365 * 86_400_000;
const USER = [{ name: 'Test publisher', email: 'publisher@example.test' }];

/** An OpenPGP key of a provider's publisher: real keys, real signatures, made anew in each process. */
export class SigningKey {
  /** ASCII-armored public key, as a registry hands it out. */
  readonly armored: string;
  /** 16 lower-case hex digits, of the (sub)key that makes the signatures. */
  readonly keyId: string;
  /** 16 upper-case hex digits of the primary key, as registries show it. */
  readonly primaryKeyId: string;
  readonly #private: PrivateKey;

  private constructor(privateKey: PrivateKey, armored: string, keyId: string) {
    this.#private = privateKey;
    this.armored = armored;
    this.keyId = keyId;
    this.primaryKeyId = privateKey.getKeyID().toHex().toUpperCase();
  }

  /**
   * `expired`: the published key ran out a year ago, and signatures made today come after that.
   * `subkey`: a certify-only primary key with a signing subkey.
   */
  static async generate(
    options: { type?: SigningKeyType; expired?: boolean; subkey?: boolean } = {},
  ): Promise<SigningKey> {
    const { type = 'rsa2048', expired = false, subkey = false } = options;
    // Two years old, so that `expired` can end a year ago; no clock is quite the same in two programs.
    const date = new Date(Date.now() - 2 * YEAR_MS);
    const { privateKey: armoredPrivate, publicKey } = await generateKey({
      ...(type === 'ed25519'
        ? // The older EdDSA packet form: the one Go's openpgp has read for years.
          { type: 'ecc' as const, curve: 'ed25519Legacy' as const }
        : { type: 'rsa' as const, rsaBits: type === 'rsa4096' ? 4096 : 2048 }),
      userIDs: USER,
      date,
      subkeys: subkey ? [{ sign: true }] : [],
      format: 'armored',
    });
    const privateKey = await readPrivateKey({ armoredKey: armoredPrivate });
    const signer = await privateKey.getSigningKey();
    if (!expired) return new SigningKey(privateKey, publicKey, signer.getKeyID().toHex());

    // The same key material under an older promise: the private half stays able to sign after the public half ran out.
    const shortLived = await reformatKey({
      privateKey: await readPrivateKey({ armoredKey: armoredPrivate }),
      userIDs: USER,
      date,
      keyExpirationTime: YEAR_MS / 1000,
      format: 'armored',
    });
    return new SigningKey(privateKey, shortLived.publicKey, signer.getKeyID().toHex());
  }

  /** The key that tests use when they do not care which: RSA 2048, generated once per process. */
  static shared(): Promise<SigningKey> {
    return sharedKey();
  }

  /** Detached binary signature over `data`. */
  sign(data: Buffer, options: { at?: Date } = {}): Promise<Buffer> {
    return SigningKey.signTogether(data, [this], options);
  }

  /** One detached signature file holding a signature of each key. */
  static async signTogether(data: Buffer, keys: readonly SigningKey[], options: { at?: Date } = {}): Promise<Buffer> {
    const signature = await sign({
      message: await createMessage({ binary: new Uint8Array(data) }),
      signingKeys: keys.map((key) => key.#private),
      detached: true,
      format: 'binary',
      ...(options.at ? { date: options.at } : {}),
    });
    return Buffer.from(signature as Uint8Array);
  }
}

const sharedKey = once(() => SigningKey.generate());
