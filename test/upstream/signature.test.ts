import { createMessage, generateKey, readPrivateKey, revokeKey, sign, unarmor } from 'openpgp';
import { describe, expect, test } from 'vitest';
import { verifySignature } from '../../src/upstream/signature.ts';
import { once } from '../support/certificates.ts';
import { SigningKey } from '../support/signing-key.ts';
import { GnuPG, gpgInstalled } from './gnupg.ts';
import { dsa2048, rsa4096 } from './gnupg-made.ts';
import { failureOf } from './scripted-server.ts';

const shasums = Buffer.from(`${'a'.repeat(64)}  w.zip\n`);
const altered = Buffer.from(`${'b'.repeat(64)}  w.zip\n`);

const keys = once(async () => ({
  plain: await SigningKey.generate(),
  other: await SigningKey.generate({ type: 'ed25519' }),
  subkey: await SigningKey.generate({ subkey: true, type: 'ed25519' }),
  expired: await SigningKey.generate({ expired: true, type: 'ed25519' }),
}));

const verify = (signature: Uint8Array, armoredKeys: string[], data: Buffer = shasums) =>
  verifySignature({ shasums: data, signature, armoredKeys });

test('a good signature names the key that made it', async () => {
  const { plain, other } = await keys();
  for (const key of [plain, other]) {
    expect(await verify(await key.sign(shasums), [key.armored])).toEqual({
      state: 'signed',
      keyId: key.keyId,
      notes: [],
    });
  }
});

test('other bytes than the signed ones are refused, and the key named', async () => {
  const { plain } = await keys();
  expect(await failureOf(verify(await plain.sign(shasums), [plain.armored], altered))).toMatchObject({
    code: 'INTEGRITY_MISMATCH',
    message: expect.stringMatching(new RegExp(`key ${plain.keyId} did not sign these bytes`)),
  });
});

test('an unknown issuer is named, and so are the keys on offer', async () => {
  const { plain, other } = await keys();
  const failure = await failureOf(verify(await plain.sign(shasums), [other.armored]));
  expect(failure).toMatchObject({ code: 'INTEGRITY_MISMATCH' });
  expect(failure.message).toContain(plain.keyId);
  expect(failure.message).toContain(other.keyId);
});

test('one of several keys is enough, wherever it stands', async () => {
  const { plain, other, subkey } = await keys();
  const signature = await plain.sign(shasums);
  const orders = [
    [other.armored, plain.armored, subkey.armored],
    // Blocks that follow each other in one text.
    [`${other.armored}\n${subkey.armored}${plain.armored}`],
  ];
  for (const order of orders) expect((await verify(signature, order)).keyId).toBe(plain.keyId);
});

test('one of several signatures is enough', async () => {
  const { plain, other } = await keys();
  const both = await SigningKey.signTogether(shasums, [other, plain]);
  expect((await verify(both, [plain.armored])).keyId).toBe(plain.keyId);
  expect((await verify(both, [other.armored])).keyId).toBe(other.keyId);
});

test('R39: a subkey signs for its primary key', async () => {
  const { subkey } = await keys();
  expect(await verify(await subkey.sign(shasums), [subkey.armored])).toMatchObject({
    state: 'signed',
    keyId: subkey.keyId,
  });
});

test('R39: keys with CRLF, without Version line, without last line break, with text around', async () => {
  const { plain } = await keys();
  const signature = await plain.sign(shasums);
  const bare = plain.armored.replace(/^(Version|Comment):.*\r?\n/gm, '').trimEnd();
  for (const armored of [
    bare,
    bare.replace(/\r?\n/g, '\r\n'),
    `pub key of acme:\n${bare}\nbye`,
    bare.replace('\n', '\nVersion: GnuPG v1\n'),
  ]) {
    expect((await verify(signature, [armored])).state).toBe('signed');
  }
});

test('keys that cannot be read do not spoil the others', async () => {
  const { plain } = await keys();
  const broken = plain.armored.replace(/\n[A-Za-z0-9+/]{60,}\n/, '\n!!!!\n');
  const verdict = await verify(await plain.sign(shasums), ['', 'nonsense', broken, plain.armored]);
  expect(verdict).toMatchObject({ state: 'signed', keyId: plain.keyId });
  expect(verdict.notes.length).toBeGreaterThanOrEqual(2);
  expect(await failureOf(verify(await plain.sign(shasums), ['nonsense']))).toMatchObject({
    code: 'INTEGRITY_MISMATCH',
    message: expect.stringMatching(/cannot be read/),
  });
});

test.each([
  ['empty', Buffer.alloc(0)],
  ['random', Buffer.from('0123456789')],
  ['HTML', Buffer.from('<html>')],
  ['broken armor', Buffer.from('-----BEGIN PGP SIGNATURE-----\n\nxxxx\n')],
])('a signature that is %s is refused', async (_, signature) => {
  const { plain } = await keys();
  expect(await failureOf(verify(signature, [plain.armored]))).toMatchObject({ code: 'INTEGRITY_MISMATCH' });
});

test('a cut signature is refused', async () => {
  const { plain } = await keys();
  const signature = await plain.sign(shasums);
  expect(await failureOf(verify(signature.subarray(0, signature.length - 20), [plain.armored]))).toMatchObject({
    code: 'INTEGRITY_MISMATCH',
  });
});

describe('an expired key', () => {
  const YEAR_MS = 365 * 86_400_000;

  test('is accepted with a note, for signatures made before and after it expired', async () => {
    const { expired } = await keys();
    for (const [at, said] of [
      [new Date(Date.now() - 1.5 * YEAR_MS), /expired on \d{4}-\d\d-\d\d$/],
      [new Date(), /expired on \d{4}-\d\d-\d\d, before it made the signature$/],
    ] as const) {
      const verdict = await verify(await expired.sign(shasums, { at }), [expired.armored]);
      expect(verdict).toMatchObject({ state: 'signed', keyId: expired.keyId, notes: [expect.stringMatching(said)] });
    }
  });

  test('still does not sign what it did not sign', async () => {
    const { expired } = await keys();
    expect(await failureOf(verify(await expired.sign(shasums), [expired.armored], altered))).toMatchObject({
      code: 'INTEGRITY_MISMATCH',
      message: expect.stringMatching(/did not sign these bytes/),
    });
  });
});

test('a revoked key is refused', async () => {
  const { privateKey } = await generateKey({
    type: 'ecc',
    curve: 'ed25519Legacy',
    userIDs: [{ name: 'x' }],
    format: 'armored',
  });
  const key = await readPrivateKey({ armoredKey: privateKey });
  const signature = (await sign({
    message: await createMessage({ binary: new Uint8Array(shasums) }),
    signingKeys: key,
    detached: true,
    format: 'binary',
  })) as Uint8Array;
  const { publicKey } = await revokeKey({ key, format: 'armored' });
  expect((await verify(signature, [key.toPublic().armor()])).state).toBe('signed');
  expect(await failureOf(verify(signature, [publicKey]))).toMatchObject({
    code: 'INTEGRITY_MISMATCH',
    message: expect.stringMatching(/revoked/),
  });
});

test('R39: RSA 4096 as GnuPG signs with it, armored and binary', async () => {
  const armored = Buffer.from(rsa4096.signature);
  const { data } = await unarmor(rsa4096.signature);
  for (const signature of [armored, data as Uint8Array]) {
    expect(await verify(signature, [rsa4096.publicKey])).toMatchObject({ state: 'signed', notes: [] });
    expect(await failureOf(verify(signature, [rsa4096.publicKey], altered))).toMatchObject({
      code: 'INTEGRITY_MISMATCH',
    });
  }
});

test('DSA is refused and named', async () => {
  expect(await failureOf(verify(Buffer.from(dsa2048.signature), [dsa2048.publicKey]))).toMatchObject({
    code: 'INTEGRITY_MISMATCH',
    message: expect.stringMatching(/DSA keys are too weak/),
  });
});

describe.skipIf(!gpgInstalled())('made with GnuPG', () => {
  test.each([
    ['ed25519', 'ed25519', 'sign'],
    ['ed25519 with a signing subkey', 'ed25519', 'cert'],
  ])('R39: %s, armored and binary', async (_, algorithm, usage) => {
    const gpg = await GnuPG.open();
    await gpg.generate(algorithm, usage, usage === 'cert' ? [algorithm] : []);
    const armoredKey = await gpg.exportKey();
    for (const armored of [true, false]) {
      const signature = await gpg.sign(shasums, { armored });
      expect(signature.toString('latin1').startsWith('-----BEGIN')).toBe(armored);
      const verdict = await verify(signature, [armoredKey]);
      expect(verdict).toMatchObject({ state: 'signed', notes: [] });
      expect(verdict.keyId).toMatch(/^[0-9a-f]{16}$/);
      expect(await failureOf(verify(signature, [armoredKey], altered))).toMatchObject({ code: 'INTEGRITY_MISMATCH' });
    }
  });

  test('several keys in one armor, and the armored signature with CRLF and text before it', async () => {
    const gpg = await GnuPG.open();
    await gpg.generate('ed25519', 'sign', []);
    const signature = await gpg.sign(shasums, { armored: true });
    await gpg.generate('ed25519', 'sign', [], 'Second');
    const all = await gpg.exportKey();
    expect(all.match(/BEGIN PGP PUBLIC KEY/g)).toHaveLength(1);
    expect((await verify(Buffer.from(`\r\n${signature.toString().replace(/\n/g, '\r\n')}`), [all])).state).toBe(
      'signed',
    );
  });

  test('a key that was renewed after it had signed, exported without its history', async () => {
    const gpg = await GnuPG.open();
    await gpg.generate('ed25519', 'sign', [], 'Renewed', { at: '20240101T000000', expire: '1y' });
    const signature = await gpg.sign(shasums, { armored: false, at: '20240601T000000' });
    await gpg.renew();
    const verdict = await verify(signature, [await gpg.exportKey({ minimal: true })]);
    expect(verdict).toMatchObject({ state: 'signed', notes: [] });
  });

  test.each([
    ['short RSA', 'rsa1024', [], /RSA key of 1024 bits is too short/],
    ['SHA-1', 'rsa1024', ['--digest-algo', 'SHA1'], /SHA-1, which can be forged/],
  ])('%s is refused and named', async (_, algorithm, options, said) => {
    const gpg = await GnuPG.open();
    await gpg.generate(algorithm, 'sign', []);
    const signature = await gpg.sign(shasums, { armored: false, options });
    expect(await failureOf(verify(signature, [await gpg.exportKey()]))).toMatchObject({
      code: 'INTEGRITY_MISMATCH',
      message: expect.stringMatching(said),
    });
  });
});
