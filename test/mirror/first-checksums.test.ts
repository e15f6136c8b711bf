import { describe, expect, it } from 'vitest';
import { verifySignature } from '../../src/upstream/signature.ts';
import { editJson } from '../support/faults.ts';
import { SigningKey } from '../support/signing-key.ts';
import { hashesIn, packageOf, type Scene, startScene, stoppedClock, WIDGET } from './scene.ts';

const PLATFORMS = ['linux_amd64', 'darwin_arm64'];
const A_DAY_AND_MORE = 25 * 3_600_000;

const withoutKeys = editJson((document) => ({ ...document, signing_keys: null }));
const withoutList = editJson((document) => ({
  ...document,
  signing_keys: null,
  shasums_url: null,
  shasums_signature_url: null,
}));

/** Fetches what clients of the provider registry verify, and verifies it as they do. */
async function verified({ registry, get }: Scene) {
  const version = `/registry/${registry.hostname}/v1/providers/acme/widget/1.0.0`;
  const document = await get(`${version}/download/linux/amd64`);
  expect(document.status, document.text()).toBe(200);
  const keys: { ascii_armor: string }[] = document.json().signing_keys.gpg_public_keys;
  return verifySignature({
    shasums: (await get(`${version}/SHA256SUMS`)).body,
    signature: (await get(`${version}/SHA256SUMS.sig`)).body,
    armoredKeys: keys.map((key) => key.ascii_armor),
  });
}

describe('what was published first', () => {
  it('SHA256SUMS that was kept goes with the key that signed it, also when upstream’s of today is signed with another', async () => {
    const clock = stoppedClock();
    const scene = await startScene({ providers: [{ platforms: PLATFORMS, sign: await SigningKey.generate() }] });
    const { keyId } = await verified(scene);

    await scene.registry.addProvider({ ...WIDGET, sign: await SigningKey.generate() });
    clock.advance(A_DAY_AND_MORE);
    expect(await verified(scene)).toMatchObject({ state: 'signed', keyId });
  });

  it('the same list signed anew goes with the new key', async () => {
    const clock = stoppedClock();
    const scene = await startScene({ providers: [{ platforms: PLATFORMS, sign: await SigningKey.generate() }] });
    const { keyId } = await verified(scene);

    await scene.registry.addProvider({ ...WIDGET, platforms: PLATFORMS, sign: await SigningKey.generate() });
    clock.advance(A_DAY_AND_MORE);
    const renewed = await verified(scene);
    expect(renewed.state).toBe('signed');
    expect(renewed.keyId).not.toBe(keyId);
  });

  for (const [what, fault] of [
    ['keys', withoutKeys],
    ['keys and SHA256SUMS', withoutList],
  ] as const) {
    it(`an upstream that has lost its ${what} takes nothing away that was kept`, async () => {
      const clock = stoppedClock();
      const scene = await startScene();
      const { keyId } = await verified(scene);
      expect((await scene.archive()).status).toBe(200);
      await scene.stored();

      scene.registry.on(/\/download\//, fault);
      clock.advance(A_DAY_AND_MORE);
      expect(await verified(scene)).toMatchObject({ state: 'signed', keyId });
      await scene.registry.stop();
      clock.advance(A_DAY_AND_MORE);
      expect(await verified(scene)).toMatchObject({ state: 'signed', keyId });
    });
  }

  for (const [what, options, fault] of [
    ['without any SHA256SUMS', {}, withoutList],
    ['under other file names', { filename: (platform: string) => `renamed_${platform}.zip` }, undefined],
  ] as const) {
    it(`other bytes ${what} are refused like other bytes`, async () => {
      const clock = stoppedClock();
      const scene = await startScene({ providers: [{ platforms: PLATFORMS }] });
      const first = hashesIn(await scene.version('1.0.0'), 'darwin_arm64');

      const zip = Buffer.from('other bytes');
      const other = await scene.registry.addProvider({ ...WIDGET, platforms: PLATFORMS, zip, ...options });
      if (fault) scene.registry.on(/\/download\//, fault);
      for (const when of ['next', 'after that']) {
        clock.advance(A_DAY_AND_MORE);
        expect(hashesIn(await scene.version('1.0.0'), 'darwin_arm64'), when).toEqual(first);
        for (const platform of PLATFORMS) {
          const answer = await scene.archive('1.0.0', platform);
          expect(answer.status, platform).toBe(502);
          expect(answer.json()).toMatchObject({ code: 'INTEGRITY_MISMATCH' });
          expect(answer.text()).toContain(packageOf(other, platform).sha256);
        }
      }
      expect(scene.warnings('upstream now publishes other bytes')).toHaveLength(2);
    });
  }

  it('the same bytes under other file names are the same release', async () => {
    const clock = stoppedClock();
    const scene = await startScene();
    const first = hashesIn(await scene.version('1.0.0'));
    await scene.registry.addProvider({ ...WIDGET, filename: (platform) => `renamed_${platform}.zip` });
    clock.advance(A_DAY_AND_MORE);
    expect(hashesIn(await scene.version('1.0.0'))).toEqual(first);
    expect((await scene.archive()).status).toBe(200);
    expect((await verified(scene)).state).toBe('signed');
  });
});
