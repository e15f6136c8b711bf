import { parseSha256, type Sha256 } from '../../address/hash.ts';
import { StorageFailed, UpstreamUnreachable } from '../../errors.ts';
import { Threads } from '../../threads.ts';
import { startWorker } from '../../worker-file.ts';
import type { FileTree } from './file-tree.ts';
import { moduleRoot } from './module-root.ts';
import type { PackJob, PackMember, PackOutcome } from './pack-worker.ts';
import { withPlainNames } from './plain-names.ts';
import { type FlatEntry, resolveLinks } from './resolve-links.ts';

const PACKAGE_FILE = 'package.tar.gz';
/** Far more than what packing takes, whatever is packed. */
const WORKER_HEAP_MIB = 256;

export type PackThreads = Threads<PackJob, PackOutcome>;

/** For one package after another. The caller closes them. */
export function packThreads(): PackThreads {
  const resourceLimits = { maxOldGenerationSizeMb: WORKER_HEAP_MIB };
  return new Threads({ start: () => startWorker(import.meta.url, 'pack-worker', { resourceLimits }) });
}

export interface PackedTree {
  /** In the directory that was given. */
  readonly file: string;
  readonly sha256: Sha256;
  /** Bytes. */
  readonly size: number;
  /** Where in the package the module is; empty for its root. */
  readonly subdir: string;
  /** Links that lead nowhere and are not in the package. */
  readonly danglingLinks: readonly string[];
}

/**
 * Makes the package of a module: a flat tar.gz, links resolved, of the same bytes whenever, wherever and by whatever
 * version of Node it is made of the same tree. The work is done in a thread.
 *
 * @param options.subdir where the module is, see `moduleRoot`
 * @param options.directory of the tree
 * @param options.threads what is to be used of them; else one is started, and ended
 * @throws UpstreamInvalid when the tree cannot be a package or has no such directory
 * @throws UpstreamUnreachable when `signal` is aborted
 * @throws StorageFailed
 */
export async function packTree(
  tree: FileTree,
  options: { subdir: string; directory: string; signal: AbortSignal; threads?: PackThreads | undefined },
): Promise<PackedTree> {
  const { directory, signal, threads = packThreads() } = options;
  await tree.flush();
  if (signal.aborted) throw outOfTime(tree.host, signal.reason);
  const { entries: flat, danglingLinks } = resolveLinks(tree);
  const root = moduleRoot(flat, options.subdir, (...refusal) => tree.refuse(...refusal));
  const { entries, subdir } = withPlainNames(root.entries, root.subdir);
  const job: PackJob = { directory, file: PACKAGE_FILE, members: sortedByBytes(entries).map(memberOf) };
  const outcome = await runJob(threads, job, tree.host, signal).finally(() => {
    if (threads !== options.threads) return threads.close();
  });
  if ('reason' in outcome) throw new StorageFailed('making a module package', outcome);
  return { file: PACKAGE_FILE, sha256: parseSha256(outcome.sha256), size: outcome.size, subdir, danglingLinks };
}

function sortedByBytes(entries: readonly FlatEntry[]): readonly FlatEntry[] {
  return entries
    .map((entry) => ({ entry, key: Buffer.from(entry.path) }))
    .sort((a, b) => Buffer.compare(a.key, b.key))
    .map(({ entry }) => entry);
}

function memberOf(entry: FlatEntry): PackMember {
  return entry.kind === 'file' ? entry : { ...entry, size: 0, executable: true, content: '', offset: 0 };
}

async function runJob(threads: PackThreads, job: PackJob, host: string, signal: AbortSignal): Promise<PackOutcome> {
  try {
    // However it ends, nothing writes any more afterwards, and the directory can be removed.
    return await threads.run(job, signal);
  } catch (error) {
    if (signal.aborted) throw outOfTime(host, signal.reason);
    throw new StorageFailed('making a module package', error);
  }
}

function outOfTime(host: string, cause: unknown): UpstreamUnreachable {
  return new UpstreamUnreachable(host, 'timeout', 'has a package that was not made in time', {
    cause,
    hint: 'If it is meant to be that large, raise modules.limits.time.',
  });
}
