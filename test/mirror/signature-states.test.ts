import { expect, it, vi } from 'vitest';
import { parseSha256 } from '../../src/address/hash.ts';
import { ProviderAddress } from '../../src/address/provider.ts';
import { Version } from '../../src/address/version.ts';
import { SignatureStates } from '../../src/mirror/signature-states.ts';
import type { ReleaseFiles } from '../../src/store/archive-store.ts';
import { SigningKey } from '../support/signing-key.ts';

const WIDGET = ProviderAddress.parse('registry.example.com/acme/widget');
const VERSION = Version.parse('1.0.0');
const SHA256 = parseSha256('ab'.repeat(32));
const SHASUMS = Buffer.from(`${SHA256}  terraform-provider-widget_1.0.0_linux_amd64.zip\n`);

async function signed(shasums = SHASUMS): Promise<ReleaseFiles> {
  const key = await SigningKey.shared();
  const statement = { protocols: ['5.0'], signing_keys: { gpg_public_keys: [{ ascii_armor: key.armored }] } };
  return {
    shasums,
    signature: await SigningKey.signTogether(SHASUMS, [key]),
    statement: Buffer.from(JSON.stringify(statement)),
  };
}

const stateOf = (files: ReleaseFiles | undefined) =>
  new SignatureStates({ store: { getRelease: async () => files } }).of(WIDGET, VERSION);

it('a good signature is one that a key of the registry made of this very list', async () => {
  const good = await stateOf(await signed());
  expect(good).toMatchObject({ state: 'good', objection: undefined });
  expect([good.lists(SHA256), good.lists(parseSha256('cd'.repeat(32)))]).toEqual([true, false]);
  const changed = Buffer.from(SHASUMS.toString().replaceAll('ab', 'ba'));
  expect(await stateOf(await signed(changed))).toMatchObject({ state: 'doubtful', objection: expect.any(String) });
});

it('what has none is unsigned, what cannot be checked is doubtful, what is not kept is none', async () => {
  expect(await stateOf({ shasums: SHASUMS, signature: undefined })).toMatchObject({ state: 'unsigned' });
  expect(await stateOf({ ...(await signed()), statement: undefined })).toMatchObject({ state: 'doubtful' });
  expect(await stateOf({ ...(await signed()), shasums: Buffer.from('<html>') })).toMatchObject({ state: 'doubtful' });
  expect(await stateOf(undefined)).toMatchObject({ state: 'none' });
});

it('is judged once, as long as the files are the same', async () => {
  let files = await signed();
  const getRelease = vi.fn(async () => files);
  const states = new SignatureStates({ store: { getRelease } });
  const first = await states.of(WIDGET, VERSION);
  expect(await states.of(WIDGET, VERSION)).toBe(first);
  files = { shasums: SHASUMS, signature: undefined };
  expect(await states.of(WIDGET, VERSION)).toMatchObject({ state: 'unsigned' });
});
