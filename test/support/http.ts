import { once } from 'node:events';
import { connect } from 'node:tls';
import { Agent, request } from 'undici';

export interface HttpAnswer {
  readonly status: number;
  /** Lower-case names; repeated headers joined by a comma. */
  readonly headers: Readonly<Record<string, string | undefined>>;
  readonly body: Buffer;
  text(): string;
  // biome-ignore lint/suspicious/noExplicitAny: tests look into answers whose shape is what they are about.
  json(): any;
}

export interface HttpOptions {
  readonly method?: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string | Buffer;
  readonly signal?: AbortSignal;
}

const TIME_LIMIT_MS = 30_000;

/** An HTTP client that trusts `ca`, shows `certificate` if asked for one, follows no redirect, decodes nothing and reads each body whole. */
export class HttpClient {
  readonly #agent: Agent;

  constructor(options: { ca: string; certificate?: { cert: string; key: string } }) {
    this.#agent = new Agent({
      connect: { ca: options.ca, ...options.certificate },
      headersTimeout: TIME_LIMIT_MS,
      bodyTimeout: TIME_LIMIT_MS,
      keepAliveTimeout: 1_000,
    });
  }

  get(url: string, options: HttpOptions = {}): Promise<HttpAnswer> {
    return this.send(url, options);
  }

  /** @throws what undici throws when the connection breaks, also in the middle of the body. */
  async send(url: string, options: HttpOptions = {}): Promise<HttpAnswer> {
    const answer = await request(url, {
      dispatcher: this.#agent,
      method: (options.method ?? 'GET') as 'GET',
      headers: { ...options.headers },
      body: options.body ?? null,
      signal: options.signal ?? null,
    });
    const body = Buffer.from(await answer.body.arrayBuffer());
    const headers = Object.fromEntries(
      Object.entries(answer.headers).map(([name, value]) => [name, Array.isArray(value) ? value.join(', ') : value]),
    );
    return {
      status: answer.statusCode,
      headers,
      body,
      text: () => body.toString(),
      json: () => JSON.parse(body.toString()) as unknown,
    };
  }

  /** Breaks whatever is still under way. */
  close(): Promise<void> {
    return this.#agent.destroy();
  }
}

/**
 * Writes bytes as they are over TLS and returns everything that comes back until the server closes: for requests no
 * proper client would send. A `Connection: close` in the request ends it; otherwise the time limit does, with an error.
 */
export async function rawRequest(
  port: number,
  text: string | Buffer,
  options: { ca: string; timeLimitMs?: number },
): Promise<{ status: number | undefined; text: string }> {
  const socket = connect({ port, host: '127.0.0.1', servername: 'localhost', ca: options.ca });
  const received: Buffer[] = [];
  socket.on('data', (chunk: Buffer) => received.push(chunk));
  socket.setTimeout(options.timeLimitMs ?? 10_000, () =>
    socket.destroy(new Error(`no end after: ${JSON.stringify(Buffer.concat(received).toString().slice(0, 200))}`)),
  );
  try {
    await once(socket, 'secureConnect');
    socket.write(text);
    if (!socket.closed) await once(socket, 'close');
  } finally {
    socket.destroy();
  }
  const answer = Buffer.concat(received).toString();
  const status = /^HTTP\/1\.1 (\d{3})/.exec(answer)?.[1];
  return { status: status === undefined ? undefined : Number(status), text: answer };
}
