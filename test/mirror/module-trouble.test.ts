import { createHash } from 'node:crypto';
import { watch } from 'node:fs';
import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { afterTest } from '../support/after-test.ts';
import {
  corrupt,
  cutAfter,
  holdAfter,
  html,
  neverAnswer,
  redirect,
  replaceBody,
  reply,
  reset,
  shortCleanEnd,
  status,
} from '../support/faults.ts';
import { type HttpAnswer, HttpClient } from '../support/http.ts';
import { type LarderProcess, startLarderProcess } from '../support/larder-process.ts';
import { larderSetup } from '../support/larder-setup.ts';
import { type ModuleFiles, moduleTarGz, readTarGz } from '../support/module-archive.ts';
import type { Fault } from '../support/origin.ts';
import type { UpstreamRegistry } from '../support/upstream-registry.ts';
import { moduleVersionsIn, NET, netFiles, publishNet, startModuleScene } from './module-scene.ts';
import { eventually, startRegistry, stoppedClock } from './scene.ts';

const DISCOVERY = /terraform\.json/;
const VERSIONS = /GET .*\/versions$/;
const LOCATION = /GET .*\/download$/;
const ARCHIVE = /GET .*\.tar\.gz/;
const EVERYTHING = /./;
/** Nothing of a package that came to nothing is left, and nothing that looks like a package. */
async function expectNothingLeft(dataDirectory: string): Promise<void> {
  await eventually(() => entriesOf(join(dataDirectory, 'partial'))).toEqual([]);
  expect(await filesBelow(join(dataDirectory, 'modules'))).toEqual([]);
}

/** Everything in it, directories included. */
function entriesOf(directory: string): Promise<string[]> {
  return readdir(directory).catch(() => []);
}

async function filesBelow(directory: string): Promise<string[]> {
  const entries = await readdir(directory, { recursive: true, withFileTypes: true }).catch(() => []);
  return entries.filter((entry) => !entry.isDirectory()).map(({ name }) => name);
}

describe('an upstream in trouble over modules', () => {
  /** What it answers with, and what clients are told of that. */
  const troubles: [string, Fault, number][] = [
    ['401', status(401), 502],
    ['403', status(403), 502],
    ['429', status(429, { retryAfter: 3600 }), 503],
    ['500', status(500), 502],
    ['418', status(418), 502],
    ['a captive portal', html(), 502],
    ['nothing', replaceBody(''), 502],
    ['a broken connection', reset(), 502],
    ['a half of what it had to say', cutAfter(20), 502],
    ['a redirect in a circle', redirect((path) => path), 502],
  ];

  it.each(troubles)(
    'R47, R89: with %s at any step: told with the host that is to blame, never as "not found", and over when it is over',
    async (_what, fault, expected) => {
      const clock = stoppedClock();
      const scene = await startModuleScene({ versions: [] });
      const { registry, moduleVersions, download, packagePath, get, larder } = scene;
      publishNet(registry, '1.0.0', { dialect: 'json' });
      const paths = [packagePath().replace(/[^/]+$/, 'download'), packagePath()];
      const recover = () => {
        registry.heal();
        clock.advance(3_600_000);
      };

      for (const matcher of [DISCOVERY, VERSIONS, LOCATION]) {
        registry.on(matcher, fault);
        if (matcher === LOCATION) expect(moduleVersionsIn(await moduleVersions())).toEqual(['1.0.0']);
        else expectTrouble(await moduleVersions(), expected, registry.hostname);
        for (const path of paths) expectTrouble(await get(path), expected, registry.hostname);
        recover();
      }
      registry.releases.on(ARCHIVE, fault);
      for (const path of paths) expectTrouble(await get(path), expected, registry.releases.hostname);
      await expectNothingLeft(larder.setup.dataDirectory);
      recover();
      expect((await download()).headers['x-terraform-get']).toContain('checksum=');
      expect((await get(packagePath())).status).toBe(200);
    },
  );

  it('R61: with silence at any step: told in time, with the host that is to blame', async () => {
    const config = { limits: { metadataDeadline: '1s' }, modules: { limits: { time: '3s' } } };
    for (const matcher of [DISCOVERY, VERSIONS, LOCATION, ARCHIVE]) {
      const { registry, download, packagePath, get, larder } = await startModuleScene({ config });
      const isArchive = matcher === ARCHIVE;
      (isArchive ? registry.releases : registry).on(matcher, neverAnswer());
      const started = performance.now();
      const located = await download();
      expect(performance.now() - started).toBeLessThan(4_000);
      // While nobody knows how it will end, the client is sent to wait for the package itself.
      if (isArchive) expect(located.headers['x-terraform-get']).toBe('./acme-net-aws-1.0.0.tar.gz');
      else expectTrouble(located, 504, registry.hostname);
      expectTrouble(await get(packagePath()), 504, registry.hostname);
      await expectNothingLeft(larder.setup.dataDirectory);
    }
  });

  function expectTrouble(answer: HttpAnswer, expected: number, host: string): void {
    expect(answer.status, answer.text()).toBe(expected);
    expect(answer.headers['content-type']).toBe('application/json');
    expect(answer.json().errors[0]).toContain(host);
    expect(answer.text()).not.toMatch(/\bat .*\.ts:/);
    if (expected !== 503) return;
    expect(Number(answer.headers['retry-after'])).toBeGreaterThanOrEqual(1);
    expect(Number(answer.headers['retry-after'])).toBeLessThanOrEqual(5);
  }

  it.each([404, 410])('a module that gets %i is unknown, for a minute', async (code) => {
    const clock = stoppedClock();
    const { registry, moduleVersions, download } = await startModuleScene();
    registry.on(/other/, status(code));
    for (const answer of [await moduleVersions('acme/other/aws'), await download('1.0.0', 'acme/other/aws')]) {
      expect(answer.status).toBe(404);
      expect(answer.json()).toMatchObject({ code: 'NOT_FOUND', errors: [expect.stringContaining('acme/other/aws')] });
      expect(answer.json().errors[0]).toContain(registry.hostname);
    }
    expect(registry.requests.count(/other/)).toBe(1);
    registry.heal();
    registry.addModule({ ...NET, name: 'other', version: '1.0.0', location: '/archives/net/1.0.0.tar.gz' });
    clock.advance(61_000);
    expect(moduleVersionsIn(await moduleVersions('acme/other/aws'))).toEqual(['1.0.0']);
  });

  it('a version that is not listed is unknown, and one whose location is gone, too', async () => {
    const { registry, download } = await startModuleScene();
    registry.on(LOCATION, status(404));
    for (const version of ['9.9.9', '1.0.0']) {
      const answer = await download(version);
      expect(answer.status, version).toBe(404);
      expect(answer.json().errors[0]).toContain(version);
    }
  });

  it('an archive that is gone is told with its host: the version is there, as clients can see', async () => {
    const { registry, download, larder } = await startModuleScene();
    registry.releases.on(ARCHIVE, status(404));
    const answer = await download();
    expect([404, 502]).toContain(answer.status);
    expect(answer.json().errors[0]).toContain(registry.releases.hostname);
    await expectNothingLeft(larder.setup.dataDirectory);
  });

  it('an address that cannot be one, or a host that nobody allowed, is told without asking anybody', async () => {
    const { registry, moduleVersions, download, get } = await startModuleScene();
    for (const answer of [
      await moduleVersions('acme/net/AWS'),
      await moduleVersions('acme/n..t/aws'),
      await moduleVersions('acme/net/aws%2f..%2f..'),
      await download('latest'),
    ]) {
      expect([400, 404]).toContain(answer.status);
    }
    const elsewhere = await get('/registry/other.example.test/v1/modules/acme/net/aws/versions');
    expect(elsewhere.status).toBe(404);
    expect(elsewhere.json().errors[0]).toContain('other.example.test');
    expect(registry.requests.all).toEqual([]);
  });

  it('R46, R99: patience that it asks for twice is given, and the client notices nothing', async () => {
    const { registry, package: get } = await startModuleScene();
    for (const matcher of [DISCOVERY, VERSIONS, LOCATION]) {
      registry.on(matcher, status(429, { retryAfter: 0 }), { times: 2 });
    }
    expect((await get()).status).toBe(200);
  });

  it('R47: a package that is stored is served whatever becomes of upstream', async () => {
    const clock = stoppedClock();
    const { registry, download, package: get } = await startModuleScene();
    const cold = await get();
    const before = (await download()).headers['x-terraform-get'];
    for (const [, fault] of troubles) {
      registry.heal();
      registry.on(EVERYTHING, fault);
      registry.releases.on(EVERYTHING, fault);
      clock.advance(2 * 86_400_000);
      expect((await download()).headers['x-terraform-get']).toBe(before);
      expect((await get()).body.equals(cold.body)).toBe(true);
    }
  });
});

describe('an archive that is not what it should be', () => {
  const bomb = Buffer.alloc(40 * 1024 * 1024);
  const hostile: [string, ModuleFiles][] = [
    ['leads out of itself by name', { 'main.tf': '', '../out.tf': 'evil' }],
    ['leads out of itself by name, further in', { 'main.tf': '', 'modules/../../out.tf': 'evil' }],
    ['has an absolute name', { 'main.tf': '', '/etc/evil.tf': 'evil' }],
    ['has a link that leads out', { 'main.tf': '', 'secret.txt': { link: '../../../../../../etc/passwd' } }],
    ['has an absolute link', { 'main.tf': '', 'secret.txt': { link: '/etc/passwd' } }],
    ['writes through a link that leads out', { dir: { link: '../..' }, 'dir/out.tf': 'evil' }],
    ['has a hard link that leads out', { 'main.tf': '', 'secret.txt': { hardLink: '../../../../etc/passwd' } }],
    ['holds nothing', {}],
    ['unpacks to more than is allowed', { 'main.tf': '', zeros: bomb }],
    [
      'has more files than are allowed',
      Object.fromEntries(Array.from({ length: 60 }, (_, index) => [`${index}.tf`, ''])),
    ],
  ];

  it.each(hostile)('R81: %s: refused by the name of its host, and nothing of it stays', async (_what, files) => {
    const config = { modules: { limits: { unpacked: '20MB', files: 50 } } };
    const { registry, download, packagePath, get, larder } = await startModuleScene({ config, versions: [] });
    publishNet(registry, '1.0.0', { files });
    for (const answer of [await download(), await get(packagePath())]) {
      expect(answer.status, answer.text()).toBe(502);
      expect(answer.json()).toMatchObject({ code: 'UPSTREAM_INVALID' });
      expect(answer.json().errors[0]).toContain(registry.releases.hostname);
      expect(answer.text()).not.toContain('root:');
    }
    await expectNothingLeft(larder.setup.dataDirectory);
  });

  it('R81: links that lead nowhere or in a circle are left out, as clients could not follow them either', async () => {
    const { registry, package: get } = await startModuleScene({ versions: [] });
    const files = { one: { link: 'two' }, two: { link: 'one' }, 'gone.tf': { link: 'nowhere.tf' }, all: { link: '.' } };
    publishNet(registry, '1.0.0', { files: { ...netFiles('1.0.0'), ...files } });
    const entries = [...(await readTarGz((await get()).body)).keys()];
    expect(entries).toContain('main.tf');
    for (const name of ['one', 'two', 'gone.tf']) expect(entries).not.toContain(name);
  });

  it('has another checksum than its location demands: told with both, and not remembered', async () => {
    const clock = stoppedClock();
    const { registry, download, package: get, larder } = await startModuleScene({ versions: [] });
    const right = publishNet(registry, '1.0.0');
    const wanted = 'ab'.repeat(32);
    registry.addModule({ ...NET, version: '1.0.0', location: `${right.url}?checksum=sha256:${wanted}` });
    const answer = await download();
    expect(answer.status).toBe(502);
    expect(answer.json().code).toBe('INTEGRITY_MISMATCH');
    for (const part of [registry.releases.hostname, wanted, right.sha256]) {
      expect(answer.json().errors[0]).toContain(part);
    }
    await expectNothingLeft(larder.setup.dataDirectory);
    registry.addModule({ ...NET, version: '1.0.0', location: `${right.url}?checksum=sha256:${right.sha256}` });
    clock.advance(61_000);
    expect((await get()).status).toBe(200);
  });

  it.each<[string, Fault]>([
    ['ends early, without a sign of it', shortCleanEnd(200)],
    ['is altered in one bit', corrupt(40)],
    ['is a page', html()],
    ['is a zip by another name', replaceBody(Buffer.from('PK\u0003\u0004 and so on'))],
  ])('%s: refused, and the next one is fetched anew', async (_what, fault) => {
    const { registry, download, package: get, larder } = await startModuleScene();
    const broken = registry.releases.on(ARCHIVE, fault);
    const answer = await download();
    expect(answer.status).toBe(502);
    expect(answer.json().errors[0]).toContain(registry.releases.hostname);
    await expectNothingLeft(larder.setup.dataDirectory);
    broken.remove();
    expect((await get()).status).toBe(200);
  });
});

describe('links to archives that run out', () => {
  it('R26: a new one is asked for when the old one is refused, and HEAD need not be allowed', async () => {
    const clock = stoppedClock();
    const { registry, download, package: get } = await startModuleScene({ versions: [] });
    let now = 1_000_000;
    registry.signLinks({ lifetimeMs: 1_000, now: () => now });
    const archive = registry.addModuleArchive('/net.tar.gz', moduleTarGz(netFiles('1.0.0')), { headForbidden: true });
    registry.addModule({ ...NET, version: '1.0.0', location: () => archive.link() });
    const broken = registry.releases.on(ARCHIVE, status(500));
    expect((await download()).status).toBe(502);
    broken.remove();
    now += 5_000;
    clock.advance(10_000);
    registry.requests.clear();
    expect((await get()).status).toBe(200);
    expect(registry.requests.count(LOCATION)).toBe(1);
  });

  it('are never shown to anybody, nor written down', async () => {
    const { registry, download, larder } = await startModuleScene({ versions: [] });
    registry.signLinks();
    const archive = registry.addModuleArchive('/net.tar.gz', moduleTarGz(netFiles('1.0.0')));
    registry.addModule({ ...NET, version: '1.0.0', location: () => archive.link() });
    registry.releases.on(ARCHIVE, status(403));
    const refused = await download();
    registry.heal();
    const located = await download();
    expect(refused.status).toBe(502);
    expect(located.status).toBe(204);
    expect(refused.text() + JSON.stringify(located.headers) + JSON.stringify(larder.log)).not.toContain('X-Amz');
  });
});

describe('a token of the registry', () => {
  const TOKEN = 'token-for-upstream-51fd';

  async function privateRegistry(location: (registry: UpstreamRegistry) => string, useRegistryCredentials?: boolean) {
    const registry = await startRegistry();
    registry.requireToken(TOKEN);
    registry.addModuleArchive('/net/1.0.0.tar.gz', moduleTarGz(netFiles('1.0.0')));
    const options = useRegistryCredentials === undefined ? {} : { useRegistryCredentials, dialect: 'both' as const };
    registry.addModule({ ...NET, version: '1.0.0', location: location(registry), ...options });
    const hosts = { [registry.hostname]: { credentials: { token: TOKEN } } };
    return startModuleScene({ registry, config: { upstreams: { hosts } } });
  }

  it('R27, R28: goes to discovery and API, and to no host of archives', async () => {
    const {
      registry,
      package: get,
      larder,
    } = await privateRegistry(({ releases }) => `${releases.url}/net/1.0.0.tar.gz`);
    expect((await get()).status).toBe(200);
    expect(registry.requests.withCredentials()).toHaveLength(3);
    expect(registry.releases.requests.withCredentials()).toEqual([]);
    expect(JSON.stringify(larder.log)).not.toContain(TOKEN);
  });

  it('R11: goes with the archive where the registry says so and the archive is its own', async () => {
    const { registry, package: get } = await privateRegistry(() => '/archives/net/1.0.0.tar.gz', true);
    expect((await get()).status).toBe(200);
    expect(
      registry.requests.count(
        ({ path, headers }) => path.startsWith('/archives/') && headers.authorization === `Bearer ${TOKEN}`,
      ),
    ).toBe(1);
  });

  it('R11: an archive that clients would fetch directly needs neither an extension nor a leading dot', async () => {
    for (const location of ['/archives/net/1.0.0.tar.gz?v=1', './download/archive', 'download/archive']) {
      const { registry, package: get } = await privateRegistry(() => location, true);
      registry.on(/\/download\/archive$/, () => reply(200, moduleTarGz(netFiles('1.0.0'))));
      expect((await get()).status, location).toBe(200);
    }
  });

  it('R27: stays here where the registry says so and the archive is somebody else’s, or redirects there', async () => {
    const elsewhere = await privateRegistry(({ releases }) => `${releases.url}/net/1.0.0.tar.gz`, true);
    expect((await elsewhere.package()).status).toBe(200);
    expect(elsewhere.registry.releases.requests.withCredentials()).toEqual([]);

    const moving = await privateRegistry(() => '/archives/net/1.0.0.tar.gz', true);
    const { releases } = moving.registry;
    moving.registry.on(
      /\/archives\//,
      redirect((path) => releases.url + path.replace('/archives', '')),
    );
    expect((await moving.package()).status).toBe(200);
    expect(releases.requests.withCredentials()).toEqual([]);
  });

  it('is missing: a 502 that says what to configure, and not the client’s fault', async () => {
    const registry = await startRegistry();
    publishNet(registry);
    registry.requireToken(TOKEN);
    const { moduleVersions } = await startModuleScene({ registry });
    const answer = await moduleVersions();
    expect(answer.status).toBe(502);
    expect(answer.json()).toMatchObject({ code: 'UPSTREAM_REFUSED', hint: expect.stringContaining('credentials') });
  });
});

describe('a Larder that is killed while it makes a package', () => {
  it('R03: leaves nothing of it, and serves it whole after its start: in mid download, and while it puts it away', {
    timeout: 120_000,
  }, async () => {
    const registry = await startRegistry();
    publishNet(registry);
    const setup = await larderSetup({ registries: [registry] });
    const http = new HttpClient({ ca: setup.ca });
    afterTest(() => http.close());
    const { checksum } = await (await startModuleScene({ registry, versions: [] })).link();
    const path = `/registry/${registry.hostname}/v1/modules/acme/net/aws/1.0.0/acme-net-aws-1.0.0.tar.gz`;
    const get = ({ url }: LarderProcess) => http.get(url + path);

    const first = await startLarderProcess(setup);
    const hold = holdAfter(2_000);
    registry.releases.on(ARCHIVE, hold.fault);
    const cut = get(first).catch((error: unknown) => error);
    await hold.reached;
    await eventually(() => entriesOf(join(setup.dataDirectory, 'partial'))).not.toEqual([]);
    first.signal('SIGKILL');
    await first.ended;
    expect(await cut).toBeInstanceOf(Error);
    hold.cut();
    registry.heal();

    const second = await startLarderProcess(setup);
    await expectNothingLeft(setup.dataDirectory);
    const placed = new Promise<void>((resolve) => {
      const watcher = watch(setup.dataDirectory, { recursive: true }, (_event, name) => {
        if (!/modules\/.*1\.0\.0\.tar\.gz$/.test(String(name))) return;
        second.signal('SIGKILL');
        watcher.close();
        resolve();
      });
    });
    await get(second).catch(() => undefined);
    await placed;
    await second.ended;

    const third = await startLarderProcess(setup);
    expect(await entriesOf(join(setup.dataDirectory, 'partial'))).toEqual([]);
    for (const upstream of ['there', 'gone']) {
      if (upstream === 'gone') await registry.stop();
      const { status, body } = await get(third);
      expect([status, `sha256:${createHash('sha256').update(body).digest('hex')}`], upstream).toEqual([200, checksum]);
    }
  });
});
