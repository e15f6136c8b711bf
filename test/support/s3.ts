import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { mkdir, mkdtemp, readdir, readFile, rm, stat, truncate, utimes, writeFile } from 'node:fs/promises';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import { createRequire } from 'node:module';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';
import { afterTest } from './after-test.ts';

/** What is used of s3rver, which has no types. */
interface S3rver {
  callback(): (req: IncomingMessage, res: ServerResponse) => void;
  configureBuckets(): Promise<unknown>;
}
const S3rver = createRequire(import.meta.url)('s3rver') as new (options: object) => S3rver;

const BUCKET = 'larder-test';
const LONG_AGO = new Date('2024-01-01T00:00:00Z');

export interface S3Request {
  readonly method: string;
  /** Without the bucket, decoded; empty for the bucket itself. */
  readonly key: string;
  readonly query: URLSearchParams;
  readonly headers: IncomingMessage['headers'];
}

/** What becomes of a request. */
export type S3Fault =
  | 'reset'
  | { readonly status: number; readonly code: string }
  | { readonly delayMs: number }
  /** Breaks the connection off after so many bytes of the answer. */
  | { readonly cutAfter: number };

/**
 * An S3 server on loopback: s3rver, and around it what that lacks: conditional writes, uploads that can be listed and
 * aborted, objects that appear whole, and faults.
 */
export class S3Server {
  readonly bucket = BUCKET;
  readonly accessKeyId = 'S3RVER';
  readonly secretAccessKey = 'S3RVER';
  /** In the order in which they came. */
  readonly requests: S3Request[] = [];
  /** Keys in one answer. */
  pageSize = 1_000;
  /** Without: a server that ignores the conditions of writes, as older ones do. */
  hasConditions = true;
  readonly #directory: string;
  readonly #s3rver: S3rver;
  readonly #server: Server;
  #faults: { matches: (request: S3Request) => boolean; fault: S3Fault; left: number }[] = [];
  /** One request at a time: s3rver writes in place. */
  #turn: Promise<unknown> = Promise.resolve();

  private constructor(directory: string, s3rver: S3rver) {
    this.#directory = directory;
    this.#s3rver = s3rver;
    this.#server = createServer((req, res) => {
      this.#handle(req, res).catch(() => res.destroy());
    });
  }

  static async start(): Promise<S3Server> {
    const directory = await mkdtemp(join(tmpdir(), 'larder-s3-'));
    const s3rver = new S3rver({
      directory,
      silent: true,
      vhostBuckets: false,
      configureBuckets: [{ name: BUCKET }],
    });
    await s3rver.configureBuckets();
    const server = new S3Server(directory, s3rver);
    server.#server.listen(0, '127.0.0.1');
    await once(server.#server, 'listening');
    return server;
  }

  /** The `s3` of a configuration of Larder that rests here. */
  get settings() {
    const { bucket, endpoint, accessKeyId, secretAccessKey } = this;
    return { bucket, endpoint, pathStyle: true, accessKeyId, secretAccessKey };
  }

  get endpoint(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  /** Requests that match are failed, `times` of them. @returns ends it */
  fail(matches: (request: S3Request) => boolean, fault: S3Fault, times = Number.POSITIVE_INFINITY): () => void {
    const entry = { matches, fault, left: times };
    this.#faults.push(entry);
    return () => {
      this.#faults = this.#faults.filter((other) => other !== entry);
    };
  }

  /** How many requests of this method there were for keys that end like this. */
  count(method: string, end = ''): number {
    return this.requests.filter((request) => request.method === method && request.key.endsWith(end)).length;
  }

  /** Everything in the bucket. */
  async keys(prefix = ''): Promise<string[]> {
    const names = await readdir(this.#root(), { recursive: true });
    const suffix = '._S3rver_object';
    return names
      .filter((name) => name.endsWith(suffix))
      .map((name) => name.slice(0, -suffix.length))
      .filter((key) => key.startsWith(prefix))
      .sort();
  }

  /** Ids of uploads that are neither completed nor aborted. */
  async uploads(): Promise<string[]> {
    return existsSync(this.#uploads()) ? readdir(this.#uploads()) : [];
  }

  /** Makes all uploads look as if they had been begun long ago. */
  async ageUploads(): Promise<void> {
    for (const id of await this.uploads()) await utimes(join(this.#uploads(), id, 'key'), LONG_AGO, LONG_AGO);
  }

  async get(key: string): Promise<Buffer> {
    return readFile(this.#path(key));
  }

  has(key: string): boolean {
    return existsSync(this.#path(key));
  }

  /** Past every check, long ago. */
  async put(key: string, content: Buffer | string): Promise<void> {
    await mkdir(dirname(this.#path(key)), { recursive: true });
    await writeFile(this.#path(key), content);
    await this.#touched(key);
  }

  async remove(key: string): Promise<void> {
    await rm(this.#path(key), { force: true });
    await rm(`${this.#path(key)}.md5`, { force: true });
  }

  /** Loses its last byte, long ago. */
  async truncate(key: string): Promise<void> {
    await truncate(this.#path(key), (await stat(this.#path(key))).size - 1);
    await this.#touched(key);
  }

  /** One byte of it changes; its size and its time do not. */
  async corrupt(key: string, at: number): Promise<void> {
    const { mtime } = await stat(this.#path(key));
    const content = await this.get(key);
    content[at] = (content[at] ?? 0) ^ 0xff;
    await writeFile(this.#path(key), content);
    await this.#touched(key, mtime);
  }

  /** The bucket is deleted, with everything in it. */
  async dropBucket(): Promise<void> {
    await rm(join(this.#directory, BUCKET), { recursive: true, force: true });
  }

  async close(): Promise<void> {
    this.#server.closeAllConnections();
    this.#server.close();
    await rm(this.#directory, { recursive: true, force: true, maxRetries: 3 });
  }

  async #handle(req: IncomingMessage, res: ServerResponse): Promise<void> {
    const { pathname, searchParams } = new URL(req.url ?? '/', 'http://s3');
    const key = decodeURIComponent(pathname.slice(BUCKET.length + 2));
    const request: S3Request = { method: req.method ?? '', key, query: searchParams, headers: req.headers };
    this.requests.push(request);
    const fault = this.#faultFor(request);
    if (fault === 'reset') return void req.socket.destroy();
    if (fault && 'status' in fault) return answer(req, res, fault.status, errorDocument(fault.code));
    if (fault && 'delayMs' in fault) await wait(fault.delayMs);
    if (fault && 'cutAfter' in fault) cut(res, fault.cutAfter);
    // Parts are no objects yet.
    if (request.method === 'PUT' && searchParams.has('partNumber')) return this.#pass(req, res);
    const turn = this.#turn.then(() => this.#answer(request, req, res));
    this.#turn = turn.catch(() => {});
    await turn;
  }

  async #answer(request: S3Request, req: IncomingMessage, res: ServerResponse): Promise<void> {
    const { method, key, query, headers } = request;
    const isWrite = (method === 'PUT' || method === 'POST') && key !== '' && !query.has('uploads');
    if (method === 'DELETE' && query.has('uploadId')) return this.#abort(query.get('uploadId') ?? '', req, res);
    if (method === 'GET' && key === '' && query.has('uploads')) return this.#listUploads(query, req, res);
    if (method === 'GET' && query.get('list-type') === '2' && existsSync(this.#root()))
      return this.#list(query, req, res);
    if (headers.range === 'bytes=0-0' && this.has(key)) return this.#firstByte(key, res);
    if (isWrite) {
      if (this.hasConditions && !(await this.#meets(key, headers))) {
        return answer(req, res, 412, errorDocument('PreconditionFailed'));
      }
      // Whoever is reading it reads the old one to its end.
      await rm(this.#path(key), { force: true });
    }
    await this.#pass(req, res, method === 'GET' && key !== '');
  }

  /** @param untilHeaders for objects: what has been opened is read to its end, whatever comes */
  async #pass(req: IncomingMessage, res: ServerResponse, untilHeaders = false): Promise<void> {
    // Whoever asked has left meanwhile: it closed before anybody could hear of it.
    if (res.closed || res.destroyed) return;
    const done = new Promise<void>((resolve) => {
      res.once('close', resolve);
      if (!untilHeaders) return;
      const { writeHead } = res;
      res.writeHead = ((...args: Parameters<typeof writeHead>) => {
        resolve();
        return writeHead.apply(res, args);
      }) as typeof writeHead;
    });
    this.#s3rver.callback()(req, res);
    await done;
  }

  async #meets(key: string, headers: IncomingMessage['headers']): Promise<boolean> {
    const path = this.#path(key);
    if (headers['if-none-match'] === '*') return !existsSync(path);
    const wanted = headers['if-match'];
    if (wanted === undefined) return true;
    if (!existsSync(path)) return false;
    return wanted.replaceAll('"', '') === md5Of(await readFile(path));
  }

  async #abort(id: string, req: IncomingMessage, res: ServerResponse): Promise<void> {
    const isThere = existsSync(join(this.#uploads(), id));
    await rm(join(this.#uploads(), id), { recursive: true, force: true });
    answer(req, res, isThere ? 204 : 404, isThere ? '' : errorDocument('NoSuchUpload'));
  }

  async #listUploads(query: URLSearchParams, req: IncomingMessage, res: ServerResponse): Promise<void> {
    const all = await Promise.all(
      (await this.uploads()).map(async (id) => {
        const file = join(this.#uploads(), id, 'key');
        const [key, { mtime }] = [await readFile(file, 'utf8'), await stat(file)];
        return { key, id, mtime, place: `${key} ${id}` };
      }),
    );
    const from = `${query.get('key-marker') ?? ''} ${query.get('upload-id-marker') ?? ''}`;
    const left = all
      .filter(({ key, place }) => key.startsWith(query.get('prefix') ?? '') && place > from)
      .sort((a, b) => (a.place < b.place ? -1 : 1));
    const page = left.slice(0, this.pageSize);
    const found = page.map(
      ({ key, id, mtime }) =>
        `<Upload><Key>${key}</Key><UploadId>${id}</UploadId><Initiated>${mtime.toISOString()}</Initiated></Upload>`,
    );
    const last = page.length < left.length ? page.at(-1) : undefined;
    const next = last
      ? `<NextKeyMarker>${last.key}</NextKeyMarker><NextUploadIdMarker>${last.id}</NextUploadIdMarker>`
      : '';
    const document = `<ListMultipartUploadsResult><Bucket>${BUCKET}</Bucket><IsTruncated>${last !== undefined}</IsTruncated>${next}${found.join('')}</ListMultipartUploadsResult>`;
    answer(req, res, 200, document);
  }

  /** s3rver cannot list page by page, and finds no prefix below which there are but others. */
  async #list(query: URLSearchParams, req: IncomingMessage, res: ServerResponse): Promise<void> {
    const prefix = query.get('prefix') ?? '';
    const keys = await this.keys(prefix);
    if (query.has('delimiter')) {
      const names = keys.flatMap((key) => key.slice(prefix.length).match(/^[^/]+\//) ?? []);
      const found = [...new Set(names)].map(
        (name) => `<CommonPrefixes><Prefix>${prefix}${name}</Prefix></CommonPrefixes>`,
      );
      return answer(
        req,
        res,
        200,
        `<ListBucketResult><IsTruncated>false</IsTruncated>${found.join('')}</ListBucketResult>`,
      );
    }
    const left = keys.filter((key) => key > (query.get('continuation-token') ?? ''));
    const page = left.slice(0, Math.min(this.pageSize, Number(query.get('max-keys') ?? this.pageSize)));
    const objects = await Promise.all(
      page.map(async (key) => {
        const [content, { mtime }] = [await this.get(key), await stat(this.#path(key))];
        return `<Contents><Key>${key}</Key><Size>${content.length}</Size><ETag>"${md5Of(content)}"</ETag><LastModified>${mtime.toISOString()}</LastModified></Contents>`;
      }),
    );
    const isTruncated = page.length < left.length;
    const next = isTruncated ? `<NextContinuationToken>${page.at(-1)}</NextContinuationToken>` : '';
    answer(
      req,
      res,
      200,
      `<ListBucketResult><IsTruncated>${isTruncated}</IsTruncated>${next}${objects.join('')}</ListBucketResult>`,
    );
  }

  /** s3rver takes this range for one without an end. */
  async #firstByte(key: string, res: ServerResponse): Promise<void> {
    const [content, { mtime }] = [await this.get(key), await stat(this.#path(key))];
    res.writeHead(206, {
      ETag: `"${md5Of(content)}"`,
      'Last-Modified': mtime.toUTCString(),
      'Content-Range': `bytes 0-0/${content.length}`,
      'Content-Length': 1,
    });
    res.end(content.subarray(0, 1));
  }

  #faultFor(request: S3Request): S3Fault | undefined {
    const entry = this.#faults.find(({ matches, left }) => left > 0 && matches(request));
    if (entry) entry.left -= 1;
    return entry?.fault;
  }

  async #touched(key: string, at = LONG_AGO): Promise<void> {
    await utimes(this.#path(key), at, at);
    await writeFile(`${this.#path(key)}.md5`, md5Of(await this.get(key)));
    const metadata = join(this.#directory, BUCKET, `${key}._S3rver_metadata.json`);
    if (!existsSync(metadata)) await writeFile(metadata, '{}');
  }

  #path(key: string): string {
    return join(this.#directory, BUCKET, `${key}._S3rver_object`);
  }

  #root(): string {
    return join(this.#directory, BUCKET);
  }

  #uploads(): string {
    return join(this.#directory, BUCKET, '._S3rver_uploads');
  }
}

function answer(req: IncomingMessage, res: ServerResponse, status: number, document: string): void {
  req.resume();
  res.writeHead(status, { 'Content-Type': 'application/xml', Connection: 'close' });
  res.end(document === '' ? undefined : `<?xml version="1.0" encoding="UTF-8"?>\n${document}`);
}

function md5Of(content: Buffer): string {
  return createHash('md5').update(content).digest('hex');
}

function errorDocument(code: string): string {
  return `<Error><Code>${code}</Code><Message>scripted ${code}</Message></Error>`;
}

/** One that is closed after the test. */
export async function startS3(): Promise<S3Server> {
  const server = await S3Server.start();
  afterTest(() => server.close());
  return server;
}

/** The headers go out whole, the body does not. */
function cut(res: ServerResponse, bytes: number): void {
  let left = bytes;
  const write = res.write.bind(res) as (chunk: Buffer, ...rest: unknown[]) => boolean;
  res.write = ((chunk: Buffer, ...rest: unknown[]) => {
    if (chunk.length <= left) {
      left -= chunk.length;
      return write(chunk, ...rest);
    }
    write(chunk.subarray(0, left), () => res.destroy());
    left = 0;
    return false;
  }) as typeof res.write;
}
