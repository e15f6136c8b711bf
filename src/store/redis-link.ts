import { once } from 'node:events';
import { createClient, createCluster } from '@keyv/redis';
import type { RedisAddress, RedisNode } from '../address/redis-address.ts';
import { clusterSlot } from './cluster-slot.ts';
import type { ClusterLayout } from './redis-lookout.ts';

const CONNECT_TIMEOUT_MS = 1_000;
/** A connection on which nothing came for so long is dead: the host is frozen, or a firewall swallows packets. */
const SOCKET_TIMEOUT_MS = 3_000;
/** Shorter than the socket's time-out, so that an idle connection is not taken for a dead one. */
const PING_INTERVAL_MS = 1_000;
const MAX_RECONNECT_DELAY_MS = 2_000;

/** How Redis is reached. */
export interface RedisSettings {
  /** As `RedisAddress` reads it. */
  readonly url: string;
  /** PEM certificates to trust for TLS, instead of the public roots and those that Node was told to trust. */
  readonly ca?: string | undefined;
  /** Asked for at each connection, and goes before the one of the URL. */
  readonly password?: (() => Promise<string>) | undefined;
  /** What the Sentinels themselves are told. */
  readonly sentinel?: SentinelSettings | undefined;
}

export interface SentinelSettings {
  readonly username?: string | undefined;
  readonly password?: (() => Promise<string>) | undefined;
}

/** Told of a link as a whole. */
export interface LinkEvents {
  /** The connection ended, or could not be made. It is tried again for as long as the link is open. */
  onLost(error: unknown): void;
  onReady(): void;
}

/** A connection to Redis, of whichever kind. It goes on connecting by itself until `end`. */
export interface RedisLink {
  /** Resolves when it can be used for the first time, and never rejects. */
  readonly ready: Promise<void>;
  /** Rejects at once while there is no connection; may hang as long as Redis does. */
  send(key: string, command: readonly string[]): Promise<unknown>;
  /** The part of Redis that has this key: parts fail one by one. */
  partOf(key: string): string;
  /** At once: a graceful farewell would wait for a Redis that may be frozen. */
  end(): void;
}

/** What every connection to a server has in common. */
export type NodeOptions = ReturnType<typeof nodeOptions>;

export function nodeOptions(address: RedisAddress, { ca, password }: Pick<RedisSettings, 'ca' | 'password'>) {
  const { username, password: inUrl, database, isSecure } = address;
  return {
    socket: {
      connectTimeout: CONNECT_TIMEOUT_MS,
      socketTimeout: SOCKET_TIMEOUT_MS,
      // A function: with the default strategy a client whose socket timed out stays closed for good.
      reconnectStrategy: (attempt: number) => Math.min(50 * 2 ** attempt, MAX_RECONNECT_DELAY_MS),
      ...tlsOptions(isSecure, ca),
    },
    ...credentialsOf(username, password ?? (inUrl === undefined ? undefined : async () => inUrl)),
    database,
    // Otherwise commands queue up for as long as Redis is away.
    disableOfflineQueue: true,
    pingInterval: PING_INTERVAL_MS,
  };
}

export function tlsOptions(isSecure: boolean, ca: string | undefined) {
  if (!isSecure) return {};
  return ca === undefined ? { tls: true as const } : { tls: true as const, ca };
}

export function credentialsOf(username: string | undefined, password: (() => Promise<string>) | undefined) {
  if (username === undefined && password === undefined) return {};
  const credentials = async () => {
    const secret = await password?.();
    return { ...(username !== undefined && { username }), ...(secret !== undefined && { password: secret }) };
  };
  return { credentialsProvider: { type: 'async-credentials-provider' as const, credentials } };
}

/** One server. */
export class ServerLink implements RedisLink {
  readonly ready: Promise<void>;
  readonly node: RedisNode;
  readonly #client;

  constructor(node: RedisNode, options: NodeOptions, events: LinkEvents) {
    this.node = node;
    const client = createClient({ ...options, socket: { ...options.socket, host: node.host, port: node.port } });
    this.#client = client;
    client.on('error', (error: unknown) => {
      // A ping that was refused is an error, too.
      if (!client.isReady && client.isOpen) events.onLost(error);
    });
    client.on('ready', () => events.onReady());
    this.ready = once(client, 'ready').then(
      () => {},
      () => {},
    );
    // It goes on trying by itself, so its first failure is no news. Left to the first command, connecting would hold it up.
    client.connect().catch(() => {});
  }

  send(_key: string, command: readonly string[]): Promise<unknown> {
    return this.#client.sendCommand([...command]);
  }

  partOf(): string {
    return '';
  }

  end(): void {
    if (this.#client.isOpen) this.#client.destroy();
  }
}

/** Several servers that have a part of the keys each. */
export class ClusterLink implements RedisLink {
  readonly ready = Promise.resolve();
  readonly #cluster;

  /** Who had which keys when it was connected. */
  readonly layout: ClusterLayout;

  private constructor(cluster: ReturnType<typeof clusterOf>, layout: ClusterLayout) {
    this.#cluster = cluster;
    this.layout = layout;
  }

  /** @throws when none of its nodes answers */
  static async connect(layout: ClusterLayout, options: NodeOptions): Promise<ClusterLink> {
    const cluster = clusterOf(layout.nodes, options);
    // Which node is in trouble is seen by what is asked of it.
    cluster.on('error', () => {});
    try {
      await cluster.connect();
    } catch (error) {
      endQuietly(cluster);
      throw error;
    }
    return new ClusterLink(cluster, layout);
  }

  send(key: string, command: readonly string[]): Promise<unknown> {
    return this.#cluster.sendCommand(key, false, [...command]);
  }

  partOf(key: string): string {
    return this.#cluster.slots[clusterSlot(key)]?.master.address ?? 'nobody';
  }

  end(): void {
    endQuietly(this.#cluster);
  }
}

function clusterOf(nodes: readonly RedisNode[], options: NodeOptions) {
  return createCluster({
    rootNodes: nodes.map(({ host, port }) => ({ socket: { host, port } })),
    // Clusters have no numbered databases.
    defaults: { ...options, database: 0 },
    // Otherwise connecting waits for every node, for ever if one is down.
    minimizeConnections: true,
  });
}

function endQuietly(cluster: { destroy(): void }): void {
  try {
    cluster.destroy();
  } catch {
    // One of its connections was closed already; then so are the others.
  }
}
