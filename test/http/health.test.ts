import { Registry } from 'prom-client';
import { expect, test } from 'vitest';
import { StorageFailed } from '../../src/errors.ts';
import { Health, type HealthCheck } from '../../src/http/health.ts';
import { silentLogger } from '../../src/logger.ts';
import { observeHealth } from '../../src/metrics/health-metrics.ts';
import { start } from './harness.ts';

const ok = (name: string, essential = true): HealthCheck => ({ name, essential, check: async () => {} });
const bad = (name: string, essential: boolean, error: unknown): HealthCheck => ({
  name,
  essential,
  check: () => Promise.reject(error),
});

test('a living process says so, whatever else is wrong', async () => {
  const { ask } = await start({}, { checks: [bad('archives', true, new Error('gone'))] });
  const answer = await ask('GET /healthz');
  expect(answer.statusLine).toBe('HTTP/1.1 200 OK');
  expect(answer.json()).toEqual({ status: 'alive' });
  expect(answer.headers['cache-control']).toBe('no-store');
});

test('all is well', async () => {
  const { ask } = await start({}, { checks: [ok('archives'), ok('metadata', false)] });
  const answer = await ask('GET /readyz');
  expect(answer.statusLine).toBe('HTTP/1.1 200 OK');
  expect(answer.json()).toEqual({
    status: 'ready',
    checks: { archives: { status: 'ok' }, metadata: { status: 'ok' } },
  });
});

test('without its metadata store Larder is slower, and still ready; addresses and passwords are not shown', async () => {
  const refused = Object.assign(new Error('connect redis://user:secret@10.0.0.1'), { code: 'ECONNREFUSED' });
  const { ask, log } = await start({}, { checks: [ok('archives'), bad('metadata', false, refused)] });
  const answer = await ask('GET /readyz');
  expect(answer.statusLine).toBe('HTTP/1.1 200 OK');
  expect(answer.json()).toEqual({
    status: 'degraded',
    checks: { archives: { status: 'ok' }, metadata: { status: 'degraded', reason: 'not available (ECONNREFUSED)' } },
  });
  expect((await log.entry('health check failed')).fields).toEqual({ check: 'metadata', error: refused });
});

test('without a place for archives Larder is not ready', async () => {
  const readOnly = new StorageFailed('writing', Object.assign(new Error('write /srv'), { code: 'EROFS' }));
  const { ask } = await start({}, { checks: [bad('archives', true, readOnly), ok('metadata', false)] });
  const answer = await ask('GET /readyz');
  expect(answer.statusLine).toBe('HTTP/1.1 503 Service Unavailable');
  expect(answer.json()).toMatchObject({
    status: 'failing',
    checks: { archives: { status: 'failing', reason: 'writing failed (EROFS)' } },
  });
});

test('a check that hangs is a check that failed', async () => {
  const { ask } = await start(
    {},
    { checks: [{ name: 'metadata', essential: false, check: () => new Promise(() => {}) }] },
  );
  expect((await ask('GET /readyz')).json()).toMatchObject({
    status: 'degraded',
    checks: { metadata: { reason: 'did not answer within 2 s' } },
  });
});

test('what hangs is named where the name of the check does not tell', async () => {
  const health = new Health({
    checks: [{ name: 'archives', essential: true, asks: 'bucket', check: () => new Promise(() => {}) }],
    isDraining: () => false,
    logger: silentLogger,
    deadlineMs: 10,
  });
  expect(await health.report()).toEqual({
    status: 'failing',
    checks: { archives: { status: 'failing', reason: 'bucket did not answer within 0.01 s' } },
  });
});

test('where what is stored can be read and nothing be written, Larder is ready with limits', async () => {
  const cause = Object.assign(new Error('write /srv'), { code: 'EROFS' });
  const readOnly = new StorageFailed('writing', cause, { readable: true });
  const { ask } = await start({}, { checks: [bad('archives', true, readOnly)] });
  const answer = await ask('GET /readyz');
  expect(answer.statusLine).toBe('HTTP/1.1 200 OK');
  expect(answer.json()).toEqual({
    status: 'degraded',
    checks: { archives: { status: 'degraded', reason: 'writing failed (EROFS)' } },
  });
});

test('a look waits no longer than it may, and then tells of what was seen last', async () => {
  let hang: Promise<void> = Promise.resolve();
  const health = new Health({
    checks: [{ name: 'archives', essential: true, check: () => hang }],
    isDraining: () => false,
    logger: silentLogger,
    deadlineMs: 200,
  });
  expect(await health.look(5_000)).toEqual({ archives: { status: 'ok' } });
  hang = new Promise(() => {});
  expect(await health.look(1)).toEqual({ archives: { status: 'ok' } });
  expect(await health.look(5_000)).toMatchObject({ archives: { status: 'failing' } });
});

test('whether checks succeed is a metric, of which workers tell the worst', async () => {
  const registry = new Registry();
  observeHealth(registry, { look: async () => ({ archives: { status: 'degraded' }, seal: { status: 'ok' } }) });
  const text = await registry.metrics();
  expect(text).toContain('larder_ready{check="archives"} 0');
  expect(text).toContain('larder_ready{check="seal"} 1');
  expect((await registry.getMetricsAsJSON())[0]).toMatchObject({ aggregator: 'min' });
});

test('a check that throws at once is a check that failed', async () => {
  const check = () => {
    throw new Error('no');
  };
  const { ask } = await start({}, { checks: [{ name: 'archives', essential: true, check }] });
  expect((await ask('GET /readyz')).statusLine).toBe('HTTP/1.1 503 Service Unavailable');
});

test('a failure is logged when it begins and when it ends, not each time it is seen', async () => {
  let broken = true;
  const check = async () => {
    if (broken) throw new Error('no');
  };
  const { ask, log } = await start({}, { checks: [{ name: 'metadata', essential: false, check }] });
  for (const state of [true, true, false, false]) {
    broken = state;
    await ask('GET /readyz');
  }
  const news = log.entries.filter(({ level }) => level !== 'debug').map(({ level, message }) => `${level} ${message}`);
  expect(news).toEqual(['warn health check failed', 'info health check succeeds again']);
});

test('checks asked for at the same time run once', async () => {
  let runs = 0;
  let finish = () => {};
  const finished = new Promise<void>((resolve) => {
    finish = resolve;
  });
  const check = () => {
    runs += 1;
    return finished;
  };
  const { ask, log } = await start({}, { checks: [{ name: 'archives', essential: true, check }] });
  const answers = Promise.all([ask('GET /readyz'), ask('GET /readyz')]);
  await ask('GET /healthz');
  await log.entry('request');
  finish();
  expect((await answers).map(({ statusLine }) => statusLine)).toEqual(['HTTP/1.1 200 OK', 'HTTP/1.1 200 OK']);
  expect(runs).toBe(1);
});

test('a Larder that is shutting down is not ready', async () => {
  let finish = () => {};
  const finished = new Promise<void>((resolve) => {
    finish = resolve;
  });
  let begun = () => {};
  const beginning = new Promise<void>((resolve) => {
    begun = resolve;
  });
  const check = () => {
    begun();
    return finished;
  };
  const { ask, server } = await start({}, { checks: [{ name: 'archives', essential: true, check }] });
  const asking = ask('GET /readyz');
  await beginning;
  const drained = server.drain(10_000);
  finish();
  const answer = await asking;
  expect(answer.statusLine).toBe('HTTP/1.1 503 Service Unavailable');
  expect(answer.json()['status']).toBe('draining');
  await drained;
});

test.each(['/healthz', '/readyz'])('%s is for GET and HEAD', async (path) => {
  const { ask } = await start();
  const refused = await ask(`POST ${path}`, 'Content-Length: 0');
  expect(refused.statusLine).toBe('HTTP/1.1 405 Method Not Allowed');
  expect(refused.headers['allow']).toBe('GET, HEAD');
  const head = await ask(`HEAD ${path}`);
  expect(head.statusLine).toBe('HTTP/1.1 200 OK');
  expect(head.body.length).toBe(0);
});
