import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { editJson, holdAnswer, mediaType, withHeaders } from '../support/faults.ts';
import { packageOf, startScene, stoppedClock, versionsIn } from './scene.ts';

const MINUTE_MS = 60_000;
const VERSIONS = /GET .*\/versions$/;

describe('the list of versions', () => {
  it('has every version as a key with an object, in the media type that the clients insist on', async () => {
    const { index } = await startScene({
      providers: [{ version: '1.0.0' }, { version: '1.10.0' }, { version: '1.9.0' }],
    });
    const answer = await index();
    expect(answer.headers['content-type']).toBe('application/json');
    expect(answer.json()).toEqual({ versions: { '1.10.0': {}, '1.9.0': {}, '1.0.0': {} } });
    expect(versionsIn(answer)).toEqual(['1.10.0', '1.9.0', '1.0.0']);
  });

  it('R06: one entry that is no version is left out and logged, one with a v is known by its real name', async () => {
    const { registry, index, version, archive, warnings } = await startScene({
      providers: [{ version: '2.5.2' }, { version: '2.5.3-alpha1', published: 'v2.5.3-alpha1' }],
    });
    registry.on(
      VERSIONS,
      editJson((list) => ({
        ...list,
        versions: [{ version: 'latest' }, null, ...(list['versions'] as unknown[]), { version: '1.0.0.1' }],
      })),
    );

    expect(versionsIn(await index())).toEqual(['2.5.3-alpha1', '2.5.2']);
    expect(warnings('not versions')).toEqual([expect.stringContaining('"latest"')]);
    expect((await version('2.5.3-alpha1')).json().archives).toHaveProperty('linux_amd64');
    expect((await archive('2.5.3-alpha1')).status).toBe(200);
    expect(registry.requests.count(/widget\/v2\.5\.3-alpha1\/download\//)).toBe(1);
  });

  it('R07: names every version upstream has, stored or not', async () => {
    const { registry, index, archive } = await startScene({
      providers: [{ version: '6.37.0' }, { version: '6.36.0' }, { version: '5.80.0' }],
    });
    expect((await archive('6.36.0')).status).toBe(200);
    expect(versionsIn(await index())).toEqual(['6.37.0', '6.36.0', '5.80.0']);
    expect(registry.releases.requests.count('GET', /\.zip/)).toBe(1);
  });

  it('R07: is made of what is stored when upstream is away and nothing else is remembered', async () => {
    const first = await startScene({ providers: [{ version: '1.0.0' }, { version: '2.0.0' }] });
    expect((await first.archive('1.0.0')).status).toBe(200);
    await first.larder.close();
    await rm(join(first.larder.setup.dataDirectory, 'metadata'), { recursive: true, force: true });
    await first.registry.stop();

    const { index } = await startScene({ registry: first.registry, setup: first.larder.setup });
    const answer = await index();
    expect(versionsIn(answer)).toEqual(['1.0.0']);
    expect(answer.headers['warning']).toContain('110');
  });

  it('R08: shows a new release once freshness is over, whatever validators upstream has', async () => {
    const clock = stoppedClock();
    const { registry, index } = await startScene({ providers: [{ version: '2.21.0' }] });
    registry.on(VERSIONS, withHeaders({ 'last-modified': 'Fri, 01 Jan 2100 00:00:00 GMT', etag: '"same for ever"' }));
    await index();
    await registry.addProvider({ namespace: 'acme', type: 'widget', version: '2.22.0' });
    expect(versionsIn(await index())).toEqual(['2.21.0']);
    clock.advance(5 * MINUTE_MS);
    expect(versionsIn(await index())).toEqual(['2.22.0', '2.21.0']);
    const asked = registry.requests.filter(VERSIONS);
    expect(asked).toHaveLength(2);
    for (const { headers } of asked) {
      expect(headers).not.toHaveProperty('if-modified-since');
      expect(headers).not.toHaveProperty('if-none-match');
    }
  });

  it('R08: a version it does not name yet is looked for in a new list, once', async () => {
    const clock = stoppedClock();
    const { registry, index, version } = await startScene({ providers: [{ version: '2.21.0' }] });
    await index();
    const published = await registry.addProvider({ namespace: 'acme', type: 'widget', version: '2.22.0' });
    clock.advance(MINUTE_MS);
    expect((await version('2.22.0')).json().archives.linux_amd64.hashes).toEqual([packageOf(published).zh]);
    expect(versionsIn(await index())).toEqual(['2.22.0', '2.21.0']);
    expect(registry.requests.count(VERSIONS)).toBe(2);
  });

  it('R08, R89: a version nobody has costs one new list, and is an empty document', async () => {
    const clock = stoppedClock();
    const { registry, index, version } = await startScene();
    await index();
    clock.advance(MINUTE_MS);
    for (let times = 0; times < 5; times += 1) {
      const answer = await version('9.9.9');
      expect(answer.status).toBe(200);
      expect(answer.json()).toEqual({ archives: {} });
    }
    expect(registry.requests.count(VERSIONS)).toBe(2);
  });

  it('R40: versions that differ in case are two, asked for and stored as they are spelled', async () => {
    const { registry, index, archive, version } = await startScene({
      providers: [{ version: '2.3.1-RC1' }, { version: '2.3.1-rc1' }],
    });
    const upper = await archive('2.3.1-RC1');
    const lower = await archive('2.3.1-rc1');
    expect([upper.status, lower.status]).toEqual([200, 200]);
    expect(upper.body.equals(lower.body)).toBe(false);
    expect(new Set(versionsIn(await index()))).toEqual(new Set(['2.3.1-RC1', '2.3.1-rc1']));
    expect((await version('2.3.1-RC1')).json().archives.linux_amd64.url).toContain('2.3.1-RC1');
    expect(registry.requests.count(/widget\/2\.3\.1-RC1\/download/)).toBe(1);
    expect(registry.requests.count(/widget\/2\.3\.1-rc1\/download/)).toBe(1);
  });

  it('R40: a version that upstream has in the other case only does not exist, and its HTML page is no answer', async () => {
    const { registry, version, archive } = await startScene({ providers: [{ version: '2.3.1-RC1' }] });
    registry.on(/rc1/, () => ({ status: 404, headers: { 'content-type': 'text/html' }, body: [], length: 0 }));
    expect((await version('2.3.1-rc1')).json()).toEqual({ archives: {} });
    const answer = await archive('2.3.1-rc1');
    expect(answer.status).toBe(404);
    expect(answer.headers['content-type']).toBe('application/json');
    expect((await archive('2.3.1-RC1')).status).toBe(200);
  });

  it('R49: a hundred who ask at once are all answered, and upstream is asked once', async () => {
    const { registry, index } = await startScene();
    const hold = holdAnswer();
    registry.on(VERSIONS, hold.fault);
    const answers = Array.from({ length: 100 }, () => index());
    await hold.reached;
    hold.release();
    for (const answer of await Promise.all(answers)) expect(versionsIn(answer)).toEqual(['1.0.0']);
    expect(registry.requests.count(VERSIONS)).toBe(1);
  });

  it('R50: any case is one provider, asked for in lower case', async () => {
    const { registry, larder, get, index } = await startScene({
      providers: [{ namespace: '1password', type: 'onepassword' }],
    });
    const shouted = await get(`/providers/LocalHost:${registry.port}/1Password/OnePassword/index.json`);
    const plain = await index('1password/onepassword');
    expect(shouted.body.equals(plain.body)).toBe(true);
    expect(versionsIn(plain)).toEqual(['1.0.0']);
    expect(registry.requests.filter(VERSIONS).map(({ path }) => path)).toEqual([
      '/v1/providers/1password/onepassword/versions',
    ]);
    expect(larder.log.filter(({ level }) => level === 'error')).toEqual([]);
  });

  it('L20: build metadata stays in the version, with its plus', async () => {
    const { index, version, archive } = await startScene({ providers: [{ version: '1.0.0+b.1' }] });
    expect(versionsIn(await index())).toEqual(['1.0.0+b.1']);
    const { url } = (await version('1.0.0+b.1')).json().archives.linux_amd64;
    expect(url).toBe('terraform-provider-widget_1.0.0+b.1_linux_amd64.zip');
    expect((await archive('1.0.0+b.1')).status).toBe(200);
  });

  it('a version that upstream writes short has its padded name', async () => {
    const { index, archive } = await startScene({ providers: [{ version: '1.2.0', published: '1.2' }] });
    expect(versionsIn(await index())).toEqual(['1.2.0']);
    expect((await archive('1.2.0')).status).toBe(200);
  });

  it('a stored version stays after upstream has withdrawn it, with its archive', async () => {
    const clock = stoppedClock();
    const { registry, index, version, archive, stored } = await startScene({
      providers: [{ version: '1.0.0' }, { version: '2.0.0' }],
    });
    const before = await archive('1.0.0');
    await stored('1.0.0');
    registry.removeVersion({ namespace: 'acme', type: 'widget', version: '1.0.0' });
    clock.advance(25 * 60 * MINUTE_MS);
    expect(versionsIn(await index())).toEqual(['2.0.0', '1.0.0']);
    expect((await version('1.0.0')).json().archives).toHaveProperty('linux_amd64');
    expect((await archive('1.0.0')).body.equals(before.body)).toBe(true);
    registry.removeProvider({ namespace: 'acme', type: 'widget' });
    clock.advance(25 * 60 * MINUTE_MS);
    expect(versionsIn(await index())).toEqual(['1.0.0']);
  });

  it('a list of something that is not versions is no empty list', async () => {
    const { registry, index } = await startScene();
    registry.on(
      VERSIONS,
      editJson(() => ({ versions: [{ id: 'v6.18.0', published: '2025-10-24T00:00:00Z' }] })),
    );
    const answer = await index();
    expect(answer.status).toBe(502);
    expect(answer.json().code).toBe('UPSTREAM_INVALID');
  });

  it('L15: a provider without any version is an empty list', async () => {
    const { registry, index } = await startScene();
    registry.on(
      VERSIONS,
      editJson(() => ({ versions: [] })),
    );
    expect((await index()).json()).toEqual({ versions: {} });
  });

  it('R76: garbage among the protocols is of no consequence', async () => {
    const { registry, larder, index, version, archive } = await startScene({
      providers: [{ protocols: ['1; mode=block', '5.0\r\nX-Injected: yes'] }],
    });
    for (const answer of [await index(), await version('1.0.0'), await archive()]) {
      expect(answer.status).toBe(200);
      expect(answer.headers).not.toHaveProperty('x-injected');
    }
    expect(JSON.stringify(larder.log)).not.toContain('mode=block');
    expect(registry.requests.count(VERSIONS)).toBe(1);
  });

  it('is read whatever media type upstream gives it, for the clients do not look', async () => {
    const { registry, index } = await startScene();
    registry.on(VERSIONS, mediaType('text/plain'));
    const answer = await index();
    expect(versionsIn(answer)).toEqual(['1.0.0']);
    expect(answer.headers['content-type']).toBe('application/json');
  });
});
