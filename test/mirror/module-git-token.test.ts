import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, it, onTestFinished } from 'vitest';
import { GitHost } from '../support/git-host.ts';
import { describeWith } from '../support/requirements.ts';
import { NET, startModuleScene } from './module-scene.ts';
import { startRegistry } from './scene.ts';

describeWith(['git'], 'the token file of a git host', () => {
  it('that is away while the secret is rotated is trouble that passes', async () => {
    const directory = await mkdtemp(join(tmpdir(), 'larder-git-token-'));
    onTestFinished(() => rm(directory, { recursive: true, force: true }));
    const tokenFile = join(directory, 'token');
    await writeFile(tokenFile, 'git-secret-71aa');
    const git = await GitHost.start({ token: 'git-secret-71aa' });
    await git.addRepository('net.git', { 'main.tf': 'one' }, { tags: ['v1.0.0'] });
    const registry = await startRegistry();
    registry.addModule({ ...NET, version: '1.0.0', location: `git::${git.url}/net.git?ref=v1.0.0` });
    const config = { modules: { git: { [git.hostname]: { tokenFile } } } };
    const { download, link } = await startModuleScene({ registry, config, env: { PATH: process.env['PATH'] } });

    await rm(tokenFile);
    const refused = await download();
    expect(refused.status).toBe(502);
    expect(refused.json()).toMatchObject({
      code: 'UPSTREAM_UNREACHABLE',
      errors: [expect.stringMatching(`^${git.hostname} is not asked: .*token file`)],
    });
    await writeFile(tokenFile, 'git-secret-71aa');
    expect((await link()).checksum).toMatch(/^sha256:/);
  });
});
