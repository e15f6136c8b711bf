import { createHash } from 'node:crypto';
import { describe, expect, it } from 'vitest';
import { CertificateAuthority } from '../support/certificates.ts';
import {
  holdAnswer,
  html,
  hugeJson,
  json,
  mediaType,
  neverAnswer,
  redirect,
  replaceBody,
  reset,
  status,
} from '../support/faults.ts';
import { startLarder } from '../support/larder.ts';
import type { Fault } from '../support/origin.ts';
import {
  eventually,
  hashesIn,
  platformsIn,
  startClient,
  startRegistry,
  startScene,
  stoppedClock,
  versionsIn,
  WIDGET,
} from './scene.ts';

const EVERYTHING = /./;
const DISCOVERY = /terraform\.json/;
const VERSIONS = /GET .*\/versions$/;
const DOCUMENT = /GET .*\/download\/linux\/amd64$/;
const SHASUMS = /GET .*_SHA256SUMS$/;
const DAY_MS = 86_400_000;

describe('an upstream in trouble', () => {
  /** What it does, and what a client is told that finds nothing stored. */
  const troubles: [string, Fault, number][] = [
    ['answers 500', status(500), 502],
    ['answers 503', status(503), 502],
    ['answers 429', status(429, { retryAfter: 3600 }), 503],
    ['breaks the connection', reset(), 502],
    ['shows a captive portal', html(), 502],
    ['answers with damaged JSON', replaceBody('{"versions":['), 502],
    ['answers with JSON of another shape', replaceBody('{"versions":{}}'), 502],
    ['answers with endless JSON', hugeJson(40_000_000), 502],
    ['answers with nothing', replaceBody(''), 502],
  ];

  it.each(troubles)(
    'R47, R89: that %s is told by name where nothing is known, and is never "not found"',
    async (_what, fault, expected) => {
      const { registry, index, version, archive } = await startScene();
      registry.on(VERSIONS, fault);
      for (const answer of [await index(), await version('1.0.0'), await archive()]) {
        // After three failures in a row the host is left alone: still the same trouble.
        expect(answer.status).toBe(expected);
        expect(answer.headers['content-type']).toBe('application/json');
        expect(answer.json().errors[0]).toContain(registry.hostname);
        expect(answer.text()).not.toMatch(/\bat .*\.ts:/);
      }
    },
  );

  it.each(troubles)('R47: that %s changes nothing of what is known', async (_what, fault) => {
    const clock = stoppedClock();
    const { registry, index, version, archive } = await startScene({
      providers: [{ version: '1.0.0' }, { version: '2.0.0' }],
    });
    const before = { index: (await index()).text(), version: (await version('2.0.0')).text() };
    await archive('1.0.0');
    registry.on(EVERYTHING, fault);
    registry.releases.on(EVERYTHING, fault);
    clock.advance(3 * DAY_MS);
    for (let round = 0; round < 2; round += 1) {
      const [list, packages] = [await index(), await version('2.0.0')];
      expect(list.text()).toBe(before.index);
      expect(packages.text()).toBe(before.version);
      for (const { headers } of [list, packages]) {
        expect(headers['warning']).toContain('110');
        expect(Number(headers['age'])).toBeGreaterThanOrEqual((3 * DAY_MS) / 1000);
      }
      expect((await archive('1.0.0')).status).toBe(200);
    }
  });

  it('R47: nothing is asked while what is known is fresh, and a dead upstream costs next to nothing afterwards', async () => {
    const clock = stoppedClock();
    const { registry, index, version, archive } = await startScene();
    const everything = async () => [await index(), await version('1.0.0'), await archive()];
    await everything();
    registry.on(EVERYTHING, status(503));
    registry.requests.clear();
    registry.releases.requests.clear();
    for (let round = 0; round < 3; round += 1) {
      for (const answer of await everything()) expect(answer.status).toBe(200);
    }
    expect(registry.requests.all).toEqual([]);

    clock.advance(3 * DAY_MS);
    for (let round = 0; round < 10; round += 1) {
      for (const answer of await everything()) expect(answer.status).toBe(200);
    }
    // One try, with its retries, for each kind of thing at most.
    expect(registry.requests.all.length).toBeLessThanOrEqual(9);
    expect(registry.releases.requests.all).toEqual([]);
  });

  it('R47: refused connections and a return: served stale, then fresh, without a restart', async () => {
    const clock = stoppedClock();
    const { registry, index, version } = await startScene();
    await index();
    await registry.stop();
    clock.advance(DAY_MS);
    expect(versionsIn(await index())).toEqual(['1.0.0']);
    expect((await version('1.0.0')).status).toBe(502);
    await registry.addProvider({ ...WIDGET, version: '1.1.0' });
    await registry.restart();
    clock.advance(10_000);
    const fresh = await index();
    expect(versionsIn(fresh)).toEqual(['1.1.0', '1.0.0']);
    expect(fresh.headers).not.toHaveProperty('warning');
    expect(platformsIn(await version('1.0.0'))).toEqual(['linux_amd64']);
  });

  it('R89: a version that an old list does not name is not called absent while no newer list can be had', async () => {
    const clock = stoppedClock();
    const { registry, index, version, archive } = await startScene();
    await index();
    clock.advance(DAY_MS);
    registry.on(EVERYTHING, status(503));
    for (const answer of [await version('1.1.0'), await archive('1.1.0')]) {
      expect(answer.status).toBe(502);
      expect(answer.json().errors[0]).toContain(registry.hostname);
    }
    registry.heal();
    clock.advance(10_000);
    expect((await version('1.1.0')).json()).toEqual({ archives: {} });
  });

  it('R46: a registry that asks for patience twice gets it, and the client notices nothing', async () => {
    const { registry, index, version } = await startScene();
    registry.on(DISCOVERY, status(429, { retryAfter: 0 }), { times: 2 });
    registry.on(VERSIONS, status(429, { retryAfter: 0 }), { times: 2 });
    registry.on(DOCUMENT, status(429, { retryAfter: 0 }), { times: 2 });
    registry.releases.on(SHASUMS, status(429, { retryAfter: 0 }), { times: 2 });
    expect(versionsIn(await index())).toEqual(['1.0.0']);
    expect(platformsIn(await version('1.0.0'))).toEqual(['linux_amd64']);
  });

  it('R46: forty clients at once are one request to a registry that refuses, and each is told to come back soon', async () => {
    const clock = stoppedClock();
    const { registry, index } = await startScene();
    registry.on(VERSIONS, status(429, { retryAfter: 30 }));
    for (const answer of await Promise.all(Array.from({ length: 40 }, () => index()))) {
      expect(answer.status).toBe(503);
      expect(Number(answer.headers['retry-after'])).toBeGreaterThanOrEqual(1);
      expect(Number(answer.headers['retry-after'])).toBeLessThanOrEqual(5);
    }
    expect(registry.requests.count(VERSIONS)).toBe(1);
    registry.heal();
    clock.advance(31_000);
    expect(versionsIn(await index())).toEqual(['1.0.0']);
  });

  it('R61: a registry that never answers is a 504 in time, which names it, and once it has answered it is asked no more', async () => {
    const { registry, index } = await startScene({ config: { limits: { metadataDeadline: '1s' } } });
    const hold = holdAnswer();
    registry.on(VERSIONS, hold.fault);
    const answer = await index();
    expect(answer.status).toBe(504);
    expect(answer.json().errors[0]).toContain(registry.hostname);
    hold.release();
    // The first request goes on: its late answer serves the next client.
    await eventually(async () => (await index()).status).toBe(200);
    expect(registry.requests.count(VERSIONS)).toBe(1);
  });

  it('R61: with something to fall back on, nobody waits long for a registry that does not answer', async () => {
    const clock = stoppedClock();
    const { registry, index } = await startScene({ config: { limits: { metadataDeadline: '4s' } } });
    await index();
    clock.advance(DAY_MS);
    registry.on(VERSIONS, neverAnswer());
    const started = performance.now();
    expect(versionsIn(await index())).toEqual(['1.0.0']);
    expect(performance.now() - started).toBeLessThan(3_500);
    expect(registry.requests.count(VERSIONS)).toBe(2);
  });

  it.each([301, 302, 303, 307, 308])('R72: %i is followed at every step', async (code) => {
    const { registry, index, version, archive } = await startScene();
    const once = (path: string) => `${path}${path.includes('?') ? '&' : '?'}moved`;
    const notMoved = ({ path }: { path: string }) => !path.includes('moved') && !path.startsWith('/.well-known');
    registry.on(notMoved, redirect(once, code));
    registry.on(
      ({ path }) => path === '/.well-known/terraform.json',
      redirect('/.well-known/terraform.json?moved', code),
    );
    registry.releases.on(
      notMoved,
      redirect((path) => `${registry.releases.url}${once(path)}`, code),
    );
    expect(versionsIn(await index())).toEqual(['1.0.0']);
    expect(platformsIn(await version('1.0.0'))).toEqual(['linux_amd64']);
    expect((await archive()).status).toBe(200);
    expect(registry.releases.requests.count('GET', /\.zip\?moved/)).toBe(1);
  });

  it.each<[string, RegExp, Fault]>([
    ['discovery in a circle', DISCOVERY, redirect('/.well-known/terraform.json')],
    ['versions in a circle', VERSIONS, redirect((path) => path)],
    ['a document in a growing circle', DOCUMENT, redirect((path) => path)],
    ['versions to nowhere', VERSIONS, redirect('')],
    ['versions to a plain http address', VERSIONS, redirect('http://localhost:9/')],
    ['versions to another protocol', VERSIONS, redirect('file:///etc/passwd')],
  ])('R72: %s is a 502, told by name', async (_what, matcher, fault) => {
    const { registry, version } = await startScene();
    registry.on(matcher, fault);
    const answer = await version('1.0.0');
    expect(answer.status).toBe(502);
    expect(answer.json().code).toBe('UPSTREAM_INVALID');
    expect(answer.json().errors[0]).toContain('localhost');
  });

  it('R72: discovery is followed three times, and what it says is relative to where it ends', async () => {
    const { registry, index } = await startScene();
    registry.on(DISCOVERY, redirect('/1/terraform.json'));
    registry.on(/\/1\/terraform\.json/, redirect('/2/terraform.json'));
    registry.on(/\/2\/terraform\.json/, redirect('/v1/terraform.json'));
    registry.on(/\/v1\/terraform\.json/, () => json({ 'providers.v1': 'providers/' }));
    expect(versionsIn(await index())).toEqual(['1.0.0']);
    registry.on(/\/v1\/terraform\.json/, redirect('/v1/terraform.json?4'));
    registry.heal();
  });

  it('R72: a fourth redirect of discovery is one too many', async () => {
    const { registry, index } = await startScene();
    registry.on(
      DISCOVERY,
      redirect((path) => `${path}?${path.length}`),
    );
    const answer = await index();
    expect(answer.status).toBe(502);
    expect(registry.requests.count(DISCOVERY)).toBe(4);
  });

  it('R74: another Larder as upstream is a registry like any other: it speaks for its default one', async () => {
    const behind = await startScene();
    const hostname = `localhost:${behind.larder.port}`;
    const larder = await startLarder({
      config: {
        upstreams: {
          default: hostname,
          hosts: { [hostname]: { ca: behind.larder.setup.caFile, privateNetwork: true } },
        },
      },
    });
    const client = startClient(larder);
    const base = `${larder.url}/providers/${hostname}/acme/widget`;
    const list = await client.get(`${base}/index.json`);
    expect(list.status, list.text()).toBe(200);
    const [version = ''] = Object.keys(list.json().versions);
    const { archives } = (await client.get(`${base}/${version}.json`)).json();
    const [{ url, hashes }] = Object.values<{ url: string; hashes: string[] }>(archives) as [
      { url: string; hashes: string[] },
    ];
    const { body, status: code } = await client.get(`${base}/${url}`);
    expect(code).toBe(200);
    expect(hashes).toContain(`zh:${createHash('sha256').update(body).digest('hex')}`);
  });

  it.each<[string, Fault]>([
    ['a page', html()],
    ['another media type', mediaType('text/plain')],
    ['another service', () => json({ 'modules.v1': '/v1/modules/' })],
    ['a service that is no address', () => json({ 'providers.v1': 'https://user:hunter2@up.example.test/' })],
    ['nothing', status(404)],
  ])('discovery that offers %s is no registry, which is not the same as an unknown provider', async (_what, fault) => {
    const { registry, index } = await startScene();
    registry.on(DISCOVERY, fault);
    const answer = await index();
    expect(answer.status).toBe(502);
    expect(answer.json().code).toBe('UPSTREAM_INVALID');
    expect(answer.text()).not.toContain('hunter2');
  });

  it('R85: a registry of a private authority needs its certificate configured, and says so', async () => {
    const registry = await startRegistry({ authority: await CertificateAuthority.generate('Corporate authority') });
    await registry.addProvider(WIDGET);
    const known = await startScene({ registry });
    expect(versionsIn(await known.index())).toEqual(['1.0.0']);
    expect((await known.archive()).status).toBe(200);

    const unknown = await startScene({
      registry,
      config: { upstreams: { hosts: { [registry.hostname]: { ca: known.larder.setup.caFile } } } },
    });
    const answer = await unknown.index();
    expect(answer.status).toBe(502);
    expect(answer.json().errors[0]).toContain(registry.hostname);
    expect(answer.json().errors[0]).toContain('certificate');
    expect(answer.json().hint).toContain('ca');
  });

  it.each<[string, Fault, number]>([
    ['404', status(404), 404],
    ['410', status(410), 404],
    ['401', status(401), 502],
    ['403', status(403), 502],
    ['400', status(400), 502],
    ['418', status(418), 502],
  ])(
    'R89: %s for the versions of a provider is told in the only way clients understand',
    async (_what, fault, expected) => {
      const { registry, index } = await startScene();
      registry.on(VERSIONS, fault);
      expect((await index()).status).toBe(expected);
    },
  );

  it('L15, R89: an unknown provider is a 404 that is remembered for a minute and no longer', async () => {
    const clock = stoppedClock();
    const { registry, index } = await startScene();
    for (let times = 0; times < 3; times += 1) expect((await index('acme/gadget')).status).toBe(404);
    expect(registry.requests.count(/gadget/)).toBe(1);
    await registry.addProvider({ ...WIDGET, type: 'gadget' });
    clock.advance(61_000);
    expect(versionsIn(await index('acme/gadget'))).toEqual(['1.0.0']);
  });

  it('R89: credentials that upstream refuses are never remembered', async () => {
    const { registry, index } = await startScene();
    registry.requireToken('secret');
    expect((await index()).status).toBe(502);
    registry.requireToken(undefined);
    expect(versionsIn(await index())).toEqual(['1.0.0']);
  });

  it('R90: SHA256SUMS is fetched once for a version, not for each platform', async () => {
    const platforms = ['linux_amd64', 'linux_arm64', 'darwin_amd64', 'darwin_arm64'];
    const { registry, version, archive } = await startScene({ providers: [{ platforms }] });
    await version('1.0.0');
    for (const platform of platforms) expect((await archive('1.0.0', platform)).status).toBe(200);
    await version('1.0.0');
    expect(registry.releases.requests.count(SHASUMS)).toBe(1);
    expect(registry.releases.requests.count('GET', /SHA256SUMS\.sig$/)).toBe(1);
  });

  it('R90: thirty cold providers press a host of files with eight requests at a time', async () => {
    const types = Array.from({ length: 30 }, (_, number) => `widget${number}`);
    const { registry, version } = await startScene({ providers: types.map((type) => ({ type, digestsOnly: true })) });
    let [underway, most] = [0, 0];
    registry.releases.on(EVERYTHING, async (call, next) => {
      most = Math.max(most, ++underway);
      await new Promise((resolve) => setTimeout(resolve, 5));
      underway -= 1;
      return next(call);
    });
    const answers = await Promise.all(types.map((type) => version('1.0.0', `acme/${type}`)));
    for (const answer of answers) expect(platformsIn(answer)).toEqual(['linux_amd64']);
    expect(most).toBeGreaterThan(1);
    expect(most).toBeLessThanOrEqual(8);
    expect(registry.releases.requests.count(SHASUMS)).toBe(30);
  });

  it('R91: fifteen clients that install six cold providers at once cost each thing once', async () => {
    const types = ['one', 'two', 'three', 'four', 'five', 'six'];
    const { registry, index, version, archive } = await startScene({ providers: types.map((type) => ({ type })) });
    const install = async (type: string) => {
      const provider = `acme/${type}`;
      expect(versionsIn(await index(provider))).toEqual(['1.0.0']);
      expect(hashesIn(await version('1.0.0', provider))).toContainEqual(expect.stringMatching(/^zh:/));
      const answer = await archive('1.0.0', 'linux_amd64', { provider });
      expect(answer.status).toBe(200);
      expect(answer.headers['content-length']).toBe(String(answer.body.length));
    };
    await Promise.all(Array.from({ length: 15 }, () => Promise.all(types.map(install))));
    expect(registry.requests.count(DISCOVERY)).toBe(1);
    for (const type of types) {
      expect(registry.requests.count(new RegExp(`/${type}/versions`))).toBe(1);
      expect(registry.requests.count(new RegExp(`/${type}/1.0.0/download`))).toBe(1);
      expect(registry.releases.requests.count('GET', new RegExp(`${type}_1.0.0_linux_amd64.zip`))).toBe(1);
    }
  });
});

describe('a sealed Larder', () => {
  it('offers what is stored, asks nobody, and names itself as the reason for the rest', async () => {
    const open = await startScene({ providers: [{ version: '1.0.0' }, { version: '2.0.0' }] });
    await open.archive('1.0.0');
    await open.index();
    await open.larder.close();
    open.registry.requests.clear();
    const { index, version, archive } = await startScene({
      registry: open.registry,
      config: { sealed: true, data: open.larder.setup.dataDirectory },
    });
    expect(versionsIn(await index())).toEqual(['1.0.0']);
    expect(platformsIn(await version('1.0.0'))).toEqual(['linux_amd64']);
    expect((await archive('1.0.0')).status).toBe(200);
    for (const answer of [await archive('2.0.0'), await index('acme/gadget')]) {
      expect(answer.status).toBe(503);
      expect(answer.json().errors[0]).toContain('sealed');
    }
    expect(open.registry.requests.all).toEqual([]);
  });
});
