import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { UpstreamRefused } from '../../../src/errors.ts';
import { silentLogger } from '../../../src/logger.ts';
import type { GitSource } from '../../../src/upstream/module-package/git-source.ts';
import { ModulePackages } from '../../../src/upstream/module-package.ts';
import { clientFor, patience, upstreamAt } from '../scripted-server.ts';
import { repositoryAt } from './git-scene.ts';

test('a package can be made where an attempt before it ended half-way', async () => {
  const directory = await mkdtemp(join(tmpdir(), 'larder-second-attempt-'));
  onTestFinished(() => rm(directory, { recursive: true, force: true }));
  let attempts = 0;
  const fetch: GitSource['fetch'] = async (_upstream, repository, _ref, tree) => {
    attempts += 1;
    await tree.addFile('main.tf', { executable: false, size: 3 }, contentOf('one'));
    if (attempts === 1) throw new UpstreamRefused(repository.host, 'refused access to a submodule');
    return { commit: 'a'.repeat(40) };
  };
  const packages = new ModulePackages({
    http: clientFor(),
    git: { fetch, resolve: async () => undefined },
    limits: { download: 1_000, unpacked: 1_000, files: 10, time: 60_000 },
    logger: silentLogger,
  });
  onTestFinished(() => packages.close());
  const location = {
    kind: 'git',
    repository: repositoryAt('https://git.example.com/net'),
    ref: undefined,
    subdir: '',
  } as const;
  const access = { upstream: await upstreamAt('registry.example.com'), authenticate: false };
  const make = () => packages.make(location, access, directory, patience());
  await expect(make()).rejects.toMatchObject({ code: 'UPSTREAM_REFUSED' });
  const { file, size } = await make();
  expect(await readFile(file)).toHaveLength(size);
});

async function* contentOf(text: string) {
  yield Buffer.from(text);
}
