import type { Readable } from 'node:stream';
import type { Dispatcher } from 'undici';
import { UpstreamInvalid } from '../errors.ts';
import type { Span, Tracer } from '../tracer.ts';
import { tokenInTime } from './credentials.ts';
import type { Headers } from './failures.ts';
import type { Upstream } from './upstream.ts';

/** A small answer that is wanted whole. */
export interface BodyRequest {
  readonly upstream: Upstream;
  readonly url: URL;
  readonly accept?: string | undefined;
  /** Sent besides our own, to wherever redirects lead as well: no secrets. */
  readonly headers?: Readonly<Record<string, string>> | undefined;
  /** What passes for an answer: 200 alone, unless told. */
  readonly statuses?: readonly number[] | undefined;
  /** Send the upstream's token, to the origin of `url` only. */
  readonly authenticate: boolean;
  /** An Authorization header in place of that token, likewise. */
  readonly authorization?: string | undefined;
  /** Of the body, packed and unpacked. */
  readonly maxBytes: number;
  readonly maxRedirects: number;
  readonly signal: AbortSignal;
}

export interface FetchedBody {
  readonly status: number;
  readonly headers: Headers;
  readonly body: Buffer;
  /** After redirects: what relative URLs in the body are relative to. */
  readonly url: URL;
}

export interface OpenedBody {
  readonly body: Readable;
  /** Where `body` begins: as asked, or 0 when the host does not resume. */
  readonly offset: number;
  /** Of the whole file, when told. */
  readonly size: number | undefined;
}

/** One request, redirects and retries included. */
export interface Exchange {
  readonly upstream: Upstream;
  readonly url: URL;
  readonly method: 'GET' | 'HEAD';
  readonly headers: Readonly<Record<string, string>>;
  readonly authenticate: boolean;
  readonly authorization?: string | undefined;
  readonly maxRedirects: number;
  readonly signal: AbortSignal;
  /** Small requests queue at their host; archives are counted elsewhere. */
  readonly queued: boolean;
  /** A courtesy: tried once, and its failure says nothing of the host. */
  readonly optional?: boolean;
}

export interface Answer {
  readonly status: number;
  readonly headers: Headers;
  readonly body: Dispatcher.ResponseData['body'];
  readonly url: URL;
}

/** What one request came to: what was made of its answer, or where it was sent on to. */
export type Hop<T> = { readonly value: T } | { readonly location: string | undefined };

/**
 * Credentials go to the scheme, host and port first asked, and never along a redirect to any other.
 * @throws UpstreamInvalid when they would travel in the clear; what the upstream's token fails with
 */
export async function authorizationFor(
  { authenticate, authorization: given, upstream, url: first, signal }: Exchange,
  url: URL,
): Promise<{ authorization?: string }> {
  if (url.origin !== first.origin) return {};
  const token = authenticate && given === undefined ? await tokenInTime(upstream, signal) : undefined;
  const authorization = given ?? (token ? `Bearer ${token}` : undefined);
  if (!authorization) return {};
  if (url.protocol !== 'https:') {
    throw new UpstreamInvalid(url.host, 'is to be asked over http, where a token would travel in the clear', {
      hint: `Let ${upstream.hostname} name an https:// address, or configure no token for it.`,
    });
  }
  return { authorization };
}

/**
 * What upstream may know of the request that it is asked for: its id, and where it belongs in a trace if others are to
 * know. It goes where the upstream's token goes, or would go if there were one: archive hosts of other people have no use
 * for it.
 */
export function originHeaders(
  { authenticate, upstream, url: first }: Pick<Exchange, 'authenticate' | 'upstream' | 'url'>,
  url: URL,
  span: Span,
): Readonly<Record<string, string>> {
  const isTheirs = authenticate || url.host === String(upstream.hostname);
  if (!isTheirs || url.origin !== first.origin) return {};
  return { ...(upstream.origin && { 'x-request-id': upstream.origin.requestId }), ...span.headers };
}

/** The span of one request, which says for whose sake and to whom it is, and no more. */
export function beginSpan(
  tracer: Tracer,
  { upstream, method }: { upstream: Upstream; method: string },
  url: URL,
): Span {
  return tracer.begin('upstream request', {
    parent: upstream.origin?.trace,
    attributes: {
      'server.address': url.host,
      'http.request.method': method,
      'larder.upstream': String(upstream.hostname),
      'larder.request_id': upstream.origin?.requestId,
    },
  });
}

/** By lower-case name, repeated ones joined. */
export function plainHeaders(headers: Readonly<Record<string, string | string[] | undefined>>): Headers {
  return Object.fromEntries(
    Object.entries(headers).flatMap(([name, value]) =>
      value === undefined ? [] : [[name.toLowerCase(), Array.isArray(value) ? value.join(', ') : value]],
    ),
  );
}
