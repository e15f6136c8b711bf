import { createServer as createHttpServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { createServer as createHttpsServer } from 'node:https';
import { type AddressInfo, connect, type Socket } from 'node:net';
import { onTestFinished } from 'vitest';
import { Hostname } from '../../src/address/hostname.ts';
import { silentLogger } from '../../src/logger.ts';
import { HttpClient } from '../../src/upstream/http-client.ts';
import type { HttpLimits } from '../../src/upstream/http-limits.ts';
import type { Upstream } from '../../src/upstream/upstream.ts';
import { CertificateAuthority, once } from '../support/certificates.ts';

export type Handler = (request: IncomingMessage, response: ServerResponse) => unknown;

export interface ScriptedServer {
  readonly origin: string;
  readonly host: string;
  readonly port: number;
  readonly requests: { method: string; path: string; headers: IncomingMessage['headers'] }[];
  /** TCP connections taken so far. */
  connections(): number;
  close(): Promise<void>;
}

/** Issuing takes longer than most tests. */
const usualCertificate = once(async () => (await CertificateAuthority.shared()).issue());

async function certificateFor(names: readonly string[] | undefined) {
  return names ? (await CertificateAuthority.shared()).issue(names) : usualCertificate();
}

/** A server on loopback that answers as the test says, and is gone after it. */
export async function serve(
  handler: Handler,
  options: { plain?: boolean; clientCa?: string; names?: string[] } = {},
): Promise<ScriptedServer> {
  const requests: ScriptedServer['requests'] = [];
  const listener = (request: IncomingMessage, response: ServerResponse) => {
    requests.push({ method: request.method ?? '', path: request.url ?? '', headers: request.headers });
    handler(request, response);
  };
  const clientAuth = options.clientCa ? { requestCert: true, rejectUnauthorized: true, ca: options.clientCa } : {};
  const server = options.plain
    ? createHttpServer(listener)
    : createHttpsServer({ ...(await certificateFor(options.names)), ...clientAuth }, listener);
  const sockets = new Set<Socket>();
  let connections = 0;
  server.on('connection', (socket: Socket) => {
    connections++;
    sockets.add(socket);
    socket.on('error', () => {}).on('close', () => sockets.delete(socket));
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  let closing: Promise<void> | undefined;
  const close = () => {
    closing ??= new Promise<void>((resolve) => {
      server.close(() => resolve());
      for (const socket of sockets) socket.destroy();
    });
    return closing;
  };
  onTestFinished(close);
  const host = `localhost:${port}`;
  return {
    origin: `${options.plain ? 'http' : 'https'}://${host}`,
    host,
    port,
    requests,
    connections: () => connections,
    close,
  };
}

/** A proxy that knows CONNECT only, and tells what it was asked for. */
export async function connectProxy(
  options: { refuseWith?: number } = {},
): Promise<{ url: string; asked: string[]; authorizations: (string | undefined)[] }> {
  const asked: string[] = [];
  const authorizations: (string | undefined)[] = [];
  const sockets = new Set<Socket>();
  const server = createHttpServer((_, response) => response.writeHead(501).end());
  server.on('connect', (request: IncomingMessage, socket: Socket) => {
    asked.push(request.url ?? '');
    authorizations.push(request.headers['proxy-authorization']);
    sockets.add(socket.on('error', () => {}));
    if (options.refuseWith) return socket.end(`HTTP/1.1 ${options.refuseWith} No\r\n\r\n`);
    // Whatever the name: everything in these tests is on loopback.
    const target = connect(Number(request.url?.split(':').pop()), '127.0.0.1', () => {
      socket.write('HTTP/1.1 200 OK\r\n\r\n');
      target.pipe(socket).pipe(target);
    });
    target.on('error', () => socket.destroy());
    sockets.add(target);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  onTestFinished(() => {
    server.close();
    for (const socket of sockets) socket.destroy();
  });
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, asked, authorizations };
}

/** An upstream on loopback that trusts the tests' authority. */
export async function upstreamAt(host: string, overrides: Partial<Upstream> = {}): Promise<Upstream> {
  return {
    hostname: Hostname.parse(host),
    token: async () => undefined,
    archiveHosts: new Set(),
    ca: (await CertificateAuthority.shared()).pem,
    clientCertificate: undefined,
    privateNetwork: true,
    signatures: 'verify',
    ...overrides,
  };
}

/** Without a circuit and with hardly any pauses, unless the test is about these. */
export function clientFor(
  options: Partial<Omit<ConstructorParameters<typeof HttpClient>[0], 'limits'>> & { limits?: Partial<HttpLimits> } = {},
): HttpClient {
  const client = new HttpClient({
    userAgent: 'Larder/test',
    proxy: {},
    logger: silentLogger,
    ...options,
    limits: { backoffMs: 2, ...options.limits },
  });
  onTestFinished(() => client.close());
  return client;
}

/** Long enough for a loaded machine; whoever meets it has hung. */
export const patience = () => AbortSignal.timeout(20_000);

/** The error that a promise is expected to end with. */
export async function failureOf(promise: Promise<unknown>): Promise<Error & Record<string, unknown>> {
  return promise.then(
    (value) => {
      throw new Error(`expected a failure, got ${JSON.stringify(value)}`);
    },
    (error) => error,
  );
}
