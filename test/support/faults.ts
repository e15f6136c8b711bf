import { Readable } from 'node:stream';
import { setTimeout as wait } from 'node:timers/promises';
import { createGzip } from 'node:zlib';
import { type Call, type Fault, type Handler, Hangup, type Reply } from './origin.ts';

/** An answer from memory. */
export function reply(status: number, body: string | Buffer, headers: Readonly<Record<string, string>> = {}): Reply {
  const bytes = Buffer.from(body);
  return { status, headers, body: [bytes], length: bytes.length };
}

export function json(value: unknown, headers: Readonly<Record<string, string>> = {}): Reply {
  return reply(200, JSON.stringify(value), { 'content-type': 'application/json', ...headers });
}

/** Answers with a status instead. `retryAfter` is sent as it is: seconds or an HTTP date. */
export function status(
  code: number,
  options: { body?: string; headers?: Record<string, string>; retryAfter?: string | number } = {},
): Fault {
  return () =>
    reply(code, options.body ?? `scripted ${code}\n`, {
      'content-type': 'text/plain',
      ...(options.retryAfter === undefined ? {} : { 'retry-after': String(options.retryAfter) }),
      ...options.headers,
    });
}

/** A captive portal or an error page: 200 with HTML. */
export function html(body = '<!doctype html><title>Sign in</title><p>Please accept the terms of use.</p>'): Fault {
  return () => reply(200, body, { 'content-type': 'text/html; charset=utf-8' });
}

/** Waits before the headers, milliseconds. */
export function delay(ms: number): Fault {
  return async (call, next) => {
    await wait(ms, undefined, { signal: call.gone });
    return next(call);
  };
}

/** Takes the request and never answers it, until the client gives up. */
export function neverAnswer(): Fault {
  return async (call) => {
    await vanished(call);
    throw new Hangup();
  };
}

/** Breaks the connection off before a single byte of the answer. */
export function reset(): Fault {
  return () => {
    throw new Hangup();
  };
}

/** Breaks the connection off in the midst of the headers. */
export function cutInHeaders(): Fault {
  return () => {
    throw new Hangup('HTTP/1.1 200 OK\r\nContent-Type: application/js');
  };
}

/** Breaks the connection off after `bytes` of the body; the declared length stays whole. */
export function cutAfter(bytes: number): Fault {
  return changing((original) => ({
    ...original,
    body: (async function* () {
      yield* first(bytes, original.body);
      // What was written must have a chance to leave before the socket is destroyed.
      await new Promise((resume) => setImmediate(resume));
      throw new Hangup();
    })(),
  }));
}

/** A body that is too short and ends cleanly: chunked, so that nothing in HTTP betrays it. */
export function shortCleanEnd(bytes: number): Fault {
  return changing((original) => ({ ...original, length: undefined, body: first(bytes, original.body) }));
}

/** A body that is too short and says so: Content-Length agrees with what is sent. */
export function shortWithLength(bytes: number): Fault {
  return changing((original) => ({
    ...original,
    length: Math.min(bytes, original.length ?? bytes),
    body: first(bytes, original.body),
  }));
}

/** Sends the body at about this speed, in twenty pieces a second. */
export function trickle(bytesPerSecond: number): Fault {
  const piece = Math.max(1, Math.round(bytesPerSecond / 20));
  return changing((original, call) => ({
    ...original,
    body: (async function* () {
      for await (const chunk of original.body) {
        for (let at = 0; at < chunk.length; at += piece) {
          const part = chunk.subarray(at, at + piece);
          await wait((part.length / bytesPerSecond) * 1000, undefined, { signal: call.gone });
          yield part;
        }
      }
    })(),
  }));
}

/** A fault with a handle: bodies stop after so many bytes until they are released. */
export interface Hold {
  readonly fault: Fault;
  /** Settles when the first body has come to its stop. */
  readonly reached: Promise<void>;
  /** Lets all bodies go on, those to come as well. */
  release(): void;
  /** Breaks off the bodies that are held, and those to come. */
  cut(): void;
}

/** Sends `bytes` of the body, then holds until `release()` (or `cut()`). `holdAfter(0)` sends the headers alone. */
export function holdAfter(bytes: number): Hold {
  const stop = deferred();
  const reached = deferred();
  // Nobody may be holding when it is cut.
  stop.promise.catch(() => {});
  return {
    reached: reached.promise,
    release: () => stop.resolve(),
    cut: () => stop.reject(new Hangup()),
    fault: changing((original, call) => ({
      ...original,
      body: (async function* () {
        let sent = 0;
        let held = false;
        const hold = async () => {
          held = true;
          reached.resolve();
          await Promise.race([stop.promise, vanished(call)]);
        };
        for await (const chunk of original.body) {
          if (!held && sent + chunk.length >= bytes) {
            const before = chunk.subarray(0, bytes - sent);
            if (before.length > 0) yield before;
            await hold();
            yield chunk.subarray(before.length);
          } else {
            yield chunk;
          }
          sent += chunk.length;
        }
      })(),
    })),
  };
}

/** Holds requests before their headers until `release()`. */
export function holdAnswer(): Hold {
  const stop = deferred();
  const reached = deferred();
  stop.promise.catch(() => {});
  return {
    reached: reached.promise,
    release: () => stop.resolve(),
    cut: () => stop.reject(new Hangup()),
    fault: async (call, next) => {
      reached.resolve();
      await Promise.race([stop.promise, vanished(call)]);
      return next(call);
    },
  };
}

/** Flips one bit of the byte at this position; length and headers stay. */
export function corrupt(position = 0): Fault {
  return changing((original) => ({
    ...original,
    body: (async function* () {
      let at = 0;
      for await (const chunk of original.body) {
        const index = position - at;
        at += chunk.length;
        if (index < 0 || index >= chunk.length) {
          yield chunk;
          continue;
        }
        const altered = Buffer.from(chunk);
        altered.writeUInt8(altered.readUInt8(index) ^ 1, index);
        yield altered;
      }
    })(),
  }));
}

/** Sends chunks without a Content-Length. */
export function noContentLength(): Fault {
  return changing((original) => ({ ...original, length: undefined }));
}

/** Knows nothing of ranges: always the whole body, 200, without Accept-Ranges. */
export function noRange(): Fault {
  return async (call, next) => {
    const { range: _range, 'if-range': _ifRange, ...headers } = call.headers;
    const original = await next({ ...call, headers });
    const { 'accept-ranges': _acceptRanges, ...rest } = original.headers;
    return { ...original, headers: rest };
  };
}

/** `location` may be a function of the requested path. */
export function redirect(location: string | ((path: string) => string), code = 302): Fault {
  return (call) => reply(code, '', { location: typeof location === 'string' ? location : location(call.path) });
}

/**
 * The link by which a file is asked for first has run out; links made later are good.
 *
 * @param onRefusal called each time: a link does not run out at the moment in which it is made
 */
export function firstLinkExpired(onRefusal: () => void = () => {}): Fault {
  const expired = new Map<string, string>();
  return (call, next) => {
    const file = call.path.replace(/\?.*$/, '');
    if (!expired.has(file)) expired.set(file, call.path);
    if (expired.get(file) !== call.path) return next(call);
    onRefusal();
    return reply(403, '<Error><Code>AccessDenied</Code><Message>Request has expired</Message></Error>', {
      'content-type': 'application/xml',
    });
  };
}

/** The right body under a wrong media type; `undefined` sends none at all. */
export function mediaType(type: string | undefined): Fault {
  return changing((original) => {
    const { 'content-type': _original, ...headers } = original.headers;
    return { ...original, headers: type === undefined ? headers : { ...headers, 'content-type': type } };
  });
}

/** Valid JSON that is about `bytes` long, without a Content-Length. */
export function hugeJson(bytes: number): Fault {
  const filler = Buffer.alloc(64 * 1024, ' ');
  return () => ({
    status: 200,
    headers: { 'content-type': 'application/json' },
    length: undefined,
    body: (function* () {
      yield Buffer.from('{"versions":[');
      for (let sent = 0; sent < bytes; sent += filler.length) yield filler;
      yield Buffer.from(']}');
    })(),
  });
}

/** The body with Content-Encoding: gzip, whether it was asked for or not. */
export function gzipEncoded(): Fault {
  return changing((original) => ({
    ...original,
    length: undefined,
    headers: { ...original.headers, 'content-encoding': 'gzip' },
    body: Readable.from(original.body).pipe(createGzip()),
  }));
}

/** Another body under the same status and headers. */
export function replaceBody(body: string | Buffer | ((original: Buffer) => string | Buffer)): Fault {
  return async (call, next) => {
    const original = await next(call);
    const bytes = Buffer.from(typeof body === 'function' ? body(await collected(original.body)) : body);
    return { ...original, body: [bytes], length: bytes.length };
  };
}

/** The JSON answer, edited. */
export function editJson(edit: (document: Record<string, unknown>) => unknown): Fault {
  return replaceBody((original) => JSON.stringify(edit(JSON.parse(original.toString()) as Record<string, unknown>)));
}

/** Headers added to the answer, or put over its own. */
export function withHeaders(headers: Readonly<Record<string, string>>): Fault {
  return changing((original) => ({ ...original, headers: { ...original.headers, ...headers } }));
}

/** Several faults as one; the first stands nearest to the client. */
export function all(...faults: readonly Fault[]): Fault {
  return (call, next) =>
    faults.reduceRight<Handler>((inner, fault) => (inward: Call) => fault(inward, inner), next)(call);
}

function changing(change: (original: Reply, call: Call) => Reply): Fault {
  return async (call, next) => change(await next(call), call);
}

async function* first(bytes: number, body: Reply['body']): AsyncGenerator<Buffer> {
  let left = bytes;
  if (left <= 0) return;
  for await (const chunk of body) {
    yield chunk.subarray(0, left);
    left -= chunk.length;
    if (left <= 0) return;
  }
}

async function collected(body: Reply['body']): Promise<Buffer> {
  const chunks: Buffer[] = [];
  for await (const chunk of body) chunks.push(chunk);
  return Buffer.concat(chunks);
}

interface Deferred {
  readonly promise: Promise<void>;
  resolve(): void;
  reject(error: Error): void;
}

function deferred(): Deferred {
  let resolve = () => {};
  let reject = (_error: Error) => {};
  const promise = new Promise<void>((yes, no) => {
    resolve = yes;
    reject = no;
  });
  return { promise, resolve, reject };
}

function vanished(call: Call): Promise<void> {
  if (call.gone.aborted) return Promise.resolve();
  return new Promise((resolve) => call.gone.addEventListener('abort', () => resolve(), { once: true }));
}
