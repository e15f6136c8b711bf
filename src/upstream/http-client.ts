import { request } from 'undici';
import { type LarderError, UpstreamInvalid } from '../errors.ts';
import type { Logger } from '../logger.ts';
import { NO_TRACER, type Span, type Tracer, traced } from '../tracer.ts';
import { contentLength, counted, discard, drain, isPage, isPlain, readWhole, translated } from './bodies.ts';
import { type CircuitState, Circuits } from './circuit.ts';
import { Connections, type ProxySettings } from './connections.ts';
import { authenticatesFile } from './credentials.ts';
import {
  type Answer,
  authorizationFor,
  type BodyRequest,
  beginSpan,
  type Exchange,
  type FetchedBody,
  type Hop,
  type OpenedBody,
  originHeaders,
  plainHeaders,
} from './exchange.ts';
import { deadlineFailure, isWorthRetrying, sealedFailure, statusFailure, transportFailure } from './failures.ts';
import { type HostQueueState, HostQueues } from './host-queues.ts';
import { type HttpLimits, LIMITS } from './http-limits.ts';
import { UNOBSERVED, type UpstreamObserver } from './observer.ts';
import { assertAllowed, isRedirect, redirectTarget } from './redirects.ts';
import { openingHeaders, openingOf, StrongValidators } from './resuming.ts';
import { parseRetryAfter, pause, waitBefore } from './retry.ts';
import type { Upstream } from './upstream.ts';

export type { BodyRequest, FetchedBody, OpenedBody } from './exchange.ts';

/** Go's limit, by which archive hosts are known to work with the clients. */
const MAX_ARCHIVE_REDIRECTS = 10;
/** Whoever was given less time than this did not fail by being slow. */
const FAIR_CHANCE_MS = 1_000;

/**
 * How Larder speaks to the outside. All of it: this is where sealing, deadlines, retries, circuits, redirects, the
 * rule about internal addresses and the rule about tokens hold.
 *
 * Every method fails with an error of the domain only: UpstreamUnreachable (also when `signal` is aborted, as a
 * time-out), NotFound, UpstreamRefused, UpstreamInvalid; or InvalidConfiguration when certificates or token files
 * cannot be used.
 */
export class HttpClient {
  readonly #userAgent: string;
  readonly #logger: Logger;
  readonly #observer: UpstreamObserver;
  readonly #tracer: Tracer;
  readonly #isSealed: () => boolean;
  readonly #now: () => number;
  readonly #limits: HttpLimits;
  readonly #connections: Connections;
  readonly #circuits: Circuits;
  readonly #queues: HostQueues;
  readonly #validators = new StrongValidators();

  /** @throws InvalidConfiguration when a proxy is no usable URL */
  constructor(deps: {
    userAgent: string;
    proxy: ProxySettings;
    /** PEM of NODE_EXTRA_CA_CERTS, which Node 20 forgets for upstreams with a `ca` of their own. */
    extraCa?: string | undefined;
    logger: Logger;
    observer?: UpstreamObserver;
    tracer?: Tracer | undefined;
    isSealed?: () => boolean;
    now?: () => number;
    limits?: Partial<HttpLimits>;
  }) {
    this.#userAgent = deps.userAgent;
    this.#logger = deps.logger;
    this.#observer = deps.observer ?? UNOBSERVED;
    this.#tracer = deps.tracer ?? NO_TRACER;
    this.#isSealed = deps.isSealed ?? (() => false);
    this.#now = deps.now ?? Date.now;
    this.#limits = { ...LIMITS, ...deps.limits };
    this.#connections = new Connections({ proxy: deps.proxy, limits: this.#limits, extraCa: deps.extraCa });
    this.#circuits = new Circuits({ now: this.#now, openMs: this.#limits.circuitMs });
    this.#queues = new HostQueues(this.#limits);
  }

  /** Fetches a small answer whole. */
  async fetchBody({ accept, maxBytes, statuses = [200], ...asked }: BodyRequest): Promise<FetchedBody> {
    const headers = { ...asked.headers, ...(accept && { accept }) };
    return this.#exchange({ ...asked, method: 'GET', headers, queued: true }, async (answer) => {
      if (!statuses.includes(answer.status)) throw this.#unexpected(answer);
      const body = await readWhole(answer.body, answer.headers, answer.url, maxBytes);
      return { status: answer.status, headers: answer.headers, body, url: answer.url };
    });
  }

  /**
   * Opens a file from `offset` on, without credentials unless its host is listed for them, or the caller knows that the
   * upstream's token belongs to the origin of `url` (`authenticate`). The signal ends the body too; the body's errors are
   * those of this class. Bytes are as stored upstream: a compressed answer is refused.
   */
  async openBody(asked: {
    upstream: Upstream;
    url: URL;
    offset: number;
    authenticate?: boolean | undefined;
    signal: AbortSignal;
  }): Promise<OpenedBody> {
    const { offset, signal } = asked;
    const authenticate = asked.authenticate === true || authenticatesFile(asked.upstream, asked.url);
    const exchange = { ...asked, method: 'GET', authenticate, queued: false } as const;
    const open = (from: number) =>
      this.#exchange(
        {
          ...exchange,
          maxRedirects: MAX_ARCHIVE_REDIRECTS,
          headers: openingHeaders(from, this.#validators.get(asked.url)),
        },
        async (answer) => {
          if (answer.status === 416 && from > 0) {
            drain(answer.body);
            return undefined;
          }
          if (answer.status !== 200 && answer.status !== 206) throw this.#unexpected(answer);
          try {
            const opening = openingOf(answer.status, answer.headers, answer.url, from);
            this.#validators.remember(asked.url, answer.headers);
            const body = translated(answer.body, answer.url, signal);
            body.once('error', (error) => {
              if (signal.aborted || this.#isSealed()) return;
              this.#observer.ended({ upstream: asked.upstream, host: answer.url.host }, error);
            });
            return { ...opening, body };
          } catch (error) {
            discard(answer.body);
            throw error;
          }
        },
      );
    // The file has become shorter than what was read of it: begin again.
    const opened = (await open(offset)) ?? (await open(0));
    if (!opened) throw new UpstreamInvalid(asked.url.host, 'answered 416 to a request without a range');
    return opened;
  }

  /** The length that HEAD tells, or `undefined` for whatever reason. Takes at most about two seconds. */
  async headLength(asked: { upstream: Upstream; url: URL; signal: AbortSignal }): Promise<number | undefined> {
    const signal = AbortSignal.any([asked.signal, AbortSignal.timeout(this.#limits.lengthMs)]);
    try {
      return await this.#exchange(
        {
          ...asked,
          signal,
          method: 'HEAD',
          headers: {},
          authenticate: authenticatesFile(asked.upstream, asked.url),
          maxRedirects: MAX_ARCHIVE_REDIRECTS,
          queued: false,
          optional: true,
        },
        async ({ status, headers, body }) => {
          drain(body);
          return (status === 200 && isPlain(headers) && !isPage(headers) && contentLength(headers)) || undefined;
        },
      );
    } catch (error) {
      this.#logger.debug('no length from upstream', { host: asked.url.host, error });
      return undefined;
    }
  }

  /** Hosts in trouble. */
  circuits(): readonly CircuitState[] {
    return this.#circuits.states();
  }

  /** Hosts at which small requests wait for their turn. */
  queues(): readonly HostQueueState[] {
    return this.#queues.states();
  }

  /** @see Connections.prepare */
  prepare(upstreams: Iterable<Upstream>): Promise<void> {
    return this.#connections.prepare(upstreams);
  }

  /**
   * For the moment when Larder is sealed: ends everything under way, which fails as sealed then. When it resolves nothing
   * is connected any more.
   */
  breakOff(): Promise<void> {
    return this.#connections.breakOff();
  }

  /** Every host has a chance again. */
  forgetCircuits(): void {
    this.#circuits.forget();
  }

  /** Ends everything under way. Idempotent. */
  close(): Promise<void> {
    return this.#connections.close();
  }

  /** Follows redirects hop by hop, each judged anew, and hands the first other answer to `consume`. */
  async #exchange<T>(exchange: Exchange, consume: (answer: Answer) => Promise<T>): Promise<T> {
    const seen = new Set<string>();
    for (let url = exchange.url; ; ) {
      if (this.#isSealed()) throw sealedFailure(url.host);
      assertAllowed(url, exchange.upstream);
      if (seen.has(url.href)) throw new UpstreamInvalid(url.host, 'redirects in a circle');
      if (seen.size > exchange.maxRedirects) {
        throw new UpstreamInvalid(url.host, `is the end of more than ${exchange.maxRedirects} redirects`);
      }
      seen.add(url.href);
      const here = url;
      const ask = () => this.#askPatiently(exchange, here, consume);
      const hop = await (exchange.queued ? this.#queues.take(here, exchange.signal, ask) : ask());
      if ('value' in hop) return hop.value;
      url = redirectTarget(url, hop.location);
    }
  }

  /** One hop, with retries, under the circuit of its host. */
  async #askPatiently<T>(exchange: Exchange, url: URL, consume: (answer: Answer) => Promise<T>): Promise<Hop<T>> {
    const { signal } = exchange;
    const attempts = exchange.optional ? 1 : this.#limits.attempts;
    const passage = this.#circuits.enter(url);
    const call = { upstream: exchange.upstream, host: url.host };
    const startedAt = this.#now();
    try {
      for (let attempt = 1; ; attempt++) {
        try {
          const hop = await this.#ask(exchange, url, consume);
          passage.answered();
          this.#observer.ended(call, undefined);
          return hop;
        } catch (error) {
          const wait =
            attempt < attempts && isWorthRetrying(error) ? waitBefore(attempt, error, this.#limits) : undefined;
          if (wait !== undefined) {
            const { requestId } = exchange.upstream.origin ?? {};
            const waitMs = Math.round(wait);
            this.#logger.debug('asking upstream again', { host: url.host, attempt, waitMs, requestId, error });
            if (await pause(wait, signal)) continue;
          }
          // Says nothing of the host.
          if (this.#isSealed()) throw error;
          const hadAChance = !signal.aborted || this.#now() - startedAt >= FAIR_CHANCE_MS;
          if (hadAChance && !exchange.optional) {
            passage.failed(error);
            this.#observer.ended(call, error);
          }
          throw error;
        }
      }
    } finally {
      passage.release();
    }
  }

  #ask<T>(exchange: Exchange, url: URL, consume: (answer: Answer) => Promise<T>): Promise<Hop<T>> {
    const span = beginSpan(this.#tracer, exchange, url);
    return traced(span, () => this.#askOnce(exchange, url, span, consume));
  }

  async #askOnce<T>(
    exchange: Exchange,
    url: URL,
    span: Span,
    consume: (answer: Answer) => Promise<T>,
  ): Promise<Hop<T>> {
    const { upstream, method, signal } = exchange;
    try {
      const authorization = await authorizationFor(exchange, url);
      if (signal.aborted) throw deadlineFailure(url.host, signal.reason);
      // It may have waited for a queue, a token or another try meanwhile.
      if (this.#isSealed()) throw sealedFailure(url.host);
      const askedAt = performance.now();
      const response = await request(url, {
        method,
        dispatcher: this.#connections.for(upstream),
        signal,
        headers: {
          'user-agent': this.#userAgent,
          'accept-encoding': 'identity',
          ...exchange.headers,
          ...originHeaders(exchange, url, span),
          ...authorization,
        },
      });
      this.#observer.answered({ upstream, host: url.host }, (performance.now() - askedAt) / 1000);
      counted(response.body, (bytes) => this.#observer.received(url.host, bytes));
      const headers = plainHeaders(response.headers);
      if (isRedirect(response.statusCode)) {
        drain(response.body);
        return { location: headers['location'] };
      }
      return { value: await consume({ status: response.statusCode, headers, body: response.body, url }) };
    } catch (error) {
      throw this.#isSealed() ? sealedFailure(url.host) : transportFailure(url, error, signal);
    }
  }

  #unexpected({ status, headers, body, url }: Answer): LarderError {
    drain(body);
    return statusFailure(url, status, parseRetryAfter(headers['retry-after'], this.#now()));
  }
}
