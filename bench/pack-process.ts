/*
 * Makes one package of a commit as Larder does once it has fetched it, in a process of its own: the real git reads the
 * commit, its files go into a tree, the tree is packed. It says in one line of JSON how that went, see `PackReport`.
 *
 * Run with `Packing`, which takes its types away: with a compiler in the process it would be measured, too.
 * So nothing but the built Larder and Node may be imported here.
 */
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';

/** What it is given, in JSON, as its one argument. */
export interface PackTask {
  /** Where the built Larder is. */
  readonly dist: string;
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

const { dist, repository, commit, directory } = JSON.parse(process.argv[2] ?? '') as PackTask;
const part = (name: string) => import(pathToFileURL(join(dist, 'upstream', 'module-package', name)).href);
const [{ FileTree }, { GitObjects }, { readCommit }, { packTree }] = (await Promise.all([
  part('file-tree.js'),
  part('git-objects.js'),
  part('git-commit-reader.js'),
  part('pack.js'),
])) as [
  typeof import('../src/upstream/module-package/file-tree.ts'),
  typeof import('../src/upstream/module-package/git-objects.ts'),
  typeof import('../src/upstream/module-package/git-commit-reader.ts'),
  typeof import('../src/upstream/module-package/pack.ts'),
];

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
