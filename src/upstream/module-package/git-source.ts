import { mkdtemp, rm } from 'node:fs/promises';
import path from 'node:path';
import { LarderError, UpstreamInvalid } from '../../errors.ts';
import type { Logger } from '../../logger.ts';
import type { ProxySettings } from '../connections.ts';
import { deadlineFailure, sealedFailure } from '../failures.ts';
import type { HttpClient } from '../http-client.ts';
import type { Upstream } from '../upstream.ts';
import { readCommit, type TreeTarget } from './git-commit-reader.ts';
import { gitFailure } from './git-failures.ts';
import { type AskedRepository, fetchObjects, wanted } from './git-fetch.ts';
import { accessFor, type GitHostAccess } from './git-host-access.ts';
import { askOverHttps, httpsSettings } from './git-https.ts';
import { TooMuchFetched } from './git-objects.ts';
import { GitExit, GitMissing, GitOutputTooLarge } from './git-process.ts';
import { askOverSsh, sshAccess } from './git-ssh.ts';
import { inSubmodule, type Submodule, submodulesOf } from './git-submodules.ts';
import { gitProblem, gitVersion } from './git-version.ts';
import type { GitRepository } from './module-location.ts';
import type { PackageLimits } from './package-limits.ts';
import { stored } from './work-files.ts';

const MAX_SUBMODULE_DEPTH = 5;
const MAX_SUBMODULES = 50;

/** One package: a repository with its submodules. */
interface Errand {
  readonly upstream: Upstream;
  readonly tree: TreeTarget;
  readonly directory: string;
  readonly signal: AbortSignal;
  bytesLeft: number;
  submodulesLeft: number;
}

/**
 * Git repositories over https and ssh: which commit a name stands for, and the files of a commit with those of its
 * submodules. The real git does the fetching, as a program that asks nobody, starts nothing of a repository's choice
 * and is killed with everything it has started when its time is over.
 *
 * Fails with NotFound, UpstreamUnreachable, UpstreamRefused or UpstreamInvalid; and with whatever the tree throws.
 */
export class GitSource {
  readonly #http: HttpClient;
  readonly #hosts: ReadonlyMap<string, GitHostAccess>;
  readonly #proxy: ProxySettings;
  readonly #extraCa: string | undefined;
  readonly #limits: PackageLimits;
  readonly #searchPath: string | undefined;
  readonly #isSealed: () => boolean;
  readonly #logger: Logger;
  /** What is under way: how it is ended, and its end. */
  readonly #running = new Map<AbortController, Promise<unknown>>();
  #problem: Promise<string | undefined> | undefined;

  constructor(deps: {
    http: HttpClient;
    /** By `HOST[:PORT]`, exactly. */
    hosts: ReadonlyMap<string, GitHostAccess>;
    proxy: ProxySettings;
    /** PEM certificates trusted besides the public roots. */
    extraCa?: string | undefined;
    limits: PackageLimits;
    /** Where git is looked for: directories separated by colons. */
    searchPath: string | undefined;
    isSealed?: () => boolean;
    logger: Logger;
  }) {
    this.#http = deps.http;
    this.#hosts = deps.hosts;
    this.#proxy = deps.proxy;
    this.#extraCa = deps.extraCa;
    this.#limits = deps.limits;
    this.#searchPath = deps.searchPath;
    this.#isSealed = deps.isSealed ?? (() => false);
    this.#logger = deps.logger;
  }

  /** The commit that a ref (the default branch if none) stands for now; `undefined` when only fetching could tell. */
  async resolve(
    upstream: Upstream,
    repository: GitRepository,
    ref: string | undefined,
    signal: AbortSignal,
  ): Promise<string | undefined> {
    return this.#bounded(repository, signal, async (bounded) => {
      const { refs } = await this.#ask(upstream, repository, bounded);
      const target = wanted(refs, repository, ref);
      return target.kind === 'abbreviation' ? undefined : target.commit;
    });
  }

  /**
   * Puts the files of a ref, and those of its submodules, into the tree.
   * @param options.directory ours to work in; nothing of ours is left there
   */
  async fetch(
    upstream: Upstream,
    repository: GitRepository,
    ref: string | undefined,
    tree: TreeTarget,
    options: { directory: string; signal: AbortSignal },
  ): Promise<{ commit: string }> {
    return this.#bounded(repository, options.signal, async (signal) => {
      const errand: Errand = {
        upstream,
        tree,
        directory: options.directory,
        signal,
        bytesLeft: this.#limits.download,
        submodulesLeft: MAX_SUBMODULES,
      };
      return { commit: await this.#fetchInto(errand, repository, ref, '', 0) };
    });
  }

  /** For the moment when Larder is sealed: kills what is under way, which fails as sealed then. Resolves when it is gone. */
  async breakOff(): Promise<void> {
    const running = [...this.#running];
    for (const [ending] of running) ending.abort();
    await Promise.allSettled(running.map(([, end]) => end));
  }

  /** Within the time a package may take, failures in the words of the domain. */
  async #bounded<T>(
    repository: GitRepository,
    signal: AbortSignal,
    work: (signal: AbortSignal) => Promise<T>,
  ): Promise<T> {
    const ending = new AbortController();
    const bounded = AbortSignal.any([signal, AbortSignal.timeout(this.#limits.time), ending.signal]);
    const running = this.#translated(repository, bounded, () => work(bounded));
    this.#running.set(ending, running);
    try {
      return await running;
    } catch (error) {
      throw ending.signal.aborted && this.#isSealed() ? sealedFailure(repository.host) : error;
    } finally {
      this.#running.delete(ending);
    }
  }

  /** Fetches one repository, then those within it. Returns the commit. */
  async #fetchInto(
    errand: Errand,
    repository: GitRepository,
    ref: string | undefined,
    prefix: string,
    depth: number,
  ): Promise<string> {
    const directory = await stored(mkdtemp(path.join(errand.directory, 'git-')));
    try {
      const { commit, submodules } = await this.#translated(repository, errand.signal, async () => {
        const asked = await this.#ask(errand.upstream, repository, errand.signal);
        const target = wanted(asked.refs, repository, ref);
        await this.#requireGit(repository);
        const objects = await fetchObjects(asked, target, {
          repository,
          directory,
          searchPath: this.#searchPath,
          signal: errand.signal,
          maxBytes: errand.bytesLeft,
          logger: this.#logger,
        });
        errand.bytesLeft -= objects.bytes;
        const { host } = repository;
        const gitlinks = await readCommit(objects.store, objects.commit, errand.tree, { prefix, host });
        for (const { path: place } of gitlinks) await errand.tree.addDirectory(prefix + place);
        return {
          commit: objects.commit,
          submodules: await submodulesOf(objects.store, objects.commit, gitlinks, repository),
        };
      });
      await rm(directory, { recursive: true, force: true });
      for (const submodule of submodules) await this.#fetchSubmodule(errand, repository, submodule, prefix, depth + 1);
      return commit;
    } finally {
      await rm(directory, { recursive: true, force: true });
    }
  }

  async #fetchSubmodule(
    errand: Errand,
    parent: GitRepository,
    submodule: Submodule,
    prefix: string,
    depth: number,
  ): Promise<void> {
    errand.submodulesLeft -= 1;
    if (depth > MAX_SUBMODULE_DEPTH || errand.submodulesLeft < 0) {
      throw new UpstreamInvalid(
        parent.host,
        `has submodules in ${parent.url.pathname} within each other more than ${MAX_SUBMODULE_DEPTH} deep, or more than ${MAX_SUBMODULES} in all`,
      );
    }
    try {
      await this.#fetchInto(errand, submodule.repository, submodule.commit, `${prefix}${submodule.path}/`, depth);
    } catch (error) {
      throw inSubmodule(error, submodule, parent);
    }
  }

  async #ask(upstream: Upstream, repository: GitRepository, signal: AbortSignal): Promise<AskedRepository> {
    if (this.#isSealed()) throw sealedFailure(repository.host);
    const given = accessFor(this.#hosts.get(repository.host), upstream);
    if (repository.url.protocol === 'ssh:') {
      await this.#requireGit(repository);
      const access = await sshAccess(repository, given, upstream, signal);
      const refs = await askOverSsh(access, { searchPath: this.#searchPath, signal });
      return { refs, access: async () => ({ ...access, settings: [] }) };
    }
    const found = await askOverHttps(this.#http, upstream, repository, given, signal);
    const options = { proxy: this.#proxy, extraCa: this.#extraCa, signal };
    return {
      refs: found.refs,
      access: async (directory) => ({
        url: found.url.href,
        settings: await httpsSettings(found, upstream, { ...options, directory }),
        // Whoever may not be asked over plain http was refused before.
        variables: found.url.protocol === 'http:' ? { GIT_ALLOW_PROTOCOL: 'http' } : {},
      }),
    };
  }

  async #requireGit(repository: GitRepository): Promise<void> {
    this.#problem ??= gitVersion(this.#searchPath).then(gitProblem);
    const problem = await this.#problem;
    if (problem === undefined) return;
    // It may be installed meanwhile.
    this.#problem = undefined;
    throw new UpstreamInvalid(repository.host, `cannot be fetched from: ${problem}`, {
      hint: 'Modules that come from git need git on the machine, and in the PATH, of the mirror.',
    });
  }

  async #translated<T>(repository: GitRepository, signal: AbortSignal, work: () => Promise<T>): Promise<T> {
    try {
      return await work();
    } catch (error) {
      if (error instanceof LarderError) throw error;
      const { host, url } = repository;
      if (error instanceof TooMuchFetched) {
        throw new UpstreamInvalid(host, `has more than ${this.#limits.download} bytes in ${url.pathname}`, {
          hint: 'If it is meant to be that large, raise modules.limits.download.',
        });
      }
      if (signal.aborted) throw deadlineFailure(host, error);
      if (error instanceof GitExit) {
        const failure = gitFailure(repository, error);
        this.#logger.debug('git gave up', { host, error: failure });
        throw failure;
      }
      if (error instanceof GitMissing || error instanceof GitOutputTooLarge) {
        throw new UpstreamInvalid(host, `cannot be fetched from: ${error.message}`, { cause: error });
      }
      throw error;
    }
  }
}
