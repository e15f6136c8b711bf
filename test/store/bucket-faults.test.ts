import { randomBytes } from 'node:crypto';
import { buffer } from 'node:stream/consumers';
import { setTimeout as delay } from 'node:timers/promises';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { paths } from '../../src/store/keys.ts';
import { BucketWatch } from '../../src/store/s3/bucket-watch.ts';
import { archiveOf, collect, put, sha256Hex } from '../contract/archive-store.ts';
import { recordingLogger } from '../support/recording-logger.ts';
import { S3Server } from '../support/s3.ts';
import { BucketStores } from './bucket-stores.ts';

const linux = archiveOf('terraform-provider-widget_1.0.0_linux_amd64.zip');
const darwin = archiveOf('terraform-provider-widget_1.0.0_darwin_arm64.zip');
const KEY = paths.archive(linux);
/** Three parts. */
const large = randomBytes(20 * 1024 * 1024);
const small = randomBytes(300_000);

let server: S3Server;
let stores: BucketStores;
let logger: ReturnType<typeof recordingLogger>;

beforeEach(async () => {
  server = await S3Server.start();
  logger = recordingLogger();
  stores = new BucketStores({ server, logger });
});

afterEach(async () => {
  await stores.close();
  await server.close();
});

const warnings = () => logger.lines.filter(({ level }) => level === 'warn').map(({ message }) => message);

test('a refusal has the hint also where its answer has no body to tell the reason', async () => {
  server.fail(({ method }) => method === 'HEAD' || method === 'GET', { status: 403, code: 'AccessDenied' });
  const hint = expect.stringContaining('must be allowed to list, read, write and delete');
  const bucket = await stores.bucket();
  await expect(bucket.head(KEY)).rejects.toMatchObject({ message: expect.stringContaining('(HTTP 403)'), hint });
  await expect(bucket.check()).rejects.toMatchObject({ message: expect.stringContaining('(AccessDenied)'), hint });
});

test('a client that leaves while it is kept waiting keeps nobody else from the server', async () => {
  const bucket = await stores.bucket();
  server.fail(({ key }) => key.endsWith('late'), { delayMs: 50 }, 1);
  const abort = new AbortController();
  const leaving = fetch(`${server.endpoint}/${server.bucket}/late`, { signal: abort.signal });
  await expect.poll(() => server.count('GET', 'late')).toBe(1);
  abort.abort();
  await expect(leaving).rejects.toThrow();
  await delay(100);
  expect(await bucket.head(KEY)).toBeUndefined();
});

describe('an upload in parts', () => {
  test('goes on while bytes come, and appears only when it is committed', async () => {
    const store = await stores.archives();
    const incoming = await store.receive(linux);
    await incoming.write(large.subarray(0, 17 * 1024 * 1024));
    await expect.poll(() => server.requests.filter(({ query }) => query.has('partNumber')).length).toBe(2);
    expect(await server.uploads()).toHaveLength(1);
    expect(server.has(KEY)).toBe(false);
    await incoming.write(large.subarray(17 * 1024 * 1024));
    const stored = await incoming.commit(sha256Hex(large));
    expect(large.equals(await server.get(KEY))).toBe(true);
    expect(large.equals(await buffer(await store.read(stored)))).toBe(true);
    expect(await server.uploads()).toEqual([]);
  });

  test('R04: that is given up leaves nothing', async () => {
    const store = await stores.archives();
    const incoming = await store.receive(linux);
    await incoming.write(large);
    await incoming.abort();
    expect(await server.uploads()).toEqual([]);
    expect(await server.keys()).toEqual([]);
    expect(await stores.partials()).toEqual([]);
  });

  test.each([
    ['is refused', { status: 403, code: 'AccessDenied' }, 'AccessDenied'],
    ['fails', { status: 500, code: 'InternalError' }, 'InternalError'],
    ['is reset', 'reset', 'ECONNRESET'],
  ] as const)(
    'of which a part %s can be read while it comes, fails when it is committed, and leaves nothing',
    async (_, fault, code) => {
      const store = await stores.archives();
      const heal = server.fail(({ query }) => query.get('partNumber') === '2', fault);
      const incoming = await store.receive(linux);
      await incoming.write(large);
      const reader = await incoming.openReader();
      const into = Buffer.alloc(1_000);
      expect(await reader.read(into, 19_000_000)).toBe(1_000);
      expect(into.equals(large.subarray(19_000_000, 19_001_000))).toBe(true);
      await reader.close();
      await expect(incoming.commit(sha256Hex(large))).rejects.toMatchObject({
        code: 'STORAGE_FAILED',
        message: expect.stringContaining(code),
      });
      await incoming.abort();
      expect(await server.keys()).toEqual([]);
      expect(await server.uploads()).toEqual([]);
      expect(await stores.partials()).toEqual([]);
      heal();
      expect(await put(store, linux, large)).toEqual(await store.find(linux));
    },
  );

  test('of which a part is reset once is not noticed', async () => {
    const store = await stores.archives();
    server.fail(({ query }) => query.get('partNumber') === '2', 'reset', 1);
    await put(store, linux, large);
    expect(large.equals(await server.get(KEY))).toBe(true);
  });

  test('that cannot be put together leaves nothing', async () => {
    const store = await stores.archives();
    server.fail(({ method, query }) => method === 'POST' && query.has('uploadId'), {
      status: 400,
      code: 'InvalidPart',
    });
    const incoming = await store.receive(linux);
    await incoming.write(large);
    await expect(incoming.commit(sha256Hex(large))).rejects.toMatchObject({ code: 'STORAGE_FAILED' });
    await incoming.abort();
    expect(await server.keys()).toEqual([]);
    expect(await server.uploads()).toEqual([]);
  });

  test('that a dead process left is aborted a day later, younger ones are not', async () => {
    const bucket = await stores.bucket();
    await bucket.uploads.begin(KEY);
    await server.ageUploads();
    const young = await bucket.uploads.begin(KEY);
    const watch = new BucketWatch({ bucket, logger });
    watch.begin();
    await expect.poll(() => server.uploads()).toEqual([young]);
    await watch.settled();
    await bucket.uploads.abort(KEY, young);
  });

  test('that a dead process left is found among more than one answer holds, and those of others', async () => {
    server.pageSize = 2;
    const bucket = await stores.bucket();
    const theirs = await Promise.all(['a', 'b', 'c'].map((name) => bucket.uploads.begin(`backups/${name}`)));
    for (const archive of [linux, darwin]) {
      for (let times = 0; times < 2; times += 1) await bucket.uploads.begin(paths.archive(archive));
    }
    await bucket.uploads.begin('modules/registry.example.com/acme/net/aws/1.0.0.tar.gz');
    await server.ageUploads();
    const watch = new BucketWatch({ bucket, logger });
    watch.begin();
    await expect.poll(async () => (await server.uploads()).sort()).toEqual([...theirs].sort());
    await watch.settled();
    expect(server.requests.filter(({ query }) => query.has('key-marker'))).toHaveLength(1);
    for (const [index, id] of theirs.entries()) await bucket.uploads.abort(`backups/${'abc'[index]}`, id);
  });

  test('that is none of ours is left alone, however old it is', async () => {
    const bucket = await stores.bucket();
    const theirs = await bucket.uploads.begin('backups/dump.sql');
    await bucket.uploads.begin(KEY);
    await server.ageUploads();
    const watch = new BucketWatch({ bucket, logger });
    watch.begin();
    await expect.poll(() => server.uploads()).toEqual([theirs]);
    await watch.settled();
    await bucket.uploads.abort('backups/dump.sql', theirs);
  });
});

describe('replicas that store the same archive', () => {
  test('R24: take what was there first', async () => {
    const [one, other] = [await stores.archives(), await stores.archives()];
    const [first, second] = [await one.receive(linux), await other.receive(linux)];
    for (const incoming of [first, second]) await incoming.write(large);
    const stored = await first.commit(sha256Hex(large));
    expect(await second.commit(sha256Hex(large))).toEqual(stored);
    expect(await server.uploads()).toEqual([]);
  });

  test('R24: do not replace it with something else', async () => {
    const [one, other] = [await stores.archives(), await stores.archives()];
    const incoming = await other.receive(linux);
    await incoming.write(large);
    await put(one, linux, small);
    await expect(incoming.commit(sha256Hex(large))).rejects.toMatchObject({ code: 'INTEGRITY_MISMATCH' });
    await incoming.abort();
    expect(small.equals(await server.get(KEY))).toBe(true);
  });

  test('take over what another one left without a record', async () => {
    const store = await stores.archives();
    const incoming = await store.receive(linux);
    await incoming.write(small);
    await server.put(KEY, small);
    expect(await incoming.commit(sha256Hex(small))).toMatchObject({ sha256: sha256Hex(small) });
    expect(await store.find(linux)).toMatchObject({ sha256: sha256Hex(small) });
  });

  test('are all in VERSION.json, though they write it at once', async () => {
    const all = await Promise.all(Array.from({ length: 4 }, () => stores.archives()));
    const archives = all.map((_, index) => archiveOf(`terraform-provider-widget_1.0.0_linux_arch${index}.zip`));
    await Promise.all(all.map((store, index) => put(store, archives[index] as typeof linux, small)));
    const document = JSON.parse((await server.get(paths.version(linux.provider, linux.version))).toString());
    expect(Object.keys(document.archives)).toEqual(['linux_arch0', 'linux_arch1', 'linux_arch2', 'linux_arch3']);
  });

  test('come back into VERSION.json where a server without conditions has lost an entry', async () => {
    server.hasConditions = false;
    const store = await stores.archives();
    for (const archive of [linux, darwin]) await put(store, archive, small);
    const key = paths.version(linux.provider, linux.version);
    const document = JSON.parse((await server.get(key)).toString());
    delete document.archives.linux_amd64;
    await server.put(key, JSON.stringify(document));
    expect(await (await stores.archives()).list(linux.provider)).toHaveLength(2);
    const named = async () => Object.keys(JSON.parse((await server.get(key)).toString()).archives);
    await expect.poll(named).toEqual(['darwin_arm64', 'linux_amd64']);
  });
});

describe('a bucket', () => {
  test('that is gone is said, by code, and is no reason to think that nothing is stored', async () => {
    const store = await stores.archives();
    await put(store, linux, small);
    await server.dropBucket();
    const other = await stores.archives();
    const gone = { code: 'STORAGE_FAILED', message: expect.stringContaining('NoSuchBucket') };
    await expect(other.list(linux.provider)).rejects.toMatchObject(gone);
    await expect(other.check()).rejects.toMatchObject({ ...gone, hint: expect.stringContaining('s3.bucket') });
    await expect(other.find(linux)).rejects.toMatchObject({ code: 'STORAGE_FAILED' });
  });

  test.each([
    [{ status: 403, code: 'AccessDenied' }, 'AccessDenied'],
    [{ status: 403, code: 'SignatureDoesNotMatch' }, 'SignatureDoesNotMatch'],
    [{ status: 500, code: 'InternalError' }, 'InternalError'],
    [{ status: 503, code: 'SlowDown' }, 'SlowDown'],
    ['reset', 'ECONNRESET'],
  ] as const)('that answers %j is trouble and never absence', async (fault, code) => {
    const store = await stores.archives();
    await put(store, linux, small);
    const heal = server.fail(() => true, fault);
    const other = await stores.archives();
    await expect(other.check()).rejects.toMatchObject({
      code: 'STORAGE_FAILED',
      message: expect.stringContaining(code),
    });
    await expect(other.find(linux)).rejects.toMatchObject({ code: 'STORAGE_FAILED' });
    await expect(collect(other.providers())).rejects.toMatchObject({ code: 'STORAGE_FAILED' });
    heal();
    await other.check();
    expect(await other.find(linux)).toBeDefined();
  });

  test('that does not answer ends what waits for it', async () => {
    const bucket = await stores.bucket();
    server.fail(() => true, { delayMs: 60_000 });
    const started = performance.now();
    const asked = [bucket.head(KEY), collect(bucket.list('providers/'))];
    const messages = (await Promise.allSettled(asked)).map((one) => one.status === 'rejected' && one.reason.message);
    expect(messages).toEqual(['looking into the bucket failed (ETIMEDOUT)', 'listing the bucket failed (ETIMEDOUT)']);
    expect(performance.now() - started).toBeLessThan(8_000);
  });

  test('whose connection breaks off while an archive is read goes on where it broke off', async () => {
    const store = await stores.archives();
    const stored = await put(store, linux, large);
    server.fail(({ method, key }) => method === 'GET' && key === KEY, { cutAfter: 5_000_000 }, 2);
    expect(large.equals(await buffer(await store.read(stored)))).toBe(true);
    const reads = server.requests.filter(({ method, key }) => method === 'GET' && key === KEY);
    expect(reads.map(({ headers }) => headers.range)[0]).toBeUndefined();
    expect(reads.length).toBe(3);
  });

  test('is not asked for the rest of what nobody reads any more', async () => {
    const store = await stores.archives();
    const stored = await put(store, linux, large);
    const before = server.count('GET', KEY);
    const body = await store.read(stored);
    const closed = new Promise((resolve) => body.once('close', resolve));
    body.once('readable', () => body.destroy(new Error('the disk is full'))).on('error', () => {});
    await closed;
    expect(server.count('GET', KEY)).toBe(before + 1);
  });

  test('out of which an archive was removed by others: it is absent as soon as it is read', async () => {
    const store = await stores.archives();
    const stored = await put(store, linux, small);
    expect(await store.find(linux)).toEqual(stored);
    await server.remove(KEY);
    await expect(store.read(stored)).rejects.toMatchObject({ code: 'STORAGE_FAILED', gone: true });
    expect(await store.find(linux)).toBeUndefined();
  });

  test('in which an archive lost a byte: it is absent as soon as it is read', async () => {
    const store = await stores.archives();
    const stored = await put(store, linux, small);
    expect(await store.find(linux)).toEqual(stored);
    await server.truncate(KEY);
    await expect(store.read(stored)).rejects.toMatchObject({ code: 'STORAGE_FAILED', gone: true });
    expect(await store.find(linux)).toBeUndefined();
  });

  test('into which others have stored something shows that within seconds', async () => {
    const [one, other] = [await stores.archives(), await stores.archives()];
    expect(await one.list(linux.provider)).toEqual([]);
    expect(await one.find(linux)).toBeUndefined();
    const stored = await put(other, linux, small);
    expect(await one.find(linux)).toEqual(stored);
    await expect.poll(() => one.list(linux.provider), { timeout: 5_000 }).toEqual([stored]);
  });

  test('in which something large rests where something small should is not read into memory', async () => {
    const bucket = await stores.bucket();
    await server.put('pins.json', Buffer.alloc(17 * 1024 * 1024));
    await expect(bucket.readSmall('pins.json')).rejects.toMatchObject({
      code: 'STORAGE_FAILED',
      message: 'reading from the bucket failed (EFBIG)',
    });
    await server.put('pins.json', 'small');
    expect(await bucket.readSmall('pins.json')).toMatchObject({ content: Buffer.from('small') });
  });

  test('with more in it than one answer holds is listed whole', async () => {
    server.pageSize = 3;
    const store = await stores.archives();
    for (const archive of [linux, darwin]) await put(store, archive, small);
    expect(await (await stores.archives()).list(linux.provider)).toHaveLength(2);
  });

  test('that was filled with somebody else’s mirror serves what its documents can tell', async () => {
    const entry = { hashes: [`zh:${sha256Hex(small)}`], url: linux.filename };
    await server.put(KEY, small);
    await server.put(
      paths.version(linux.provider, linux.version),
      JSON.stringify({ archives: { linux_amd64: entry } }),
    );
    const store = await stores.archives();
    expect(await store.find(linux)).toMatchObject({ size: small.length, sha256: sha256Hex(small) });
    expect(await store.list(linux.provider)).toHaveLength(1);
  });

  test('gets no request for what was found a moment ago, and its lists are the same arrays', async () => {
    const store = await stores.archives();
    await put(store, linux, small);
    await store.find(linux);
    const list = await store.list(linux.provider);
    const before = server.requests.length;
    for (let times = 0; times < 20; times += 1) await store.find(linux);
    expect(await store.list(linux.provider)).toBe(list);
    expect(server.requests.length).toBe(before);
  });

  test('gets the package hash computed of the local file, without a second transfer', async () => {
    const store = await stores.archives();
    const stored = await put(store, linux, small);
    const before = server.count('GET', '.zip');
    expect(await store.computePackageHash(stored)).toBeUndefined();
    expect(server.count('GET', '.zip')).toBe(before);
    expect(warnings()).toEqual(['an archive has no package hash']);
    await expect.poll(() => stores.partials()).toEqual([]);
  });
});
