import { createClient } from '@keyv/redis';
import { formatNode, type RedisAddress, type RedisNode } from '../address/redis-address.ts';
import { credentialsOf, type RedisSettings, tlsOptions } from './redis-link.ts';

/** For a connection and one answer, in milliseconds each. */
const TIME_LIMIT_MS = 1_000;

/** Who has which keys of a cluster. */
export interface ClusterLayout {
  /** Equal for equal layouts. */
  readonly text: string;
  readonly nodes: readonly RedisNode[];
}

/**
 * Asks who serves now: Sentinels for the master, or nodes of a cluster for all of them. All that may know are asked at
 * once, and what most of them say counts.
 */
export class RedisLookout {
  readonly #address: RedisAddress;
  /** Never connected. What is made after its likeness costs a hundredth of what a client from scratch does. */
  readonly #likeness: ReturnType<typeof likenessOf>;

  constructor(address: RedisAddress, settings: RedisSettings) {
    this.#address = address;
    this.#likeness = likenessOf(address, settings);
  }

  /** @throws when no Sentinel answers, or none knows it */
  async master(): Promise<RedisNode> {
    const command = ['SENTINEL', 'GET-MASTER-ADDR-BY-NAME', this.#address.master ?? ''];
    const said = await this.#askAll(this.#address.nodes, command, (reply) => {
      if (!Array.isArray(reply)) throw new Error('this Sentinel knows no master of that name');
      return { host: String(reply[0]), port: Number(reply[1]) };
    });
    return mostOf(said, formatNode);
  }

  /** @param known nodes beside those of the address. @throws when no node answers, or none knows of any */
  async layout(known: readonly RedisNode[]): Promise<ClusterLayout> {
    const nodes = new Map([...this.#address.nodes, ...known].map((node) => [formatNode(node), node]));
    const said = await this.#askAll([...nodes.values()], ['CLUSTER', 'SLOTS'], layoutIn);
    return mostOf(said, ({ text }) => text);
  }

  async #askAll<T>(
    nodes: readonly RedisNode[],
    command: readonly string[],
    read: (reply: unknown) => T,
  ): Promise<PromiseSettledResult<T>[]> {
    return Promise.allSettled(nodes.map(async (node) => read(await this.#ask(node, command))));
  }

  async #ask({ host, port }: RedisNode, command: readonly string[]): Promise<unknown> {
    const client = this.#likeness.duplicate({ socket: { ...this.#likeness.options?.socket, host, port } });
    client.on('error', () => {});
    try {
      await client.connect();
      return await client.sendCommand([...command]);
    } finally {
      if (client.isOpen) client.destroy();
    }
  }
}

function likenessOf(address: RedisAddress, { ca, password, sentinel }: RedisSettings) {
  const { username, password: inUrl, isSecure, kind } = address;
  const ofServers = () => credentialsOf(username, password ?? (inUrl === undefined ? undefined : async () => inUrl));
  return createClient({
    ...(kind === 'sentinel' ? credentialsOf(sentinel?.username, sentinel?.password) : ofServers()),
    socket: {
      connectTimeout: TIME_LIMIT_MS,
      socketTimeout: TIME_LIMIT_MS,
      reconnectStrategy: false as const,
      ...tlsOptions(isSecure, ca),
    },
  });
}

/** `CLUSTER SLOTS`: `[first, last, [host, port, …] of the master, … of its replicas]` for each range. */
function layoutIn(reply: unknown): ClusterLayout {
  const ranges = reply as [number, number, ...[string, number][]][];
  if (!Array.isArray(ranges) || ranges.length === 0) throw new Error('this node knows of no cluster');
  const nodes = new Map<string, RedisNode>();
  const lines = ranges.map(([first, last, ...servers]) => {
    for (const [host, port] of servers) nodes.set(`${host}:${port}`, { host, port });
    const [master] = servers;
    return `${first}-${last} ${master?.[0]}:${master?.[1]}`;
  });
  return { text: lines.sort().join(', '), nodes: [...nodes.values()] };
}

/** @throws the first reason when nobody has said anything */
function mostOf<T>(answers: readonly PromiseSettledResult<T>[], nameOf: (value: T) => string): T {
  const votes = new Map<string, { value: T; count: number }>();
  for (const answer of answers) {
    if (answer.status !== 'fulfilled') continue;
    const name = nameOf(answer.value);
    votes.set(name, { value: answer.value, count: (votes.get(name)?.count ?? 0) + 1 });
  }
  const [most] = [...votes.values()].sort((a, b) => b.count - a.count);
  if (most) return most.value;
  const [first] = answers;
  throw first?.status === 'rejected' ? first.reason : new Error('there is nobody to ask');
}
