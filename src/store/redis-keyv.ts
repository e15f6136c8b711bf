import KeyvRedis from '@keyv/redis';
import { Keyv } from 'keyv';
import type { Logger } from '../logger.ts';
import { KeyvMetadataStore } from './keyv-metadata-store.ts';
import type { MetadataStore } from './metadata-store.ts';
import { connectRedis, MAX_VALUE_BYTES, type RedisConnection } from './redis-connection.ts';
import type { RedisSettings } from './redis-link.ts';

const DEFAULT_NAMESPACE = 'larder';
/** The connection's own limit is half of it. */
const TIME_LIMIT_MS = 500;

/**
 * Metadata in Redis.
 *
 * Redis may be down now or at any time: then every operation rejects, at once or within 250 ms, and works again by
 * itself within seconds of Redis coming back.
 *
 * @throws InvalidConfiguration when the URL cannot be one.
 */
export async function openRedisMetadata(
  options: RedisSettings & { logger: Logger; namespace?: string },
): Promise<MetadataStore> {
  const { namespace = DEFAULT_NAMESPACE } = options;
  const connection = await connectRedis(options);
  const store = new RedisStorage(connection, namespace);
  const keyv = new Keyv({ store, namespace, useKeyPrefix: false, throwOnErrors: true });
  return new KeyvMetadataStore({
    keyv,
    timeLimitMs: TIME_LIMIT_MS,
    checking: { what: 'using redis', check: () => connection.check() },
    tellsTrouble: true,
    store: 'redis',
  });
}

class RedisStorage extends KeyvRedis<string> {
  constructor(connection: RedisConnection, namespace: string) {
    super(clientOf(connection), { namespace, throwOnErrors: true });
  }

  override async get<U = string>(key: string): Promise<U | undefined> {
    try {
      return await super.get<U>(key);
    } catch (error) {
      // Somebody's list or hash under our key: not an entry, and the next `set` replaces it.
      if (error instanceof Error && error.message.startsWith('WRONGTYPE')) return undefined;
      throw error;
    }
  }

  override async set(key: string, value: string, ttl?: number): Promise<void> {
    if (value.length > MAX_VALUE_BYTES) throw new Error('the entry is too large for redis');
    await super.set(key, value, ttl);
  }

  override async disconnect(): Promise<void> {
    await super.disconnect(true);
  }
}

/** The part of a client that single entries need. It connects by itself, and says itself when it cannot. */
function clientOf(connection: RedisConnection): ConstructorParameters<typeof KeyvRedis>[0] {
  const client = {
    isOpen: true,
    connect: async () => client,
    on: () => client,
    get: (key: string) => connection.get(key),
    set: (key: string, value: string, options?: { PX: number }) => connection.set(key, value, options),
    unlink: (key: string) => connection.unlink(key),
    destroy: () => connection.destroy(),
  };
  return client as unknown as ConstructorParameters<typeof KeyvRedis>[0];
}
