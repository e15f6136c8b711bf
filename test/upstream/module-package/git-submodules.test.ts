import { expect, test } from 'vitest';
import { GitHost } from '../../support/git-host.ts';
import { describeWith } from '../../support/requirements.ts';
import { failureOf } from '../scripted-server.ts';
import { gitScene } from './git-scene.ts';

const gitmodules = (...modules: readonly (readonly [name: string, path: string, url: string, more?: string])[]) =>
  modules
    .map(([name, path, url, more = '']) => `[submodule "${name}"]\n\tpath = ${path}\n\turl = ${url}\n\t${more}\n`)
    .join('');

/** A module with one submodule at `lib`, whose address is given. */
async function withSubmodule(host: GitHost, url: string, more = '') {
  const lib = await host.addRepository('shared/lib.git', { 'lib.tf': 'lib' });
  const commit = await lib.commitOf('main');
  // The branch has moved on since: the commit that was recorded is what counts.
  await lib.commit({ 'lib.tf': 'newer' });
  await host.addRepository('platform/vpc.git', {
    'main.tf': 'vpc',
    '.gitmodules': gitmodules(['lib', 'lib', url, more]),
    lib: { submodule: commit },
  });
  return `${host.url}/platform/vpc.git`;
}

describeWith(['git'], 'submodules', () => {
  test.each([
    ['relative', () => '../../shared/lib.git'],
    ['absolute', (host: GitHost) => `${host.url}/shared/lib.git`],
  ])('come along at the commit that was recorded: %s', async (_, address) => {
    const host = await GitHost.start();
    const url = await withSubmodule(host, address(host));
    const { fetch, leftovers } = await gitScene();
    expect((await fetch(url)).files).toMatchObject({ 'main.tf': 'vpc', 'lib/lib.tf': 'lib' });
    expect(await leftovers()).toEqual([]);
  });

  test('have submodules of their own, which are relative to them', async () => {
    const host = await GitHost.start();
    const inner = await host.addRepository('a/inner', { 'inner.tf': '1', link: { link: 'inner.tf' } });
    const outer = await host.addRepository('a/outer', {
      '.gitmodules': gitmodules(['in', 'deep/in', '../inner']),
      'deep/in': { submodule: await inner.commitOf('main') },
    });
    await host.addRepository('b/vpc', {
      '.gitmodules': gitmodules(['out', 'modules/out', '../../a/outer']),
      'modules/out': { submodule: await outer.commitOf('main') },
    });
    const { fetch } = await gitScene();
    expect((await fetch(`${host.url}/b/vpc`)).files).toMatchObject({
      'modules/out/deep/in/inner.tf': '1',
      'modules/out/deep/in/link': '-> inner.tf',
    });
  });

  test('of a private host are asked with the credentials of their own host, and no other', async () => {
    const open = await GitHost.start();
    const lib = await open.addRepository('lib', { 'lib.tf': 'open' });
    const host = await GitHost.start({ token: 's3cret' });
    const near = await host.addRepository('near', { 'near.tf': 'near' });
    await host.addRepository('vpc', {
      '.gitmodules': gitmodules(['near', 'near', '../near'], ['far', 'far', `${open.url}/lib`]),
      near: { submodule: await near.commitOf('main') },
      far: { submodule: await lib.commitOf('main') },
    });
    const { fetch } = await gitScene();
    const { files } = await fetch(`https://me:s3cret@${host.hostname}/vpc`);
    expect(files).toMatchObject({ 'near/near.tf': 'near', 'far/lib.tf': 'open' });
    expect(open.requests.withCredentials()).toEqual([]);
  });

  test('that clones leave out are left out', async () => {
    const host = await GitHost.start();
    const url = await withSubmodule(host, 'https://localhost:1/none', 'update = none');
    const { fetch } = await gitScene();
    expect(Object.keys((await fetch(url)).files)).toEqual(['.gitmodules', 'main.tf']);
  });

  test.each([
    ['file:///etc', /neither over https nor over ssh/],
    ['/etc', /neither over https nor over ssh/],
    ['ext::sh -c touch% /tmp/larder-was-here', /cannot be in it/],
    ['ext::sh', /neither over https nor over ssh/],
    ['git://localhost/lib', /neither over https nor over ssh/],
    ['ssh://-oProxyCommand=touch/lib', /host that cannot be one/],
    ['../../../lib.git', /leads out of its host/],
    ['https://localhost/lib?x=1', /cannot be in it/],
  ])('that lead to anything but a git host are refused: %s', async (address, message) => {
    const host = await GitHost.start();
    const url = await withSubmodule(host, address);
    const { fetch } = await gitScene();
    const error = await failureOf(fetch(url));
    expect(error).toMatchObject({ code: 'UPSTREAM_INVALID', message: expect.stringMatching(message) });
    expect(error.message).toContain('has a submodule "lib" in /platform/vpc.git');
  });

  test.each(['--upload-pack=touch', '-oProxyCommand=touch:lib'])(
    'whose address is an option come in a repository that git itself takes for damaged: %s',
    async (address) => {
      const host = await GitHost.start();
      const url = await withSubmodule(host, address);
      const { fetch } = await gitScene();
      expect(await failureOf(fetch(url))).toMatchObject({
        code: 'UPSTREAM_INVALID',
        message: expect.stringMatching(/sent damaged objects for \/platform\/vpc\.git: .*gitmodulesUrl/),
      });
    },
  );

  test('that are not there, or that nobody names, fail the package with their name', async () => {
    const host = await GitHost.start();
    const url = await withSubmodule(host, '../none.git');
    await host.addRepository('unnamed', { lib: { submodule: '1'.repeat(40) } });
    const { fetch } = await gitScene();
    expect(await failureOf(fetch(url))).toMatchObject({
      code: 'UPSTREAM_INVALID',
      message: `${host.hostname} needs a repository that is not there: ${host.hostname} has no git repository /platform/none.git (submodule "lib" of ${host.hostname}/platform/vpc.git)`,
    });
    expect(await failureOf(fetch(`${host.url}/unnamed`))).toMatchObject({
      code: 'UPSTREAM_INVALID',
      message: expect.stringMatching(/has a submodule "lib" in \/unnamed that its \.gitmodules does not name/),
    });
  });

  test('whose host is down or refuses keep the kind of their failure', async () => {
    const host = await GitHost.start();
    const other = await GitHost.start({ token: 's3cret' });
    const url = await withSubmodule(host, `${other.url}/lib`);
    const { fetch } = await gitScene();
    expect(await failureOf(fetch(url))).toMatchObject({
      code: 'UPSTREAM_REFUSED',
      host: other.hostname,
      message: expect.stringContaining('submodule "lib" of'),
      hint: expect.stringContaining(`modules.git."${other.hostname}"`),
    });
    await other.stop();
    expect(await failureOf(fetch(url))).toMatchObject({ code: 'UPSTREAM_UNREACHABLE', host: other.hostname });
  });

  test('within each other without end are refused, and so are too many', async () => {
    const host = await GitHost.start();
    const lib = await host.addRepository('lib', { x: '' });
    const commit = await lib.commitOf('main');
    let inner = commit;
    for (let depth = 6; depth >= 0; depth--) {
      const repository = await host.addRepository(`deep${depth}`, {
        '.gitmodules': gitmodules(['in', 'in', depth === 6 ? '../lib' : `../deep${depth + 1}`]),
        in: { submodule: inner },
      });
      inner = await repository.commitOf('main');
    }
    const { fetch } = await gitScene();
    expect(await failureOf(fetch(`${host.url}/deep0`))).toMatchObject({
      code: 'UPSTREAM_INVALID',
      message: expect.stringMatching(/more than 5 deep/),
    });
  });
});
