import { createHash } from 'node:crypto';
import { mkdtemp } from 'node:fs/promises';
import { join } from 'node:path';
import { PassThrough, type Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { LRUCache } from 'lru-cache';
import pLimit, { type LimitFunction } from 'p-limit';
import type { Sha256 } from '../address/hash.ts';
import { IntegrityMismatch } from '../errors.ts';
import type { Logger } from '../logger.ts';
import { deadlineFailure } from './failures.ts';
import type { HttpClient } from './http-client.ts';
import { FileTree } from './module-package/file-tree.ts';
import type { GitSource } from './module-package/git-source.ts';
import type { LocationChecksum, ModuleLocation } from './module-package/module-location.ts';
import { packThreads, packTree } from './module-package/pack.ts';
import type { PackageLimits } from './module-package/package-limits.ts';
import { unpackArchive } from './module-package/unpack.ts';
import { stored } from './module-package/work-files.ts';
import type { Upstream } from './upstream.ts';

/** What Larder can fetch and pack. */
export type MirroredLocation = Exclude<ModuleLocation, { kind: 'unmirrored' }>;

/** Packages that are fetched from one host at a time: one that is slow delays its own. */
const FETCHED_PER_HOST = 4;
/** Each takes a processor. */
const PACKED_AT_A_TIME = 2;
/** Forgetting one that is in use only lets a few more through. */
const MAX_QUEUES = 1_000;

/** A package: one flat tar.gz, the same bytes whenever and wherever it is made of the same files. */
export interface PackedModule {
  /** Somewhere in the directory that was given. */
  readonly file: string;
  readonly sha256: Sha256;
  /** Bytes. */
  readonly size: number;
  /** Where in the package the module is; empty for its root. */
  readonly subdir: string;
  /** What it was made of, without secrets. */
  readonly source: string;
  /** Changes when there is something else at the location; `undefined` when that cannot be told without fetching it. */
  readonly fingerprint: string | undefined;
}

/** How a location is asked. */
export interface LocationAccess {
  readonly upstream: Upstream;
  /** The registry wants its own token for the archive, and the archive is where that token belongs. */
  readonly authenticate: boolean;
}

/** Fetches what module locations point at, archives and git repositories, and makes packages of it. */
export class ModulePackages {
  readonly #http: HttpClient;
  readonly #git: Pick<GitSource, 'fetch' | 'resolve'>;
  readonly #limits: PackageLimits;
  readonly #logger: Logger;
  readonly #turns = new LRUCache<string, LimitFunction>({ max: MAX_QUEUES });
  readonly #packing = pLimit(PACKED_AT_A_TIME);
  readonly #threads = packThreads();

  constructor(deps: {
    http: HttpClient;
    git: Pick<GitSource, 'fetch' | 'resolve'>;
    limits: PackageLimits;
    logger: Logger;
  }) {
    this.#http = deps.http;
    this.#git = deps.git;
    this.#limits = deps.limits;
    this.#logger = deps.logger;
  }

  /**
   * @param parent for everything that is needed on the way, the package included; what an attempt before left there
   *   is not touched
   * @throws NotFound, UpstreamUnreachable, UpstreamRefused of the archive's or repository's host
   * @throws UpstreamInvalid when what is there cannot be a package, or is over a limit
   * @throws IntegrityMismatch when it does not have the checksum that the location demands
   */
  async make(
    location: MirroredLocation,
    access: LocationAccess,
    parent: string,
    signal: AbortSignal,
  ): Promise<PackedModule> {
    const directory = await stored(mkdtemp(join(parent, 'package-')));
    const host = hostOf(location);
    const tree = new FileTree({ directory, limits: this.#limits, host });
    // While it is being fetched.
    this.#threads.prepare();
    const fingerprint = await this.#turnOf(host)(() => this.#fill(tree, location, access, directory, signal));
    const { danglingLinks, ...packed } = await this.#packing(() =>
      packTree(tree, { subdir: location.subdir, directory, signal, threads: this.#threads }),
    );
    if (danglingLinks.length > 0) {
      this.#logger.warn('left out of a module package: links that lead nowhere', {
        source: sourceOf(location),
        links: danglingLinks.slice(0, 20),
      });
    }
    return { ...packed, file: join(directory, packed.file), source: sourceOf(location), fingerprint };
  }

  /** Whatever is being made fails. */
  close(): Promise<void> {
    return this.#threads.close();
  }

  #turnOf(host: string): LimitFunction {
    const turn = this.#turns.get(host) ?? pLimit(FETCHED_PER_HOST);
    this.#turns.set(host, turn);
    return turn;
  }

  async #fill(
    tree: FileTree,
    location: MirroredLocation,
    access: LocationAccess,
    directory: string,
    signal: AbortSignal,
  ): Promise<string | undefined> {
    // It may have had to wait for its turn until nobody wants it any more.
    if (signal.aborted) throw deadlineFailure(hostOf(location), signal.reason);
    if (location.kind === 'archive') return this.#unpack(location, access, tree, directory, signal);
    const { repository, ref } = location;
    return (await this.#git.fetch(access.upstream, repository, ref, tree, { directory, signal })).commit;
  }

  /** What `make` would give as its fingerprint now, without fetching anything large. */
  async fingerprint(
    location: MirroredLocation,
    { upstream }: LocationAccess,
    signal: AbortSignal,
  ): Promise<string | undefined> {
    if (location.kind === 'git') return this.#git.resolve(upstream, location.repository, location.ref, signal);
    return lengthMark(await this.#http.headLength({ upstream, url: location.url, signal }));
  }

  /**
   * Asks for an archive as `make` would, without taking it.
   * @returns its fingerprint, as far as it can be told
   * @throws UpstreamRefused, NotFound, UpstreamUnreachable when it would not be given
   */
  async probe(
    { url }: Extract<MirroredLocation, { kind: 'archive' }>,
    { upstream, authenticate }: LocationAccess,
    signal: AbortSignal,
  ): Promise<string | undefined> {
    const { body, size } = await this.#http.openBody({ upstream, url, offset: 0, authenticate, signal });
    body.on('error', () => {}).destroy();
    return lengthMark(size);
  }

  async #unpack(
    location: Extract<MirroredLocation, { kind: 'archive' }>,
    { upstream, authenticate }: LocationAccess,
    tree: FileTree,
    directory: string,
    signal: AbortSignal,
  ): Promise<string | undefined> {
    const { url, format, checksum } = location;
    const { body, size } = await this.#http.openBody({ upstream, url, offset: 0, authenticate, signal });
    const options = { directory, limits: this.#limits, host: url.host, signal };
    if (!checksum) {
      await unpackArchive(body, format, tree, options);
    } else {
      const checked = digested(body, checksum, url);
      // Both to their end, whichever fails: until then they write into the directory.
      const ends = await Promise.allSettled([checked.done, unpackArchive(checked.body, format, tree, options)]);
      for (const end of ends) if (end.status === 'rejected') throw end.reason;
    }
    return lengthMark(size);
  }
}

/** Passes a body on while it is hashed. Unpackers may end before its end: the rest is hashed all the same. */
function digested(body: Readable, { algorithm, digest }: LocationChecksum, url: URL) {
  const hash = createHash(algorithm);
  const passed = new PassThrough({
    transform(chunk: Buffer, _encoding, callback) {
      hash.update(chunk);
      callback(null, chunk);
    },
    flush(callback) {
      const actual = hash.digest('hex');
      callback(actual === digest ? null : wrongChecksum(url, algorithm, digest, actual));
    },
  });
  return { body: passed, done: pipeline(body, passed) };
}

function wrongChecksum(url: URL, algorithm: string, expected: string, actual: string): IntegrityMismatch {
  return new IntegrityMismatch(
    `${url.host}${url.pathname} is not what was promised: its ${algorithm} should be ${expected} and is ${actual}`,
  );
}

function lengthMark(size: number | undefined): string | undefined {
  return size === undefined ? undefined : `${size} bytes`;
}

function hostOf(location: MirroredLocation): string {
  return location.kind === 'git' ? location.repository.host : location.url.host;
}

/** What a package is made of, in words: without queries, which may be signed, and without user information. */
export function sourceOf(location: MirroredLocation): string {
  const subdir = location.subdir === '' ? '' : `//${location.subdir}`;
  if (location.kind === 'archive') return `${location.url.origin}${location.url.pathname}${subdir}`;
  const { protocol, host, pathname } = location.repository.url;
  return `git::${protocol}//${host}${pathname}${subdir}${location.ref === undefined ? '' : `?ref=${location.ref}`}`;
}
