import { InvalidConfiguration } from '../errors.ts';

/** One process of Redis, or one Sentinel. */
export interface RedisNode {
  /** IPv6 without brackets. */
  readonly host: string;
  readonly port: number;
}

const SHAPE = /^(rediss?)(?:\+(sentinel|cluster))?:\/\/(?:([^/?#]*)@)?([^/?#@]*)(?:\/([^?#]*))?$/;
const NODE = /^(?:\[([0-9a-f:.]+)\]|([\w.-]+))(?::(\d{1,5}))?$/i;
const MASTER_NAME = /^[\w.-]+$/;
const DATABASE = /^\d{1,4}$/;

const DEFAULT_PORTS = { server: 6379, cluster: 6379, sentinel: 26_379 };

/** What can be written, for messages. */
export const REDIS_URL_SHAPES =
  'redis://HOST:PORT, redis+sentinel://HOST:PORT,HOST:PORT/MASTER or redis+cluster://HOST:PORT,HOST:PORT (rediss for TLS)';

/**
 * Where Redis is: one server, whichever server some Sentinels call the master, or a cluster.
 *
 *     redis://[USER:PASSWORD@]HOST[:PORT][/DATABASE]
 *     redis+sentinel://[USER:PASSWORD@]HOST[:PORT],…/MASTER[/DATABASE]
 *     redis+cluster://[USER:PASSWORD@]HOST[:PORT],…
 *
 * With `rediss` for TLS. USER and PASSWORD are percent-encoded.
 */
export class RedisAddress {
  readonly kind: 'server' | 'sentinel' | 'cluster';
  readonly isSecure: boolean;
  /** The server, the Sentinels, or some nodes of the cluster. */
  readonly nodes: readonly RedisNode[];
  /** What the Sentinels call it. */
  readonly master: string | undefined;
  readonly database: number;
  /** Of the servers, not of the Sentinels. */
  readonly username: string | undefined;
  readonly password: string | undefined;

  private constructor(text: string) {
    const [, scheme, kind, userinfo, hosts = '', path = ''] = SHAPE.exec(text) ?? [];
    if (scheme === undefined) throw invalid('must be a redis:// or rediss:// URL');
    this.kind = (kind ?? 'server') as RedisAddress['kind'];
    this.isSecure = scheme === 'rediss';
    this.nodes = hosts.split(',').map((host) => parseNode(host, DEFAULT_PORTS[this.kind]));
    if (this.kind === 'server' && this.nodes.length > 1) {
      throw invalid('names several hosts: say redis+sentinel:// or redis+cluster://');
    }
    const parts = path === '' ? [] : path.split('/');
    this.master = this.kind === 'sentinel' ? parseMaster(parts.shift()) : undefined;
    this.database = parseDatabase(parts, this.kind);
    const [username = '', password] = credentials(userinfo);
    this.username = username === '' ? undefined : username;
    this.password = password === '' ? undefined : password;
  }

  /** @throws InvalidConfiguration saying what is wrong, in words that follow upon the name of the setting and quote nothing of it */
  static parse(text: string): RedisAddress {
    return new RedisAddress(text);
  }

  /** What may be shown: without user and password. */
  toString(): string {
    const scheme = `redis${this.isSecure ? 's' : ''}${this.kind === 'server' ? '' : `+${this.kind}`}`;
    const path = [this.master ?? [], this.database === 0 ? [] : this.database].flat();
    return `${scheme}://${this.nodes.map(formatNode).join(',')}${path.map((part) => `/${part}`).join('')}`;
  }
}

export function formatNode({ host, port }: RedisNode): string {
  return `${host.includes(':') ? `[${host}]` : host}:${port}`;
}

function parseNode(text: string, defaultPort: number): RedisNode {
  const [, ipv6, name, portText] = NODE.exec(text) ?? [];
  const host = ipv6 ?? name;
  if (host === undefined) throw invalid('names no host, or one that cannot be: write HOST or HOST:PORT');
  const port = portText === undefined ? defaultPort : Number(portText);
  if (port < 1 || port > 65_535) throw invalid('has a port that is not from 1 to 65535');
  return { host, port };
}

function parseMaster(text: string | undefined): string {
  if (text !== undefined && MASTER_NAME.test(text)) return text;
  throw invalid(
    'must end in the name that the Sentinels have for the master: redis+sentinel://HOST:PORT,HOST:PORT/NAME',
  );
}

function parseDatabase(parts: readonly string[], kind: RedisAddress['kind']): number {
  const [text, ...more] = parts;
  if (text === undefined || (text === '' && more.length === 0)) return 0;
  if (kind === 'cluster') throw invalid('must end after the hosts: a cluster has no numbered databases');
  if (more.length > 0 || !DATABASE.test(text)) throw invalid('must end in the number of a database, or nothing');
  return Number(text);
}

function credentials(userinfo: string | undefined): (string | undefined)[] {
  if (userinfo === undefined) return [];
  const colon = userinfo.indexOf(':');
  const parts = colon === -1 ? [userinfo] : [userinfo.slice(0, colon), userinfo.slice(colon + 1)];
  try {
    return parts.map(decodeURIComponent);
  } catch {
    throw invalid('has a user or password with a % that stands for nothing: write it as %25');
  }
}

function invalid(why: string): InvalidConfiguration {
  return new InvalidConfiguration(why, { hint: `write ${REDIS_URL_SHAPES}` });
}
