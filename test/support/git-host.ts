import { spawn } from 'node:child_process';
import { once as event } from 'node:events';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { createServer, type Server } from 'node:https';
import type { AddressInfo, Socket } from 'node:net';
import { afterTest } from './after-test.ts';
import { CertificateAuthority, once } from './certificates.ts';
import {
  type CommitNames,
  GitRepositories,
  gitEnvironmentForTests,
  type RepositoryEntry,
  type TestRepository,
} from './git-repositories.ts';
import { type LoggedRequest, type Matcher, matches, RequestLog } from './request-log.ts';
import { requirement } from './requirements.ts';

/** Issuing takes longer than most tests. */
const usualCertificate = once(async () => (await CertificateAuthority.shared()).issue());

/** Answers in place of git. */
export type GitAnswer = (request: IncomingMessage, response: ServerResponse) => void;

export interface GitHostOptions {
  /** Further names in its certificate. */
  readonly names?: readonly string[];
  readonly authority?: CertificateAuthority;
  /** The Basic password that everybody has to show. */
  readonly token?: string;
  /** Repositories of another host, served here as well. */
  readonly repositories?: GitRepositories;
}

/** A git host over https on loopback: the real `git http-backend` behind a TLS server. Gone after the test that starts it. */
export class GitHost {
  readonly requests = new RequestLog();
  readonly repositories: GitRepositories;
  /** PEM certificate that clients have to trust. */
  readonly ca: string;
  /** What has to be shown as password; `undefined` lets everybody in. */
  token: string | undefined;
  /** Old hosts know only the first protocol, and with it give out no single commits. */
  speaksVersion2 = true;
  readonly #tls: { cert: string; key: string };
  readonly #connections = new Set<Socket>();
  readonly #answers: { matcher: Matcher; answer: GitAnswer }[] = [];
  #server: Server | undefined;
  #port = 0;

  private constructor(repositories: GitRepositories, ca: string, tls: { cert: string; key: string }) {
    this.repositories = repositories;
    this.ca = ca;
    this.#tls = tls;
  }

  static async start(options: GitHostOptions = {}): Promise<GitHost> {
    const plain = options.authority === undefined && options.names === undefined;
    const authority = options.authority ?? (await CertificateAuthority.shared());
    const repositories = options.repositories ?? (await GitRepositories.create());
    const host = new GitHost(
      repositories,
      authority.pem,
      plain ? await usualCertificate() : await authority.issue(options.names),
    );
    host.token = options.token;
    await host.restart();
    afterTest(() => host.stop());
    return host;
  }

  get port(): number {
    return this.#port;
  }

  /** `localhost:PORT`. */
  get hostname(): string {
    return `localhost:${this.#port}`;
  }

  /** `https://localhost:PORT`. */
  get url(): string {
    return `https://${this.hostname}`;
  }

  /** See `GitRepositories.add`; it is at `URL/NAME`. */
  addRepository(
    name: string,
    content: Readonly<Record<string, RepositoryEntry>>,
    names: CommitNames = {},
  ): Promise<TestRepository> {
    return this.repositories.add(name, content, names);
  }

  /** From now on, requests that match are answered like this. The rule added last counts. */
  on(matcher: Matcher, answer: GitAnswer): void {
    this.#answers.unshift({ matcher, answer });
  }

  /** Connections are refused from now on, open ones broken. */
  async stop(): Promise<void> {
    const server = this.#server;
    this.#server = undefined;
    for (const socket of this.#connections) socket.destroy();
    if (!server) return;
    const closed = event(server, 'close');
    server.close();
    for (const socket of this.#connections) socket.destroy();
    await closed;
  }

  /** Listens again, on the same port as before. */
  async restart(): Promise<void> {
    await this.stop();
    const server = createServer(this.#tls, (request, response) => this.#serve(request, response));
    server.on('connection', (socket: Socket) => {
      this.#connections.add(socket);
      socket.on('error', () => {}).once('close', () => this.#connections.delete(socket));
    });
    server.on('tlsClientError', (_error, socket) => socket.destroy());
    server.listen(this.#port, '127.0.0.1');
    await event(server, 'listening');
    this.#port = (server.address() as AddressInfo).port;
    this.#server = server;
  }

  #serve(request: IncomingMessage, response: ServerResponse): void {
    const call = { method: request.method ?? '', path: request.url ?? '', headers: request.headers };
    const logged: LoggedRequest = {
      ...call,
      status: 0,
      bytesSent: 0,
      aborted: false,
      finished: new Promise((resolve) => {
        response.once('close', () => {
          logged.status = response.statusCode;
          logged.aborted = !response.writableFinished;
          resolve();
        });
      }),
    };
    this.requests.add(logged);
    const rule = this.#answers.find(({ matcher }) => matches(matcher, call));
    if (rule) {
      rule.answer(request, response);
    } else if (this.#letsIn(request)) {
      this.#runBackend(request, response, logged);
    } else {
      response.writeHead(401, { 'www-authenticate': 'Basic realm="git"' }).end('who are you?');
    }
  }

  #letsIn({ headers }: IncomingMessage): boolean {
    if (this.token === undefined) return true;
    const [, given = ''] = /^Basic (.+)$/.exec(headers.authorization ?? '') ?? [];
    const credentials = Buffer.from(given, 'base64').toString();
    return credentials.slice(credentials.indexOf(':') + 1) === this.token;
  }

  /** RFC 3875, as far as git needs it. */
  #runBackend(request: IncomingMessage, response: ServerResponse, logged: LoggedRequest): void {
    const [path = '', query = ''] = (request.url ?? '').split('?');
    const { headers } = request;
    const backend = spawn(requirement('git').path ?? 'git', ['http-backend'], {
      env: {
        ...gitEnvironmentForTests(),
        GIT_PROJECT_ROOT: this.repositories.directory,
        GIT_HTTP_EXPORT_ALL: '1',
        REQUEST_METHOD: request.method ?? '',
        PATH_INFO: decodeURIComponent(path),
        QUERY_STRING: query,
        CONTENT_TYPE: headers['content-type'] ?? '',
        ...(headers['content-length'] && { CONTENT_LENGTH: headers['content-length'] }),
        ...(headers['content-encoding'] && { HTTP_CONTENT_ENCODING: headers['content-encoding'] }),
        ...(this.speaksVersion2 && headers['git-protocol'] && { GIT_PROTOCOL: String(headers['git-protocol']) }),
      },
      stdio: ['pipe', 'pipe', 'ignore'],
    });
    backend.stdin.on('error', () => {});
    request.on('error', () => {}).pipe(backend.stdin);
    response.once('close', () => backend.kill('SIGKILL'));
    let head = Buffer.alloc(0);
    backend.stdout.on('data', (chunk: Buffer) => {
      if (!response.headersSent) {
        head = Buffer.concat([head, chunk]);
        const end = head.indexOf('\r\n\r\n');
        if (end < 0) return;
        const lines = head.toString('latin1', 0, end).split('\r\n');
        const answered = lines.map((line) => /^([^:]+): ?(.*)$/.exec(line)?.slice(1) as [string, string]);
        const status = Number.parseInt(answered.find(([name]) => name === 'Status')?.[1] ?? '200', 10);
        response.writeHead(status, Object.fromEntries(answered.filter(([name]) => name !== 'Status')));
        chunk = head.subarray(end + 4);
      }
      logged.bytesSent += chunk.length;
      response.write(chunk);
    });
    backend.once('error', () => response.destroy());
    backend.once('close', () => response.end());
  }
}
