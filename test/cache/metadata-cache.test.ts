import { setImmediate as nextTurn } from 'node:timers/promises';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { MetadataCache, type MetadataKind, type ReadOptions } from '../../src/cache/metadata-cache.ts';
import {
  IntegrityMismatch,
  NotFound,
  StorageFailed,
  UpstreamInvalid,
  UpstreamRefused,
  UpstreamUnreachable,
} from '../../src/errors.ts';
import type { MetadataEntry, MetadataStore } from '../../src/store/metadata-store.ts';
import { recordingLogger } from '../support/recording-logger.ts';

const FRESH_MS = 300_000;
const KEEP_MS = 86_400_000;
const ABSENT_MS = 60_000;
const RETRY_STALE_MS = 2_000;
const DEADLINE_MS = 7_000;
const HOST = 'registry.example.com';

/** A list of words: decoded form and stored form differ, so that a mix-up is seen. */
const words: MetadataKind<readonly string[]> = {
  freshness: () => ({ freshForMs: FRESH_MS, keepForMs: KEEP_MS, absentForMs: ABSENT_MS }),
  encode: (value) => value.join(' '),
  decode: (stored) => {
    if (typeof stored !== 'string') throw new TypeError('not words');
    return stored.split(' ');
  },
};

class ScriptedStore implements MetadataStore {
  readonly entries = new Map<string, MetadataEntry>();
  readonly keptFor = new Map<string, number>();
  gets = 0;
  puts = 0;
  failing: 'no' | 'reads' | 'writes' | 'all' = 'no';
  /** While set, operations wait for it. */
  held: Promise<void> | undefined;

  async get(key: string): Promise<MetadataEntry | undefined> {
    this.gets += 1;
    await this.held;
    if (this.failing === 'reads' || this.failing === 'all') throw new StorageFailed('metadata read', new Error('away'));
    return this.entries.get(key);
  }

  async put(key: string, entry: MetadataEntry, keepForMs: number): Promise<void> {
    this.puts += 1;
    await this.held;
    if (this.failing === 'writes' || this.failing === 'all')
      throw new StorageFailed('metadata write', new Error('away'));
    this.entries.set(key, JSON.parse(JSON.stringify(entry)) as MetadataEntry);
    this.keptFor.set(key, keepForMs);
  }

  async delete(key: string): Promise<void> {
    if (this.failing === 'all') throw new StorageFailed('metadata delete', new Error('away'));
    this.entries.delete(key);
  }

  async check(): Promise<void> {}
  async close(): Promise<void> {}
}

/** Upstream: answers with what it is told, counts, and can be held. */
class ScriptedUpstream {
  calls = 0;
  signals: AbortSignal[] = [];
  answer: () => Promise<readonly string[]> = async () => ['one'];

  readonly load = (signal: AbortSignal): Promise<readonly string[]> => {
    this.calls += 1;
    this.signals.push(signal);
    return this.answer();
  };

  gives(...value: string[]): void {
    this.answer = async () => value;
  }

  fails(error: Error): void {
    this.answer = async () => Promise.reject(error);
  }

  /** Until `settle`, calls wait. */
  hold(): { settle: (outcome: readonly string[] | Error) => void } {
    let settle!: (outcome: readonly string[] | Error) => void;
    const held = new Promise<readonly string[]>((resolve, reject) => {
      settle = (outcome) => (outcome instanceof Error ? reject(outcome) : resolve(outcome));
    });
    held.catch(() => {});
    this.answer = () => held;
    return { settle };
  }
}

const unreachable = () => new UpstreamUnreachable(HOST, 'connection', 'refused the connection');

let store: ScriptedStore;
let upstream: ScriptedUpstream;
let cache: MetadataCache;
const unhandled: unknown[] = [];
const noteUnhandled = (reason: unknown) => unhandled.push(reason);

function replica(options: Partial<ConstructorParameters<typeof MetadataCache>[0]> = {}): MetadataCache {
  return new MetadataCache({
    store,
    logger: recordingLogger(),
    deadlineMs: DEADLINE_MS,
    retryStaleAfterMs: RETRY_STALE_MS,
    ...options,
  });
}

const read = (options?: ReadOptions, from = cache) => from.read('k', words, upstream.load, { host: HOST, ...options });
/** Time passes for the clock and for every timer. */
const pass = (ms: number) => vi.advanceTimersByTimeAsync(ms);

beforeEach(() => {
  vi.useFakeTimers({ toFake: ['Date', 'setTimeout', 'clearTimeout', 'performance'], now: 1_800_000_000_000 });
  process.on('unhandledRejection', noteUnhandled);
  store = new ScriptedStore();
  upstream = new ScriptedUpstream();
  cache = replica();
});

afterEach(async () => {
  await cache.close();
  await nextTurn();
  process.off('unhandledRejection', noteUnhandled);
  expect(unhandled.splice(0)).toEqual([]);
  expect(vi.getTimerCount()).toBe(0);
  vi.useRealTimers();
});

describe('fresh', () => {
  it('is served from memory: neither upstream nor the store is asked', async () => {
    const first = await read();
    await cache.flush();
    const { gets } = store;
    await pass(FRESH_MS - 1);
    expect(await read()).toBe(first);
    expect(first).toMatchObject({
      value: ['one'],
      fetchedAt: 1_800_000_000_000,
      freshUntil: 1_800_000_000_000 + FRESH_MS,
    });
    expect(upstream.calls).toBe(1);
    expect(store.gets).toBe(gets);
  });

  it('R08: ends with its time: what upstream has new is seen then', async () => {
    await read();
    upstream.gives('one', 'two');
    await pass(FRESH_MS);
    expect((await read()).value).toEqual(['one', 'two']);
    expect(upstream.calls).toBe(2);
  });

  it('R08: is refreshed once for who needs it newer, and only if it is older than that', async () => {
    await read();
    await pass(10_000);
    upstream.gives('two');
    const notBefore = Date.now() - 5_000;
    expect((await read({ notBefore })).value).toEqual(['two']);
    expect((await read({ notBefore })).value).toEqual(['two']);
    expect(upstream.calls).toBe(2);
  });

  it('R08: a refresh that was already under way may be too old for who needs it newer', async () => {
    const slow = upstream.hold();
    const early = read();
    await pass(1_000);
    const late = read({ notBefore: Date.now() });
    await pass(0);
    expect(upstream.calls).toBe(1);
    upstream.gives('newer');
    slow.settle(['older']);
    expect((await early).value).toEqual(['older']);
    expect((await late).value).toEqual(['newer']);
    expect(upstream.calls).toBe(2);
  });

  it('may depend on the value', async () => {
    const moody: MetadataKind<readonly string[]> = {
      ...words,
      freshness: (value) => ({
        freshForMs: value?.includes('incomplete') ? 1_000 : FRESH_MS,
        keepForMs: KEEP_MS,
        absentForMs: 1,
      }),
    };
    upstream.gives('incomplete');
    await cache.read('k', moody, upstream.load);
    upstream.gives('whole');
    await pass(1_000);
    expect((await cache.read('k', moody, upstream.load)).value).toEqual(['whole']);
    await pass(FRESH_MS - 1);
    await cache.read('k', moody, upstream.load);
    expect(upstream.calls).toBe(2);
  });
});

describe('the store', () => {
  it('R47: saves a second replica, or a restarted process, the way upstream', async () => {
    await read();
    await cache.flush();
    const other = replica();
    expect((await read({}, other)).value).toEqual(['one']);
    expect(upstream.calls).toBe(1);
    expect(store.keptFor.get('k')).toBe(KEEP_MS);
  });

  it('is asked before upstream when memory is no longer fresh: another replica may have refreshed', async () => {
    const other = replica();
    await read();
    await cache.flush();
    await pass(FRESH_MS);
    upstream.gives('two');
    await read({}, other);
    await other.flush();
    expect((await read()).value).toEqual(['two']);
    expect(upstream.calls).toBe(2);
  });

  it('is not waited for when it is written to', async () => {
    let release!: () => void;
    // From the load on: the look-up before it is another matter.
    upstream.answer = async () => {
      store.held = new Promise((resolve) => {
        release = resolve;
      });
      return ['one'];
    };
    expect((await read()).value).toEqual(['one']);
    expect(store.puts).toBe(1);
    expect(store.entries.has('k')).toBe(false);
    release();
    await cache.flush();
    expect(store.entries.get('k')).toEqual({ value: { found: 'one' }, fetchedAt: Date.now() });
  });

  it('R62: failing, it is a store that knows nothing, is tried once a second, and is complained of once', async () => {
    const logger = recordingLogger();
    cache = replica({ logger });
    store.failing = 'all';
    for (const key of ['a', 'b', 'c']) {
      expect((await cache.read(key, words, upstream.load)).value).toEqual(['one']);
    }
    expect(store.gets).toBe(1);
    await pass(1_000);
    await Promise.all(['d', 'e', 'f'].map((key) => cache.read(key, words, upstream.load)));
    expect(store.gets).toBe(2);
    await cache.flush();
    expect(logger.lines.map((line) => line.level)).toEqual(['warn']);
    expect(cache.storeFailures).toBe(2 + 6);

    store.failing = 'no';
    await pass(1_000);
    await cache.read('g', words, upstream.load);
    await cache.read('h', words, upstream.load);
    expect(store.gets).toBe(4);
    await cache.flush();
    expect(store.entries.has('h')).toBe(true);
  });

  it('R62: refusing writes, it is still read', async () => {
    await read();
    await cache.flush();
    store.failing = 'writes';
    const other = replica();
    await other.read('x', words, upstream.load);
    await other.flush();
    expect((await read({}, other)).value).toEqual(['one']);
    expect(upstream.calls).toBe(2);
  });

  it.each([
    ['nothing of ours', 'text'],
    ['null', null],
    ['an empty object', {}],
    ['another form', { found: 17 }],
    ['an absence without words', { absent: 17 }],
  ])('R62: holding %s under our key, it is a miss', async (_, value) => {
    store.entries.set('k', { value, fetchedAt: Date.now() });
    expect((await read()).value).toEqual(['one']);
    expect(upstream.calls).toBe(1);
  });

  it('is not believed about the future, which would be fresh for ever', async () => {
    store.entries.set('k', { value: { found: 'far' }, fetchedAt: Date.now() + 3_600_000 });
    expect((await read()).value).toEqual(['one']);
    store.entries.set('near', { value: { found: 'near' }, fetchedAt: Date.now() + 1_000 });
    expect((await cache.read('near', words, upstream.load)).value).toEqual(['near']);
  });
});

describe('stale', () => {
  beforeEach(async () => {
    await read();
    await cache.flush();
    await pass(FRESH_MS);
  });

  it.each([
    ['unreachable', unreachable()],
    ['busy (R46)', new UpstreamUnreachable(HOST, 'busy', 'answered 429', { retryAfterMs: 2_000 })],
    ['failing (R47)', new UpstreamUnreachable(HOST, 'failing', 'answered 503')],
    ['talking nonsense', new UpstreamInvalid(HOST, 'answered with HTML')],
  ])('is served while upstream is %s, with the reason', async (_, error) => {
    upstream.fails(error);
    expect(await read()).toEqual({ value: ['one'], fetchedAt: 1_800_000_000_000, stale: { reason: error } });
  });

  it.each([
    ['refused', new UpstreamRefused(HOST, 'answered 401')],
    ['corrupt', new IntegrityMismatch('the signature does not match')],
    ['a full disk', new StorageFailed('write', Object.assign(new Error(), { code: 'ENOSPC' }))],
    ['a fault of ours', new TypeError('x is not a function')],
  ])('is not served for what is %s, and that is not remembered', async (_, error) => {
    upstream.fails(error);
    await expect(read()).rejects.toBe(error);
    upstream.gives('back');
    expect((await read()).value).toEqual(['back']);
  });

  it('R47: costs a dead registry one call in two seconds, not one for each request', async () => {
    upstream.fails(unreachable());
    await read();
    const { gets } = store;
    for (let n = 0; n < 20; n++) expect((await read()).stale?.reason.code).toBe('UPSTREAM_UNREACHABLE');
    expect(upstream.calls).toBe(2);
    expect(store.gets).toBe(gets);
    await pass(RETRY_STALE_MS);
    await read();
    expect(upstream.calls).toBe(3);
  });

  it('is over as soon as upstream answers again', async () => {
    upstream.fails(unreachable());
    await read();
    upstream.gives('two');
    await pass(RETRY_STALE_MS);
    const again = await read();
    expect(again.value).toEqual(['two']);
    expect(again.stale).toBeUndefined();
  });

  it('is served by another replica from the store too, and after a restart', async () => {
    upstream.fails(unreachable());
    const answer = await read({}, replica());
    expect(answer.value).toEqual(['one']);
    expect(answer.stale?.reason.message).toContain(HOST);
  });

  it('is not served beyond its time', async () => {
    upstream.fails(unreachable());
    await pass(KEEP_MS - FRESH_MS - 1);
    expect((await read()).value).toEqual(['one']);
    await pass(RETRY_STALE_MS);
    await expect(read()).rejects.toMatchObject({ code: 'UPSTREAM_UNREACHABLE' });
  });

  it('is served to who needs it newer too when upstream is away', async () => {
    upstream.gives('two');
    await read();
    await pass(1_000);
    upstream.fails(unreachable());
    const answer = await read({ notBefore: Date.now() });
    expect(answer.value).toEqual(['two']);
    expect(answer.stale).toBeDefined();
    // To all others it is as fresh as before.
    expect((await read()).stale).toBeUndefined();
  });

  it('R61: is served after a quarter of the deadline; the refresh goes on and serves the next reader', async () => {
    const slow = upstream.hold();
    const reading = read();
    await pass(DEADLINE_MS / 4 - 1);
    let settled = false;
    void reading.then(() => {
      settled = true;
    });
    await pass(0);
    expect(settled).toBe(false);
    await pass(1);
    expect((await reading).stale?.reason).toMatchObject({
      code: 'UPSTREAM_UNREACHABLE',
      reason: 'timeout',
      host: HOST,
    });

    // Nobody waits a second time for the same slow answer.
    await pass(RETRY_STALE_MS * 2);
    expect((await read()).stale).toBeDefined();
    expect(upstream.calls).toBe(2);

    slow.settle(['late']);
    await pass(0);
    expect(await read()).toMatchObject({ value: ['late'], fetchedAt: 1_800_000_000_000 + FRESH_MS });
  });

  it('asks again two seconds after a slow refresh failed', async () => {
    const slow = upstream.hold();
    const reading = read();
    await pass(DEADLINE_MS / 4);
    await reading;
    slow.settle(unreachable());
    await pass(0);
    upstream.gives('two');
    expect((await read()).value).toEqual(['one']);
    await pass(RETRY_STALE_MS);
    expect((await read()).value).toEqual(['two']);
  });

  it('asks again at once when a slow refresh turned out to be refused', async () => {
    const slow = upstream.hold();
    const reading = read();
    await pass(DEADLINE_MS / 4);
    expect((await reading).stale).toBeDefined();
    const refusal = new UpstreamRefused(HOST, 'answered 403');
    slow.settle(refusal);
    await pass(0);
    await expect(read()).rejects.toBe(refusal);
    expect(upstream.calls).toBe(3);
  });
});

describe('absent', () => {
  it('is remembered for a minute, in the words of who said so, and then asked again', async () => {
    upstream.fails(new NotFound(`${HOST} has no provider a/b`, { hint: 'check the spelling' }));
    const expected = { code: 'NOT_FOUND', message: `${HOST} has no provider a/b`, hint: 'check the spelling' };
    await expect(read()).rejects.toMatchObject(expected);
    await pass(ABSENT_MS - 1);
    await expect(read()).rejects.toMatchObject(expected);
    await cache.flush();
    await expect(read({}, replica())).rejects.toMatchObject(expected);
    expect(upstream.calls).toBe(1);
    expect(store.keptFor.get('k')).toBe(ABSENT_MS);
    await pass(1);
    upstream.gives('new');
    expect((await read()).value).toEqual(['new']);
  });

  it('replaces what was there: it is not served again, neither stale', async () => {
    await read();
    await pass(FRESH_MS);
    upstream.fails(new NotFound('gone'));
    await expect(read()).rejects.toMatchObject({ code: 'NOT_FOUND' });
    await cache.flush();
    await pass(ABSENT_MS);
    upstream.fails(unreachable());
    await expect(read()).rejects.toMatchObject({ code: 'UPSTREAM_UNREACHABLE' });
    expect(await cache.peek('k', words)).toBeUndefined();
  });

  it('R46: is never made of an outage', async () => {
    upstream.fails(new UpstreamUnreachable(HOST, 'busy', 'answered 429'));
    await expect(read()).rejects.toMatchObject({ code: 'UPSTREAM_UNREACHABLE', reason: 'busy' });
    await cache.flush();
    expect(store.puts).toBe(0);
    upstream.gives('one');
    expect((await read()).value).toEqual(['one']);
  });

  it('R08: is asked again at once by who needs it newer', async () => {
    upstream.fails(new NotFound('not yet'));
    await expect(read()).rejects.toMatchObject({ code: 'NOT_FOUND' });
    await pass(1_000);
    upstream.gives('published');
    expect((await read({ notBefore: Date.now() })).value).toEqual(['published']);
  });
});

describe('cold', () => {
  it('R46: is loaded once for forty clients at once', async () => {
    const slow = upstream.hold();
    const readers = Array.from({ length: 40 }, () => read());
    await pass(0);
    expect(upstream.calls).toBe(1);
    expect(store.gets).toBe(1);
    slow.settle(['one']);
    for (const { value } of await Promise.all(readers)) expect(value).toEqual(['one']);
  });

  it('gives all of them the same error', async () => {
    const error = unreachable();
    const slow = upstream.hold();
    const readers = Array.from({ length: 5 }, () => read());
    await pass(0);
    slow.settle(error);
    for (const outcome of await Promise.allSettled(readers))
      expect(outcome).toEqual({ status: 'rejected', reason: error });
    expect(upstream.calls).toBe(1);
  });

  it('R61: a registry that answers in twelve seconds fails the first request in time and serves the second', async () => {
    const slow = upstream.hold();
    const reading = read().catch((error: unknown) => error);
    await pass(DEADLINE_MS);
    expect(await reading).toMatchObject({
      code: 'UPSTREAM_UNREACHABLE',
      reason: 'timeout',
      message: `${HOST} has not answered within 7 s`,
    });
    await pass(12_000 - DEADLINE_MS);
    slow.settle(['slow']);
    await pass(0);
    expect((await read()).value).toEqual(['slow']);
    expect(upstream.calls).toBe(1);
  });

  it('R61: a second request while the first load still runs joins it', async () => {
    const slow = upstream.hold();
    const first = read().catch((error: unknown) => error);
    await pass(DEADLINE_MS);
    await first;
    const second = read();
    await pass(1_000);
    slow.settle(['slow']);
    expect((await second).value).toEqual(['slow']);
    expect(upstream.calls).toBe(1);
  });

  it('a load that fails after everybody left troubles nobody', async () => {
    const slow = upstream.hold();
    const reading = read().catch((error: unknown) => error);
    await pass(DEADLINE_MS);
    await reading;
    slow.settle(unreachable());
    await pass(0);
    await nextTurn();
    upstream.gives('one');
    expect((await read()).value).toEqual(['one']);
  });

  it('a load that never ends is aborted after four deadlines, and another may begin', async () => {
    upstream.hold();
    const reading = read().catch((error: unknown) => error);
    await pass(4 * DEADLINE_MS - 1);
    expect(upstream.signals[0]?.aborted).toBe(false);
    await pass(1);
    expect(upstream.signals[0]?.aborted).toBe(true);
    expect(await reading).toMatchObject({ reason: 'timeout' });
    upstream.gives('one');
    expect((await read()).value).toEqual(['one']);
  });
});

describe('memory', () => {
  it('is bounded by the number of entries', async () => {
    cache = replica({ entries: 10 });
    for (let n = 0; n < 30; n++) await cache.read(`k${n}`, words, upstream.load);
    const { gets } = store;
    await cache.read('k29', words, upstream.load);
    expect(store.gets).toBe(gets);
    await cache.read('k0', words, upstream.load);
    expect(store.gets).toBe(gets + 1);
  });

  it('is bounded by their size, and what is larger than all of it is served all the same', async () => {
    cache = replica({ memoryBytes: 1_000 });
    upstream.gives('x'.repeat(400));
    for (const key of ['a', 'b', 'c']) await cache.read(key, words, upstream.load);
    upstream.gives('x'.repeat(4_000));
    await cache.read('huge', words, upstream.load);
    await cache.flush();
    const { gets } = store;
    const { calls } = upstream;
    await cache.read('c', words, upstream.load);
    expect(store.gets).toBe(gets);
    await cache.read('a', words, upstream.load);
    expect((await cache.read('huge', words, upstream.load)).value[0]).toHaveLength(4_000);
    expect(store.gets).toBe(gets + 2);
    expect(upstream.calls).toBe(calls);
  });
});

describe('peek', () => {
  it('gives what is known, however old, and asks nobody upstream', async () => {
    expect(await cache.peek('k', words)).toBeUndefined();
    await read();
    await cache.flush();
    await pass(KEEP_MS * 2);
    expect((await cache.peek('k', words))?.value).toEqual(['one']);
    expect((await replica().peek('k', words))?.value).toEqual(['one']);
    expect(upstream.calls).toBe(1);
  });

  it('knows nothing of what is absent, and nothing when the store fails', async () => {
    upstream.fails(new NotFound('no'));
    await expect(read()).rejects.toThrow('no');
    expect(await cache.peek('k', words)).toBeUndefined();
    store.failing = 'all';
    expect(await cache.peek('other', words)).toBeUndefined();
  });
});

describe('forget', () => {
  it('makes the next read ask upstream', async () => {
    await read();
    await cache.flush();
    await cache.forget('k');
    upstream.gives('two');
    expect((await read()).value).toEqual(['two']);
    expect(upstream.calls).toBe(2);
  });

  it('holds also for a load that was under way', async () => {
    const slow = upstream.hold();
    const reading = read();
    await pass(0);
    await cache.forget('k');
    slow.settle(['of before']);
    expect((await reading).value).toEqual(['of before']);
    upstream.gives('of after');
    expect((await read()).value).toEqual(['of after']);
  });

  it('is told to other processes, which then do not go on with what they remember', async () => {
    const other = replica();
    const here = replica({ tellOthers: async (key) => other.forgetHere(key) });
    await read(undefined, other);
    await other.flush();
    upstream.gives('two');
    await here.forget('k');
    expect((await read(undefined, other)).value).toEqual(['two']);
  });

  it('does not reject when the store fails', async () => {
    await read();
    await cache.flush();
    store.failing = 'all';
    await expect(cache.forget('k')).resolves.toBeUndefined();
    await read();
    expect(upstream.calls).toBe(2);
  });
});

describe('close', () => {
  it('ends running loads, and nothing is written afterwards', async () => {
    upstream.hold();
    const reading = read().catch((error: unknown) => error);
    await pass(0);
    await cache.close();
    expect(upstream.signals[0]?.aborted).toBe(true);
    expect(await reading).toMatchObject({ code: 'UPSTREAM_UNREACHABLE' });
    expect(store.puts).toBe(0);
  });
});

describe('what became of look-ups', () => {
  it('is counted once for each', async () => {
    await read();
    await read();
    expect(cache.lookUps).toEqual({ hits: 1, coalesced: 0, misses: 1, stale: 0 });
    await pass(FRESH_MS);
    await Promise.all([read(), read(), read()]);
    expect(cache.lookUps).toEqual({ hits: 1, coalesced: 2, misses: 2, stale: 0 });
    await pass(FRESH_MS);
    upstream.fails(new UpstreamUnreachable(HOST, 'connection', 'is down'));
    await read();
    await read();
    expect(cache.lookUps).toEqual({ hits: 1, coalesced: 2, misses: 2, stale: 2 });
  });

  it('is a miss also where upstream has nothing, or says nothing', async () => {
    upstream.fails(new NotFound('no such thing'));
    await expect(read()).rejects.toThrow('no such thing');
    await expect(read()).rejects.toThrow('no such thing');
    expect(cache.lookUps).toEqual({ hits: 1, coalesced: 0, misses: 1, stale: 0 });
    await pass(ABSENT_MS);
    upstream.fails(new UpstreamUnreachable(HOST, 'connection', 'is down'));
    await expect(read()).rejects.toThrow('is down');
    expect(cache.lookUps).toEqual({ hits: 1, coalesced: 0, misses: 2, stale: 0 });
  });
});
