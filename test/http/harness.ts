import { createHash } from 'node:crypto';
import { connect } from 'node:net';
import { Readable } from 'node:stream';
import { onTestFinished } from 'vitest';
import { ProviderArchive } from '../../src/address/archive.ts';
import { type Hash, parseSha256, type Sha256 } from '../../src/address/hash.ts';
import { Hostname } from '../../src/address/hostname.ts';
import { Platform } from '../../src/address/platform.ts';
import { ProviderAddress } from '../../src/address/provider.ts';
import { Version } from '../../src/address/version.ts';
import type { ReadableArchive } from '../../src/cache/readable-archive.ts';
import { createHttpApplication, type HttpApplicationDeps } from '../../src/http/application.ts';
import { Authenticator } from '../../src/http/authenticate.ts';
import { Health, type HealthCheck } from '../../src/http/health.ts';
import type { ModuleRegistrySource } from '../../src/http/module-registry.ts';
import type { NetworkMirrorSource } from '../../src/http/network-mirror.ts';
import type { ProviderRegistrySource } from '../../src/http/provider-registry.ts';
import { HttpServer, type ServerLimits } from '../../src/http/server.ts';
import type { Logger } from '../../src/logger.ts';
import type { PackageList, VersionList } from '../../src/mirror/provider-mirror.ts';
import type { ByteRange } from '../../src/store/archive-store.ts';

export const WIDGET = ProviderAddress.parse('registry.example.com/acme/widget');
export const WIDGET_PATH = '/providers/registry.example.com/acme/widget';
export const ZIP_PATH = `${WIDGET_PATH}/terraform-provider-widget_1.0.0_linux_amd64.zip`;

/** Bytes in which every position tells itself apart from its neighbours. */
export const CONTENT = Buffer.from(Array.from({ length: 1000 }, (_, index) => (index * 7) % 251));
export const SHA256: Sha256 = parseSha256(createHash('sha256').update(CONTENT).digest('hex'));
export const STORED_AT = new Date('2026-01-02T03:04:05Z');

export function archive(platform: string, version = '1.0.0', provider = WIDGET): ProviderArchive {
  return new ProviderArchive(provider, Version.parse(version), Platform.parse(platform));
}

export function packages(...entries: [platform: string, hashes: string[]][]): PackageList {
  return { archives: entries.map(([platform, hashes]) => ({ archive: archive(platform), hashes: hashes as Hash[] })) };
}

/** An archive of `CONTENT`; `body` may replace its stream. */
export function readable(
  change: Partial<ReadableArchive> & { body?: (range?: ByteRange) => Readable } = {},
): ReadableArchive {
  const { body = sliceOf, ...fields } = change;
  return {
    state: 'stored',
    size: CONTENT.length,
    sha256: SHA256,
    storedAt: STORED_AT,
    stream: async (range) => body(range),
    ...fields,
  };
}

function sliceOf(range?: ByteRange): Readable {
  const bytes = range ? CONTENT.subarray(range.start, range.end + 1) : CONTENT;
  // Several chunks, as from a disk.
  return Readable.from([bytes.subarray(0, 3), bytes.subarray(3)].filter((part) => part.length > 0));
}

/** A mirror that answers with `answers`, fails the test's request on all else, and remembers what it was asked. */
export class StubMirror implements NetworkMirrorSource {
  readonly asked: string[] = [];
  readonly #answers: Partial<NetworkMirrorSource>;

  constructor(answers: Partial<NetworkMirrorSource> = {}) {
    this.#answers = answers;
  }

  async listVersions(provider: ProviderAddress): Promise<VersionList> {
    this.asked.push(`versions ${provider}`);
    return this.#answer('listVersions')(provider);
  }

  async listPackages(provider: ProviderAddress, version: Version): Promise<PackageList> {
    this.asked.push(`packages ${provider} ${version}`);
    return this.#answer('listPackages')(provider, version);
  }

  async openArchive(wanted: ProviderArchive): Promise<ReadableArchive> {
    this.asked.push(`open ${wanted}`);
    return this.#answer('openArchive')(wanted);
  }

  async describeArchive(wanted: ProviderArchive) {
    this.asked.push(`describe ${wanted}`);
    return this.#answer('describeArchive')(wanted);
  }

  #answer<M extends keyof NetworkMirrorSource>(method: M): NetworkMirrorSource[M] {
    const answer = this.#answers[method];
    if (!answer) throw new Error(`the mirror was not to be asked for ${method}`);
    return answer as NetworkMirrorSource[M];
  }
}

/** Releases of which nobody is to ask. */
export const NO_RELEASES: ProviderRegistrySource['releases'] = {
  list: async () => notToBeAsked(),
  describe: async () => notToBeAsked(),
  checksums: async () => notToBeAsked(),
};

/** Modules of which nobody is to ask. */
export const NO_MODULES: ModuleRegistrySource = {
  list: async () => notToBeAsked(),
  locate: async () => notToBeAsked(),
  describePackage: async () => notToBeAsked(),
  openPackage: async () => notToBeAsked(),
};

function notToBeAsked(): never {
  throw new Error('nobody was to be asked for this');
}

export interface LogEntry {
  readonly level: string;
  readonly message: string;
  readonly fields: Record<string, unknown>;
}

export class LogRecorder implements Logger {
  readonly entries: LogEntry[] = [];
  readonly #waiting: { matches: (entry: LogEntry) => boolean; resolve: (entry: LogEntry) => void }[] = [];

  debug(message: string, fields = {}): void {
    this.#add({ level: 'debug', message, fields });
  }
  info(message: string, fields = {}): void {
    this.#add({ level: 'info', message, fields });
  }
  warn(message: string, fields = {}): void {
    this.#add({ level: 'warn', message, fields });
  }
  error(message: string, fields = {}): void {
    this.#add({ level: 'error', message, fields });
  }

  /** The first entry of that message, be it written already or still to come. */
  entry(message: string): Promise<LogEntry> {
    const matches = (entry: LogEntry) => entry.message === message;
    const found = this.entries.find(matches);
    return found ? Promise.resolve(found) : new Promise((resolve) => this.#waiting.push({ matches, resolve }));
  }

  #add(entry: LogEntry): void {
    this.entries.push(entry);
    for (const { matches, resolve } of this.#waiting) if (matches(entry)) resolve(entry);
  }
}

export interface Running {
  readonly origin: string;
  readonly port: number;
  readonly mirror: StubMirror;
  readonly log: LogRecorder;
  readonly server: HttpServer;
  /** Sends these bytes (`\n` becomes CRLF), resolves to all that came back once the server has closed the connection. */
  exchange(request: string): Promise<RawAnswer>;
  /** The same for a request without a body, given its line and headers. */
  ask(requestLine: string, ...headers: string[]): Promise<RawAnswer>;
}

export interface RawAnswer {
  readonly statusLine: string;
  /** Names in lower case. */
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Buffer;
  readonly json: () => Record<string, unknown>;
}

/** The application on a real socket, in the clear, closed when the test is over. */
export async function start(
  answers: Partial<NetworkMirrorSource> = {},
  options: Partial<Omit<HttpApplicationDeps, 'mirror' | 'logger' | 'health'>> & {
    checks?: HealthCheck[];
    limits?: Partial<ServerLimits>;
  } = {},
): Promise<Running> {
  const mirror = new StubMirror(answers);
  const log = new LogRecorder();
  const { checks = [], limits, ...rest } = options;
  const health = new Health({ checks, isDraining: () => server.isDraining, logger: log });
  const application = createHttpApplication({
    mirror,
    releases: NO_RELEASES,
    modules: NO_MODULES,
    health,
    logger: log,
    upstreams: [Hostname.parse('registry.example.com')],
    isSealed: () => false,
    authenticator: new Authenticator({ anonymous: 'read', tokens: async () => [] }),
    ...rest,
  });
  const server = new HttpServer({ handler: application, limits });
  const port = await server.listen({ host: '127.0.0.1', port: 0 });
  onTestFinished(() => server.drain(0));
  const exchange = (request: string) => rawExchange(port, request);
  return {
    origin: `http://127.0.0.1:${port}`,
    port,
    mirror,
    log,
    server,
    exchange,
    ask: (requestLine, ...headers) =>
      exchange(`${[`${requestLine} HTTP/1.1`, 'Host: larder.test', 'Connection: close', ...headers].join('\n')}\n\n`),
  };
}

function rawExchange(port: number, request: string): Promise<RawAnswer> {
  return new Promise((resolve, reject) => {
    const chunks: Buffer[] = [];
    const socket = connect(port, '127.0.0.1', () => socket.write(request.replaceAll('\n', '\r\n')));
    socket.on('data', (chunk) => chunks.push(chunk));
    // A connection that is broken off may end in a reset; what came before it counts.
    socket.on('error', (error) => chunks.length === 0 && reject(error));
    socket.on('close', () => resolve(parseAnswer(Buffer.concat(chunks))));
  });
}

function parseAnswer(bytes: Buffer): RawAnswer {
  const end = bytes.indexOf('\r\n\r\n');
  const [statusLine = '', ...lines] = bytes.subarray(0, end).toString('latin1').split('\r\n');
  const headers = Object.fromEntries(
    lines.map((line) => {
      const colon = line.indexOf(':');
      return [line.slice(0, colon).toLowerCase(), line.slice(colon + 1).trim()];
    }),
  );
  const body = bytes.subarray(end + 4);
  return { statusLine, headers, body, json: () => JSON.parse(body.toString()) as Record<string, unknown> };
}
