import { mkdir, mkdtemp, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { build } from 'esbuild';
import { GitRepositories, type TestRepository } from '../test/support/git-repositories.ts';
import type { PackReport, PackTask } from './pack-process.ts';
import { type ProcessTime, runProgram, timeProgram } from './processes.ts';
import { sourceFiles } from './source-text.ts';

const PROCESS = fileURLToPath(new URL('./pack-process.ts', import.meta.url));
/** The thread that it starts. */
const THREAD = fileURLToPath(new URL('../src/upstream/module-package/pack-worker.ts', import.meta.url));

/** A git repository, and the ways to make a package of it. */
export class Packing {
  /** Bytes of all files together. */
  readonly bytes: number;
  readonly #repositories: GitRepositories;
  readonly #repository: TestRepository;
  readonly #commit: string;
  readonly #directory: string;
  readonly #program: string;
  #sha256: string | undefined;

  private constructor(of: {
    bytes: number;
    repositories: GitRepositories;
    repository: TestRepository;
    commit: string;
    directory: string;
    program: string;
  }) {
    this.bytes = of.bytes;
    this.#repositories = of.repositories;
    this.#repository = of.repository;
    this.#commit = of.commit;
    this.#directory = of.directory;
    this.#program = of.program;
  }

  /** Makes the repository with the real git, always the same one. @param files of source text, 10 kB each on average */
  static async prepare(files: number): Promise<Packing> {
    const content = sourceFiles('packing', files);
    const bytes = Object.values(content).reduce((sum, { length }) => sum + length, 0);
    const repositories = await GitRepositories.create();
    const directory = await mkdtemp(join(tmpdir(), 'larder-bench-'));
    const repository = await repositories.add('module.git', content);
    const commit = await repository.commitOf('main');
    const program = await built(join(directory, 'program'));
    await runProgram('git', [
      '-C',
      repository.directory,
      'archive',
      '--format=tar',
      '-o',
      join(directory, 'tar'),
      commit,
    ]);
    return new Packing({ bytes, repositories, repository, commit, directory, program });
  }

  /** As Larder does it, in a process of its own. @throws if other bytes come out than before */
  async withLarder(): Promise<ProcessTime & PackReport> {
    const directory = join(this.#directory, 'larder');
    await mkdir(directory);
    try {
      const task: PackTask = { repository: this.#repository.directory, commit: this.#commit, directory };
      const { output, ...time } = await timeProgram(process.execPath, [this.#program, JSON.stringify(task)]);
      const report = JSON.parse(output) as PackReport;
      this.#sha256 ??= report.sha256;
      if (report.sha256 !== this.#sha256) throw new Error('the same commit was packed into other bytes');
      return { ...time, ...report };
    } finally {
      await rm(directory, { recursive: true });
    }
  }

  /** As one would by hand: not the same bytes everywhere, links and all. */
  async withGitArchive(): Promise<ProcessTime & { readonly size: number }> {
    return this.#sized('git archive --format=tar "$1" | gzip > "$2"', this.#commit);
  }

  /** The last step alone. */
  async withGzip(): Promise<ProcessTime & { readonly size: number }> {
    return this.#sized('gzip < "$1" > "$2"', join(this.#directory, 'tar'));
  }

  async remove(): Promise<void> {
    await this.#repositories.remove();
    await rm(this.#directory, { recursive: true });
  }

  async #sized(script: string, input: string): Promise<ProcessTime & { readonly size: number }> {
    const out = join(this.#directory, 'out.tar.gz');
    const inRepository = `cd "$3" && ${script}`;
    const { output: _, ...time } = await timeProgram('sh', [
      ...['-c', inRepository, 'sh'],
      ...[input, out, this.#repository.directory],
    ]);
    const { size } = await stat(out);
    await rm(out);
    return { ...time, size };
  }
}

/** @returns the program's file */
async function built(directory: string): Promise<string> {
  await build({
    ...{ entryPoints: [PROCESS, THREAD], outdir: directory, entryNames: '[name]', write: true },
    ...{ bundle: true, format: 'esm', platform: 'node', target: 'node20.19' },
  });
  await writeFile(join(directory, 'package.json'), JSON.stringify({ type: 'module' }));
  return join(directory, 'pack-process.js');
}
