import { Registry } from 'prom-client';
import { describe, expect, it } from 'vitest';
import { NotFound, UpstreamUnreachable } from '../../src/errors.ts';
import { RequestMetrics } from '../../src/http/request-metrics.ts';
import { Metrics } from '../../src/metrics.ts';
import { eventually, type SceneOptions, startScene, stoppedClock, WIDGET } from '../mirror/scene.ts';
import { upstreamAt } from '../upstream/scripted-server.ts';

/** Lines of one metric as `labels value`, labels as they stand. */
function samples(text: string, name: string): Record<string, number> {
  const lines = text.split('\n').filter((line) => line.startsWith(`${name}{`) || line.startsWith(`${name} `));
  return Object.fromEntries(
    lines.map((line) => {
      const [, labels = '', value] = /^[a-z_]+(?:\{(.*)\})? (\S+)$/.exec(line) ?? [];
      return [labels, Number(value)];
    }),
  );
}

async function begin(options: SceneOptions = {}) {
  const scene = await startScene(options);
  const metrics = async (name: string, token?: string) => {
    const answer = await scene.get('/metrics', token ? { headers: { authorization: `Bearer ${token}` } } : {});
    expect(answer.status, answer.text()).toBe(200);
    return samples(answer.text(), name);
  };
  return { ...scene, metrics };
}

describe('/metrics', () => {
  it('is in the text format of Prometheus, and tells of the process, too', async () => {
    const { get } = await begin();
    const answer = await get('/metrics');
    expect(answer.headers['content-type']).toMatch(/^text\/plain; version=0\.0\.4/);
    for (const name of ['process_resident_memory_bytes', 'nodejs_eventloop_lag_seconds', 'larder_info']) {
      expect(answer.text()).toContain(`# TYPE ${name} gauge`);
    }
    expect((await get('/metrics', { method: 'HEAD' })).body).toHaveLength(0);
    expect((await get('/metrics', { method: 'POST' })).status).toBe(405);
    // Registered once, however often it is read.
    expect((await get('/metrics')).status).toBe(200);
  });

  it('counts requests by door and outcome, with their bytes and time', async () => {
    const { get, index, archive, stored, metrics } = await begin();
    const { body } = await archive();
    await stored();
    await archive();
    await index();
    expect((await index('acme/nothing')).status).toBe(404);
    await get('/healthz');
    await get('/registry/nothing');
    await get('/get/nothing');
    await get('/');
    await get('/nowhere');
    await get('/admin/inventory');
    // A request is counted when its answer is over, which its client may know a moment earlier.
    await eventually(() => metrics('larder_requests_total')).toMatchObject({
      'door="providers",outcome="arriving"': 1,
      'door="providers",outcome="ok"': 1,
      'door="providers",outcome="not_found"': 1,
      'door="health",outcome="ok"': 1,
      'door="registry",outcome="host_not_allowed"': 1,
      'door="get",outcome="not_found"': 1,
      'door="page",outcome="ok"': 1,
      'door="other",outcome="not_found"': 1,
      'door="admin",outcome="forbidden"': 1,
    });
    const stores = async () => (await metrics('larder_requests_total'))['door="providers",outcome="stored"'];
    await eventually(stores).toBeGreaterThan(1);
    expect((await metrics('larder_response_bytes_total'))['door="providers"']).toBeGreaterThan(2 * body.length);
    expect((await metrics('larder_request_seconds_count'))['door="page"']).toBe(1);
    expect(await metrics('larder_auth_failures_total')).toMatchObject({
      'kind="forbidden"': 1,
      'kind="link_expired"': 0,
    });
  });

  it('tells of upstreams in trouble, of stale answers and of circuits', async () => {
    const clock = stoppedClock();
    const { registry, index, metrics } = await begin();
    await index();
    const host = `host="${registry.hostname}"`;
    expect(await metrics('larder_circuit_open')).toEqual({ [host]: 0, 'host="other"': 0 });
    await registry.stop();
    clock.advance(3_600_000);
    expect((await index()).status).toBe(200);
    await eventually(() => metrics('larder_upstream_failures_total')).toMatchObject({
      [`${host},reason="connection"`]: 1,
    });
    expect(await metrics('larder_stale_answers_total')).toEqual({ '': 1 });
    expect(await metrics('larder_circuit_open')).toEqual({ [host]: 1, 'host="other"': 0 });
  });

  it('tells how many archives upstream contradicts itself about, until that is settled', async () => {
    const clock = stoppedClock();
    const token = 'token-of-the-operators';
    const { registry, archive, version, metrics, get } = await begin({
      config: { access: { tokens: [{ name: 'ops', token, roles: ['admin'] }] } },
    });
    expect(await metrics('larder_drift')).toEqual({ '': 0 });
    await version('1.0.0');
    await registry.addProvider({ ...WIDGET, zip: () => Buffer.from('other bytes') });
    clock.advance(120_000);
    expect((await archive()).status).toBe(502);
    expect(await metrics('larder_drift')).toEqual({ '': 1 });
    await get('/admin/purge', {
      method: 'POST',
      headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
      body: JSON.stringify({ address: '*/*/*' }),
    });
    expect(await metrics('larder_drift')).toEqual({ '': 0 });
    expect(await metrics('larder_downloads_in_progress')).toEqual({ '': 0 });
    expect(await metrics('larder_packages_in_progress')).toEqual({ '': 0 });
  });

  it('counts what became of look-ups, and what came from upstream', async () => {
    const { registry, archive, stored, index, metrics } = await begin();
    const lookUps = async (cache: string) => {
      const all = Object.entries(await metrics('larder_cache_lookups_total'));
      return Object.fromEntries(
        all
          .filter(([labels]) => labels.includes(`"${cache}"`))
          .map(([labels, value]) => [/result="(\w+)"/.exec(labels)?.[1], value]),
      );
    };
    expect(await lookUps('archives')).toEqual({ hit: 0, coalesced: 0, miss: 0, stale: 0 });
    const downloads = await Promise.all([archive(), archive(), archive()]);
    await stored();
    await archive();
    const archives = await lookUps('archives');
    expect(archives).toMatchObject({ coalesced: 2, miss: 1, stale: 0 });
    expect(archives['hit']).toBeGreaterThanOrEqual(1);
    const before = await lookUps('metadata');
    expect(before['miss']).toBeGreaterThan(0);
    for (let time = 0; time < 3; time += 1) await index();
    const after = await lookUps('metadata');
    const { hit: ready = 0 } = await lookUps('answers');
    expect((after['hit'] ?? 0) - (before['hit'] ?? 0) + ready).toBeGreaterThanOrEqual(2);
    const received = await metrics('larder_upstream_received_bytes_total');
    expect(received['host="other"']).toBeGreaterThanOrEqual(downloads[0]?.body.length ?? Number.NaN);
    expect(received[`host="${registry.hostname}"`]).toBeGreaterThan(0);
    expect((await metrics('larder_upstream_seconds_count'))[`host="${registry.hostname}"`]).toBeGreaterThan(1);
  });

  it('tells of what waits, of the disk and of the metadata store', async () => {
    const { registry, metrics } = await begin();
    for (const name of ['larder_downloads_waiting', 'larder_packages_waiting', 'larder_hashes_waiting']) {
      expect(await metrics(name)).toEqual({ '': 0 });
    }
    expect(await metrics('larder_upstream_requests_waiting')).toEqual({
      [`host="${registry.hostname}"`]: 0,
      'host="other"': 0,
    });
    expect((await metrics('larder_disk_free_bytes'))['']).toBeGreaterThan(0);
    expect(await metrics('larder_metadata_store_up')).toEqual({ 'kind="embedded"': 1 });
    expect((await metrics('larder_metadata_store_seconds_count'))['operation="check"']).toBeGreaterThan(0);
    expect(await metrics('larder_metadata_store_failures_total')).toMatchObject({ 'operation="read"': 0 });
  });

  it('takes a token, with whatever role, where clients need one', async () => {
    const tokens = [
      { name: 'ops', token: 'operator', roles: ['admin'] },
      { name: 'ci', token: 'builds', roles: ['read'] },
    ];
    const { get, metrics } = await begin({ config: { access: { anonymous: 'none', tokens } } });
    expect((await get('/metrics')).status).toBe(401);
    expect((await get('/metrics', { headers: { authorization: 'Bearer wrong' } })).status).toBe(401);
    for (const token of ['operator', 'builds']) {
      expect(await metrics('larder_auth_failures_total', token)).toMatchObject({ 'kind="unauthenticated"': 2 });
    }
  });

  it('tells nothing of addresses, tokens and clients', async () => {
    const { get, index, metrics } = await begin();
    await index('acme/secret-provider');
    await get('/providers/unknown.example.com/acme/secret-provider/index.json');
    await get('/get/some-capability/registry.example.com/acme/secret-provider/x.zip');
    await metrics('larder_requests_total');
    const { text } = await get('/metrics');
    expect(text()).not.toMatch(/secret|unknown\.example|capability|acme/);
  });
});

it('a metadata store that does not answer is down, and the scrape succeeds', async () => {
  const metrics = new Metrics({ hosts: [], version: '1' });
  let isUp = true;
  const check = async () => {
    if (!isUp) throw new Error('away');
  };
  metrics.metadataStore.observe({ check }, 'redis');
  expect(samples(await metrics.text(), 'larder_metadata_store_up')).toEqual({ 'kind="redis"': 1 });
  isUp = false;
  expect(samples(await metrics.text(), 'larder_metadata_store_up')).toEqual({ 'kind="redis"': 0 });
});

describe('labels', () => {
  const failed = async (metrics: Metrics, host: string, error: Error) => {
    metrics.upstreams.ended({ upstream: await upstreamAt('registry.example.com'), host }, error);
  };

  it('stay few, whatever hosts upstreams name', async () => {
    const metrics = new Metrics({ hosts: ['registry.example.com'], version: '1' });
    for (let index = 0; index < 100; index += 1) {
      const host = `cdn-${index}.example.net`;
      await failed(metrics, host, new UpstreamUnreachable(host, 'timeout', 'is slow'));
    }
    const host = 'registry.example.com';
    await failed(metrics, host, new UpstreamUnreachable(host, 'busy', 'is busy'));
    await failed(metrics, host, new NotFound('no such thing'));
    expect(samples(await metrics.text(), 'larder_upstream_failures_total')).toEqual({
      'host="other",reason="timeout"': 100,
      'host="registry.example.com",reason="busy"': 1,
    });
  });

  it('stay few, whatever becomes of requests', async () => {
    const registry = new Registry();
    const requests = new RequestMetrics(registry);
    const finished = { path: '/providers/x', status: 200, bytes: 1, seconds: 0.1 };
    for (let index = 0; index < 1_000; index += 1) requests.count({ ...finished, outcome: `OUTCOME_${index}` });
    const counted = samples(await registry.metrics(), 'larder_requests_total');
    expect(Object.keys(counted)).toHaveLength(65);
    expect(counted['door="providers",outcome="other"']).toBe(936);
  });

  it('are those of each Larder alone', async () => {
    const [one, other] = [1, 2].map(() => new Metrics({ hosts: [], version: '1' }));
    await failed(one as Metrics, 'x', new UpstreamUnreachable('x', 'busy', 'is busy'));
    expect(samples((await other?.text()) ?? '', 'larder_upstream_failures_total')).toEqual({});
  });
});
