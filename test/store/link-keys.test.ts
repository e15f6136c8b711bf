import { mkdir, mkdtemp, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import { beforeEach, describe, expect, it, onTestFinished } from 'vitest';
import { redisKeys } from '../../src/store/keys.ts';
import { LinkKeyRing } from '../../src/store/link-key-ring.ts';
import { LinkKeys } from '../../src/store/link-keys.ts';
import { recordingLogger } from '../support/recording-logger.ts';
import { startRedis } from '../support/redis.ts';
import { describeWith } from '../support/requirements.ts';

const MINUTE = 60_000;
const DAY = 24 * 60 * MINUTE;
const LIFETIME = 15 * MINUTE;

let directory: string;
let clock: { now: number };
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'larder-link-keys-'));
  clock = { now: Date.UTC(2026, 0, 2) };
  onTestFinished(() => rm(directory, { recursive: true, force: true }));
});

const file = (of = directory) => join(of, 'links.json');

async function open(
  options: { directory?: string; redis?: { url: string }; logger?: ReturnType<typeof recordingLogger> } = {},
) {
  const keys = await LinkKeys.open({
    directory,
    lifetimeMs: LIFETIME,
    logger: recordingLogger(),
    now: () => clock.now,
    ...options,
  });
  onTestFinished(() => keys.close());
  return keys;
}

describe('keys in the data directory', () => {
  it('are made once, readable by their owner alone, and found again', async () => {
    const first = (await open()).signing();
    expect(first.secret).toHaveLength(32);
    expect((await stat(file())).mode & 0o777).toBe(0o600);
    expect((await open()).signing()).toEqual(first);
    expect(await readdir(directory)).toEqual(['links.json']);
  });

  it('are the same for everybody who starts at once', async () => {
    const all = await Promise.all(Array.from({ length: 20 }, () => open()));
    expect(new Set(all.map((keys) => keys.signing().id)).size).toBe(1);
    expect(await readdir(directory)).toEqual(['links.json']);
  });

  it('sign only once all who share them have had time to read them', async () => {
    const [one, other] = [await open(), await open()];
    const old = one.signing();
    await one.rotate({ revoke: false });
    expect(one.signing()).toEqual(old);
    await other.refresh();
    expect(other.signing()).toEqual(old);
    clock.now += MINUTE;
    expect(one.signing().id).not.toBe(old.id);
    expect(other.signing()).toEqual(one.signing());
    // The old one verifies for as long as links live that it signed.
    expect(await other.find(old.id)).toEqual(old);
    clock.now += LIFETIME + 6 * MINUTE;
    await other.refresh();
    expect(await other.find(old.id)).toBeUndefined();
    expect(await readFile(file(), 'utf8')).not.toContain(old.id);
  });

  it('that somebody else has just made are looked for when a link names them', async () => {
    const [one, other] = [await open(), await open()];
    await one.rotate({ revoke: true });
    const { id } = one.signing();
    expect((await other.find(id))?.id).toBe(id);
  });

  it('that are revoked verify nothing any more, also after a restart', async () => {
    const [one, other] = [await open(), await open()];
    const old = one.signing();
    await one.rotate({ revoke: true });
    expect(one.signing().id).not.toBe(old.id);
    await other.refresh();
    expect(await other.find(old.id)).toBeUndefined();
    expect(other.signing()).toEqual(one.signing());
    expect(await (await open()).find(old.id)).toBeUndefined();
    expect(await readFile(file(), 'utf8')).not.toContain(old.secret.toString('base64url'));
  });

  it('are replaced when they are 30 days old', async () => {
    const keys = await open();
    const old = keys.signing();
    clock.now += 30 * DAY - 1;
    await keys.refresh();
    clock.now += 1;
    expect(keys.signing()).toEqual(old);
    await keys.refresh();
    expect(keys.signing()).toEqual(old);
    clock.now += MINUTE;
    expect(keys.signing().id).not.toBe(old.id);
    expect(await keys.find(old.id)).toEqual(old);
  });

  it('changed by two at once end up the same for both, with no link lost', async () => {
    const [one, other] = [await open(), await open()];
    await Promise.all([one.rotate({ revoke: false }), other.rotate({ revoke: false })]);
    await one.refresh();
    await other.refresh();
    await one.refresh();
    clock.now += MINUTE;
    expect(one.signing()).toEqual(other.signing());
  });

  it.each(['', 'nonsense', '{"version":2,"keys":[]}', '{"version":1,"keys":[{"id":"x"}]}', '{"version":1,"keys":[]}'])(
    'are made anew where the file holds %j',
    async (text) => {
      await writeFile(file(), text);
      const keys = await open();
      expect((await open()).signing()).toEqual(keys.signing());
    },
  );

  it('stay in use while the file cannot be read', async () => {
    const logger = recordingLogger();
    const keys = await open({ logger });
    const key = keys.signing();
    await rm(file());
    await mkdir(file());
    await keys.refresh();
    expect(keys.signing()).toEqual(key);
    await keys.refresh();
    await rm(file(), { recursive: true });
    await keys.refresh();
    expect(logger.lines.map(({ message }) => message)).toEqual([
      'the keys for links are not shared with other processes for now',
      'the keys for links are shared again',
    ]);
    expect(await readFile(file(), 'utf8')).toContain(key.id);
  });
});

describeWith(['redis-server'], 'keys shared through redis', () => {
  async function redisAndHomes() {
    const redis = await startRedis();
    if (!redis) throw new Error('there is no redis-server');
    onTestFinished(() => redis.stop());
    const other = await mkdtemp(join(tmpdir(), 'larder-link-keys-'));
    onTestFinished(() => rm(other, { recursive: true, force: true }));
    return { redis, other };
  }

  it('are the same for replicas with directories of their own, who start at once', async () => {
    const { redis, other } = await redisAndHomes();
    const [a, b] = await Promise.all([
      open({ redis: { url: redis.url } }),
      open({ redis: { url: redis.url }, directory: other }),
    ]);
    expect(a.signing()).toEqual(b.signing());
    expect(await readFile(file(), 'utf8')).toBe(await readFile(file(other), 'utf8'));
  });

  it('are there without redis too, and after it has forgotten everything', async () => {
    const { redis, other } = await redisAndHomes();
    const keys = await open({ redis: { url: redis.url } });
    const key = keys.signing();
    redis.pause();
    expect((await open({ redis: { url: redis.url } })).signing()).toEqual(key);
    await keys.refresh();
    expect(keys.signing()).toEqual(key);

    await redis.restart();
    await expect
      .poll(
        async () => {
          await keys.refresh();
          return redis.command('GET', redisKeys.linkKeys).catch(() => undefined);
        },
        { timeout: 20_000 },
      )
      .toContain(key.id);
    expect((await open({ redis: { url: redis.url }, directory: other })).signing()).toEqual(key);
  });

  it('are made without redis where that does not answer, and shared once it does', async () => {
    const { redis, other } = await redisAndHomes();
    redis.pause();
    const [one, two] = [
      await open({ redis: { url: redis.url } }),
      await open({ redis: { url: redis.url }, directory: other }),
    ];
    const before = [one.signing(), two.signing()];
    expect(before[0]).not.toEqual(before[1]);
    redis.resume();
    await expect
      .poll(
        async () => {
          await one.refresh();
          await two.refresh();
          await one.refresh();
          return one.signing().id === two.signing().id;
        },
        { timeout: 20_000 },
      )
      .toBe(true);
    for (const keys of [one, two]) for (const { id } of before) expect(await keys.find(id)).toBeDefined();
  });

  it('cannot be rotated while nobody could learn of it', async () => {
    const { redis } = await redisAndHomes();
    const keys = await open({ redis: { url: redis.url } });
    const key = keys.signing();
    await redis.stop();
    await expect(keys.rotate({ revoke: true })).rejects.toMatchObject({ code: 'STORAGE_FAILED' });
    expect(keys.signing()).toEqual(key);
    expect((await open()).signing()).toEqual(key);
  });
});

describe('a ring', () => {
  const at = { now: 10 * MINUTE, lifetimeMs: LIFETIME };

  it('is the same in whichever order it was merged', () => {
    fc.assert(
      fc.property(
        fc.array(fc.constantFrom('new a', 'new b', 'revoke a', 'revoke b', 'a into b', 'b into a'), { maxLength: 12 }),
        (steps) => {
          const rings = { a: LinkKeyRing.empty, b: LinkKeyRing.empty };
          let now = 0;
          for (const step of steps) {
            const [verb, which] = [step.split(' ')[0], step.at(-1) as 'a' | 'b'];
            now += 1;
            if (verb === 'new') rings[which] = rings[which].withNewKey(now);
            else if (verb === 'revoke') rings[which] = rings[which].revoked();
            else if (verb === 'a') rings.b = rings.b.merge(rings.a, { ...at, now });
            else rings.a = rings.a.merge(rings.b, { ...at, now });
          }
          const [one, other] = [rings.a.merge(rings.b, at), rings.b.merge(rings.a, at)];
          expect(String(one)).toBe(String(other));
          expect(String(one.merge(other, at))).toBe(String(one));
          expect(String(LinkKeyRing.parse(String(one)))).toBe(String(one));
        },
      ),
    );
  });
});
