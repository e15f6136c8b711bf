import { setTimeout as passed } from 'node:timers/promises';
import {
  corrupt,
  cutAfter,
  cutInHeaders,
  delay,
  html,
  neverAnswer,
  reset,
  shortCleanEnd,
  status,
  trickle,
} from '../support/faults.ts';
import type { Fault } from '../support/origin.ts';
import type { TestRedis } from '../support/redis.ts';
import type { UpstreamRegistry } from '../support/upstream-registry.ts';
import type { Random } from './random.ts';

/** What may befall any host. */
const FAULTS: Readonly<Record<string, () => Fault>> = {
  '500': () => status(500),
  '503 with Retry-After': () => status(503, { retryAfter: 1 }),
  '429 with Retry-After': () => status(429, { retryAfter: 1 }),
  reset: () => reset(),
  'cut in headers': () => cutInHeaders(),
  'cut in the body': () => cutAfter(700),
  'short, ending cleanly': () => shortCleanEnd(700),
  'a captive portal': () => html(),
  slow: () => delay(700),
  trickling: () => trickle(50_000),
  'never an answer': () => neverAnswer(),
};

/** Nothing vouches for what the registry itself says: altered so that it can be read, it is what the registry says. */
const FAULTS_OF_FILES: typeof FAULTS = { ...FAULTS, corrupt: () => corrupt(300) };

/** Milliseconds: how long a host is well, and how long it is not. */
const CALM_MS = [6_000, 15_000] as const;
const STORM_MS = [1_000, 4_000] as const;
const REDIS_CALM_MS = [8_000, 20_000] as const;
/** For a Redis that stands still: longer than anything waits for it. */
const REDIS_PAUSE_MS = [500, 4_000] as const;
/** So long after it ended a fault may still be what is wrong: deadlines, retries, pauses after failures. Milliseconds. */
const AFTERMATH_MS = 12_000;

/** What happens around Larder: hosts of the upstream fail for a while, Redis stands still or is begun anew. */
export class Weather {
  readonly #random: Random;
  readonly #registry: UpstreamRegistry;
  readonly #redis: TestRedis | undefined;
  readonly #ended = new AbortController();
  /** How often each thing befell. */
  readonly befell = new Map<string, number>();
  #storms = 0;
  #lastStorm = Number.NEGATIVE_INFINITY;
  #running: Promise<unknown> = Promise.resolve();

  constructor(deps: { random: Random; registry: UpstreamRegistry; redis: TestRedis | undefined }) {
    this.#random = deps.random;
    this.#registry = deps.registry;
    this.#redis = deps.redis;
  }

  begin(): void {
    const { api, releases } = this.#registry;
    this.#running = Promise.all([
      this.#host('registry', api, FAULTS),
      this.#host('files', releases, FAULTS_OF_FILES),
      this.#redisTroubles(),
    ]);
  }

  /** All is well from now on. */
  async end(): Promise<void> {
    this.#ended.abort();
    await this.#running;
  }

  /** Whether a failure may come from upstream, for a request that began then (`performance.now()`). */
  explains(began: number): boolean {
    return this.#storms > 0 || this.#lastStorm + AFTERMATH_MS > began;
  }

  async #host(name: string, origin: UpstreamRegistry['api'], faults: typeof FAULTS): Promise<void> {
    while (await this.#wait(CALM_MS)) {
      const [what, fault] = this.#random.of(Object.entries(faults));
      this.#note(`${name}: ${what}`);
      const share = this.#random.between(30, 100) / 100;
      const script = origin.on(() => this.#random.next() < share, fault());
      this.#storms += 1;
      await this.#wait(STORM_MS);
      script.remove();
      this.#storms -= 1;
      this.#lastStorm = performance.now();
    }
  }

  async #redisTroubles(): Promise<void> {
    const redis = this.#redis;
    if (!redis) return;
    while (await this.#wait(REDIS_CALM_MS)) {
      if (this.#random.next() < 0.5) {
        this.#note('Redis: begun anew, empty');
        await redis.restart();
      } else {
        this.#note('Redis: stands still');
        redis.pause();
        await this.#wait(REDIS_PAUSE_MS);
        redis.resume();
      }
    }
  }

  #note(what: string): void {
    this.befell.set(what, (this.befell.get(what) ?? 0) + 1);
  }

  /** @returns whether it goes on */
  async #wait([least, most]: readonly [number, number]): Promise<boolean> {
    const { signal } = this.#ended;
    await passed(this.#random.between(least, most), undefined, { signal }).catch(() => {});
    return !signal.aborted;
  }
}
