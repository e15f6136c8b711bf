import * as http from 'node:http';
import * as https from 'node:https';
import type { Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import { HttpProxyAgent, type HttpProxyAgentOptions, HttpsProxyAgent, type HttpsProxyAgentOptions } from 'hpagent';
import { lookupPublic } from './address-guard.ts';
import { ADDRESS_ATTEMPT_MS, type ProxySettings, profileOf, secureContext } from './connections.ts';
import { proxyFor } from './egress-proxy.ts';
import type { Upstream } from './upstream.ts';

type Connected = (error: Error | null, socket: Duplex) => void;

/**
 * The same ways out as the pools of connections, for requests that are made with Node's own client: proxies, trusted
 * authorities, client certificates, the rule about internal addresses.
 *
 * Connections are not kept: one that upstream closes at the moment it is used again would be a failure to tell, since
 * what is passed on cannot simply be sent a second time.
 */
export class RelayAgents {
  readonly #proxy: ProxySettings;
  readonly #connectMs: number;
  readonly #extraCa: string | undefined;
  readonly #agents = new Map<string, http.Agent>();
  readonly #open: OpenConnections;

  /** @param deps.connectMs for DNS, TCP and TLS together, and as long again for the way through a proxy */
  constructor(deps: {
    proxy: ProxySettings;
    connectMs: number;
    extraCa?: string | undefined;
    isSealed?: (() => boolean) | undefined;
  }) {
    this.#proxy = deps.proxy;
    this.#connectMs = deps.connectMs;
    this.#extraCa = deps.extraCa;
    this.#open = new OpenConnections(deps.isSealed ?? (() => false));
  }

  /**
   * For a URL that is known to be allowed: addresses in it are connected to without being looked up.
   * @throws InvalidConfiguration when a certificate or a proxy cannot be used
   */
  for(upstream: Upstream, url: URL): http.Agent {
    const proxy = proxyFor(url, this.#proxy);
    const key = `${url.protocol} ${proxy?.href ?? 'direct'} ${profileOf(upstream)}`;
    let agent = this.#agents.get(key);
    if (!agent) {
      agent = this.#agentFor(upstream, url.protocol === 'https:', proxy);
      this.#agents.set(key, agent);
    }
    return agent;
  }

  /** Ends every connection, those that are being made included. */
  breakOff(): void {
    this.#open.breakOff();
  }

  #agentFor(upstream: Upstream, isSecure: boolean, proxy: URL | undefined): http.Agent {
    const limit = this.#connectMs;
    const trust = isSecure ? { secureContext: secureContext(upstream, this.#extraCa) } : {};
    // A proxy looks names up by itself, and may well be on a private address.
    if (proxy) {
      const options = { ...trust, proxy, timeout: limit, keepAlive: false };
      return isSecure ? new TunnelTlsAgent(options, this.#open) : new TunnelAgent(options, this.#open);
    }
    const options = {
      ...trust,
      keepAlive: false,
      autoSelectFamily: true,
      autoSelectFamilyAttemptTimeout: ADDRESS_ATTEMPT_MS,
      ...(upstream.privateNetwork ? {} : { lookup: lookupPublic as never }),
    };
    return isSecure ? new DirectTlsAgent(options, limit, this.#open) : new DirectAgent(options, limit, this.#open);
  }
}

/** What there is of connections, so that all of it can be ended at once. */
class OpenConnections {
  readonly #isSealed: () => boolean;
  readonly #sockets = new Set<Socket>();
  readonly #tunnels = new Set<AbortController>();
  #latest = new AbortController();

  constructor(isSealed: () => boolean) {
    this.#isSealed = isSealed;
  }

  /** Larder may have been sealed since the request was let through: then it fails, and nothing is connected. */
  refuses(callback: Connected | undefined): boolean {
    if (!this.#isSealed()) return false;
    callback?.(new Error('not to be connected any more'), undefined as never);
    return true;
  }

  /** The library spreads this once for each tunnel, at once when it is asked for one. */
  get tunnelOptions() {
    const signal = () => this.#latest.signal;
    return {
      headers: {},
      get signal() {
        return signal();
      },
    };
  }

  keep(socket: Socket): void {
    this.#sockets.add(socket);
    socket.once('close', () => this.#sockets.delete(socket));
  }

  /** The next tunnel that is asked for can be ended while it is being made. */
  beginTunnel(): AbortController {
    this.#latest = new AbortController();
    this.#tunnels.add(this.#latest);
    return this.#latest;
  }

  endTunnel(tunnel: AbortController): void {
    this.#tunnels.delete(tunnel);
  }

  breakOff(): void {
    for (const tunnel of this.#tunnels) tunnel.abort();
    for (const socket of this.#sockets) socket.destroy(new Error('not to be connected any more'));
  }
}

class DirectAgent extends http.Agent {
  readonly #limitMs: number;
  readonly #open: OpenConnections;

  constructor(options: http.AgentOptions, limitMs: number, open: OpenConnections) {
    super(options);
    this.#limitMs = limitMs;
    this.#open = open;
  }

  override createConnection(options: http.ClientRequestArgs, callback?: Connected): Duplex | undefined {
    if (this.#open.refuses(callback)) return undefined;
    const socket = super.createConnection(options, callback) as Socket;
    this.#open.keep(socket);
    return connectedWithin(socket, 'connect', this.#limitMs);
  }
}

class DirectTlsAgent extends https.Agent {
  readonly #limitMs: number;
  readonly #open: OpenConnections;

  constructor(options: https.AgentOptions, limitMs: number, open: OpenConnections) {
    super(options);
    this.#limitMs = limitMs;
    this.#open = open;
  }

  override createConnection(options: https.RequestOptions, callback?: Connected): Duplex | undefined {
    if (this.#open.refuses(callback)) return undefined;
    const socket = super.createConnection(options, callback) as Socket;
    this.#open.keep(socket);
    return connectedWithin(socket, 'secureConnect', this.#limitMs);
  }
}

class TunnelAgent extends HttpProxyAgent {
  readonly #open: OpenConnections;

  constructor(options: HttpProxyAgentOptions, open: OpenConnections) {
    super({ ...options, proxyRequestOptions: open.tunnelOptions });
    this.#open = open;
  }

  override createConnection(options: http.ClientRequestArgs, callback?: Connected): undefined {
    if (this.#open.refuses(callback)) return;
    const tunnel = this.#open.beginTunnel();
    super.createConnection(options, (error, socket) => {
      this.#open.endTunnel(tunnel);
      if (!error) this.#open.keep(socket as Socket);
      callback?.(error && tunnelFailure(error), socket);
    });
  }
}

class TunnelTlsAgent extends HttpsProxyAgent {
  readonly #open: OpenConnections;

  constructor(options: HttpsProxyAgentOptions, open: OpenConnections) {
    super({ ...options, proxyRequestOptions: open.tunnelOptions });
    this.#open = open;
  }

  override createConnection(options: https.RequestOptions, callback?: Connected): undefined {
    if (this.#open.refuses(callback)) return;
    const tunnel = this.#open.beginTunnel();
    super.createConnection(options, (error, socket) => {
      this.#open.endTunnel(tunnel);
      // What is left is the handshake with upstream.
      if (!error) this.#open.keep(socket as Socket);
      if (!error) connectedWithin(socket as Socket, 'secureConnect', this.options.timeout ?? 0);
      callback?.(error && tunnelFailure(error), socket);
    });
  }
}

/** Node itself waits for as long as the system does, which is minutes. */
function connectedWithin(socket: Socket, event: 'connect' | 'secureConnect', limitMs: number): Socket {
  const timer = setTimeout(() => socket.destroy(timedOut()), limitMs);
  const stop = () => clearTimeout(timer);
  return socket.once(event, stop).once('close', stop);
}

function timedOut(): Error {
  return Object.assign(new Error('no connection in time'), { code: 'ETIMEDOUT' });
}

/** The library's words, in those of the other client. */
function tunnelFailure(error: Error): Error {
  if (error.message === 'Proxy timeout') return timedOut();
  const [, status] = /^Bad response: (\d{3})$/.exec(error.message) ?? [];
  return status === undefined ? error : new Error(`Proxy response (${status}) !== 200 when HTTP Tunneling`);
}
