import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, test, vi } from 'vitest';
import { GitHost } from '../../support/git-host.ts';
import { describeWith } from '../../support/requirements.ts';
import { SshHost } from '../../support/ssh-host.ts';
import { failureOf } from '../scripted-server.ts';
import { gitScene } from './git-scene.ts';

const asked = vi.hoisted(() => ({ names: [] as string[] }));

// A name that only we know, and that stands for loopback as if that were a public address: whoever looks it up anew
// finds nothing.
vi.mock('../../../src/upstream/address-guard.ts', async (original) => {
  const guard = await original<typeof import('../../../src/upstream/address-guard.ts')>();
  const lookupPublic = (name: string, options: { all?: boolean }, callback: (...found: unknown[]) => void) => {
    asked.names.push(name);
    if (name !== 'git.example') return callback(new guard.AddressNotAllowed(`${name} has no public address`), []);
    if (options.all) callback(null, [{ address: '127.0.0.1', family: 4 }]);
    else callback(null, '127.0.0.1', 4);
  };
  return { ...guard, lookupPublic };
});

const upstream = { privateNetwork: false };

describeWith(['git'], 'R33: the address that was checked is the one that git connects to', () => {
  test('over https', async () => {
    const host = await GitHost.start({ names: ['git.example'] });
    await host.addRepository('vpc', { 'main.tf': 'vpc' });
    const { fetch } = await gitScene({ upstream });
    expect((await fetch(`https://git.example:${host.port}/vpc`)).files).toEqual({ 'main.tf': 'vpc' });
    expect(asked.names).toContain('git.example');
  });

  test('and a name that stands for an internal one is refused', async () => {
    const { resolve } = await gitScene({ upstream });
    for (const url of ['https://inside.example/vpc', 'ssh://git@inside.example/vpc']) {
      expect(await failureOf(resolve(url))).toMatchObject({
        code: 'UPSTREAM_INVALID',
        hint: expect.stringContaining('privateNetwork'),
      });
    }
  });
});

describeWith(['git', 'sshd'], 'R33: likewise over ssh', () => {
  test('where the host key is still looked for by the name', async () => {
    const host = await SshHost.start();
    await host.repositories.add('vpc', { 'main.tf': 'vpc' });
    const access = { sshKey: host.key, knownHosts: host.knownHosts };
    const { fetch, directory } = await gitScene({ upstream, hosts: new Map([[`git.example:${host.port}`, access]]) });
    const url = `ssh://${host.user}@git.example:${host.port}/vpc`;
    expect(await failureOf(fetch(url))).toMatchObject({ code: 'UPSTREAM_REFUSED' });

    access.knownHosts = join(directory, 'known_hosts');
    await writeFile(access.knownHosts, (await readFile(host.knownHosts, 'utf8')).replace('localhost', 'git.example'));
    expect((await fetch(url)).files).toEqual({ 'main.tf': 'vpc' });
  });
});
