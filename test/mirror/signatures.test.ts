import { readFile } from 'node:fs/promises';
import { enums, armor as toArmor } from 'openpgp';
import { describe, expect, it } from 'vitest';
import { editJson, replaceBody, status } from '../support/faults.ts';
import { SigningKey } from '../support/signing-key.ts';
import { eventually, hashesIn, type Scene, startRegistry, startScene, WIDGET } from './scene.ts';

const DOCUMENT = /GET .*\/download\/linux\/amd64$/;
const SHASUMS = /GET .*_SHA256SUMS$/;
const SIGNATURE = /GET .*_SHA256SUMS\.sig$/;

async function expectRefused({ version, archive }: Scene, reason: RegExp) {
  for (const answer of [await version('1.0.0'), await archive()]) {
    expect(answer.status).toBe(502);
    expect(answer.json()).toMatchObject({ code: 'INTEGRITY_MISMATCH', errors: [expect.stringMatching(reason)] });
  }
}

async function expectServed({ version, archive }: Scene) {
  expect(hashesIn(await version('1.0.0'))).toEqual([expect.stringMatching(/^zh:/)]);
  expect((await archive()).status).toBe(200);
}

async function strictScene(): Promise<Scene> {
  const registry = await startRegistry();
  return startScene({
    registry,
    config: { upstreams: { hosts: { [registry.hostname]: { signatures: 'require' } } } },
  });
}

describe('signatures', () => {
  const keyless: [string, unknown][] = [
    ['an empty object', {}],
    ['an object with null', { gpg_public_keys: null }],
    ['an object with an empty list', { gpg_public_keys: [] }],
    ['a list', []],
    ['a list with holes', { gpg_public_keys: [null, { ascii_armor: null }, { key_id: 'A' }] }],
    ['null', null],
    ['missing', undefined],
  ];

  /** Each kind of keylessness is a provider of its own. */
  async function publishKeyless({ registry }: Scene) {
    for (const [at, [, keys]] of keyless.entries()) {
      await registry.addProvider({ ...WIDGET, type: `keyless${at}` });
      registry.on(
        new RegExp(`/keyless${at}/.*/download/`),
        editJson((document) => ({ ...document, signing_keys: keys })),
      );
    }
  }

  it('R37: no signing keys, however that is said, mean unsigned, and that is served', async () => {
    const scene = await startScene();
    await publishKeyless(scene);
    for (const [at, [what]] of keyless.entries()) {
      const provider = `acme/keyless${at}`;
      expect((await scene.version('1.0.0', provider)).json().archives, what).toHaveProperty('linux_amd64');
      expect((await scene.archive('1.0.0', 'linux_amd64', { provider })).status, what).toBe(200);
    }
  });

  it('R37: where signatures are required, no signing keys, however that is said, are a reason', async () => {
    const scene = await strictScene();
    await publishKeyless(scene);
    for (const [at, [what]] of keyless.entries()) {
      const provider = `acme/keyless${at}`;
      for (const answer of [
        await scene.version('1.0.0', provider),
        await scene.archive('1.0.0', 'linux_amd64', { provider }),
      ]) {
        expect(answer.status, what).toBe(502);
        expect(answer.json().errors[0], what).toContain('not signed');
      }
    }
  });

  it('R37: where signatures are required, a signed release is served', async () => {
    const scene = await strictScene();
    await scene.registry.addProvider(WIDGET);
    await expectServed(scene);
  });

  it('R39: an armored signature is as good as a binary one', async () => {
    const scene = await startScene();
    scene.registry.releases.on(
      SIGNATURE,
      replaceBody((binary) => toArmor(enums.armor.signature, binary)),
    );
    await expectServed(scene);
  });

  it.each<[string, (armored: string) => string]>([
    ['with CRLF', (armored) => armored.replace(/\r?\n/g, '\r\n')],
    ['with plain line feeds', (armored) => armored.replace(/\r\n/g, '\n')],
    ['without its final newline', (armored) => armored.trimEnd()],
    [
      'with unusual headers',
      (armored) => armored.replace(/\n/, '\nVersion: Keybase OpenPGP v2\nComment: https://x.test\n'),
    ],
    ['with an unreadable key before it', (armored) => `${armored.replace(/[A-Za-z0-9]{20}/, '!!!!')}\n${armored}`],
  ])('R39: a key %s is read', async (_what, edit) => {
    const scene = await startScene();
    const key = await SigningKey.shared();
    scene.registry.on(
      DOCUMENT,
      editJson((document) => ({
        ...document,
        signing_keys: { gpg_public_keys: [{ key_id: 'X', ascii_armor: edit(key.armored) }] },
      })),
    );
    await expectServed(scene);
  });

  it('R39: two keys in one block, and a signature by the subkey of the second', async () => {
    const [other, signer] = [
      await SigningKey.generate({ type: 'ed25519' }),
      await SigningKey.generate({ type: 'ed25519', subkey: true }),
    ];
    const scene = await startScene({ providers: [{ sign: signer }] });
    scene.registry.on(
      DOCUMENT,
      editJson((document) => ({
        ...document,
        signing_keys: { gpg_public_keys: [{ key_id: 'X', ascii_armor: `${other.armored}\n${signer.armored}` }] },
      })),
    );
    await expectServed(scene);
  });

  it('an expired key still vouches for what it signed, which is noted', async () => {
    const scene = await startScene({
      providers: [{ sign: await SigningKey.generate({ type: 'ed25519', expired: true }) }],
    });
    await expectServed(scene);
    expect(scene.warnings('reservation')).toEqual([expect.stringContaining('expired')]);
  });

  it('R39: a signature by another key is refused, naming both keys', async () => {
    const [signer, other] = [await SigningKey.shared(), await SigningKey.generate({ type: 'ed25519' })];
    const scene = await startScene({ providers: [{ sign: signer, publishedKeys: [other] }] });
    await expectRefused(scene, new RegExp(`${signer.keyId}.*${other.keyId}`));
  });

  it('a changed SHA256SUMS is refused, cached by nobody, and right again when upstream is', async () => {
    const scene = await startScene();
    scene.registry.releases.on(
      SHASUMS,
      replaceBody((original) => `${original}${'00'.repeat(32)}  another.zip\n`),
    );
    await expectRefused(scene, /did not sign/);
    scene.registry.heal();
    await expectServed(scene);
  });

  it.each([
    ['missing', status(404)],
    ['no signature at all', replaceBody('<html>not here</html>')],
  ])('a signature that is %s is not passed over where there are keys', async (_what, fault) => {
    const scene = await startScene();
    scene.registry.releases.on(SIGNATURE, fault);
    for (const answer of [await scene.version('1.0.0'), await scene.archive()]) {
      expect(answer.status).toBe(502);
      expect(answer.json().errors[0]).toContain('signature');
    }
  });

  it('a registry whose keys are beyond repair is served with signatures: ignore', async () => {
    const registry = await startRegistry();
    await registry.addProvider({ ...WIDGET, publishedKeys: [await SigningKey.generate({ type: 'ed25519' })] });
    const scene = await startScene({
      registry,
      config: { upstreams: { hosts: { [registry.hostname]: { signatures: 'ignore' } } } },
    });
    await expectServed(scene);
  });

  it('SHA256SUMS and its signature are kept beside the archive, byte for byte', async () => {
    const scene = await startScene({ providers: [] });
    const published = await scene.registry.addProvider(WIDGET);
    await expectServed(scene);
    const file = `${scene.larder.setup.dataDirectory}/providers/${scene.registry.hostname}/acme/widget/${published.shasumsFilename}`;
    const kept = (name: string) => readFile(name).catch(() => undefined);
    await eventually(() => kept(file)).toEqual(published.shasums);
    await eventually(() => kept(`${file}.sig`)).toEqual(published.signature);
  });
});
