import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { silentLogger } from '../../src/logger.ts';
import type { MetadataStore } from '../../src/store/metadata-store.ts';
import { openRedisMetadata } from '../../src/store/redis-keyv.ts';
import { metadataStoreContract } from '../contract/metadata-store.ts';
import { CertificateAuthority } from '../support/certificates.ts';
import { recordingLogger } from '../support/recording-logger.ts';
import { startRedis, type TestRedis } from '../support/redis.ts';
import { describeWith } from '../support/requirements.ts';

const HOUR_MS = 3_600_000;
/** The limit of one operation is 250 ms; the rest is for a loaded machine. */
const SOON_MS = 1_500;
const RECOVERY = { timeout: 15_000, interval: 50 };
const ENTRY = { value: { n: 1 }, fetchedAt: 1 };

const stops: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const stop of stops.splice(0).reverse()) await stop();
});

async function redis(options?: Parameters<typeof startRedis>[0]): Promise<TestRedis> {
  const started = await startRedis(options);
  if (!started) throw new Error('no redis-server');
  stops.push(() => started.stop());
  return started;
}

async function opened(options: Parameters<typeof openRedisMetadata>[0]): Promise<MetadataStore> {
  const store = await openRedisMetadata(options);
  stops.push(() => store.close());
  return store;
}

/** Every operation rejects, and soon. */
async function expectFailure(store: MetadataStore): Promise<void> {
  const started = performance.now();
  const outcomes = await Promise.allSettled([
    store.get('k'),
    store.put('k', ENTRY, HOUR_MS),
    store.delete('k'),
    store.check(),
  ]);
  expect(performance.now() - started).toBeLessThan(SOON_MS);
  for (const outcome of outcomes) {
    expect(outcome).toMatchObject({ status: 'rejected', reason: { code: 'STORAGE_FAILED' } });
  }
}

async function expectRecovery(store: MetadataStore): Promise<void> {
  await expect.poll(() => store.put('back', ENTRY, HOUR_MS).then(() => store.get('back')), RECOVERY).toEqual(ENTRY);
  await store.check();
}

describeWith(['redis-server'], 'Redis', () => {
  describe('sound', () => {
    let shared: TestRedis;
    beforeAll(async () => {
      shared = (await startRedis()) as TestRedis;
    });
    afterAll(() => shared.stop());
    metadataStoreContract('Redis', () => openRedisMetadata({ url: shared.url, logger: silentLogger }));

    it('R62: a malformed value under our key is a miss, and can be replaced', async () => {
      const store = await opened({ url: shared.url, logger: silentLogger, namespace: 'ns' });
      const garbage = [
        'not JSON',
        '',
        '42',
        'null',
        '[]',
        '{"value":1}',
        '{"value":{"value":1,"fetchedAt":"soon"}}',
        '{"value":{"fetchedAt":1}}',
      ];
      for (const text of garbage) {
        await shared.command('SET', 'ns::k', text);
        expect(await store.get('k'), text).toBeUndefined();
      }
      await shared.command('DEL', 'ns::k');
      await shared.command('RPUSH', 'ns::k', 'a list');
      expect(await store.get('k')).toBeUndefined();
      await store.put('k', ENTRY, HOUR_MS);
      expect(await store.get('k')).toEqual(ENTRY);
    });

    it('lets Redis forget entries by itself', async () => {
      const store = await opened({ url: shared.url, logger: silentLogger });
      await store.put('expiring', ENTRY, HOUR_MS);
      expect(Number(await shared.command('PTTL', 'larder::expiring'))).toBeGreaterThan(HOUR_MS - 60_000);
    });

    it('R62: FLUSHALL loses entries and nothing else', async () => {
      const store = await opened({ url: shared.url, logger: silentLogger });
      await store.put('k', ENTRY, HOUR_MS);
      await shared.command('FLUSHALL');
      expect(await store.get('k')).toBeUndefined();
      await expectRecovery(store);
    });
  });

  it('R62: down at start is no failure of ours, and it is used once it is up', async () => {
    const server = await redis({ started: false });
    const logger = recordingLogger();
    const store = await opened({ url: server.url, logger });
    await expectFailure(store);
    await server.restart();
    await expectRecovery(store);
    expect(logger.lines.map((line) => line.level)).toEqual(['warn', 'info']);
  });

  it('R62: killed in mid-life it fails fast, and works again after its restart, with one log line for each', async () => {
    const server = await redis();
    const logger = recordingLogger();
    const store = await opened({ url: server.url, logger });
    await store.put('k', ENTRY, HOUR_MS);
    await server.restart();
    await expectRecovery(store);
    expect(await store.get('k')).toBeUndefined();
    await expect.poll(() => logger.lines.map((line) => line.level)).toEqual(['warn', 'info']);
    await server.stop();
    await expect.poll(() => logger.lines.length).toBe(3);
    await expectFailure(store);
    await expectFailure(store);
    expect(logger.lines.map((line) => line.level)).toEqual(['warn', 'info', 'warn']);
  });

  it('R62: paused it fails within the limit, also for long, and works again when it goes on', async () => {
    const server = await redis();
    const store = await opened({ url: server.url, logger: silentLogger });
    await store.put('k', ENTRY, HOUR_MS);
    server.pause();
    await expectFailure(store);
    await expectFailure(store);
    server.resume();
    await expectRecovery(store);
    expect(await store.get('k')).toEqual(ENTRY);

    // Beyond the socket's time-out the connection is given up, and must be made anew.
    const logger = recordingLogger();
    const other = await opened({ url: server.url, logger });
    server.pause();
    await expect.poll(() => logger.lines.length, { timeout: 10_000 }).toBe(1);
    await expectFailure(other);
    await expectFailure(store);
    server.resume();
    await expectRecovery(other);
    await expectRecovery(store);
  });

  it('R62: paused it does not hold up closing', async () => {
    const server = await redis();
    const store = await opened({ url: server.url, logger: silentLogger });
    server.pause();
    const started = performance.now();
    await store.close();
    expect(performance.now() - started).toBeLessThan(SOON_MS);
    server.resume();
  });

  it('R62: full it refuses writes, says so, and still answers reads', async () => {
    const server = await redis();
    const store = await opened({ url: server.url, logger: silentLogger });
    await store.put('k', ENTRY, HOUR_MS);
    await server.command('CONFIG', 'SET', 'maxmemory', '1');
    await expect(store.put('k2', ENTRY, HOUR_MS)).rejects.toMatchObject({ code: 'STORAGE_FAILED' });
    expect(await store.get('k')).toEqual(ENTRY);
    expect(await store.get('k2')).toBeUndefined();
    await server.command('CONFIG', 'SET', 'maxmemory', '0');
    await store.put('k2', ENTRY, HOUR_MS);
    expect(await store.get('k2')).toEqual(ENTRY);
  });

  it('R62: evicting (allkeys-lru) it loses entries without an error', async () => {
    const server = await redis();
    const store = await opened({ url: server.url, logger: silentLogger });
    await server.command('CONFIG', 'SET', 'maxmemory-policy', 'allkeys-lru');
    await server.command('CONFIG', 'SET', 'maxmemory', '3mb');
    const big = { value: 'x'.repeat(100_000), fetchedAt: 1 };
    for (let n = 0; n < 60; n++) await store.put(`k${n}`, big, HOUR_MS);
    const kept = await Promise.all(Array.from({ length: 60 }, (_, n) => store.get(`k${n}`)));
    // Redis picks the least recently used of a few that it looks at: which are gone is chance.
    const found = kept.filter((entry) => entry !== undefined);
    expect(found.length).toBeGreaterThan(0);
    expect(found.length).toBeLessThan(60);
    for (const entry of found) expect(entry).toEqual(big);
  });

  it('R62: a read-only replica refuses writes and answers reads', async () => {
    const server = await redis();
    const store = await opened({ url: server.url, logger: silentLogger });
    await store.put('k', ENTRY, HOUR_MS);
    await server.command('REPLICAOF', '127.0.0.1', '1');
    await expect(store.put('k2', ENTRY, HOUR_MS)).rejects.toMatchObject({
      code: 'STORAGE_FAILED',
      cause: expect.objectContaining({ message: expect.stringContaining('READONLY') }),
    });
    expect(await store.get('k')).toEqual(ENTRY);
    await server.command('REPLICAOF', 'NO', 'ONE');
    await expectRecovery(store);
  });

  it('speaks TLS to rediss://, and refuses a certificate that nobody vouches for', async () => {
    const authority = await CertificateAuthority.generate();
    const { cert, key } = await authority.issue();
    const directory = mkdtempSync(join(tmpdir(), 'larder-redis-tls-'));
    stops.push(async () => rmSync(directory, { recursive: true, force: true }));
    writeFileSync(join(directory, 'cert.pem'), cert);
    writeFileSync(join(directory, 'key.pem'), key);
    const server = await redis({
      scheme: 'rediss',
      arguments: [
        '--tls-cert-file',
        join(directory, 'cert.pem'),
        '--tls-key-file',
        join(directory, 'key.pem'),
        '--tls-ca-cert-file',
        join(directory, 'cert.pem'),
      ],
    });
    await expectRecovery(await opened({ url: server.url, logger: silentLogger, ca: authority.pem }));
    await expectFailure(await opened({ url: server.url, logger: silentLogger }));
  });

  it('uses the password of the URL and never shows it', async () => {
    const server = await redis({ password: 's3cret' });
    await expectRecovery(await opened({ url: server.url, logger: silentLogger }));

    const logger = recordingLogger();
    const store = await opened({ url: server.url.replace('s3cret', 'wr0ng'), logger });
    await expect.poll(() => logger.lines.length).toBe(1);
    const failure = await store.get('k').catch((error: unknown) => error);
    const shown = [...logger.lines, failure].map(
      (one) => JSON.stringify(one) + String((one as { fields?: { error?: unknown } }).fields?.error ?? one),
    );
    expect(shown.join()).not.toContain('wr0ng');
    expect(shown.join()).toContain('127.0.0.1');
  });
});

describe('openRedisMetadata', () => {
  it('R62: a host that accepts and never answers does not hold up the start or an operation', async () => {
    const sockets = new Set<Socket>();
    const server = createServer((socket) => sockets.add(socket)).listen(0, '127.0.0.1');
    await once(server, 'listening');
    stops.push(async () => {
      for (const socket of sockets) socket.destroy();
      server.close();
    });
    const { port } = server.address() as { port: number };
    const started = performance.now();
    const store = await opened({ url: `redis://127.0.0.1:${port}`, logger: silentLogger });
    expect(performance.now() - started).toBeLessThan(1_000 + SOON_MS);
    await expectFailure(store);
  });

  it.each(['not a url', 'http://user:s3cret@127.0.0.1', ''])('refuses %j without repeating it', async (url) => {
    const opening = openRedisMetadata({ url, logger: silentLogger });
    await expect(opening).rejects.toMatchObject({ code: 'INVALID_CONFIGURATION' });
    await expect(opening).rejects.not.toMatchObject({ message: expect.stringContaining('s3cret') });
  });
});
