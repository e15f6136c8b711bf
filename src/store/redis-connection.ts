import { formatNode, RedisAddress, type RedisNode } from '../address/redis-address.ts';
import { hasCode, InvalidConfiguration } from '../errors.ts';
import type { Logger } from '../logger.ts';
import { settledWithin } from '../time-limit.ts';
import { clusterTag } from './cluster-slot.ts';
import { redisKeys } from './keys.ts';
import { RedisCircuit, RedisTrouble } from './redis-circuit.ts';
import { ClusterLink, nodeOptions, type RedisLink, type RedisSettings, ServerLink } from './redis-link.ts';
import { RedisLookout } from './redis-lookout.ts';

/** How long a start waits for Redis, in milliseconds. */
const START_MS = 1_000;
/** While there is trouble, it is looked this often whether other servers have taken over, in milliseconds. */
const SEEK_MS = 1_000;
/** What the probe writes is gone after so long, in milliseconds. */
const PROBE_KEPT_MS = 10_000;
/** Nothing that we write comes near it: a longer value is somebody else's, and not fetched at all. */
export const MAX_VALUE_BYTES = 16 * 1024 * 1024;

/**
 * A connection to Redis that goes on connecting by itself, connected if Redis answers now.
 * @throws InvalidConfiguration when the URL cannot be one.
 */
export async function connectRedis(options: RedisSettings & { logger: Logger }): Promise<RedisConnection> {
  const connection = new RedisConnection(options);
  await connection.begin(START_MS);
  return connection;
}

/**
 * Redis, whichever kind it is: a server, whatever server Sentinels name, a cluster. Every command is answered or rejected
 * within 250 ms, and at once while Redis is known not to answer. The log is told when it goes and when it is back.
 */
export class RedisConnection {
  readonly #address: RedisAddress;
  readonly #settings: RedisSettings;
  readonly #logger: Logger;
  readonly #lookout: RedisLookout;
  readonly #circuits = new Map<string, RedisCircuit>();
  #link: RedisLink | undefined;
  #seeking: Promise<void> | undefined;
  #soughtAt = Number.NEGATIVE_INFINITY;
  #isOpen = true;

  /** @throws InvalidConfiguration when the URL cannot be one */
  constructor({ logger, ...settings }: RedisSettings & { logger: Logger }) {
    this.#address = addressOf(settings.url);
    this.#settings = settings;
    this.#logger = logger;
    this.#lookout = new RedisLookout(this.#address, settings);
  }

  get isOpen(): boolean {
    return this.#isOpen;
  }

  /** Never rejects. */
  async begin(waitMs: number): Promise<void> {
    await settledWithin(
      this.#seek().then(() => this.#link?.ready),
      waitMs,
    );
  }

  /** `null` also for an empty value, and for one that is longer than any of ours. */
  async get(key: string): Promise<string | null> {
    // Never more than that, whatever somebody else has put there.
    const value = (await this.#run(key, ['GETRANGE', key, '0', String(MAX_VALUE_BYTES)])) as string;
    return value === '' || value.length > MAX_VALUE_BYTES ? null : value;
  }

  /** Resolves to `null` when it was there already and should not have been. */
  async set(key: string, value: string, options: { PX?: number; condition?: 'NX' } = {}): Promise<string | null> {
    const { PX, condition } = options;
    const command = [
      'SET',
      key,
      value,
      ...(PX === undefined ? [] : ['PX', String(PX)]),
      ...(condition ? [condition] : []),
    ];
    return (await this.#run(key, command)) as string | null;
  }

  /** How many there were. */
  async unlink(key: string): Promise<number> {
    return (await this.#run(key, ['UNLINK', key])) as number;
  }

  async hmGet(key: string, fields: readonly string[]): Promise<(string | null)[]> {
    return (await this.#run(key, ['HMGET', key, ...fields])) as (string | null)[];
  }

  /** All keys have to be in one part of a cluster. */
  eval(script: string, options: { keys: readonly string[]; arguments: readonly string[] }): Promise<unknown> {
    const { keys, arguments: values } = options;
    return this.#run(keys[0] ?? '', ['EVAL', script, String(keys.length), ...keys, ...values]);
  }

  /** Resolves when it reads and writes. @throws RedisTrouble */
  async check(): Promise<void> {
    const key = redisKeys.probe();
    this.#circuitOf(key);
    await Promise.all([...this.#circuits.values()].map((circuit) => circuit.test()));
  }

  /** At once. What is asked afterwards is rejected. */
  destroy(): void {
    this.#isOpen = false;
    for (const circuit of this.#circuits.values()) circuit.close();
    this.#link?.end();
  }

  #run(key: string, command: readonly string[]): Promise<unknown> {
    return this.#circuitOf(key).run(() => this.#send(key, command));
  }

  async #send(key: string, command: readonly string[]): Promise<unknown> {
    const link = this.#link;
    if (!this.#isOpen) throw new RedisTrouble('CLOSED', undefined);
    if (!link) throw new RedisTrouble('NO_CONNECTION', undefined);
    return link.send(key, command);
  }

  #circuitOf(key: string): RedisCircuit {
    return this.#circuit(this.#link?.partOf(key) ?? '', key);
  }

  #circuit(part: string, key = redisKeys.probe()): RedisCircuit {
    const known = this.#circuits.get(part);
    if (known) return known;
    const address = part === '' ? String(this.#address) : part;
    // Whoever asks for a part of a cluster may be sent elsewhere next time: what is tried is where that key is now.
    const probeKey = part === '' ? redisKeys.probe() : redisKeys.probe(clusterTag(key));
    const made = new RedisCircuit({
      probe: async () => {
        // By the time of the next attempt there may be another server.
        void this.#seek();
        await this.#probe(probeKey);
      },
      onTrouble: (state, error) => {
        const message =
          state === 'away'
            ? 'redis does not answer: metadata is not shared until it does'
            : 'redis refuses what it is asked: metadata is not shared until that is mended';
        this.#logger.warn(message, { address, reason: error.code, error: error.cause ?? error });
      },
      onWell: () => this.#logger.info('redis answers again', { address }),
    });
    this.#circuits.set(part, made);
    return made;
  }

  /** All that is done with entries: Redis may let us do some of it only. */
  async #probe(key: string): Promise<void> {
    await Promise.all([
      this.#send(key, ['SET', key, 'ok', 'PX', String(PROBE_KEPT_MS)]),
      this.#send(key, ['GETRANGE', key, '0', '1']),
      this.#send(key, ['UNLINK', key]),
    ]);
  }

  /** Looks who serves now. Never rejects. */
  #seek(): Promise<void> {
    if (this.#seeking) return this.#seeking;
    if (!this.#isOpen || performance.now() - this.#soughtAt < SEEK_MS) return Promise.resolve();
    this.#soughtAt = performance.now();
    this.#seeking = this.#find()
      .then((link) => this.#take(link))
      .catch((error: unknown) => {
        if (!this.#link) this.#circuit('').lost(error);
      })
      .finally(() => {
        this.#seeking = undefined;
      });
    return this.#seeking;
  }

  /** The link for what is there now: the same one as long as that will do. */
  async #find(): Promise<RedisLink> {
    const { kind, nodes } = this.#address;
    const current = this.#link;
    if (kind === 'cluster') return this.#findCluster(current as ClusterLink | undefined);
    if (kind === 'server' && current) return current;
    const node = kind === 'sentinel' ? await this.#lookout.master() : (nodes[0] as RedisNode);
    if (current && formatNode((current as ServerLink).node) === formatNode(node)) return current;
    const link: ServerLink = new ServerLink(node, nodeOptions(this.#address, this.#settings), {
      onLost: (error) => {
        if (this.#link === link) this.#circuit('').lost(error);
      },
      onReady: () => {
        if (this.#link === link) this.#circuit('').retry();
      },
    });
    return link;
  }

  async #findCluster(current: ClusterLink | undefined): Promise<RedisLink> {
    const layout = await this.#lookout.layout(current?.layout.nodes ?? []);
    if (layout.text === current?.layout.text) return current;
    return ClusterLink.connect(layout, nodeOptions(this.#address, this.#settings));
  }

  #take(link: RedisLink): void {
    const previous = this.#link;
    if (!this.#isOpen) link.end();
    if (!this.#isOpen || link === previous) return;
    this.#link = link;
    previous?.end();
    for (const circuit of this.#circuits.values()) circuit.retry();
  }
}

function addressOf(url: string): RedisAddress {
  try {
    return RedisAddress.parse(url);
  } catch (error) {
    if (!hasCode(error, 'INVALID_CONFIGURATION')) throw error;
    throw new InvalidConfiguration(
      `the URL of Redis ${error.message}`,
      error.hint === undefined ? {} : { hint: error.hint },
    );
  }
}
