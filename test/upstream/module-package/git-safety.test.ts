import { randomBytes } from 'node:crypto';
import { access, chmod, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { deflateSync } from 'node:zlib';
import { afterEach, expect, onTestFinished, test, vi } from 'vitest';
import { gitProblem, gitVersion } from '../../../src/upstream/module-package/git-version.ts';
import { GitHost } from '../../support/git-host.ts';
import { describeWith } from '../../support/requirements.ts';
import { connectProxy, failureOf, serve } from '../scripted-server.ts';
import { expectNoProcessWith, gitScene, processesWith } from './git-scene.ts';

afterEach(() => void vi.unstubAllEnvs());

async function hostWithModule(content: Parameters<GitHost['addRepository']>[1] = { 'main.tf': 'vpc' }) {
  const host = await GitHost.start();
  await host.addRepository('vpc', content, { tags: ['v1'] });
  return host;
}

/** A directory whose `git` tells that it was started. */
async function fakeGit(script: string): Promise<{ directory: string; started: () => Promise<boolean> }> {
  const directory = await mkdtemp(join(tmpdir(), 'larder-fake-git-'));
  onTestFinished(() => rm(directory, { recursive: true, force: true }));
  const mark = join(directory, 'started');
  await writeFile(join(directory, 'git'), `#!/bin/sh\n: > ${mark}\n${script}\n`);
  await chmod(join(directory, 'git'), 0o755);
  const started = () =>
    access(mark).then(
      () => true,
      () => false,
    );
  return { directory, started };
}

function packet(...parts: readonly (string | Buffer)[]): Buffer {
  const content = Buffer.concat(parts.map((part) => Buffer.from(part)));
  return Buffer.concat([Buffer.from((content.length + 4).toString(16).padStart(4, '0')), content]);
}

/** A pack of files that goes on for ever, as the first protocol sends it. */
function* endlessPack(): Generator<Buffer> {
  yield packet('NAK\n');
  yield packet('\x01', Buffer.from('PACK\0\0\0\x02\0\x07\xff\xff', 'latin1'));
  // A file of 16,384 bytes: its kind (3) and size in groups of 4, 7 and 7 bits, then the content, deflated.
  for (;;) yield packet('\x01', Buffer.from([0xb0, 0x80, 0x08]), deflateSync(randomBytes(16_384)));
}

describeWith(['git'], 'fetching from git is bounded', () => {
  test.each(['GET', 'POST'])('a host that never answers is given up in time (%s)', async (method) => {
    const host = await hostWithModule();
    host.on(new RegExp(`^${method} `), () => {});
    const { fetch, leftovers } = await gitScene({ limits: { time: 3_000 } });
    expect(await failureOf(fetch(`${host.url}/vpc`))).toMatchObject({
      code: 'UPSTREAM_UNREACHABLE',
      reason: 'timeout',
    });
    await expectNoProcessWith(host.hostname);
    expect(await leftovers()).toEqual([]);
  });

  test('whoever loses interest leaves no process behind', async () => {
    const host = await hostWithModule();
    host.on(/^POST /, () => {});
    const { fetch, leftovers } = await gitScene();
    const interest = new AbortController();
    const fetched = failureOf(fetch(`${host.url}/vpc`, 'v1', interest.signal));
    await host.requests.arrival(/^POST /);
    expect((await processesWith(host.hostname)).length).toBeGreaterThan(0);
    interest.abort();
    expect(await fetched).toMatchObject({ code: 'UPSTREAM_UNREACHABLE', reason: 'timeout' });
    await expectNoProcessWith(host.hostname);
    expect(await leftovers()).toEqual([]);
  });

  test('what is too large to fetch is refused', async () => {
    const host = await hostWithModule({ 'large.bin': randomBytes(600_000) });
    const { fetch, leftovers } = await gitScene({ limits: { download: 500_000 } });
    expect(await failureOf(fetch(`${host.url}/vpc`))).toMatchObject({
      code: 'UPSTREAM_INVALID',
      message: `${host.hostname} has more than 500000 bytes in /vpc`,
      hint: expect.stringContaining('modules.limits.download'),
    });
    expect(await leftovers()).toEqual([]);
  });

  test('what does not end is refused while it is still coming', async () => {
    const host = await hostWithModule();
    const commit = (await (await gitScene()).resolve(`${host.url}/vpc`)) ?? '';
    host.speaksVersion2 = false;
    let stopped = () => {};
    const gone = new Promise<void>((resolve) => {
      stopped = resolve;
    });
    const boundary = Buffer.concat([packet(`shallow ${commit}`), Buffer.from('0000')]);
    host.on(/^POST /, (_, response) => {
      response.writeHead(200, { 'content-type': 'application/x-git-upload-pack-result' });
      response.write(boundary);
      if (host.requests.count(/^POST /) === 1) return response.end();
      response.once('close', stopped);
      Readable.from(endlessPack()).pipe(response);
    });
    const { fetch } = await gitScene({ limits: { download: 3_000_000 } });
    expect(await failureOf(fetch(`${host.url}/vpc`))).toMatchObject({
      code: 'UPSTREAM_INVALID',
      message: `${host.hostname} has more than 3000000 bytes in /vpc`,
    });
    await gone;
  });

  test('so is what unfolds to more than it may, in bytes or in number', async () => {
    const host = await hostWithModule({ zeros: Buffer.alloc(2_000_000) });
    const many = Object.fromEntries(Array.from({ length: 60 }, (_, index) => [`f${index}`, '']));
    await host.addRepository('many', many);
    const { fetch } = await gitScene({ limits: { unpacked: 1_000_000, files: 50 } });
    expect(await failureOf(fetch(`${host.url}/vpc`))).toMatchObject({
      code: 'UPSTREAM_INVALID',
      hint: expect.stringContaining('modules.limits.unpacked'),
    });
    expect(await failureOf(fetch(`${host.url}/many`))).toMatchObject({
      code: 'UPSTREAM_INVALID',
      hint: expect.stringContaining('modules.limits.files'),
    });
  });

  test('a tree that holds itself a million times over does not take memory or time', async () => {
    const host = await GitHost.start();
    const repository = await host.addRepository('bomb', { f: 'x' });
    let tree = (await repository.git('rev-parse', 'main^{tree}')).trim();
    for (let level = 0; level < 6; level++) {
      const lines = Array.from({ length: 10 }, (_, index) => `040000 tree ${tree}\td${index}`).join('\n');
      tree = (await repository.gitWith(`${lines}\n`, 'mktree')).trim();
    }
    const commit = (await repository.git('commit-tree', '-m', 'bomb', tree)).trim();
    await repository.git('update-ref', 'refs/heads/main', commit);
    const { fetch } = await gitScene();
    expect(await failureOf(fetch(`${host.url}/bomb`))).toMatchObject({
      code: 'UPSTREAM_INVALID',
      hint: expect.stringContaining('modules.limits.files'),
    });
  });
});

describeWith(['git'], 'fetching from git obeys the rules of everything that leaves', () => {
  test('sealed, nothing is asked and no program started', async () => {
    const host = await hostWithModule();
    const git = await fakeGit('exit 1');
    const { fetch, resolve } = await gitScene({ isSealed: () => true, searchPath: git.directory });
    for (const url of [`${host.url}/vpc`, 'ssh://git@localhost:1/vpc']) {
      expect(await failureOf(fetch(url))).toMatchObject({ code: 'UPSTREAM_UNREACHABLE', reason: 'sealed' });
      expect(await failureOf(resolve(url))).toMatchObject({ code: 'UPSTREAM_UNREACHABLE', reason: 'sealed' });
    }
    expect(host.requests.all).toEqual([]);
    expect(await git.started()).toBe(false);
  });

  test.each([
    'https://127.0.0.1:1/vpc',
    'https://localhost:1/vpc',
    'https://[::1]:1/vpc',
    'https://2130706433/vpc',
    'ssh://git@127.0.0.1/vpc',
    'ssh://git@localhost/vpc',
    'ssh://git@[::1]/vpc',
    'ssh://git@169.254.169.254/vpc',
    'git@localhost:vpc',
  ])('internal addresses are refused unless the upstream is on a private network: %s', async (url) => {
    const { resolve } = await gitScene({ upstream: { privateNetwork: false } });
    expect(await failureOf(resolve(url))).toMatchObject({
      code: 'UPSTREAM_INVALID',
      hint: expect.stringContaining('privateNetwork'),
    });
  });

  test('plain http is for private networks only, and never carries credentials', async () => {
    const server = await serve((_, response) => response.writeHead(404).end(), { plain: true });
    const url = `${server.origin}/vpc`;
    const there = await gitScene({ upstream: { privateNetwork: false } });
    expect(await failureOf(there.resolve(url))).toMatchObject({ code: 'UPSTREAM_INVALID' });
    const withToken = await gitScene({ hosts: new Map([[server.host, { token: async () => 's3cret' }]]) });
    expect(await failureOf(withToken.resolve(url))).toMatchObject({ code: 'UPSTREAM_INVALID' });
    expect(server.requests).toEqual([]);
    expect(await failureOf((await gitScene()).resolve(url))).toMatchObject({ code: 'NOT_FOUND' });
  });

  test('git goes through the egress proxy, unless NO_PROXY names the host', async () => {
    const host = await hostWithModule();
    const proxy = await connectProxy();
    const through = await gitScene({ proxy: { https: proxy.url } });
    expect((await through.fetch(`${host.url}/vpc`)).files).toEqual({ 'main.tf': 'vpc' });
    expect(proxy.asked.length).toBeGreaterThanOrEqual(2);
    expect(new Set(proxy.asked)).toEqual(new Set([host.hostname]));

    const before = proxy.asked.length;
    const around = await gitScene({ proxy: { https: proxy.url, no: 'example.com, localhost' } });
    expect((await around.fetch(`${host.url}/vpc`)).files).toEqual({ 'main.tf': 'vpc' });
    expect(proxy.asked).toHaveLength(before);
  });

  test('a certificate is trusted for the upstreams whose ca it comes from only', async () => {
    const host = await hostWithModule();
    const { fetch } = await gitScene({ upstream: { ca: undefined } });
    expect(await failureOf(fetch(`${host.url}/vpc`))).toMatchObject({
      code: 'UPSTREAM_UNREACHABLE',
      message: expect.stringMatching(/certificate/),
    });
  });
});

describeWith(['git'], 'git is run in an environment of its own', () => {
  test('what is set for Larder, or lies in its home, has no influence', async () => {
    const host = await hostWithModule();
    const home = await mkdtemp(join(tmpdir(), 'larder-home-'));
    onTestFinished(() => rm(home, { recursive: true, force: true }));
    await writeFile(join(home, '.gitconfig'), '[url "https://localhost:1/"]\n\tinsteadOf = https://localhost\n');
    for (const [name, value] of Object.entries({
      HOME: home,
      XDG_CONFIG_HOME: home,
      GIT_CONFIG_GLOBAL: join(home, '.gitconfig'),
      GIT_DIR: '/nonexistent',
      GIT_WORK_TREE: '/nonexistent',
      GIT_INDEX_FILE: '/nonexistent',
      GIT_OBJECT_DIRECTORY: '/nonexistent',
      GIT_CONFIG_COUNT: '1',
      GIT_CONFIG_KEY_0: 'http.proxy',
      GIT_CONFIG_VALUE_0: 'http://127.0.0.1:1',
      GIT_CONFIG_PARAMETERS: "'http.proxy'='http://127.0.0.1:1'",
      GIT_SSL_CAINFO: '/nonexistent',
      GIT_EXEC_PATH: '/nonexistent',
      GIT_TRACE: '1',
      https_proxy: 'http://127.0.0.1:1',
      HTTPS_PROXY: 'http://127.0.0.1:1',
    })) {
      vi.stubEnv(name, value);
    }
    const { fetch } = await gitScene();
    expect((await fetch(`${host.url}/vpc`)).files).toEqual({ 'main.tf': 'vpc' });
  });

  test('entries that would be part of a repository are refused', async () => {
    const host = await GitHost.start();
    const repository = await host.addRepository('vpc', { 'hooks/x': 'x' });
    const inner = (await repository.git('rev-parse', 'main:hooks')).trim();
    const tree = (await repository.gitWith(`040000 tree ${inner}\t.GIT\n`, 'mktree')).trim();
    const commit = (await repository.git('commit-tree', '-m', 'x', tree)).trim();
    await repository.git('update-ref', 'refs/heads/main', commit);
    const { fetch } = await gitScene();
    expect(await failureOf(fetch(`${host.url}/vpc`))).toMatchObject({ code: 'UPSTREAM_INVALID' });
  });

  test('where there is no git, or one that is too old, that is what is said', async () => {
    const host = await hostWithModule();
    const none = await gitScene({ searchPath: '/nonexistent' });
    expect(await failureOf(none.fetch(`${host.url}/vpc`))).toMatchObject({
      code: 'UPSTREAM_INVALID',
      message: expect.stringMatching(/there is no git/),
      hint: expect.stringMatching(/PATH/),
    });
    const old = await fakeGit('echo git version 2.30.2');
    const scene = await gitScene({ searchPath: old.directory });
    expect((await failureOf(scene.fetch(`${host.url}/vpc`))).message).toMatch(/is 2\.30, and 2\.37 or later is needed/);
    expect(await gitVersion('/nonexistent')).toBeUndefined();
    expect(gitProblem(await gitVersion(process.env['PATH']))).toBeUndefined();
    // Which commit a name stands for can be told without it.
    expect(await none.resolve(`${host.url}/vpc`, 'v1')).toMatch(/^[0-9a-f]{40}$/);
  });
});
