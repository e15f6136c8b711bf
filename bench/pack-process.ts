/*
 * Makes one package of a commit as Larder does once it has fetched it, in a process of its own: the real git reads the
 * commit, its files go into a tree, the tree is packed. It says in one line of JSON how that went, see `PackReport`.
 *
 * Run with `Packing`, which builds it as Larder is built: with a compiler in the process it would be measured, too.
 */
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { FileTree } from '../src/upstream/module-package/file-tree.ts';
import { readCommit } from '../src/upstream/module-package/git-commit-reader.ts';
import { GitObjects } from '../src/upstream/module-package/git-objects.ts';
import { packTree } from '../src/upstream/module-package/pack.ts';

/** What it is given, in JSON, as its one argument. */
export interface PackTask {
  /** A bare repository on this machine. */
  readonly repository: string;
  readonly commit: string;
  /** Empty; the package is in it afterwards. */
  readonly directory: string;
}

export interface PackReport {
  readonly file: string;
  readonly sha256: string;
  /** Bytes. */
  readonly size: number;
  /** Of packing alone, in milliseconds. */
  readonly packMs: number;
  /** Processor time of packing alone, all threads, in milliseconds. */
  readonly packCpuMs: number;
}

const LIMITS = { download: 512e6, unpacked: 2e9, files: 50_000, time: 300_000 };
const HOST = 'git.example.test';

const { repository, commit, directory } = JSON.parse(process.argv[2] ?? '') as PackTask;

const { signal } = new AbortController();
const objects = await GitObjects.create({
  parent: directory,
  searchPath: process.env['PATH'],
  objectFormat: 'sha1',
  signal,
});
// What a fetch would have brought lies there already.
await writeFile(join(directory, 'repository', 'objects', 'info', 'alternates'), `${join(repository, 'objects')}\n`);
const tree = new FileTree({ directory, limits: LIMITS, host: HOST });
await readCommit(objects, commit, tree, { prefix: '', host: HOST });

const startedAt = performance.now();
const before = process.cpuUsage();
const { file, sha256, size } = await packTree(tree, { subdir: '', directory, signal });
const { user, system } = process.cpuUsage(before);
const report: PackReport = {
  file,
  sha256,
  size,
  packMs: performance.now() - startedAt,
  packCpuMs: (user + system) / 1000,
};
console.log(JSON.stringify(report));
