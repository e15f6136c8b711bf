import { mkdtemp } from 'node:fs/promises';
import { join } from 'node:path';
import type { Readable } from 'node:stream';
import { FileTree } from './file-tree.ts';
import { type PackedTree, packTree } from './pack.ts';
import type { PackageLimits } from './package-limits.ts';
import { unpackArchive } from './unpack.ts';
import { stored } from './work-files.ts';

/**
 * Unpacks a package that comes from anywhere and makes it anew, by the rules for archives of upstreams. One that was made
 * by `packTree` comes out with the same bytes. The body is destroyed in every case.
 *
 * @param options.subdir where the module is in it
 * @param options.directory for everything that is needed on the way, the package included
 * @param options.name for messages
 * @throws UpstreamInvalid for what is no such archive, or is over a limit; UpstreamUnreachable when `signal` is aborted
 * @throws StorageFailed
 */
export async function repack(
  body: Readable,
  options: { subdir: string; directory: string; limits: PackageLimits; name: string; signal: AbortSignal },
): Promise<PackedTree> {
  const { subdir, limits, name: host, signal } = options;
  const directory = await stored(mkdtemp(join(options.directory, 'repack-')));
  const tree = new FileTree({ directory, limits, host });
  await unpackArchive(body, 'tar.gz', tree, { directory, limits, host, signal });
  const packed = await packTree(tree, { subdir, directory, signal });
  return { ...packed, file: join(directory, packed.file) };
}
