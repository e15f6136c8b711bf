import { type LarderError, UpstreamInvalid } from '../errors.ts';
import type { Logger } from '../logger.ts';
import { NO_TRACER, type Tracer } from '../tracer.ts';
import { contentLength, discard, drain, isPage, isPlain, readWhole, translated } from './bodies.ts';
import { type CircuitState, Circuits } from './circuit.ts';
import { Connections, type ProxySettings } from './connections.ts';
import { authenticatesFile } from './credentials.ts';
import type { Answer, BodyRequest, FetchedBody, OpenedBody } from './exchange.ts';
import { Exchanges } from './exchanges.ts';
import { statusFailure } from './failures.ts';
import { type HostQueueState, HostQueues } from './host-queues.ts';
import { type HttpLimits, LIMITS } from './http-limits.ts';
import { UNOBSERVED, type UpstreamObserver } from './observer.ts';
import { openingHeaders, openingOf, StrongValidators } from './resuming.ts';
import { parseRetryAfter } from './retry.ts';
import type { Upstream } from './upstream.ts';

export type { BodyRequest, FetchedBody, OpenedBody } from './exchange.ts';

/** Go's limit, by which archive hosts are known to work with the clients. */
const MAX_ARCHIVE_REDIRECTS = 10;

/**
 * How Larder speaks to the outside. All of it: this is where sealing, deadlines, retries, circuits, redirects, the
 * rule about internal addresses and the rule about tokens hold. What is wanted of an answer is said here, and how a
 * request comes to one in `Exchanges`.
 *
 * Every method fails with an error of the domain only: UpstreamUnreachable (also when `signal` is aborted, as a
 * time-out), NotFound, UpstreamRefused, UpstreamInvalid; or InvalidConfiguration when certificates or token files
 * cannot be used.
 */
export class HttpClient {
  readonly #logger: Logger;
  readonly #observer: UpstreamObserver;
  readonly #isSealed: () => boolean;
  readonly #now: () => number;
  readonly #limits: HttpLimits;
  readonly #connections: Connections;
  readonly #circuits: Circuits;
  readonly #queues: HostQueues;
  readonly #exchanges: Exchanges;
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
    const { observer = UNOBSERVED, tracer = NO_TRACER, isSealed = () => false, now = Date.now } = deps;
    const { userAgent, logger } = deps;
    const limits = { ...LIMITS, ...deps.limits };
    this.#logger = logger;
    this.#observer = observer;
    this.#isSealed = isSealed;
    this.#now = now;
    this.#limits = limits;
    const connections = new Connections({ proxy: deps.proxy, limits, extraCa: deps.extraCa });
    const circuits = new Circuits({ now, openMs: limits.circuitMs });
    const queues = new HostQueues(limits);
    this.#connections = connections;
    this.#circuits = circuits;
    this.#queues = queues;
    const ways = { connections, circuits, queues };
    this.#exchanges = new Exchanges({ userAgent, logger, observer, tracer, isSealed, now, limits, ...ways });
  }

  /** Fetches a small answer whole. */
  async fetchBody({ accept, maxBytes, statuses = [200], ...asked }: BodyRequest): Promise<FetchedBody> {
    const headers = { ...asked.headers, ...(accept && { accept }) };
    return this.#exchanges.run({ ...asked, method: 'GET', headers, queued: true }, async (answer) => {
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
      this.#exchanges.run(
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
      return await this.#exchanges.run(
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

  #unexpected({ status, headers, body, url }: Answer): LarderError {
    drain(body);
    return statusFailure(url, status, parseRetryAfter(headers['retry-after'], this.#now()));
  }
}
