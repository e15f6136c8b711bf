import { createHash } from 'node:crypto';
import { Socket } from 'node:net';
import { setImmediate as nextTurn } from 'node:timers/promises';
import tls, { type SecureContext } from 'node:tls';
import { Agent, buildConnector, type Dispatcher, EnvHttpProxyAgent, Pool } from 'undici';
import { InvalidConfiguration, UpstreamUnreachable } from '../errors.ts';
import { lookupPublic } from './address-guard.ts';
import type { Upstream } from './upstream.ts';

/** The egress proxies, as URLs. `no` is a list as in NO_PROXY. */
export interface ProxySettings {
  readonly http?: string | undefined;
  readonly https?: string | undefined;
  readonly no?: string | undefined;
}

export interface ConnectionLimits {
  /** For DNS, TCP and TLS together. */
  readonly connectMs: number;
  /** From the request to the end of the answer's headers. */
  readonly headersMs: number;
  /** Between two pieces of a body. */
  readonly bodyIdleMs: number;
}

/** One address of several may be unreachable (often IPv6): Node's 250 ms are too short for distant hosts. */
export const ADDRESS_ATTEMPT_MS = 1_000;
/** Shorter than the idle limits of common load balancers, so that we close first. */
const KEEP_ALIVE_MS = 30_000;

/**
 * Pools of connections, one for each way of trusting: upstreams with the same CA, client certificate and network
 * rule share one. Made when first used.
 */
export class Connections {
  readonly #proxy: { http: string; https: string; no: string } | undefined;
  readonly #limits: ConnectionLimits;
  readonly #extraCa: string | undefined;
  readonly #pools = new Map<string, Dispatcher>();
  /** All there are. Pools that are destroyed leave those that are being made, and those that became tunnels. */
  readonly #sockets = new Set<Socket>();
  #closed = false;

  /** @throws InvalidConfiguration when a proxy is no usable URL */
  constructor(deps: { proxy: ProxySettings; limits: ConnectionLimits; extraCa?: string | undefined }) {
    const http = proxyUrl(deps.proxy.http);
    const https = proxyUrl(deps.proxy.https);
    this.#proxy = http || https ? { http, https, no: deps.proxy.no ?? '' } : undefined;
    this.#limits = deps.limits;
    this.#extraCa = deps.extraCa;
  }

  /** @throws InvalidConfiguration when its certificates cannot be used; UpstreamUnreachable after `close` */
  for(upstream: Upstream): Dispatcher {
    if (this.#closed) {
      throw new UpstreamUnreachable(
        String(upstream.hostname),
        'connection',
        'is not asked any more: Larder is stopping',
      );
    }
    const profile = profileOf(upstream);
    let pool = this.#pools.get(profile);
    if (!pool) {
      pool = this.#open(upstream);
      this.#pools.set(profile, pool);
    }
    return pool;
  }

  /**
   * Reads what the certificates of these upstreams are judged by, which takes a tenth of a second for those with an
   * authority of their own, so that no request has to wait for it. Connects to nobody. Never rejects: requests tell what is
   * wrong.
   */
  async prepare(upstreams: Iterable<Upstream>): Promise<void> {
    for (const upstream of upstreams) {
      // Clients have their turn in between.
      await nextTurn();
      try {
        this.for(upstream);
      } catch {
        // Told to whoever asks.
      }
    }
  }

  /** Ends everything under way, connections that are being made included. Later requests make new ones. */
  async breakOff(): Promise<void> {
    const pools = [...this.#pools.values()];
    this.#pools.clear();
    const destroyed = Promise.all(pools.map((pool) => pool.destroy()));
    for (const socket of this.#sockets) socket.destroy(new Error('not to be connected any more'));
    await destroyed;
  }

  /** Ends everything under way, for good. */
  async close(): Promise<void> {
    this.#closed = true;
    await this.breakOff();
  }

  #open(upstream: Upstream): Dispatcher {
    const { connectMs, headersMs, bodyIdleMs } = this.#limits;
    const trust = { secureContext: secureContext(upstream, this.#extraCa), timeout: connectMs };
    const options = {
      connect: this.#watched(
        buildConnector({
          ...trust,
          autoSelectFamily: true,
          autoSelectFamilyAttemptTimeout: ADDRESS_ATTEMPT_MS,
          ...(upstream.privateNetwork ? {} : { lookup: lookupPublic as never }),
        }),
      ),
      headersTimeout: headersMs,
      bodyTimeout: bodyIdleMs,
      keepAliveTimeout: KEEP_ALIVE_MS,
      keepAliveMaxTimeout: KEEP_ALIVE_MS,
    };
    if (!this.#proxy) return new Agent(options);
    return new EnvHttpProxyAgent({
      ...options,
      // Empty rather than absent: absent makes the library read the environment, which is not its business.
      httpProxy: this.#proxy.http,
      httpsProxy: this.#proxy.https,
      noProxy: this.#proxy.no,
      // `connect` serves hosts that need no proxy. The proxy itself may well be on a private address.
      requestTls: trust,
      proxyTls: { timeout: connectMs },
      clientFactory: (origin, clientOptions: Pool.Options) => {
        const { connect } = clientOptions;
        const watched = typeof connect === 'function' && {
          connect: this.#watched(connect as buildConnector.connector),
        };
        return new Pool(origin, { ...clientOptions, ...watched, headersTimeout: headersMs });
      },
    });
  }

  #watched(connector: buildConnector.connector): buildConnector.connector {
    return (options, callback) => {
      // The library's own connectors return what they connect, though their type does not say so.
      const socket = connector(options, callback) as unknown;
      if (!(socket instanceof Socket)) return;
      this.#sockets.add(socket);
      socket.once('close', () => this.#sockets.delete(socket));
    };
  }
}

/** Upstreams with the same profile are trusted alike. */
export function profileOf({ ca, clientCertificate, privateNetwork }: Upstream): string {
  const parts = [ca ?? '', clientCertificate?.cert ?? '', clientCertificate?.key ?? '', String(privateNetwork)];
  return createHash('sha256').update(JSON.stringify(parts)).digest('hex');
}

/** Made once a pool: reading a hundred and more root certificates for each connection would be slow. */
export function secureContext(
  { hostname, ca, clientCertificate }: Upstream,
  extraCa: string | undefined,
): SecureContext {
  try {
    // What is given as `ca` replaces what Node trusts by itself, so that has to be given too.
    const trusted = ca === undefined ? {} : { ca: [...defaultRoots(), ...(extraCa ? [extraCa] : []), ca] };
    return tls.createSecureContext({ ...clientCertificate, ...trusted });
  } catch (cause) {
    throw new InvalidConfiguration(`the ca or clientCertificate of ${hostname} cannot be used`, { cause });
  }
}

/** Newer versions of Node tell everything they trust, NODE_EXTRA_CA_CERTS included; Node 20 its own roots only. */
export function defaultRoots(): readonly string[] {
  const { getCACertificates } = tls as { getCACertificates?: (type: 'default') => string[] };
  return getCACertificates?.('default') ?? tls.rootCertificates;
}

export function proxyUrl(given: string | undefined): string {
  if (!given) return '';
  try {
    // `proxy.example:3128` is common, and would parse as a scheme.
    const url = new URL(given.includes('://') ? given : `http://${given}`);
    if (['http:', 'https:'].includes(url.protocol) && url.hostname) return url.href;
  } catch {
    // Told below: the parser's own message would hold the URL, and a URL may hold a password.
  }
  throw new InvalidConfiguration('the proxy for outgoing connections is not a http:// or https:// URL');
}
