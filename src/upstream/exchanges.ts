import { request } from 'undici';
import { UpstreamInvalid } from '../errors.ts';
import type { Logger } from '../logger.ts';
import { type Span, type Tracer, traced } from '../tracer.ts';
import { counted, drain } from './bodies.ts';
import type { Circuits } from './circuit.ts';
import type { Connections } from './connections.ts';
import {
  type Answer,
  authorizationFor,
  beginSpan,
  type Exchange,
  type Hop,
  originHeaders,
  plainHeaders,
} from './exchange.ts';
import { deadlineFailure, isForWantOfToken, isWorthRetrying, sealedFailure, transportFailure } from './failures.ts';
import type { HostQueues } from './host-queues.ts';
import type { HttpLimits } from './http-limits.ts';
import type { UpstreamObserver } from './observer.ts';
import { assertAllowed, isRedirect, redirectTarget } from './redirects.ts';
import { pause, waitBefore } from './retry.ts';

/** Whoever was given less time than this did not fail by being slow. */
const FAIR_CHANCE_MS = 1_000;

interface Deps {
  readonly userAgent: string;
  readonly connections: Connections;
  readonly circuits: Circuits;
  readonly queues: HostQueues;
  readonly logger: Logger;
  readonly observer: UpstreamObserver;
  readonly tracer: Tracer;
  readonly isSealed: () => boolean;
  readonly now: () => number;
  readonly limits: HttpLimits;
}

/**
 * Carries requests out, whatever is wanted of their answers: from redirect to redirect, at each host in its queue, under
 * its circuit and with retries, and not at all while sealed.
 */
export class Exchanges {
  readonly #deps: Deps;

  constructor(deps: Deps) {
    this.#deps = deps;
  }

  /**
   * Follows redirects hop by hop, each judged anew, and hands the first other answer to `consume`.
   * @throws what `consume` throws, and as `HttpClient`
   */
  async run<T>(exchange: Exchange, consume: (answer: Answer) => Promise<T>): Promise<T> {
    const seen = new Set<string>();
    for (let url = exchange.url; ; ) {
      if (this.#deps.isSealed()) throw sealedFailure(url.host);
      assertAllowed(url, exchange.upstream);
      if (seen.has(url.href)) throw new UpstreamInvalid(url.host, 'redirects in a circle');
      if (seen.size > exchange.maxRedirects) {
        throw new UpstreamInvalid(url.host, `is the end of more than ${exchange.maxRedirects} redirects`);
      }
      seen.add(url.href);
      const here = url;
      const ask = () => this.#askPatiently(exchange, here, consume);
      const hop = await (exchange.queued ? this.#deps.queues.take(here, exchange.signal, ask) : ask());
      if ('value' in hop) return hop.value;
      url = redirectTarget(url, hop.location);
    }
  }

  /** One hop, with retries, under the circuit of its host. */
  async #askPatiently<T>(exchange: Exchange, url: URL, consume: (answer: Answer) => Promise<T>): Promise<Hop<T>> {
    const { signal } = exchange;
    const attempts = exchange.optional ? 1 : this.#deps.limits.attempts;
    const passage = this.#deps.circuits.enter(url);
    const call = { upstream: exchange.upstream, host: url.host };
    const startedAt = this.#deps.now();
    try {
      for (let attempt = 1; ; attempt++) {
        try {
          const hop = await this.#ask(exchange, url, consume);
          passage.answered();
          this.#deps.observer.ended(call, undefined);
          return hop;
        } catch (error) {
          const wait =
            attempt < attempts && isWorthRetrying(error) ? waitBefore(attempt, error, this.#deps.limits) : undefined;
          if (wait !== undefined) {
            const { requestId } = exchange.upstream.origin ?? {};
            const waitMs = Math.round(wait);
            this.#deps.logger.debug('asking upstream again', { host: url.host, attempt, waitMs, requestId, error });
            if (await pause(wait, signal)) continue;
          }
          // Says nothing of the host.
          if (this.#deps.isSealed()) throw error;
          const hadAChance = !signal.aborted || this.#deps.now() - startedAt >= FAIR_CHANCE_MS;
          if (hadAChance && !exchange.optional) {
            if (!isForWantOfToken(error)) passage.failed(error);
            this.#deps.observer.ended(call, error);
          }
          throw error;
        }
      }
    } finally {
      passage.release();
    }
  }

  #ask<T>(exchange: Exchange, url: URL, consume: (answer: Answer) => Promise<T>): Promise<Hop<T>> {
    const span = beginSpan(this.#deps.tracer, exchange, url);
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
      if (this.#deps.isSealed()) throw sealedFailure(url.host);
      const askedAt = performance.now();
      const response = await request(url, {
        method,
        dispatcher: this.#deps.connections.for(upstream),
        signal,
        headers: {
          'user-agent': this.#deps.userAgent,
          'accept-encoding': 'identity',
          ...exchange.headers,
          ...originHeaders(exchange, url, span),
          ...authorization,
        },
      });
      this.#deps.observer.answered({ upstream, host: url.host }, (performance.now() - askedAt) / 1000);
      counted(response.body, (bytes) => this.#deps.observer.received(url.host, bytes));
      const headers = plainHeaders(response.headers);
      if (isRedirect(response.statusCode)) {
        drain(response.body);
        return { location: headers['location'] };
      }
      return { value: await consume({ status: response.statusCode, headers, body: response.body, url }) };
    } catch (error) {
      throw this.#deps.isSealed() ? sealedFailure(url.host) : transportFailure(url, error, signal);
    }
  }
}
