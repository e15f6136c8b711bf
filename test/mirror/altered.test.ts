import { existsSync } from 'node:fs';
import { readFile, utimes, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { altered } from '../contract/archive-store.ts';
import { status } from '../support/faults.ts';
import { startModuleScene } from './module-scene.ts';
import { archiveName, hashesIn, type Scene, startScene, versionsIn } from './scene.ts';

const EVERYTHING = /./;
const ZIP = /GET .*\.zip/;
const TAR = /GET .*\.tar\.gz/;
const LONG_AGO = new Date('2024-01-01T00:00:00Z');

/** Writes a stored file as `change` has it, past the server. */
async function rewrite(file: string, change: (bytes: Buffer) => Buffer, at = LONG_AGO): Promise<void> {
  await writeFile(file, change(await readFile(file)));
  await utimes(file, at, at);
}

const asItIs = (bytes: Buffer) => bytes;
/** Neither the registry nor the host of its files answers any more. */
function away({ registry }: Scene): void {
  for (const origin of [registry, registry.releases]) origin.on(EVERYTHING, status(500));
}

/** Somebody may still be at it. */
const aMomentAgo = () => new Date(Date.now() - 1_000);

async function storedArchive(): Promise<{ scene: Scene; body: Buffer; file: string }> {
  const scene = await startScene();
  const { body } = await scene.archive();
  await scene.stored();
  const name = archiveName('1.0.0', 'linux_amd64');
  const home = join(scene.larder.setup.dataDirectory, 'providers', scene.registry.hostname, 'acme', 'widget');
  return { scene, body, file: join(home, name) };
}

describe('an archive that is altered on the disk of a running server', () => {
  it.each([
    ['long ago', () => LONG_AGO],
    ['a moment ago', aMomentAgo],
  ])('%s is fetched anew for the next who asks, and all who ask then', async (_, at) => {
    const { scene, body, file } = await storedArchive();
    await rewrite(file, altered, at());
    for (const answer of await Promise.all([scene.archive(), scene.archive(), scene.archive()])) {
      expect(answer.status).toBe(200);
      expect(body.equals(answer.body)).toBe(true);
    }
    expect(scene.registry.releases.requests.count(ZIP)).toBe(2);
    await scene.stored();
    expect(body.equals(await readFile(file))).toBe(true);
  });

  it('is given to nobody when upstream is gone, and counts as not stored', async () => {
    const { scene, file } = await storedArchive();
    away(scene);
    await rewrite(file, altered, aMomentAgo());
    expect((await scene.archive()).status).toBe(502);
    await rewrite(file, asItIs);
    expect((await scene.archive()).status).toBe(502);
    const { headers } = await scene.archive('1.0.0', 'linux_amd64', { method: 'HEAD' });
    expect(headers['last-modified']).toBeUndefined();
    expect(existsSync(file)).toBe(false);
    expect(scene.warnings('altered')).toHaveLength(1);
  });

  it('is fetched anew for part of it, too', async () => {
    const { scene, body, file } = await storedArchive();
    await rewrite(file, altered);
    const answer = await scene.archive('1.0.0', 'linux_amd64', { headers: { range: 'bytes=10-99' } });
    expect(body.subarray(answer.status === 206 ? 10 : 0, answer.status === 206 ? 100 : undefined)).toEqual(answer.body);
  });

  it('is served as it was when only its time has changed, sealed off or not, and fetched no second time', async () => {
    const { scene, body, file } = await storedArchive();
    const hashes = hashesIn(await scene.version('1.0.0'));
    away(scene);
    await rewrite(file, asItIs);
    expect(versionsIn(await scene.index())).toEqual(['1.0.0']);
    expect(body.equals((await scene.archive()).body)).toBe(true);
    expect(hashesIn(await scene.version('1.0.0'))).toEqual(expect.arrayContaining(hashes));
    expect(scene.registry.releases.requests.count(ZIP)).toBe(1);
    expect(scene.larder.log.filter(({ message }) => message.includes('is what it was'))).toHaveLength(1);
  });
});

describe('a module package that is altered on the disk of a running server', () => {
  it('is made anew for the next who asks, and given to nobody when upstream is gone', async () => {
    const scene = await startModuleScene();
    const { body } = await scene.package();
    const home = join(scene.larder.setup.dataDirectory, 'modules', scene.registry.hostname, 'acme', 'net', 'aws');
    const file = join(home, '1.0.0.tar.gz');
    const path = scene.packagePath();

    await rewrite(file, asItIs);
    expect(body.equals((await scene.get(path)).body)).toBe(true);
    expect(scene.registry.releases.requests.count(TAR)).toBe(1);

    await rewrite(file, altered, aMomentAgo());
    expect(body.equals((await scene.get(path)).body)).toBe(true);
    expect(scene.registry.releases.requests.count(TAR)).toBe(2);

    await rewrite(file, altered, new Date(LONG_AGO.getTime() + 1_000));
    away(scene);
    expect((await scene.get(path)).status).toBe(502);
    expect(existsSync(file)).toBe(false);
  });
});
