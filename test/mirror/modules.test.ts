import { createHash } from 'node:crypto';
import { readdir, truncate } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { holdAfter, status } from '../support/faults.ts';
import { GitHost } from '../support/git-host.ts';
import { moduleTarGz, moduleZip, readTarGz } from '../support/module-archive.ts';
import type { LocationDialect } from '../support/published-module.ts';
import { requirement } from '../support/requirements.ts';
import { moduleVersionsIn, NET, netFiles, publishNet, startModuleScene } from './module-scene.ts';
import { startRegistry, stoppedClock } from './scene.ts';

const LOCATION = /GET .*\/download$/;
const ARCHIVE = /GET .*\.(tar\.gz|zip)/;
const EVERYTHING = /./;
const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;

/** The only one that lies in a data directory. */
async function theStoredPackage(dataDirectory: string): Promise<string> {
  const directory = join(dataDirectory, 'modules');
  const [found, ...more] = (await readdir(directory, { recursive: true })).filter((name) => name.endsWith('.tar.gz'));
  expect(more).toEqual([]);
  return join(directory, found as string);
}

const digestOf = (bytes: Buffer) => `sha256:${createHash('sha256').update(bytes).digest('hex')}`;

describe('versions of a module', () => {
  it('are canonical and sifted, whatever upstream lists besides, and each is found under its published name', async () => {
    const { registry, moduleVersions, package: get, warnings } = await startModuleScene({ versions: ['1.0.0'] });
    for (const version of ['v1.2.0', '4.0', '2.0.0-beta.1']) publishNet(registry, version, { strictSpelling: true });
    registry.addModuleGarbage(NET, 'latest', '', 'v', 'not-a-version');

    const answer = await moduleVersions();
    expect(answer.headers['content-type']).toBe('application/json');
    expect(moduleVersionsIn(answer)).toEqual(['4.0.0', '2.0.0-beta.1', '1.2.0', '1.0.0']);
    expect(warnings('not versions')).toHaveLength(1);
    for (const [version, published] of [
      ['1.2.0', 'v1.2.0'],
      ['4.0.0', '4.0'],
      ['2.0.0-beta.1', '2.0.0-beta.1'],
    ] as const) {
      const entries = await readTarGz((await get(version)).body);
      expect(entries.get('main.tf')?.content).toContain(`"${published}"`);
    }
  });

  it('that are stored stay, also when upstream drops them, is gone, or Larder is sealed', async () => {
    const clock = stoppedClock();
    const scene = await startModuleScene({ versions: ['1.0.0', '2.0.0'] });
    const { registry, moduleVersions, package: get } = scene;
    expect((await get('1.0.0')).status).toBe(200);
    registry.removeModule({ ...NET, version: '1.0.0' });
    clock.advance(HOUR_MS);
    expect(moduleVersionsIn(await moduleVersions())).toEqual(['2.0.0', '1.0.0']);
    registry.removeModule(NET);
    clock.advance(HOUR_MS);
    expect(moduleVersionsIn(await moduleVersions())).toEqual(['1.0.0']);

    await registry.stop();
    clock.advance(HOUR_MS);
    expect(moduleVersionsIn(await moduleVersions())).toEqual(['1.0.0']);
    await scene.larder.close();
    const { dataDirectory } = scene.larder.setup;
    const sealed = await startModuleScene({ registry, config: { sealed: true, data: dataDirectory } });
    expect(moduleVersionsIn(await sealed.moduleVersions())).toEqual(['1.0.0']);
    expect((await sealed.package('1.0.0')).status).toBe(200);
    const missing = await sealed.download('2.0.0');
    expect(missing.status).toBe(503);
    expect(missing.json().errors[0]).toContain('sealed');
  });

  it('R47: are served stale, and say so, while upstream is in trouble', async () => {
    const clock = stoppedClock();
    const { registry, moduleVersions } = await startModuleScene({ versions: ['1.0.0', '2.0.0'] });
    await moduleVersions();
    registry.on(EVERYTHING, status(503));
    clock.advance(DAY_MS);
    const answer = await moduleVersions();
    expect(moduleVersionsIn(answer)).toEqual(['2.0.0', '1.0.0']);
    expect(answer.headers['warning']).toContain('110');
    expect(Number(answer.headers['age'])).toBeGreaterThanOrEqual(DAY_MS / 1000);
  });

  it('R09: a version that was published after the list was fetched is found by who asks for it', async () => {
    const clock = stoppedClock();
    const { registry, moduleVersions, package: get } = await startModuleScene();
    await moduleVersions();
    publishNet(registry, '1.1.0');
    clock.advance(11_000);
    expect((await get('1.1.0')).status).toBe(200);
  });

  it('M10: upstream is asked in the case in which a module is written, and there is one package for all cases', async () => {
    const { registry, link, package: get } = await startModuleScene();
    const written = await link('1.0.0', 'Acme/Net/aws');
    const first = await get('1.0.0', 'Acme/Net/aws');
    expect(first.status).toBe(200);
    expect(registry.requests.count(/\/v1\/modules\/Acme\/Net\/aws\/1\.0\.0\/download/)).toBe(1);
    await registry.stop();
    const lower = await link('1.0.0', 'acme/net/aws');
    expect(lower.checksum).toBe(written.checksum);
    expect((await get('1.0.0', 'acme/net/aws')).body.equals(first.body)).toBe(true);
  });
});

describe('the location of a module', () => {
  it.each<LocationDialect>(['header', 'both', 'json', 'empty-200-header', 'object-200-header', 'html-200-header'])(
    'R10, R11: upstream may name it in the dialect %s; clients get the one that all of them understand',
    async (dialect) => {
      const { registry, download, link, package: get } = await startModuleScene({ versions: [] });
      publishNet(registry, '1.0.0', { dialect });
      const answer = await download();
      expect([answer.status, answer.body.length]).toEqual([204, 0]);
      expect(answer.headers['x-terraform-get']).toMatch(
        /^\.\/acme-net-aws-1\.0\.0\.tar\.gz\?checksum=sha256:[0-9a-f]{64}$/,
      );
      const { body } = await get();
      expect((await link()).checksum).toBe(digestOf(body));
      expect((await readTarGz(body)).get('main.tf')?.content).toContain('"1.0.0"');
    },
  );

  it('R12: no answer names a host of upstream', async () => {
    const { registry, moduleVersions, download, package: get } = await startModuleScene();
    for (const answer of [await moduleVersions(), await download(), await get()]) {
      const told =
        JSON.stringify(answer.headers) + (answer.headers['content-type'] === 'application/gzip' ? '' : answer.text());
      expect(told).not.toContain(registry.hostname);
      expect(told).not.toContain(registry.releases.hostname);
    }
  });

  it.each([
    ['below the registry’s root', '/archives/net/1.0.0.tar.gz'],
    ['beside the answer', './../../../../../../../archives/net/1.0.0.tar.gz'],
    ['above the answer', '../../../../../../archives/net/1.0.0.tar.gz'],
  ])('R11: may be relative to where it was asked: %s', async (_where, location) => {
    const { registry, package: get } = await startModuleScene({ versions: [] });
    publishNet(registry, '1.0.0', { location });
    expect((await get()).status).toBe(200);
    expect(registry.requests.count('GET', /^\/archives\/net\/1\.0\.0\.tar\.gz$/)).toBe(1);
  });

  it('R26: an archive with one directory around it, a path in it and a signature in the query', async () => {
    const { registry, link, package: get } = await startModuleScene({ versions: [] });
    const archive = registry.addModuleArchive(
      '/source.zip',
      await moduleZip(netFiles('1.0.0'), { top: 'acme-net-c0ffee' }),
    );
    registry.addModule({
      ...NET,
      version: '1.0.0',
      location: `${archive.url}//*/modules/sub?presign=abc%2Fd+e%20f&archive=zip`,
    });
    expect((await link()).subdir).toBe('modules/sub');
    const entries = await readTarGz((await get()).body);
    expect(entries.get('modules/sub/main.tf')?.content).toContain('"1.0.0"');
    expect(entries.get('main.tf')?.content).toContain('"1.0.0"');
    const asked = registry.releases.requests.filter('GET', /source/).map(({ path }) => path);
    expect(asked).toEqual(['/source.zip?presign=abc%2Fd+e%20f']);
  });

  it('R25: clients of all versions get one answer, which upstream is asked for as by one client', async () => {
    const { registry, download } = await startModuleScene();
    const answers = [];
    for (const version of ['0.12.10', '1.11.4', undefined]) {
      const headers = version === undefined ? {} : { 'x-terraform-version': version };
      answers.push((await download('1.0.0', 'acme/net/aws', { headers })).headers['x-terraform-get']);
    }
    expect(new Set(answers).size).toBe(1);
    const [asked, ...more] = registry.requests.filter(LOCATION);
    expect(asked?.headers['x-terraform-version']).toMatch(/^1\.\d+\.\d+$/);
    expect(more).toEqual([]);
  });

  it.each<[string, string]>([
    ['s3', 's3::https://s3.eu-central-1.amazonaws.com/bucket/net.zip'],
    ['gcs', 'gcs::https://www.googleapis.com/storage/v1/modules/net.zip'],
    ['hg', 'hg::https://hg.example.test/net'],
  ])(
    '%s is nothing for a mirror: clients are sent there, or told so, as the operator likes',
    async (scheme, location) => {
      const passing = await startModuleScene({ versions: [] });
      const { registry } = passing;
      registry.addModule({ ...NET, version: '1.0.0', location });
      const passed = await passing.download();
      expect([passed.status, passed.headers['x-terraform-get']]).toEqual([204, location]);

      const refusing = await startModuleScene({ registry, config: { modules: { unsupported: 'refuse' } } });
      const refused = await refusing.download();
      expect(refused.status).toBe(501);
      expect(refused.json().errors[0]).toContain(registry.hostname);
      expect(refused.json().errors[0]).toContain(scheme);
      expect(refused.json().hint).toContain('modules.unsupported');
    },
  );

  it('that is no archive is passed on in full: it is relative to the registry, not to Larder', async () => {
    const { registry, download } = await startModuleScene({ versions: [] });
    registry.addModule({ ...NET, version: '1.0.0', location: '/../../modules/net//sub?v=1' });
    expect((await download()).headers['x-terraform-get']).toBe(`${registry.url}/modules/net//sub?v=1`);
  });

  it.each<[string, string]>([
    ['plain http', 'http://localhost:9/net.tar.gz'],
    ['a file', 'file:///etc/passwd'],
    ['a command', 'git::ext::sh -c touch% /tmp/pwned'],
    ['an option', 'git::--upload-pack=touch'],
    ['another module', 'acme/other/aws'],
    ['nothing', ''],
  ])('that is %s is refused, and the registry is named', async (_what, location) => {
    const { registry, download } = await startModuleScene({ versions: [] });
    registry.addModule({ ...NET, version: '1.0.0', location });
    const answer = await download();
    expect([404, 502]).toContain(answer.status);
    expect(answer.json().errors[0]).toContain('localhost');
  });
});

describe('the package of a module', () => {
  it('is flat, has what upstream has, and is to be had whole, in part, and by its validator', async () => {
    const { registry, packagePath, package: get, get: ask } = await startModuleScene({ versions: [] });
    const files = { ...netFiles('1.0.0'), 'bin/run.sh': { content: '#!/bin/sh\n', executable: true } } as const;
    publishNet(registry, '1.0.0', { files });
    const cold = await get();
    expect(cold.status).toBe(200);
    expect(cold.headers).toMatchObject({
      'content-type': 'application/gzip',
      'content-length': String(cold.body.length),
      'accept-ranges': 'bytes',
    });
    expect(cold.headers['cache-control']).toContain('immutable');
    expect(cold.headers).not.toHaveProperty('content-encoding');
    const entries = await readTarGz(cold.body);
    expect([...entries.keys()].filter((path) => !path.endsWith('/')).toSorted()).toEqual(Object.keys(files).toSorted());
    expect((entries.get('bin/run.sh')?.mode ?? 0) & 0o111).not.toBe(0);
    expect((entries.get('main.tf')?.mode ?? 0o111) & 0o111).toBe(0);

    const etag = cold.headers['etag'] ?? '';
    expect(etag).toMatch(/^"/);
    const part = await ask(packagePath(), { headers: { range: 'bytes=10-19', 'if-range': etag } });
    expect([part.status, part.headers['content-range']]).toEqual([206, `bytes 10-19/${cold.body.length}`]);
    expect(part.body.equals(cold.body.subarray(10, 20))).toBe(true);
    const tail = await ask(packagePath(), { headers: { range: 'bytes=-5' } });
    expect(tail.body.equals(cold.body.subarray(-5))).toBe(true);
    expect((await ask(packagePath(), { headers: { range: `bytes=${cold.body.length}-` } })).status).toBe(416);
    expect((await ask(packagePath(), { headers: { 'if-none-match': etag } })).status).toBe(304);
    const head = await ask(packagePath(), { method: 'HEAD', headers: { 'accept-encoding': 'gzip' } });
    expect([head.status, head.headers['content-length'], head.headers['etag']]).toEqual([
      200,
      String(cold.body.length),
      etag,
    ]);
  });

  it('C2: HEAD has its length or none, and never makes it', async () => {
    const { registry, packagePath, package: get, get: ask } = await startModuleScene();
    const cold = await ask(packagePath(), { method: 'HEAD' });
    expect(cold.status).toBe(200);
    expect(cold.headers).not.toHaveProperty('content-length');
    expect(registry.releases.requests.all).toEqual([]);
    const { body } = await get();
    expect((await ask(packagePath(), { method: 'HEAD' })).headers['content-length']).toBe(String(body.length));
  });

  it('is to be had by its path alone, and by no other name', async () => {
    const { packagePath, get } = await startModuleScene();
    expect((await get(packagePath())).status).toBe(200);
    for (const wrong of [
      'acme-net-aws-1.0.1.tar.gz',
      'net.tar.gz',
      'acme-net-aws-1.0.0.tar.gz/',
      '..%2f1.0.0.tar.gz',
    ]) {
      expect([400, 404], wrong).toContain((await get(packagePath().replace(/[^/]+$/, wrong))).status);
    }
  });

  it('R12: is served without asking anybody, also after a restart with upstream gone', async () => {
    const scene = await startModuleScene();
    const { registry } = scene;
    const cold = await scene.package();
    const { checksum } = await scene.link();
    await registry.stop();
    registry.requests.clear();
    registry.releases.requests.clear();
    await scene.larder.close();
    const again = await startModuleScene({ registry, setup: scene.larder.setup });
    expect((await again.link()).checksum).toBe(checksum);
    expect((await again.package()).body.equals(cold.body)).toBe(true);
  });

  it('that is damaged on disk is not served, and made anew', async () => {
    const scene = await startModuleScene();
    const cold = await scene.package();
    await scene.larder.close();
    const { dataDirectory } = scene.larder.setup;
    const file = await theStoredPackage(dataDirectory);
    await truncate(file, cold.body.length - 10);
    const again = await startModuleScene({ registry: scene.registry, setup: scene.larder.setup });
    expect((await again.package()).body.equals(cold.body)).toBe(true);
  });

  it('R25, R63: is the same bytes wherever it is made, of whatever kind of archive', async () => {
    const files = { ...netFiles('1.0.0'), 'link.tf': { link: 'modules/sub/main.tf' } } as const;
    const registry = await startRegistry();
    const tar = registry.addModuleArchive('/one.tar.gz', moduleTarGz(files, { globalHeader: true, top: 'acme-net-1' }));
    const zip = registry.addModuleArchive('/other.zip', await moduleZip(files));
    registry.addModule({ ...NET, version: '1.0.0', location: `${tar.url}//*` });
    const [one, other] = [await startModuleScene({ registry }), await startModuleScene({ registry })];
    const { checksum } = await one.link();
    expect((await other.link()).checksum).toBe(checksum);
    registry.addModule({ ...NET, version: '1.0.0', location: zip.url });
    expect((await (await startModuleScene({ registry })).link()).checksum).toBe(checksum);
  });

  it('R91: a hundred clients at once cost each request once', async () => {
    const { registry, moduleVersions, package: get } = await startModuleScene();
    const install = async () => {
      expect(moduleVersionsIn(await moduleVersions())).toEqual(['1.0.0']);
      const answer = await get();
      expect(answer.status).toBe(200);
      return digestOf(answer.body);
    };
    const digests = await Promise.all(Array.from({ length: 100 }, install));
    expect(new Set(digests).size).toBe(1);
    expect(registry.requests.all.map(({ path }) => path.replace(/^.*\//, '')).toSorted()).toEqual([
      'download',
      'terraform.json',
      'versions',
    ]);
    expect(registry.releases.requests.all.map(({ method }) => method)).toEqual(['GET']);
  });

  it.skipIf(!requirement('git').present)('R91: a hundred clients at once are one clone', async () => {
    const git = await GitHost.start();
    await git.addRepository('net.git', { 'main.tf': 'output "a" { value = 1 }' }, { tags: ['v1.0.0'] });
    const registry = await startRegistry();
    registry.addModule({ ...NET, version: '1.0.0', location: `git::${git.url}/net.git?ref=v1.0.0` });
    const env = { PATH: process.env['PATH'] };
    const alone = await startModuleScene({ registry, env });
    expect((await alone.package()).status).toBe(200);
    const asked = git.requests.all.map(({ method, path }) => `${method} ${path}`);
    git.requests.clear();

    const { package: get } = await startModuleScene({ registry, env });
    const answers = await Promise.all(Array.from({ length: 100 }, () => get()));
    expect(new Set(answers.map(({ status, body }) => `${status} ${digestOf(body)}`)).size).toBe(1);
    expect(git.requests.all.map(({ method, path }) => `${method} ${path}`)).toEqual(asked);
  });

  it('a client that hangs up does not end the making of it for others', async () => {
    const { registry, packagePath, get } = await startModuleScene();
    const hold = holdAfter(100);
    registry.releases.on(ARCHIVE, hold.fault);
    const gone = new AbortController();
    const first = get(packagePath(), { signal: gone.signal }).catch((error: unknown) => error);
    await hold.reached;
    const second = get(packagePath());
    gone.abort();
    expect(await first).toBeInstanceOf(Error);
    hold.release();
    expect((await second).status).toBe(200);
    expect(registry.releases.requests.count(ARCHIVE)).toBe(1);
  });

  it('that takes longer than the deadline is named in time without a checksum, and its own route waits', async () => {
    const { registry, download, link, get } = await startModuleScene({
      config: { limits: { metadataDeadline: '1s' } },
    });
    const hold = holdAfter(100);
    registry.releases.on(ARCHIVE, hold.fault);
    const started = performance.now();
    const { headers } = await download();
    expect(performance.now() - started).toBeLessThan(3_000);
    expect(headers['x-terraform-get']).toBe('./acme-net-aws-1.0.0.tar.gz');
    const waiting = get((await link()).path);
    hold.release();
    const { status, body } = await waiting;
    expect(status).toBe(200);
    expect((await link()).checksum).toBe(digestOf(body));
    expect(registry.releases.requests.count(ARCHIVE)).toBe(1);
  });
});
