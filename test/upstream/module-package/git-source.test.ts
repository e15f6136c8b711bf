import { randomBytes } from 'node:crypto';
import { expect, test } from 'vitest';
import { GitHost } from '../../support/git-host.ts';
import { describeWith } from '../../support/requirements.ts';
import { failureOf } from '../scripted-server.ts';
import { gitScene, processesWith } from './git-scene.ts';

describeWith(['git'], 'a repository over https', () => {
  test('a tag, an annotated tag, a branch with slashes, a commit, a short one and the default branch are found', async () => {
    const host = await GitHost.start();
    const repository = await host.addRepository('platform/vpc.git', { 'main.tf': 'one' }, { tags: ['v1.0.0'] });
    const first = await repository.commitOf('v1.0.0');
    const second = await repository.commit({ 'main.tf': 'two' }, { annotatedTags: ['v2.0.0'] });
    const topic = await repository.commit({ 'main.tf': 'topic' }, { branch: 'feature/with/slashes' });
    const third = await repository.commit({ 'main.tf': 'three' });
    const url = `${host.url}/platform/vpc.git`;
    const { fetch, resolve } = await gitScene();

    for (const [ref, commit, content] of [
      ['v1.0.0', first, 'one'],
      ['v2.0.0', second, 'two'],
      ['feature/with/slashes', topic, 'topic'],
      [first, first, 'one'],
      [second.toUpperCase(), second, 'two'],
      [undefined, third, 'three'],
      ['main', third, 'three'],
    ] as const) {
      expect([ref, await fetch(url, ref)]).toEqual([ref, { commit, files: { 'main.tf': content } }]);
      expect([ref, await resolve(url, ref)]).toEqual([ref, commit]);
    }
    expect(await fetch(url, second.slice(0, 10))).toEqual({ commit: second, files: { 'main.tf': 'two' } });
    expect(await resolve(url, second.slice(0, 10))).toBeUndefined();
  });

  test('only the one commit is fetched, not its history', async () => {
    const host = await GitHost.start();
    const ballast = randomBytes(300_000);
    const repository = await host.addRepository('vpc', { ballast });
    await repository.commit({ 'main.tf': 'small' }, { tags: ['v1'] });
    const { fetch } = await gitScene({ limits: { download: 100_000 } });
    expect((await fetch(`${host.url}/vpc`, 'v1')).files).toEqual({ 'main.tf': 'small' });
  });

  test('a host that gives out no single commits is asked for all of them', async () => {
    const host = await GitHost.start();
    host.speaksVersion2 = false;
    const repository = await host.addRepository('vpc', { 'main.tf': 'one' });
    const first = await repository.commitOf('main');
    const second = await repository.commit({ 'main.tf': 'two' }, { tags: ['v2'] });
    const { fetch } = await gitScene();
    expect(await fetch(`${host.url}/vpc`, first)).toEqual({ commit: first, files: { 'main.tf': 'one' } });
    expect(await fetch(`${host.url}/vpc`, second)).toMatchObject({ commit: second });
    expect(await fetch(`${host.url}/vpc`, 'v2')).toMatchObject({ commit: second });
  });

  test('files come as they are in the repository: modes, links, empty and large ones, whatever .gitattributes says', async () => {
    const host = await GitHost.start();
    const large = 'x'.repeat(3_000_000);
    await host.addRepository('vpc', {
      'run.sh': { executable: '#!/bin/sh\n' },
      'modules/a/main.tf': 'a',
      'modules/b': { link: 'a' },
      outside: { link: '../../../etc/passwd' },
      '.gitattributes': '* export-ignore ident\n*.tf filter=lfs eol=crlf\n',
      'ident.tf': '$Id$\n',
      empty: '',
      'tools/large.bin': large,
      'ünïcode name.tf': 'ü',
    });
    const { fetch, leftovers } = await gitScene();
    expect((await fetch(`${host.url}/vpc`)).files).toEqual({
      'run.sh': '#!/bin/sh\n*',
      'modules/a/main.tf': 'a',
      'modules/b': '-> a',
      outside: '-> ../../../etc/passwd',
      '.gitattributes': '* export-ignore ident\n*.tf filter=lfs eol=crlf\n',
      'ident.tf': '$Id$\n',
      empty: '',
      'tools/large.bin': large,
      'ünïcode name.tf': 'ü',
    });
    expect(await leftovers()).toEqual([]);
  });

  test('a tag that was moved is seen', async () => {
    const host = await GitHost.start();
    const repository = await host.addRepository('vpc', { 'main.tf': 'one' }, { tags: ['v1'] });
    const { resolve } = await gitScene();
    const before = await resolve(`${host.url}/vpc`, 'v1');
    const moved = await repository.commit({ 'main.tf': 'other' }, { tags: ['v1'] });
    expect(before).not.toBe(moved);
    expect(await resolve(`${host.url}/vpc`, 'v1')).toBe(moved);
    // Nothing but the list of references was asked for.
    expect(host.requests.count('POST', /./)).toBe(0);
  });

  test.each(['v9', 'feature/none', '0'.repeat(39).concat('1'), '0000001', '--upload-pack=touch x', 'main:x', ''])(
    'a ref that is not there is absent: %j',
    async (ref) => {
      const host = await GitHost.start();
      await host.addRepository('platform/vpc', { 'main.tf': '' });
      const { fetch } = await gitScene();
      expect(await failureOf(fetch(`${host.url}/platform/vpc`, ref))).toMatchObject({
        code: 'NOT_FOUND',
        message: `${host.hostname} has no branch, tag or commit ${JSON.stringify(ref)} in /platform/vpc`,
      });
    },
  );

  test('a repository that is not there, or is empty, is absent', async () => {
    const host = await GitHost.start();
    const empty = await host.addRepository('empty', { x: '' });
    await empty.git('update-ref', '-d', 'refs/heads/main');
    const { fetch } = await gitScene();
    expect(await failureOf(fetch(`${host.url}/none`, 'v1'))).toMatchObject({
      code: 'NOT_FOUND',
      message: `${host.hostname} has no git repository /none`,
    });
    expect(await failureOf(fetch(`${host.url}/empty`))).toMatchObject({ code: 'NOT_FOUND' });
  });

  test('a host that is down is unreachable, and works again when it is back', async () => {
    const host = await GitHost.start();
    await host.addRepository('vpc', { 'main.tf': '1' });
    const { fetch } = await gitScene();
    await host.stop();
    expect(await failureOf(fetch(`${host.url}/vpc`))).toMatchObject({
      code: 'UPSTREAM_UNREACHABLE',
      reason: 'connection',
    });
    await host.restart();
    expect((await fetch(`${host.url}/vpc`)).files).toEqual({ 'main.tf': '1' });
  });

  test.each([
    [503, { code: 'UPSTREAM_UNREACHABLE', reason: 'failing' }],
    [429, { code: 'UPSTREAM_UNREACHABLE', reason: 'busy' }],
    [401, { code: 'UPSTREAM_REFUSED' }],
    [403, { code: 'UPSTREAM_REFUSED' }],
    [404, { code: 'NOT_FOUND' }],
    [302, { code: 'UPSTREAM_INVALID' }],
    [418, { code: 'UPSTREAM_INVALID' }],
  ])('trouble that begins only when git itself asks is told as what it is: %i', async (status, expected) => {
    const host = await GitHost.start();
    await host.addRepository('vpc', { 'main.tf': '1' });
    host.on(/^POST /, (_, response) => response.writeHead(status, { location: 'https://localhost:1/' }).end());
    const { fetch } = await gitScene();
    expect(await failureOf(fetch(`${host.url}/vpc`))).toMatchObject({
      message: expect.stringContaining(host.hostname),
      ...expected,
    });
  });
});

describeWith(['git'], 'credentials of a git host', () => {
  const refused = (host: GitHost) => ({
    code: 'UPSTREAM_REFUSED',
    host: host.hostname,
    message: `${host.hostname} refused access to /vpc, or has no such repository`,
    hint: expect.stringContaining(`modules.git."${host.hostname}"`),
  });
  async function privateHost() {
    const host = await GitHost.start({ token: 's3cret' });
    await host.addRepository('vpc', { 'main.tf': 'private' });
    return host;
  }
  const withToken = (host: string, token: string) => ({ hosts: new Map([[host, { token: async () => token }]]) });

  test('are needed where it asks for some', async () => {
    const host = await privateHost();
    const { fetch } = await gitScene();
    expect(await failureOf(fetch(`${host.url}/vpc`))).toMatchObject(refused(host));
  });

  test('go along with every request to it, as Basic', async () => {
    const host = await privateHost();
    const { fetch, resolve } = await gitScene(withToken(host.hostname, 's3cret'));
    expect((await fetch(`${host.url}/vpc`)).files).toEqual({ 'main.tf': 'private' });
    expect(await resolve(`${host.url}/vpc`)).toMatch(/^[0-9a-f]{40}$/);
    const expected = `Basic ${Buffer.from('x-access-token:s3cret').toString('base64')}`;
    expect(new Set(host.requests.all.map(({ headers }) => headers.authorization))).toEqual(new Set([expected]));
    expect(host.requests.count('POST', /git-upload-pack/)).toBeGreaterThan(0);
  });

  test('are for the modules of some registries only, where that is said', async () => {
    const host = await privateHost();
    const given = (registries: string[]) => ({
      hosts: new Map([[host.hostname, { token: async () => 's3cret', registries: new Set(registries) }]]),
    });
    const others = await gitScene(given(['registry.corp.example']));
    expect(await failureOf(others.fetch(`${host.url}/vpc`))).toMatchObject(refused(host));
    expect(host.requests.withCredentials()).toEqual([]);
    const own = await gitScene(given(['registry.example']));
    expect((await own.fetch(`${host.url}/vpc`)).files).toEqual({ 'main.tf': 'private' });
  });

  test('that are wrong are refused, and not shown', async () => {
    const host = await privateHost();
    const { fetch } = await gitScene(withToken(host.hostname, 'wr0ng'));
    const error = await failureOf(fetch(`${host.url}/vpc`));
    expect(error).toMatchObject(refused(host));
    expect(JSON.stringify([error.message, error])).not.toContain('wr0ng');
  });

  test('belong to this very host and port', async () => {
    const host = await privateHost();
    const { fetch } = await gitScene(withToken('localhost', 's3cret'));
    expect(await failureOf(fetch(`${host.url}/vpc`))).toMatchObject(refused(host));
    expect(host.requests.withCredentials()).toEqual([]);
  });

  test('that a location brings along are used, unless others are configured', async () => {
    const host = await privateHost();
    const url = `https://me:s3cret@${host.hostname}/vpc`;
    expect((await (await gitScene()).fetch(url)).files).toEqual({ 'main.tf': 'private' });
    const error = await failureOf((await gitScene(withToken(host.hostname, 'wr0ng'))).fetch(url));
    expect(error).toMatchObject(refused(host));
    expect(JSON.stringify([error.message, error])).not.toMatch(/s3cret|me:/);
  });

  test('are not taken along a redirect to another host, while git is told where it leads', async () => {
    const other = await GitHost.start();
    await other.addRepository('moved/vpc.git', { 'main.tf': 'moved' });
    const host = await privateHost();
    host.on(/^GET /, (request, response) => {
      response.writeHead(301, { location: `${other.url}/moved/vpc.git${request.url?.slice('/vpc'.length)}` }).end();
    });
    const { fetch } = await gitScene(withToken(host.hostname, 's3cret'));
    expect((await fetch(`${host.url}/vpc`)).files).toEqual({ 'main.tf': 'moved' });
    expect(host.requests.withCredentials()).toHaveLength(1);
    expect(other.requests.count(/./)).toBeGreaterThan(1);
    expect(other.requests.withCredentials()).toEqual([]);
  });

  test('are missing at a host that the first one sends on to, and that is said', async () => {
    const other = await GitHost.start({ token: 's3cret' });
    const host = await GitHost.start();
    host.on(/./, (request, response) => response.writeHead(302, { location: `${other.url}${request.url}` }).end());
    const { fetch } = await gitScene(withToken(other.hostname, 's3cret'));
    expect(await failureOf(fetch(`${host.url}/vpc`))).toMatchObject({
      code: 'UPSTREAM_REFUSED',
      message: `${host.hostname} sends on to ${other.hostname} for /vpc, which refused access`,
      hint: expect.stringContaining('not taken along'),
    });
  });

  test('are never among the arguments of a program', async () => {
    const host = await privateHost();
    let seen: Promise<string[]> | undefined;
    host.on(/^POST /, (_, response) => {
      seen = processesWith(host.hostname);
      void seen.then(() => response.writeHead(500).end());
    });
    const { fetch } = await gitScene(withToken(host.hostname, 's3cret'));
    await failureOf(fetch(`${host.url}/vpc`));
    const lines = (await seen) ?? [];
    expect(lines.length).toBeGreaterThan(0);
    const encoded = Buffer.from('x-access-token:s3cret').toString('base64');
    expect(lines.filter((line) => line.includes(encoded) || line.includes('s3cret'))).toEqual([]);
  });
});
