import { expect, it } from 'vitest';
import { holdAfter } from '../support/faults.ts';
import { moduleTarGz } from '../support/module-archive.ts';
import { NET, netFiles, startModuleScene } from './module-scene.ts';
import { eventually, startRegistry } from './scene.ts';

const ARCHIVE = /GET .*\.tar\.gz/;

it.each<[string, { top?: string }, string]>([
  ['modules/sub', {}, 'modules/sub'],
  ['*/modules/sub', { top: 'acme-net-1' }, 'modules/sub'],
])('the directory %s is the same before its package is made and afterwards', async (given, options, told) => {
  const registry = await startRegistry();
  const archive = registry.addModuleArchive('/net/1.0.0.tar.gz', moduleTarGz(netFiles('1.0.0'), options));
  registry.addModule({ ...NET, version: '1.0.0', location: `${archive.url}//${given}` });
  const { link, get } = await startModuleScene({ registry, config: { limits: { metadataDeadline: '1s' } } });
  const hold = holdAfter(100);
  registry.releases.on(ARCHIVE, hold.fault);
  const before = await link();
  expect(before).toMatchObject({ checksum: undefined, subdir: told });
  hold.release();
  expect((await get(before.path)).status).toBe(200);
  expect(await link()).toMatchObject({ checksum: expect.stringContaining('sha256:'), subdir: told });
});

it('a directory whose name clients would not find is told once its package is made, by a name that they find', async () => {
  const registry = await startRegistry();
  const files = { ...netFiles('1.0.0'), '{blue}/sub/main.tf': 'output "x" { value = 1 }\n' };
  const archive = registry.addModuleArchive('/net/1.0.0.tar.gz', moduleTarGz(files));
  registry.addModule({ ...NET, version: '1.0.0', location: `${archive.url}//{blue}/sub` });
  const { download, link } = await startModuleScene({ registry, config: { limits: { metadataDeadline: '1s' } } });
  const hold = holdAfter(100);
  registry.releases.on(ARCHIVE, hold.fault);
  expect((await download()).status).toBe(503);
  hold.release();
  await eventually(async () => (await download()).status).toBe(204);
  expect(await link()).toMatchObject({ subdir: '_blue_/sub' });
});
