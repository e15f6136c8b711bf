import type { Upstream } from './upstream.ts';

/** One request to the outside: for whose sake, and to whom (`HOST[:PORT]`, which may be an archive host). */
export interface UpstreamCall {
  readonly upstream: Upstream;
  readonly host: string;
}

/**
 * Told of what Larder asks of the outside, while it waits: an observer adds something up, and does not throw. Retries and
 * redirects are requests of their own to `answered`, and retries are one to `ended`.
 */
export interface UpstreamObserver {
  /** The headers of an answer are there, whatever it says. */
  answered(call: UpstreamCall, seconds: number): void;
  /** It came to something (also to an answer such as "there is no such thing"), or to nothing: then with the reason. */
  ended(call: UpstreamCall, error: unknown): void;
  /** A piece of a body, as it came over the connection. */
  received(host: string, bytes: number): void;
}

/** Tells each of them. */
export function observedBy(...observers: readonly Partial<UpstreamObserver>[]): UpstreamObserver {
  return {
    answered: (call, seconds) => {
      for (const observer of observers) observer.answered?.(call, seconds);
    },
    ended: (call, error) => {
      for (const observer of observers) observer.ended?.(call, error);
    },
    received: (host, bytes) => {
      for (const observer of observers) observer.received?.(host, bytes);
    },
  };
}

/** Nobody looks. */
export const UNOBSERVED: UpstreamObserver = observedBy();
