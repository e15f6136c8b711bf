import { expect, test } from 'vitest';
import { sshAccess } from '../../../src/upstream/module-package/git-ssh.ts';
import { describeWith } from '../../support/requirements.ts';
import { SshHost } from '../../support/ssh-host.ts';
import { failureOf, patience, upstreamAt } from '../scripted-server.ts';
import { expectNoProcessWith, gitScene, repositoryAt } from './git-scene.ts';

describeWith(['git', 'sshd'], 'R65: a repository over ssh', () => {
  async function sshScene() {
    const host = await SshHost.start();
    const repository = await host.repositories.add('platform/vpc.git', { 'main.tf': 'one' }, { annotatedTags: ['v1'] });
    const lib = await host.repositories.add('platform/lib.git', { 'lib.tf': 'lib' });
    const second = await repository.commit({
      'main.tf': 'two',
      '.gitmodules': '[submodule "lib"]\n\tpath = lib\n\turl = ../lib.git\n',
      lib: { submodule: await lib.commitOf('main') },
    });
    const access = (given: { sshKey?: string; knownHosts?: string }) => ({ hosts: new Map([[host.hostname, given]]) });
    return { host, repository, second, access, url: `${host.url}/platform/vpc.git` };
  }

  test('is fetched with the key of its host: tag, commit, default branch, submodules', async () => {
    const { host, repository, second, access, url } = await sshScene();
    const { fetch, resolve, leftovers } = await gitScene(access({ sshKey: host.key, knownHosts: host.knownHosts }));
    const first = await repository.commitOf('v1');
    expect(await fetch(url, 'v1')).toEqual({ commit: first, files: { 'main.tf': 'one' } });
    expect(await fetch(url, first)).toMatchObject({ commit: first });
    expect(await fetch(url)).toMatchObject({ commit: second, files: { 'main.tf': 'two', 'lib/lib.tf': 'lib' } });
    expect([await resolve(url, 'v1'), await resolve(url)]).toEqual([first, second]);
    expect(await failureOf(fetch(url, 'v9'))).toMatchObject({ code: 'NOT_FOUND' });
    expect(await failureOf(fetch(`${host.url}/platform/none.git`))).toMatchObject({
      code: 'NOT_FOUND',
      message: `${host.hostname} has no git repository /platform/none.git`,
    });
    expect(await leftovers()).toEqual([]);
  });

  test('without a key, or with one that is not let in, is refused at once', async () => {
    const { host, access, url } = await sshScene();
    for (const given of [{}, { sshKey: host.strangersKey }, { sshKey: '/nonexistent/key' }]) {
      const { resolve } = await gitScene(access({ ...given, knownHosts: host.knownHosts }));
      const error = await failureOf(resolve(url));
      expect(error).toMatchObject({
        code: 'UPSTREAM_REFUSED',
        message: `${host.hostname} refused access to /platform/vpc.git over ssh`,
        hint: expect.stringContaining(`sshKey of modules.git."${host.hostname}"`),
      });
      expect(JSON.stringify([error.message, error])).not.toContain(host.strangersKey);
    }
  });

  test('of a host whose key is unknown, or another one, is refused at once', async () => {
    const { host, access, url } = await sshScene();
    for (const knownHosts of ['/dev/null', await host.wrongKnownHosts()]) {
      const { resolve } = await gitScene(access({ sshKey: host.key, knownHosts }));
      expect(await failureOf(resolve(url))).toMatchObject({
        code: 'UPSTREAM_REFUSED',
        message: expect.stringMatching(/host key/),
        hint: expect.stringContaining(`knownHosts of modules.git."${host.hostname}"`),
      });
    }
  });

  test('of a host that is down is unreachable', async () => {
    const { host, access, url } = await sshScene();
    await host.stop();
    const { resolve } = await gitScene(access({ sshKey: host.key, knownHosts: host.knownHosts }));
    expect(await failureOf(resolve(url))).toMatchObject({ code: 'UPSTREAM_UNREACHABLE', reason: 'connection' });
    await expectNoProcessWith(host.hostname);
  });
});

test.each([
  'ssh://-oProxyCommand=touch/vpc',
  'ssh://git@-oProxyCommand=touch/vpc',
  'ssh://-l@git.example/vpc',
  'ssh://git@git.example/--upload-pack=touch',
  'ssh://git@git.example/%0aProxyCommand',
  'ssh://git@$(touch)/vpc',
  'ssh://git@git.example/',
])('R65: nothing in an address is an option or a command for ssh: %s', async (text) => {
  const url = new URL(text);
  const access = sshAccess({ url, host: url.host }, undefined, await upstreamAt('registry.example'), patience());
  expect(await failureOf(access)).toMatchObject({ code: 'UPSTREAM_INVALID' });
});

test('R65: ssh asks nobody, and a key file may be called anything', async () => {
  const files = { sshKey: '/keys/it\'s a "key" 100%', knownHosts: '/keys/known hosts' };
  const repository = repositoryAt('ssh://git@git.example:2222/vpc.git');
  const { url, variables } = await sshAccess(repository, files, await upstreamAt('registry.example'), patience());
  expect(url).toBe('ssh://git@git.example:2222/vpc.git');
  const command = variables['GIT_SSH_COMMAND'];
  expect(command).toMatch(/^ssh -F \/dev\/null /);
  for (const option of ['BatchMode=yes', 'StrictHostKeyChecking=yes', 'IdentitiesOnly=yes', 'ForwardAgent=no']) {
    expect(command).toContain(`-o ${option}`);
  }
  expect(command).toContain(`-o 'IdentityFile="/keys/it'\\''s a \\"key\\" 100%%"'`);
  expect(command).toContain(`-o 'UserKnownHostsFile="/keys/known hosts"'`);
});
