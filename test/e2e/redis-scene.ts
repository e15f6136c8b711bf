import { expect } from 'vitest';
import { afterTest } from '../support/after-test.ts';
import { mirrorCliConfig, runClient, workspace } from '../support/client.ts';
import { HttpClient } from '../support/http.ts';
import { Internet, REGISTRY } from '../support/internet.ts';
import { type Larder, type LogEntry, startLarder } from '../support/larder.ts';
import { startRedis, type TestRedis } from '../support/redis.ts';

/** What trouble with Redis may cost one `init`, in milliseconds. */
const COST_MS = 2_000;
export const SOON = { timeout: 20_000, interval: 100 };
/** Of every Redis of these tests, and in no log. */
export const PASSWORD = 's3cret-of-redis';

export const GOES = /^redis (does not answer|refuses)/;
export const COMES_BACK = /^redis answers again/;

/** What is installed: each is a configuration with two providers. */
type Wish = 'ordinary' | 'troubled' | 'recovered';
const WISHES: readonly Wish[] = ['ordinary', 'troubled', 'recovered'];

/** A client, Larder, and a Redis that is about to be in trouble. */
export interface RedisScene {
  readonly larder: Larder;
  /** A client with nothing installs it. @returns what that took, in milliseconds */
  init(wish: Wish): Promise<number>;
  /** The same in front of a Larder that has no Redis and nothing stored: what a cold one takes at this moment. */
  initWithoutRedis(wish: Wish): Promise<number>;
  /** A Larder in its place that remembers nothing. */
  restart(): Promise<void>;
  readiness(): Promise<{ status: number; body: { status: string; checks: Record<string, { reason?: string }> } }>;
  /** Messages of its Redis, of all that were started. */
  said(pattern: RegExp): readonly string[];
}

export async function redisOf(options: Parameters<typeof startRedis>[0] = {}): Promise<TestRedis> {
  const redis = await startRedis({ password: PASSWORD, ...options });
  if (!redis) throw new Error('no redis-server');
  afterTest(() => redis.stop());
  return redis;
}

/** @param redis its section of the configuration. Everything is stopped at the end of the test. */
export async function redisScene(
  redis: Readonly<Record<string, unknown>>,
  more: Readonly<Record<string, unknown>> = {},
): Promise<RedisScene> {
  const internet = await Internet.start();
  for (const wish of WISHES) {
    for (const type of [wish, `${wish}-too`]) {
      await internet.registry.addProvider({ namespace: 'acme', type, version: '1.0.0' });
    }
  }
  // Nobody routes by its readiness, although it is looked at.
  const config = internet.larderConfig({ redis, listen: { drainDelay: null }, ...more });
  let larder = await startLarder({ config, env: internet.env });
  const logs: (readonly LogEntry[])[] = [larder.log];
  const http = new HttpClient({ ca: larder.ca });
  afterTest(() => http.close());
  const told = () => logs.flat();

  // Whatever befell it: it is no wrong answer, and shows no secret.
  afterTest(async () => {
    expect(told().filter(({ message, fields }) => message === 'request' && fields['status'] === 404)).toEqual([]);
    const shown = told().map(({ message, fields }) => `${message} ${inspected(fields)}`);
    expect(shown.filter((line) => line.includes(PASSWORD))).toEqual([]);
  });

  return {
    get larder() {
      return larder;
    },
    init: (wish) => init(wish, larder),
    async initWithoutRedis(wish) {
      const other = await startLarder({ config: internet.larderConfig(), env: internet.env });
      return init(wish, other);
    },
    async restart() {
      await larder.close();
      larder = await startLarder({ setup: larder.setup, env: internet.env });
      logs.push(larder.log);
    },
    async readiness() {
      const answer = await http.get(`${larder.url}/readyz`);
      return { status: answer.status, body: answer.json() };
    },
    said: (pattern) => told().flatMap(({ message }) => (pattern.test(message) ? [message] : [])),
  };
}

async function init(wish: Wish, larder: Larder): Promise<number> {
  const made = await workspace({
    providers: {
      one: { source: `${REGISTRY}/acme/${wish}` },
      two: { source: `${REGISTRY}/acme/${wish}-too` },
    },
  });
  const result = await runClient({
    args: ['init', '-no-color'],
    directory: made.directory,
    cliConfig: mirrorCliConfig(larder.url),
    ca: larder.ca,
  });
  expect(result.code, result.output).toBe(0);
  return result.durationMs;
}

/** What becomes of Redis in a test. */
export interface Trouble {
  readonly befall: () => unknown;
  /** `undefined`: it passes by itself. */
  readonly mend?: () => unknown;
  /** The reason in `/readyz`; `undefined`: nothing is to be seen of it. */
  readonly reason?: RegExp;
  /** How often it may be told that Redis goes, where it has several parts. */
  readonly most?: number;
  /** Whether what is learnt of a wish rests in Redis. */
  readonly hasLanded: (wish: string) => Promise<boolean>;
}

/** What an `init` took while all was well, in the file that runs: the most of them. */
const usual: { ms: number } = { ms: 0 };

/** All that a client may notice of trouble with Redis, and all that an operator has to. */
export async function goThrough(scene: RedisScene, trouble: Trouble): Promise<void> {
  usual.ms = Math.max(usual.ms, await scene.init('ordinary'));
  await expect.poll(() => trouble.hasLanded('ordinary'), SOON).toBe(true);

  await trouble.befall();
  // It may pass while the client is at work.
  const degraded = trouble.reason && expectDegraded(scene, trouble.reason);
  await Promise.all([expectUsual(scene), degraded]);

  await trouble.mend?.();
  await expectRecovery(scene, trouble.hasLanded);
  const least = trouble.reason ? 1 : 0;
  expect(scene.said(GOES).length, 'told when it goes').toBeGreaterThanOrEqual(least);
  expect(scene.said(GOES).length, 'told when it goes').toBeLessThanOrEqual(trouble.most ?? least);
  expect(scene.said(COMES_BACK).length, 'told when it comes back').toBe(scene.said(GOES).length);
}

/** A cold `init` and a warm one. */
export async function expectUsual(scene: RedisScene): Promise<void> {
  const cold = await scene.init('troubled');
  const warm = await scene.init('ordinary');
  if (process.env['LARDER_FIGURES']) {
    const figures = { usual: usual.ms, cold, warm };
    console.info(
      expect.getState().currentTestName,
      JSON.stringify(figures, (_key, n) => (n > 1 ? Math.round(n) : n)),
    );
  }
  // The machine may be busier than it was: then that is the measure.
  if (Math.max(cold, warm) >= usual.ms + COST_MS)
    usual.ms = Math.max(usual.ms, await scene.initWithoutRedis('troubled'));
  expect(cold).toBeLessThan(usual.ms + COST_MS);
  expect(warm).toBeLessThan(usual.ms + COST_MS);
}

export async function expectDegraded(scene: RedisScene, reason: RegExp): Promise<void> {
  await expect
    .poll(() => scene.readiness(), SOON)
    .toMatchObject({
      status: 200,
      body: { status: 'degraded', checks: { metadata: { reason: expect.stringMatching(reason) } } },
    });
}

export async function expectRecovery(scene: RedisScene, hasLanded: Trouble['hasLanded']): Promise<void> {
  await expect.poll(() => scene.readiness(), SOON).toMatchObject({ status: 200, body: { status: 'ready' } });
  usual.ms = Math.max(usual.ms, await scene.init('recovered'));
  await expect.poll(() => hasLanded('recovered'), SOON).toBe(true);
}

/** Whether one of these has an entry about it. */
export function landsIn(...servers: readonly TestRedis[]): Trouble['hasLanded'] {
  return async (wish) => {
    const found = await Promise.all(
      servers.map(
        async (redis) => (await redis.command('KEYS', `larder::*versions*${wish}*`).catch(() => [])) as string[],
      ),
    );
    return found.flat().length > 0;
  };
}

function inspected(fields: Readonly<Record<string, unknown>>): string {
  return JSON.stringify(fields, (_key, value) =>
    value instanceof Error ? { text: value.stack, cause: value.cause, ...value } : value,
  );
}
