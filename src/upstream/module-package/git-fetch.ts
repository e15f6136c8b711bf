import type { Logger } from '../../logger.ts';
import { noSuchRef } from './git-failures.ts';
import { GitObjects, type GitRemoteAccess } from './git-objects.ts';
import { GitExit } from './git-process.ts';
import { type GitRefs, type GitTarget, targetOf } from './git-refs.ts';
import type { GitRepository } from './module-location.ts';

const SHA1_DIGITS = 40;
/** The host knows no such object. */
const NOT_THERE = /not our ref/i;
/** The host has it, perhaps, and gives out only what a name stands for. The second is how servers in Java put it. */
const NOT_BY_ID = /unadvertised object|want [0-9a-f]+ not valid/i;

/** A repository that has been asked what its names stand for. */
export interface AskedRepository {
  readonly refs: GitRefs;
  /** How git gets there; files it needs are put into `directory`. */
  access(directory: string): Promise<GitRemoteAccess>;
}

/** Where and how far is fetched. */
export interface GitFetchOptions {
  readonly repository: GitRepository;
  /** Ours to work in. */
  readonly directory: string;
  /** Where git is looked for: directories separated by colons. */
  readonly searchPath: string | undefined;
  readonly signal: AbortSignal;
  readonly maxBytes: number;
  readonly logger: Logger;
}

/** What has to be fetched for a ref, the default branch if none. @throws NotFound */
export function wanted(refs: GitRefs, repository: GitRepository, ref: string | undefined): GitTarget {
  const target = targetOf(refs, ref);
  if (!target) throw noSuchRef(repository, ref);
  return target;
}

/**
 * Fetches the objects of one commit, or all of them where only that tells. Needs git.
 * @returns which commit it was, and how many bytes came
 * @throws NotFound, TooMuchFetched, GitExit and whatever else running git fails with
 */
export async function fetchObjects(
  asked: AskedRepository,
  target: GitTarget,
  options: GitFetchOptions,
): Promise<{ readonly store: GitObjects; readonly commit: string; readonly bytes: number }> {
  const { directory, searchPath, signal } = options;
  const remote = await asked.access(directory);
  const anyCommit = asked.refs.head ?? [...asked.refs.commits.values()][0];
  const store = await GitObjects.create({
    parent: directory,
    searchPath,
    objectFormat: (anyCommit?.length ?? SHA1_DIGITS) > SHA1_DIGITS ? 'sha256' : 'sha1',
    signal,
  });
  const commit = await fetchTarget(store, remote, target, options);
  return { store, commit, bytes: await store.size() };
}

async function fetchTarget(
  store: GitObjects,
  remote: GitRemoteAccess,
  target: GitTarget,
  { repository, maxBytes, logger }: GitFetchOptions,
): Promise<string> {
  // Whatever the name stands for by now is what is taken, and told.
  if (target.kind === 'name') return store.fetchOne(remote, target.name, maxBytes);
  if (target.kind === 'commit') {
    try {
      return await store.fetchOne(remote, target.commit, maxBytes);
    } catch (error) {
      if (!(error instanceof GitExit)) throw error;
      if (NOT_THERE.test(error.complaint)) throw noSuchRef(repository, target.commit);
      if (!NOT_BY_ID.test(error.complaint)) throw error;
      logger.debug('a git host gives no single commits: fetching all of them', { host: repository.host });
    }
  }
  await store.fetchAll(remote, maxBytes);
  const id = target.kind === 'commit' ? target.commit : target.prefix;
  return store.commitOf(id).catch((error: unknown) => {
    throw error instanceof GitExit ? noSuchRef(repository, id) : error;
  });
}
