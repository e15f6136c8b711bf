import { once } from 'node:events';
import KeyvRedis, { createClient } from '@keyv/redis';
import { Keyv } from 'keyv';
import { InvalidConfiguration } from '../errors.ts';
import type { Logger } from '../logger.ts';
import { KeyvMetadataStore } from './keyv-metadata-store.ts';
import type { MetadataStore } from './metadata-store.ts';

const DEFAULT_NAMESPACE = 'larder';
/** For one operation. Redis answers in well under a millisecond, or it is in trouble. */
const TIME_LIMIT_MS = 250;
const CONNECT_TIMEOUT_MS = 1_000;
/** A connection on which nothing came for so long is dead: the host is frozen, or a firewall swallows packets. */
const SOCKET_TIMEOUT_MS = 3_000;
/** Shorter than the socket's time-out, so that an idle connection is not taken for a dead one. */
const PING_INTERVAL_MS = 1_000;
const MAX_RECONNECT_DELAY_MS = 2_000;

/**
 * Metadata in Redis, at a `redis://` or `rediss://` URL.
 *
 * Redis may be down now or at any time: then every operation rejects, at once or within 250 ms, and works again by
 * itself within seconds of Redis coming back.
 *
 * @throws InvalidConfiguration when the URL cannot be one.
 */
export async function openRedisMetadata(options: {
  url: string;
  logger: Logger;
  namespace?: string;
  /** PEM certificates to trust for `rediss://` instead of the public roots. */
  ca?: string;
}): Promise<MetadataStore> {
  const { namespace = DEFAULT_NAMESPACE } = options;
  const client = await connectRedis(options);
  const store = new RedisStorage(client, { namespace, connectionTimeout: 500, throwOnErrors: true });
  const keyv = new Keyv({ store, namespace, useKeyPrefix: false, throwOnErrors: true });
  return new KeyvMetadataStore({ keyv, timeLimitMs: TIME_LIMIT_MS });
}

type Client = ReturnType<typeof connection>;

/**
 * A client that goes on connecting by itself, connected if Redis answers now. Commands are rejected while it does not.
 * @throws InvalidConfiguration when the URL cannot be one.
 */
export async function connectRedis(options: { url: string; logger: Logger; ca?: string }): Promise<Client> {
  const { url, logger, ca } = options;
  const client = connection(url, ca);
  reportChanges(client, addressOf(url), logger);

  // It goes on trying by itself, so its first failure is no news. Left to the first command, connecting would hold it up.
  client.connect().catch(() => {});
  await once(client, 'ready', { signal: AbortSignal.timeout(CONNECT_TIMEOUT_MS) }).catch(() => {});
  return client;
}

function connection(url: string, ca: string | undefined) {
  const socket = {
    connectTimeout: CONNECT_TIMEOUT_MS,
    socketTimeout: SOCKET_TIMEOUT_MS,
    // A function: with the default strategy a client whose socket timed out stays closed for good.
    reconnectStrategy: (attempt: number) => Math.min(50 * 2 ** attempt, MAX_RECONNECT_DELAY_MS),
  };
  try {
    return createClient({
      url: new URL(url).href,
      // Otherwise operations queue up for as long as Redis is away.
      disableOfflineQueue: true,
      pingInterval: PING_INTERVAL_MS,
      socket: ca === undefined ? socket : { ...socket, tls: true, ca },
    });
  } catch (error) {
    // The cause would carry the URL, and with it the password.
    const why = (error as { code?: unknown }).code === 'ERR_INVALID_URL' ? 'it is no URL' : 'its scheme is not known';
    throw new InvalidConfiguration(`the URL of Redis cannot be used: ${why}`, {
      hint: 'write it as redis://HOST:PORT or rediss://HOST:PORT',
    });
  }
}

/** One line when Redis goes and one when it comes back: while it is away, every attempt to reconnect fails. */
function reportChanges(client: Client, address: string, logger: Logger): void {
  let state: 'new' | 'up' | 'down' = 'new';
  client.on('error', (error: unknown) => {
    if (state !== 'down')
      logger.warn('redis does not answer: metadata is not shared until it does', { address, error });
    state = 'down';
  });
  client.on('ready', () => {
    if (state === 'down') logger.info('redis answers again', { address });
    state = 'up';
  });
}

/** Scheme, host and database: what may be shown of the URL. */
function addressOf(url: string): string {
  const { protocol, host, pathname } = new URL(url);
  return `${protocol}//${host}${pathname}`;
}

class RedisStorage extends KeyvRedis<string> {
  override async get<U = string>(key: string): Promise<U | undefined> {
    try {
      return await super.get<U>(key);
    } catch (error) {
      // Somebody's list or hash under our key: not an entry, and the next `set` replaces it.
      if (error instanceof Error && error.message.startsWith('WRONGTYPE')) return undefined;
      throw error;
    }
  }

  /** At once: a graceful farewell would wait for a Redis that may be frozen. */
  override async disconnect(): Promise<void> {
    await super.disconnect(true);
  }
}
