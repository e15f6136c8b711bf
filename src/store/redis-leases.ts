import { randomUUID } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import { StorageFailed } from '../errors.ts';
import { type Logger, silentLogger } from '../logger.ts';
import { redisKeys } from './keys.ts';
import { type HeldElsewhere, LEASE_TTL_MS, type Lease, type LeaseNote, type Leases } from './leases.ts';
import { connectRedis, type RedisConnection } from './redis-connection.ts';
import type { RedisSettings } from './redis-link.ts';

/** Three renewals may fail before a lease is lost, in milliseconds. */
const RENEW_MS = 3_000;
/** Redis that answered this recently is asked again before it is gone without, for so long in all, in milliseconds. */
const RECENTLY_MS = 1_000;
const PATIENCE_MS = 250;
const ASK_AGAIN_MS = 40;

/*
 * A lease is a hash with `holder`, `token` and `note` that expires. Each script is one step for everybody else. The token
 * is at least the time in milliseconds, so that it goes on growing after Redis has lost its memory.
 */
const NEXT_TOKEN = `
  local now = redis.call('TIME')
  local last = tonumber(redis.call('GET', KEYS[2]) or '0') or 0
  local token = string.format('%.0f', math.max(last + 1, now[1] * 1000 + math.floor(now[2] / 1000)))
  redis.call('SET', KEYS[2], token)
`;

/** ARGV: holder, time to live. Gives `{1, token}`, or `{0, token, note}` of whoever has it. */
const ACQUIRE = `
  if redis.call('TYPE', KEYS[1]).ok == 'hash' then
    if redis.call('HGET', KEYS[1], 'holder') == ARGV[1] then return {1, redis.call('HGET', KEYS[1], 'token')} end
    return {0, redis.call('HGET', KEYS[1], 'token'), redis.call('HGET', KEYS[1], 'note')}
  end
  ${NEXT_TOKEN}
  redis.call('DEL', KEYS[1])
  redis.call('HSET', KEYS[1], 'holder', ARGV[1], 'token', token)
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
  return {1, token}
`;

/** ARGV: holder, time to live, note or nothing. What was forgotten is taken again. Gives `{1, token}`, or `{0}` when another one has it. */
const RENEW = `
  local holder = redis.call('HGET', KEYS[1], 'holder')
  if holder and holder ~= ARGV[1] then return {0} end
  if not holder then
    ${NEXT_TOKEN}
    redis.call('HSET', KEYS[1], 'holder', ARGV[1], 'token', token)
  end
  if ARGV[3] ~= '' then redis.call('HSET', KEYS[1], 'note', ARGV[3]) end
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
  return {1, redis.call('HGET', KEYS[1], 'token')}
`;

/** ARGV: holder. */
const RELEASE = `
  if redis.call('HGET', KEYS[1], 'holder') == ARGV[1] then return redis.call('DEL', KEYS[1]) end
  return 0
`;

interface Times {
  readonly ttlMs: number;
  readonly renewMs: number;
}

/**
 * Leases that replicas share through Redis. Redis may be away at any time: then everybody gets a lease, at once or
 * within half a second, and shares it when Redis is back, unless another one has it by then.
 */
export class RedisLeases implements Leases {
  readonly #client: RedisConnection;
  readonly #times: Times;
  readonly #logger: Logger;
  readonly #open = new Set<RedisLease>();
  #unshared = 0;
  #answeredAt = Number.NEGATIVE_INFINITY;
  #isTroubled = false;

  private constructor(client: RedisConnection, times: Times, logger: Logger) {
    this.#client = client;
    this.#times = times;
    this.#logger = logger;
  }

  /** @throws InvalidConfiguration when the URL cannot be one */
  static async open({
    times,
    logger,
    ...redis
  }: RedisSettings & { logger: Logger; times?: Partial<Times> }): Promise<RedisLeases> {
    // Silent: the metadata store tells how its Redis fares, and this is the same one.
    const client = await connectRedis({ ...redis, logger: silentLogger });
    return new RedisLeases(client, { ttlMs: LEASE_TTL_MS, renewMs: RENEW_MS, ...times }, logger);
  }

  get unshared(): number {
    return this.#unshared;
  }

  async acquire(key: string): Promise<Lease | HeldElsewhere> {
    const holder = randomUUID();
    const lease = new RedisLease({
      times: this.#times,
      renew: (note) => this.#run(RENEW, key, holder, String(this.#times.ttlMs), note),
      release: () => this.#run(RELEASE, key, holder),
      onEnd: () => void this.#open.delete(lease),
    });
    try {
      const [isMine, token, note] = await this.#ask(key, holder);
      if (isMine === 0) return { heldBy: { token: Number(token), text: note ?? undefined } };
      this.#isTroubled = false;
      lease.begin(Number(token));
    } catch (error) {
      if (!this.#isTroubled) this.#logger.warn('replicas cannot agree on who fetches what, and each does', { error });
      this.#isTroubled = true;
      this.#unshared += 1;
      lease.begin(0);
    }
    this.#open.add(lease);
    return lease;
  }

  async look(key: string): Promise<LeaseNote | undefined> {
    try {
      const [token, text] = await this.#client.hmGet(redisKeys.lease(key), ['token', 'note']);
      return token == null ? undefined : { token: Number(token), text: text ?? undefined };
    } catch (error) {
      // Somebody's text or list under our key: nobody holds that.
      if (error instanceof Error && error.message.startsWith('WRONGTYPE')) return undefined;
      throw new StorageFailed('asking redis who fetches it', error);
    }
  }

  async close(): Promise<void> {
    await Promise.all([...this.#open].map((lease) => lease.release()));
    if (this.#client.isOpen) this.#client.destroy();
  }

  /** Commands of others that took too long close it to all for a moment: that is waited for. */
  async #ask(key: string, holder: string): Promise<Reply> {
    const until = performance.now() + PATIENCE_MS - ASK_AGAIN_MS;
    for (;;) {
      try {
        const reply = (await this.#run(ACQUIRE, key, holder, String(this.#times.ttlMs))) as Reply;
        this.#answeredAt = performance.now();
        return reply;
      } catch (error) {
        const now = performance.now();
        if (now > until || now - this.#answeredAt > RECENTLY_MS) throw error;
        await delay(ASK_AGAIN_MS);
      }
    }
  }

  #run(script: string, key: string, ...args: string[]): Promise<unknown> {
    const keys = [redisKeys.lease(key), redisKeys.leaseToken];
    return this.#client.eval(script, { keys, arguments: args });
  }
}

type Reply = [isMine: number, token: string | undefined, note: string | null | undefined];

class RedisLease implements Lease {
  readonly #times: Times;
  readonly #renewInRedis: (note: string) => Promise<unknown>;
  readonly #releaseInRedis: () => Promise<unknown>;
  readonly #onEnd: () => void;
  #token = 0;
  #note = '';
  #timer: NodeJS.Timeout | undefined;
  #hasEnded = false;

  constructor(deps: {
    times: Times;
    renew: (note: string) => Promise<unknown>;
    release: () => Promise<unknown>;
    onEnd: () => void;
  }) {
    this.#times = deps.times;
    this.#renewInRedis = deps.renew;
    this.#releaseInRedis = deps.release;
    this.#onEnd = deps.onEnd;
  }

  get token(): number {
    return this.#token;
  }

  /** Renews it from now on. */
  begin(token: number): void {
    this.#token = token;
    this.#timer = setInterval(() => void this.#renew(), this.#times.renewMs);
    this.#timer.unref();
  }

  async note(text: string): Promise<void> {
    this.#note = text;
    if (!this.#hasEnded) await this.#renew();
  }

  async release(): Promise<void> {
    if (!this.#end()) return;
    await this.#releaseInRedis().catch(() => {});
  }

  /** Never rejects: the next one may succeed. */
  async #renew(): Promise<void> {
    const reply = (await this.#renewInRedis(this.#note).catch(() => undefined)) as Reply | undefined;
    if (!reply || this.#hasEnded) return;
    if (reply[0] === 1) this.#token = Number(reply[1]);
    else this.#end();
  }

  /** @returns whether it had not ended before */
  #end(): boolean {
    if (this.#hasEnded) return false;
    this.#hasEnded = true;
    clearInterval(this.#timer);
    this.#onEnd();
    return true;
  }
}
