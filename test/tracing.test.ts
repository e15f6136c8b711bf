import { readdirSync, readFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import path from 'node:path';
import { text } from 'node:stream/consumers';
import { describe, expect, it } from 'vitest';
import { silentLogger } from '../src/logger.ts';
import { openTracing } from '../src/tracing.ts';
import { startModuleScene } from './mirror/module-scene.ts';
import { eventually, type SceneOptions, startScene } from './mirror/scene.ts';
import { afterTest } from './support/after-test.ts';

interface Collected {
  readonly name: string;
  readonly traceId: string;
  readonly spanId: string;
  readonly parentSpanId?: string;
  readonly status?: { readonly code?: number; readonly message?: string };
  readonly attributes: Readonly<Record<string, unknown>>;
}

/** Takes OTLP in JSON, and keeps the spans. */
async function startCollector(answer: { status?: number; hangs?: boolean } = {}) {
  const spans: Collected[] = [];
  const paths: string[] = [];
  const server = createServer(async (request, response) => {
    paths.push(request.url ?? '');
    const body = await text(request);
    if (answer.hangs) return;
    spans.push(...spansIn(JSON.parse(body)));
    response.writeHead(answer.status ?? 200, { 'content-type': 'application/json' }).end('{}');
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  afterTest(async () => {
    server.closeAllConnections();
    server.close();
  });
  return { endpoint: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, spans, paths };
}

// biome-ignore lint/suspicious/noExplicitAny: what comes over the wire has whatever shape it has.
function spansIn(document: any): Collected[] {
  return document.resourceSpans.flatMap(({ scopeSpans }: { scopeSpans: { spans: Collected[] }[] }) =>
    scopeSpans.flatMap(({ spans }) =>
      spans.map((span) => ({
        ...span,
        attributes: Object.fromEntries(
          (span.attributes as unknown as { key: string; value: object }[]).map(({ key, value }) => [
            key,
            Object.values(value)[0],
          ]),
        ),
      })),
    ),
  );
}

const TRACE = '0af7651916cd43dd8448eb211c80319c';
const PARENT = 'b7ad6b7169203331';
const sampled = { traceparent: `00-${TRACE}-${PARENT}-01` };

async function begin(tracing: Record<string, unknown> = {}, options: SceneOptions = {}) {
  const collector = await startCollector();
  const scene = await startScene({
    ...options,
    config: { tracing: { endpoint: collector.endpoint, sample: 1, ...tracing }, ...options.config },
  });
  /** Everything is delivered by then. */
  const delivered = async () => {
    await scene.larder.close();
    return collector.spans;
  };
  return { ...scene, ...collector, delivered };
}

describe('traces', () => {
  it('are not made unless somebody wants them, and nothing is loaded for them', async () => {
    const off = { endpoint: undefined, sample: 1, propagate: true };
    expect(await openTracing(off, { version: '1', logger: silentLogger })).toBeUndefined();
    const source = path.join(import.meta.dirname, '..', 'src');
    const files = readdirSync(source, { recursive: true, encoding: 'utf8' }).filter((file) => file.endsWith('.ts'));
    for (const file of files) {
      const lines = readFileSync(path.join(source, file), 'utf8').split('\n');
      expect(lines.filter((line) => /^import (?!type ).*@opentelemetry/.test(line))).toEqual([]);
    }
  });

  it('tell of a request, of what it asks of upstream, and of the download that it begins', async () => {
    const { archive, stored, registry, delivered, paths } = await begin();
    const answer = await archive();
    await stored();
    const spans = await delivered();
    expect(new Set(paths)).toEqual(new Set(['/v1/traces']));
    const request = spans.find(
      ({ name, attributes }) => name === 'request' && attributes['larder.outcome'] === 'arriving',
    );
    expect(request?.attributes).toMatchObject({
      'http.request.method': 'GET',
      'http.response.status_code': 200,
      'url.path': expect.stringMatching(/widget_1\.0\.0_linux_amd64\.zip$/),
      'larder.request_id': answer.headers['x-request-id'],
    });
    const within = spans.filter(({ traceId, name }) => traceId === request?.traceId && name !== 'request');
    const [download] = within.filter(({ name }) => name === 'archive download');
    expect(download).toMatchObject({ parentSpanId: request?.spanId });
    expect(download?.attributes['larder.archive']).toContain('acme/widget');
    const asked = within.filter(({ name }) => name === 'upstream request');
    expect(asked.map(({ attributes }) => attributes['server.address'])).toEqual(
      expect.arrayContaining([registry.hostname, new URL(registry.releases.url).host]),
    );
  });

  it('tell of packages that are made', async () => {
    const collector = await startCollector();
    const scene = await startModuleScene({ config: { tracing: { endpoint: collector.endpoint, sample: 1 } } });
    expect((await scene.package()).status).toBe(200);
    await scene.larder.close();
    const making = collector.spans.find(({ name }) => name === 'package making');
    expect(making?.attributes['larder.module']).toBeDefined();
    expect(collector.spans.some(({ name, spanId }) => name === 'request' && spanId === making?.parentSpanId)).toBe(
      true,
    );
  });

  it('go on with the trace that a client is in, and leave alone what it does not want traced', async () => {
    const { get, registry, delivered } = await begin({ sample: 0 });
    const base = `/providers/${registry.hostname}/acme/widget`;
    await get(`${base}/index.json`, { headers: sampled });
    await get(`${base}/1.0.0.json`, { headers: { traceparent: `00-${TRACE.replace('0', '1')}-${PARENT}-00` } });
    await get(`${base}/1.0.0.json`, { headers: { traceparent: 'nonsense' } });
    await get(`${base}/1.0.0.json`);
    const spans = await delivered();
    expect(new Set(spans.map(({ traceId }) => traceId))).toEqual(new Set([TRACE]));
    expect(spans.filter(({ parentSpanId }) => parentSpanId === PARENT).map(({ name }) => name)).toEqual(['request']);
  });

  it.each([true, false])(
    'are told to registries where that is wanted (propagate: %s), and never to archive hosts',
    async (propagate) => {
      const { get, archive, stored, registry } = await begin({ propagate });
      await get(`/providers/${registry.hostname}/acme/widget/index.json`, { headers: sampled });
      await archive('1.0.0', 'linux_amd64', { headers: sampled });
      await stored();
      const told = registry.requests.all.map(({ headers }) => headers['traceparent']);
      expect(told.length).toBeGreaterThan(1);
      for (const one of told) {
        if (propagate) expect(one).toMatch(new RegExp(`^00-${TRACE}-[0-9a-f]{16}-01$`));
        else expect(one).toBeUndefined();
      }
      for (const { headers } of registry.releases.requests.all) expect(headers).not.toHaveProperty('traceparent');
    },
  );

  it('say what failed, in words that are fit to be shown', async () => {
    const { index, registry, delivered } = await begin();
    await registry.stop();
    await index();
    const spans = await delivered();
    const asked = spans.find(({ name }) => name === 'upstream request');
    expect(asked?.status).toMatchObject({ code: 2, message: expect.stringContaining(registry.hostname) });
    expect(asked?.attributes['error.type']).toBe('UPSTREAM_UNREACHABLE');
    const request = spans.find(({ name }) => name === 'request');
    expect(request).toMatchObject({ status: { code: 2 }, attributes: { 'error.type': 'UPSTREAM_UNREACHABLE' } });
  });

  it('tell no secrets: no queries, no tokens, nothing that makes a link good', async () => {
    const token = 'client-token-3b1c';
    const { get, archive, registry, delivered } = await begin(
      {},
      {
        config: { access: { anonymous: 'none', tokens: [{ name: 'ci', token, roles: ['read'] }] } },
      },
    );
    const headers = { authorization: `Bearer ${token}` };
    const list = await get(`/providers/${registry.hostname}/acme/widget/1.0.0.json?query=secret-query`, { headers });
    const link: string = list.json().archives.linux_amd64.url;
    const [, capability = ''] = /get\/([^/]+)\//.exec(link) ?? [];
    expect(capability).not.toBe('');
    expect((await get(`/${link.replace(/^(\.\.\/)+/, '')}`)).status).toBe(200);
    await archive('1.0.0', 'linux_amd64', { headers });
    const told = JSON.stringify(await delivered());
    expect(told).toContain('/get/');
    for (const secret of [token, 'secret-query', capability]) expect(told).not.toContain(secret);
  });

  it('leave out probes and scrapes', async () => {
    const { get, delivered } = await begin();
    for (const probe of ['/healthz', '/readyz', '/metrics']) expect((await get(probe)).status).toBe(200);
    expect((await delivered()).map(({ attributes }) => attributes['url.path'])).not.toContain('/metrics');
  });
});

describe('a collector', () => {
  it.each([
    ['that is not there', async () => 'http://127.0.0.1:1'],
    ['that fails', async () => (await startCollector({ status: 500 })).endpoint],
    ['that refuses', async () => (await startCollector({ status: 401 })).endpoint],
    ['that never answers', async () => (await startCollector({ hangs: true })).endpoint],
  ])('%s hurts nobody, and holds up no shutdown', async (_, start) => {
    const { index, archive, larder } = await startScene({
      config: { tracing: { endpoint: await start(), sample: 1 } },
    });
    expect((await index()).status).toBe(200);
    expect((await archive()).status).toBe(200);
    const before = performance.now();
    await larder.close();
    expect(performance.now() - before).toBeLessThan(15_000);
  });

  it('that is in trouble is spoken of in the log, once', async () => {
    const { endpoint } = await startCollector({ status: 401 });
    const { index, larder, warnings } = await startScene({ config: { tracing: { endpoint, sample: 1 } } });
    await index();
    await larder.close();
    await eventually(() => warnings('traces cannot be delivered')).toHaveLength(1);
  });
});
