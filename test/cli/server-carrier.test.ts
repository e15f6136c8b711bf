import { createHash } from 'node:crypto';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { buffer } from 'node:stream/consumers';
import { describe, expect, it } from 'vitest';
import { ProviderArchive } from '../../src/address/archive.ts';
import { parseSha256 } from '../../src/address/hash.ts';
import { Platform } from '../../src/address/platform.ts';
import { ProviderAddress } from '../../src/address/provider.ts';
import { Version } from '../../src/address/version.ts';
import { ServerCarrier } from '../../src/cli/server-carrier.ts';
import { bytesOf, packageOf, startScene, WIDGET } from '../mirror/scene.ts';
import { afterTest } from '../support/after-test.ts';
import { publish } from '../support/published-provider.ts';

const TOKEN = 'token-of-the-operators';
const config = { access: { tokens: [{ name: 'ops', token: TOKEN, roles: ['read', 'admin'] }] } };

async function begin() {
  const scene = await startScene({ config });
  const directory = await mkdtemp(join(tmpdir(), 'larder-carrier-'));
  afterTest(() => rm(directory, { recursive: true, force: true }));
  const carrier = await ServerCarrier.at(scene.larder.url, { token: TOKEN, ca: scene.larder.setup.caFile });
  afterTest(() => carrier.close());
  const brought = async (bytes: Buffer, { host = scene.registry.hostname, version = '1.0.0' } = {}) => {
    const file = join(directory, 'brought.zip');
    await writeFile(file, bytes);
    const sha256 = parseSha256(createHash('sha256').update(bytes).digest('hex'));
    const provider = ProviderAddress.parse(`${host}/acme/widget`);
    const archive = new ProviderArchive(provider, Version.parse(version), Platform.parse('linux_amd64'));
    return { archive, file, size: bytes.length, sha256, h1: undefined };
  };
  const bytes = bytesOf(packageOf(await publish(WIDGET)));
  return { ...scene, carrier, brought, bytes };
}

describe('a running server that things are carried to', () => {
  it('takes what is new, has what it has, and gives it back', async () => {
    const { carrier, larder, brought, bytes } = await begin();
    const archive = await brought(bytes);
    expect((await carrier.takeArchive(archive)).outcome).toBe('imported');
    expect((await carrier.takeArchive(archive)).outcome).toBe('present');
    const again = await ServerCarrier.at(larder.url, { token: TOKEN, ca: larder.setup.caFile });
    afterTest(() => again.close());
    const given: Buffer[] = [];
    for await (const carried of again.archives()) given.push(await buffer(await again.openArchive(carried)));
    expect(given).toEqual([bytes]);
    expect((await again.takeArchive(archive)).outcome).toBe('present');
  });

  it('says what it does not take, also while much is still on its way, and takes the next', async () => {
    const { carrier, brought, bytes, archive } = await begin();
    expect((await archive()).status).toBe(200);
    const large = Buffer.concat([bytes, Buffer.alloc(20_000_000)]);
    expect(await carrier.takeArchive(await brought(large))).toMatchObject({ outcome: 'refused', why: 'drift' });
    const unknown = await brought(bytes, { host: 'unknown.example.test' });
    expect(await carrier.takeArchive(unknown)).toMatchObject({
      outcome: 'refused',
      why: 'excluded',
      reason: expect.stringContaining('unknown.example.test'),
    });
    expect((await carrier.takeArchive(await brought(bytes, { version: '2.0.0' }))).outcome).toBe('imported');
  });

  it('ends a command whose token is no good', async () => {
    const { larder, brought, bytes } = await begin();
    const carrier = await ServerCarrier.at(larder.url, { token: 'another-token', ca: larder.setup.caFile });
    afterTest(() => carrier.close());
    await expect(carrier.takeArchive(await brought(bytes))).rejects.toMatchObject({ code: 'COMMAND_FAILED' });
  });
});
