import { readFile } from 'node:fs/promises';
import type { Readable } from 'node:stream';
import tls from 'node:tls';
import { Agent, request } from 'undici';
import { CommandFailed, ConnectionLost } from './command-failed.ts';
import type { ServerOptions } from './server-options.ts';
import { unreadable } from './unreadable.ts';

const CONNECT_MS = 10_000;
/** A purge answers once it is done with everything; a disk may be slow. */
const ANSWER_MS = 600_000;
const SILENCE_MS = 60_000;
/** Statuses of refusals that say nothing of whatever else is asked for. */
const ABOUT_ONE_THING: ReadonlySet<number> = new Set([404, 409, 413, 422]);

/** What Larder answers when it refuses, and who knows what of others. */
export interface AnswerDocument {
  readonly errors?: unknown;
  readonly code?: unknown;
  readonly hint?: unknown;
}

/** Several values are sent one by one, `undefined` not at all. */
type Query = Readonly<Record<string, string | readonly string[] | undefined>>;

/** The doors for operators of a running server, as a command sees them. Every failure is a CommandFailed. */
export class RunningServer {
  readonly #base: URL;
  readonly #token: string | undefined;
  readonly #agent: Agent;

  private constructor(base: URL, token: string | undefined, ca: string | undefined) {
    this.#base = base;
    this.#token = token;
    this.#agent = new Agent({
      connect: { timeout: CONNECT_MS, ...(ca === undefined ? {} : { ca: [...tls.rootCertificates, ca] }) },
      headersTimeout: ANSWER_MS,
      bodyTimeout: SILENCE_MS,
    });
  }

  /** Connects to nothing yet. @throws CommandFailed when URL, token or file cannot be used */
  static async at(server: string, { token, ca: file }: ServerOptions): Promise<RunningServer> {
    const base = URL.canParse(server) ? new URL(server.endsWith('/') ? server : `${server}/`) : undefined;
    if (!base || !/^https?:$/.test(base.protocol)) {
      throw new CommandFailed('--server is no http:// or https:// URL', { hint: 'write it as https://HOST[:PORT]' });
    }
    if (base.username || base.password) {
      throw new CommandFailed('--server holds a user or password', {
        hint: 'give the token with --token, or in LARDER_TOKEN',
      });
    }
    if (token !== undefined && !/^[\x21-\x7e]+$/.test(token)) {
      throw new CommandFailed('the token is empty, or holds what no token can hold');
    }
    return new RunningServer(base, token, file === undefined ? undefined : await certificateIn(file));
  }

  get(path: string, query: Query = {}): Promise<unknown> {
    return this.#send('GET', this.#url(path, query), undefined);
  }

  post(path: string, body: unknown): Promise<unknown> {
    return this.#send('POST', this.#url(path), JSON.stringify(body));
  }

  /** The text of a file, as it is. */
  postText(path: string, text: string, query: Query = {}): Promise<unknown> {
    return this.#send('POST', this.#url(path, query), text, 'text/plain; charset=utf-8');
  }

  /**
   * One exchange whose refusals are about one thing among many (404, 409, 413, 422), which the caller tells of.
   * @param options.size of the body, where that is a stream whose length is known
   */
  async ask(
    method: 'GET' | 'POST' | 'PUT' | 'DELETE',
    path: string,
    options: { query?: Query; body?: Readable | string; size?: number } = {},
  ): Promise<{ readonly status: number; readonly document: unknown }> {
    const { status, document } = await this.exchange(method, path, options);
    const isTold = status === 200 || status === 201 || status === 202 || ABOUT_ONE_THING.has(status);
    if (document && isTold) return { status, document };
    throw this.refused(status, document);
  }

  /**
   * One exchange, whatever is answered: the caller knows what that means, or throws what `refused` makes of it.
   * @param options.size of the body, where that is a stream whose length is known
   * @throws ConnectionLost when it may be tried again, else CommandFailed
   */
  async exchange(
    method: 'GET' | 'POST' | 'PUT' | 'DELETE',
    path: string,
    options: { query?: Query; body?: Readable | string; size?: number } = {},
  ): Promise<{ readonly status: number; readonly document: AnswerDocument | undefined }> {
    const { query, body, size } = options;
    const type = typeof body === 'string' ? 'application/json' : 'application/octet-stream';
    const { status, text } = await this.#exchange(method, this.#url(path, query), body, {
      ...(body !== undefined && { 'content-type': type }),
      ...(size !== undefined && { 'content-length': String(size) }),
    });
    return { status, document: jsonIn(text) };
  }

  /** The bytes of a file, as they come. */
  async download(path: string): Promise<Readable> {
    try {
      const { statusCode, body } = await request(this.#url(path), {
        dispatcher: this.#agent,
        method: 'GET',
        headers: this.#token === undefined ? {} : { authorization: `Bearer ${this.#token}` },
      });
      if (statusCode === 200) return body;
      throw this.refused(statusCode, jsonIn(await body.text()));
    } catch (error) {
      throw error instanceof CommandFailed ? error : notReached(this.#base, error);
    }
  }

  /**
   * Server-sent events as they come, from after the one with the number `last` on; `undefined` when the server cannot be
   * reached, or is in trouble: then it may be asked again.
   */
  async events(path: string, last: string | undefined): Promise<Readable | undefined> {
    try {
      const { statusCode, body } = await request(this.#url(path), {
        dispatcher: this.#agent,
        method: 'GET',
        headers: {
          accept: 'text/event-stream',
          ...(last === undefined ? {} : { 'last-event-id': last }),
          ...(this.#token === undefined ? {} : { authorization: `Bearer ${this.#token}` }),
        },
      });
      if (statusCode === 200) return body;
      const text = await body.text();
      if (statusCode >= 500) return undefined;
      throw this.refused(statusCode, jsonIn(text));
    } catch (error) {
      if (error instanceof CommandFailed) throw error;
      return undefined;
    }
  }

  async close(): Promise<void> {
    await this.#agent.destroy();
  }

  #url(path: string, query: Query = {}): URL {
    const url = new URL(path, this.#base);
    for (const [name, value] of Object.entries(query)) {
      for (const one of value === undefined ? [] : [value].flat()) url.searchParams.append(name, one);
    }
    return url;
  }

  async #send(method: 'GET' | 'POST', url: URL, body: string | undefined, type = 'application/json'): Promise<unknown> {
    const headers = body === undefined ? {} : { 'content-type': type };
    const { status, text } = await this.#exchange(method, url, body, headers);
    const document = jsonIn(text);
    // 202: it goes on for longer than an answer takes.
    if ((status === 200 || status === 202) && document) return document;
    throw this.refused(status, document);
  }

  async #exchange(
    method: 'GET' | 'POST' | 'PUT' | 'DELETE',
    url: URL,
    body: Readable | string | undefined,
    headers: Readonly<Record<string, string>>,
  ): Promise<{ status: number; text: string }> {
    try {
      const answer = await request(url, {
        dispatcher: this.#agent,
        method,
        headers: {
          accept: 'application/json',
          ...headers,
          ...(this.#token === undefined ? {} : { authorization: `Bearer ${this.#token}` }),
        },
        body: body ?? null,
      });
      return { status: answer.statusCode, text: await answer.body.text() };
    } catch (error) {
      throw notReached(this.#base, error);
    }
  }

  /** What an answer means that is not what was asked for, in the server's own words where it has some. */
  refused(status: number, document: AnswerDocument | undefined): CommandFailed {
    const [said] = Array.isArray(document?.errors) ? (document.errors as unknown[]) : [];
    const hint = typeof document?.hint === 'string' ? document.hint : undefined;
    const { href } = this.#base;
    if (typeof said !== 'string') {
      return new CommandFailed(`${href} answered ${status}, and not as Larder does`, {
        hint: 'is this the address of a Larder, with the path that a proxy may put before it?',
      });
    }
    if (status === 401) {
      return new CommandFailed(`${href} refused: ${said}`, {
        hint: `give ${this.#token === undefined ? 'a' : 'another'} token with --token, or in LARDER_TOKEN`,
      });
    }
    return new CommandFailed(`${href} ${status === 403 ? 'refused' : `answered ${status}`}: ${said}`, { hint });
  }
}

async function certificateIn(file: string): Promise<string> {
  let text: string;
  try {
    text = await readFile(file, 'utf8');
  } catch (error) {
    throw unreadable(`--ca ${file}`, error);
  }
  if (text.includes('-----BEGIN CERTIFICATE-----')) return text;
  throw new CommandFailed(`--ca ${file} holds no certificate`, { hint: 'it must be PEM' });
}

const TIMEOUTS: ReadonlySet<string> = new Set([
  'ETIMEDOUT',
  'UND_ERR_BODY_TIMEOUT',
  'UND_ERR_CONNECT_TIMEOUT',
  'UND_ERR_HEADERS_TIMEOUT',
]);
const UNTRUSTED = /^(CERT_|SELF_SIGNED|DEPTH_ZERO|UNABLE_TO_|ERR_TLS_CERT)/;

function notReached({ href, host }: URL, error: unknown): CommandFailed {
  const { code = '' } = rootOf(error);
  if (code === 'ECONNREFUSED') {
    return new ConnectionLost(`nothing listens at ${host}: the connection was refused`, {
      hint: 'is the server running, and is this its port? Without --server the data directory is worked on',
    });
  }
  if (code === 'ENOTFOUND' || code === 'EAI_AGAIN') return new CommandFailed(`${host} is not known to DNS (${code})`);
  if (code === 'ERR_TLS_CERT_ALTNAME_INVALID') {
    return new CommandFailed(`the certificate of ${host} is for another name`, {
      hint: 'use a name that it is for; publicUrl of the server is put into its own certificate',
    });
  }
  if (UNTRUSTED.test(code)) {
    return new CommandFailed(`the certificate of ${host} is not trusted here (${code})`, {
      hint: `give its authority with --ca FILE; that of Larder's own certificate is data/tls/ca.pem, also at ${href}ca.pem`,
    });
  }
  if (/^(ERR_SSL_|EPROTO)/.test(code)) {
    return new CommandFailed(`${host} does not speak TLS as we do (${code})`, {
      hint: 'with tls.mode: off, its URL begins with http://',
    });
  }
  if (TIMEOUTS.has(code)) return new ConnectionLost(`${host} did not answer in time (${code})`);
  return new ConnectionLost(`${host} could not be reached, or broke off the connection${code ? ` (${code})` : ''}`);
}

/** Several addresses tried are one AggregateError. */
function rootOf(error: unknown): { code?: string } {
  if (error instanceof AggregateError && error.errors.length > 0) return rootOf(error.errors[0]);
  const { code, cause } = error as { code?: unknown; cause?: unknown };
  if (typeof code === 'string') return { code };
  return cause instanceof Error ? rootOf(cause) : {};
}

function jsonIn(text: string): AnswerDocument | undefined {
  try {
    const document: unknown = JSON.parse(text);
    return typeof document === 'object' && document !== null ? document : undefined;
  } catch {
    return undefined;
  }
}
