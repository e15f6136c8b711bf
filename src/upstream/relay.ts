import type { Agent, ClientRequest, IncomingMessage } from 'node:http';
import { type LarderError, UpstreamInvalid, UpstreamUnreachable } from '../errors.ts';
import { NO_TRACER, type Span, type Tracer } from '../tracer.ts';
import { counted } from './bodies.ts';
import { Circuits, type Passage } from './circuit.ts';
import type { ProxySettings } from './connections.ts';
import { tokenInTime } from './credentials.ts';
import { beginSpan, originHeaders } from './exchange.ts';
import { deadlineFailure, sealedFailure, statusFailure, transportFailure } from './failures.ts';
import { LIMITS } from './http-limits.ts';
import { UNOBSERVED, type UpstreamCall, type UpstreamObserver } from './observer.ts';
import { assertAllowed } from './redirects.ts';
import { RelayAgents } from './relay-agents.ts';
import type { Upstream } from './upstream.ts';

/** Nobody is sent away without any time at all, however long it took to find out where to ask. */
const MIN_HEADERS_MS = 1_000;

export interface RelayLimits {
  readonly connectMs: number;
  /** From when the request came to the end of the answer's headers. */
  readonly headersMs: number;
  /** Between two pieces of a body, in either direction. */
  readonly bodyIdleMs: number;
}

/**
 * Lets requests of clients out as they are, one at a time: what holds for Larder's own requests (sealing, the rule about
 * internal addresses, the rule about tokens, proxies, deadlines) holds for them. Nothing is tried again, no redirect is
 * followed, and every answer is an answer.
 *
 * The circuits are its own: requests that Larder would never make must not close the other doors.
 */
export class Relay {
  readonly #agents: RelayAgents;
  readonly #circuits: Circuits;
  readonly #limits: RelayLimits;
  readonly #observer: UpstreamObserver;
  readonly #tracer: Tracer;
  readonly #isSealed: () => boolean;
  readonly #underWay = new Set<RelayedRequest>();

  constructor(deps: {
    proxy: ProxySettings;
    extraCa?: string | undefined;
    limits?: Partial<RelayLimits>;
    observer?: UpstreamObserver;
    tracer?: Tracer | undefined;
    isSealed?: () => boolean;
    now?: () => number;
  }) {
    this.#limits = { ...LIMITS, ...deps.limits };
    this.#agents = new RelayAgents({ ...deps, connectMs: this.#limits.connectMs });
    this.#circuits = new Circuits({ now: deps.now ?? Date.now, openMs: LIMITS.circuitMs });
    this.#observer = deps.observer ?? UNOBSERVED;
    this.#tracer = deps.tracer ?? NO_TRACER;
    this.#isSealed = deps.isSealed ?? (() => false);
  }

  /**
   * What it takes to pass one request on. The caller ends it with `release`.
   * @param asked.url without a query: it is named in errors
   * @param asked.authenticate whether the upstream's token belongs there
   * @param asked.startedAt by `performance.now()`
   * @throws UpstreamUnreachable, UpstreamInvalid, InvalidConfiguration
   */
  async open(asked: {
    upstream: Upstream;
    url: URL;
    authenticate: boolean;
    startedAt: number;
    method: string;
  }): Promise<RelayedRequest> {
    const { upstream, url, authenticate, startedAt, method } = asked;
    if (this.#isSealed()) throw sealedFailure(url.host);
    assertAllowed(url, upstream);
    const agent = this.#agents.for(upstream, url);
    const leftMs = startedAt + this.#limits.headersMs - performance.now();
    const headersMs = Math.max(MIN_HEADERS_MS, Math.ceil(leftMs));
    const token = authenticate ? await tokenInTime(upstream, AbortSignal.timeout(headersMs)) : undefined;
    if (token && url.protocol !== 'https:') {
      throw new UpstreamInvalid(url.host, 'is to be asked over http, where a token would travel in the clear', {
        hint: `Let the service discovery of ${upstream.hostname} name an https:// address, or configure no token for it.`,
      });
    }
    if (this.#isSealed()) throw sealedFailure(url.host);
    const relayed: RelayedRequest = new RelayedRequest({
      upstream,
      authenticate,
      url,
      agent,
      token: token || undefined,
      passage: this.#circuits.enter(url),
      span: beginSpan(this.#tracer, { upstream, method }, url),
      limits: { ...this.#limits, headersMs },
      observer: this.#observer,
      onRelease: () => this.#underWay.delete(relayed),
    });
    this.#underWay.add(relayed);
    return relayed;
  }

  /** For the moment when Larder is sealed: breaks off what is under way, whether or not it is connected yet. */
  breakOff(): void {
    for (const relayed of this.#underWay) relayed.breakOff();
    this.#agents.breakOff();
  }

  /** Every host has a chance again. */
  forgetCircuits(): void {
    this.#circuits.forget();
  }
}

/** One request on its way. */
export class RelayedRequest {
  readonly url: URL;
  readonly #call: UpstreamCall;
  readonly #span: Span;
  readonly #destination: Parameters<typeof originHeaders>[0];
  readonly agent: Agent;
  readonly #token: string | undefined;
  readonly #passage: Passage;
  readonly #limits: RelayLimits;
  readonly #observer: UpstreamObserver;
  readonly #onRelease: () => void;
  #askedAt = 0;
  #failure: unknown;
  #brokenOff: UpstreamUnreachable | undefined;
  #request: ClientRequest | undefined;

  constructor(deps: {
    upstream: Upstream;
    authenticate: boolean;
    span: Span;
    url: URL;
    agent: Agent;
    token: string | undefined;
    passage: Passage;
    limits: RelayLimits;
    observer: UpstreamObserver;
    onRelease: () => void;
  }) {
    this.url = deps.url;
    this.#destination = { upstream: deps.upstream, authenticate: deps.authenticate, url: deps.url };
    this.#span = deps.span;
    this.#call = { upstream: deps.upstream, host: deps.url.host };
    this.agent = deps.agent;
    this.#token = deps.token;
    this.#passage = deps.passage;
    this.#limits = deps.limits;
    this.#observer = deps.observer;
    this.#onRelease = deps.onRelease;
  }

  /** Headers to send in addition. */
  get headers(): Readonly<Record<string, string>> {
    const authorization = this.#token === undefined ? {} : { authorization: `Bearer ${this.#token}` };
    return { ...originHeaders(this.#destination, this.url, this.#span), ...authorization };
  }

  /** Whether a text gives away what upstream was asked with. */
  holdsToken(text: string): boolean {
    return this.#token !== undefined && (text.includes(this.#token) || text.includes(encodeURIComponent(this.#token)));
  }

  /** Breaks the request off when no answer begins in time. While its body is on its way it has more. */
  watch(request: ClientRequest): void {
    this.#request = request;
    this.#askedAt = performance.now();
    if (this.#brokenOff) return void request.destroy(this.#brokenOff);
    let sent = 0;
    const check = () => {
      const now = request.socket?.bytesWritten ?? 0;
      if (request.writableFinished || now === sent) request.destroy(deadlineFailure(this.url.host, undefined));
      else timer = setTimeout(check, this.#limits.bodyIdleMs);
      sent = now;
    };
    let timer = setTimeout(check, this.#limits.headersMs);
    const stop = () => clearTimeout(timer);
    request.once('response', stop).once('close', stop);
  }

  /** An answer came. Breaks it off when it stops in the middle; a client that reads slowly is no such thing. */
  receive(response: IncomingMessage): void {
    this.#passage.answered();
    this.#observer.answered(this.#call, (performance.now() - this.#askedAt) / 1000);
    this.#observer.ended(this.#call, undefined);
    counted(response, (bytes) => this.#observer.received(this.#call.host, bytes));
    const { socket } = response;
    let received = socket.bytesRead;
    const timer = setInterval(() => {
      const isStuck = socket.bytesRead === received && !response.isPaused();
      received = socket.bytesRead;
      if (isStuck) {
        const detail = 'stopped sending in the middle of an answer';
        response.destroy(new UpstreamUnreachable(this.url.host, 'timeout', detail));
      }
    }, this.#limits.bodyIdleMs);
    response.once('close', () => clearInterval(timer));
  }

  /** An answer that is none of the client's business: counted, and in the words of the domain. */
  refusal(status: number): LarderError {
    const error = statusFailure(this.url, status, undefined);
    this.#observer.ended(this.#call, error);
    return error;
  }

  /** Larder is sealed. */
  breakOff(): void {
    this.#brokenOff = sealedFailure(this.url.host);
    this.#request?.destroy(this.#brokenOff);
  }

  /** Counts a failure. @returns it in the words of the domain */
  failed(cause: unknown): Error {
    if (this.#brokenOff) return this.#brokenOff;
    const error = transportFailure(this.url, cause, NEVER_ABORTED);
    this.#failure = error;
    this.#passage.failed(error);
    this.#observer.ended(this.#call, error);
    return error;
  }

  /** The answer broke off: the host as such may be well. */
  brokeOff(cause: unknown): void {
    if (this.#brokenOff) return;
    this.#observer.ended(this.#call, transportFailure(this.url, cause, NEVER_ABORTED));
  }

  release(): void {
    this.#onRelease();
    this.#passage.release();
    this.#span.end({ error: this.#failure });
  }
}

/** Whoever breaks a request off says why. */
const NEVER_ABORTED = new AbortController().signal;
