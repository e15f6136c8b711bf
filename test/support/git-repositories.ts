import { spawn } from 'node:child_process';
import { mkdir, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { text } from 'node:stream/consumers';
import { afterTest } from './after-test.ts';
import { requirement } from './requirements.ts';

/** What stands at a path of a commit: the content of a file, or something else. */
export type RepositoryEntry =
  | string
  | Buffer
  | { readonly executable: string }
  | { readonly link: string }
  /** The commit of another repository; .gitmodules is the test's business. */
  | { readonly submodule: string };

export interface CommitNames {
  /** `main` unless given. */
  readonly branch?: string;
  /** Lightweight tags; those that exist move. */
  readonly tags?: readonly string[];
  readonly annotatedTags?: readonly string[];
}

/** Bare repositories made with the real git, without working trees. Gone after the test that makes them. */
export class GitRepositories {
  readonly directory: string;

  private constructor(directory: string) {
    this.directory = directory;
  }

  static async create(): Promise<GitRepositories> {
    const directory = await mkdtemp(join(tmpdir(), 'larder-git-'));
    const repositories = new GitRepositories(directory);
    afterTest(() => repositories.remove());
    return repositories;
  }

  /** A repository with one commit on its default branch, `main`. Its name is a path: `platform/vpc.git`. */
  async add(
    name: string,
    content: Readonly<Record<string, RepositoryEntry>>,
    names: CommitNames = {},
  ): Promise<TestRepository> {
    const directory = join(this.directory, name);
    await mkdir(dirname(directory), { recursive: true });
    await git(['init', '--quiet', '--bare', '--template=', '--initial-branch=main', directory]);
    const repository = new TestRepository(name, directory);
    await repository.commit(content, names);
    return repository;
  }

  remove(): Promise<void> {
    return rm(this.directory, { recursive: true, force: true });
  }
}

export class TestRepository {
  readonly name: string;
  readonly directory: string;
  /** Seconds; commits differ by when they were made. */
  #clock = 1_700_000_000;
  readonly #branches = new Set<string>();

  constructor(name: string, directory: string) {
    this.name = name;
    this.directory = directory;
  }

  /** A commit with exactly this content, on top of the branch; also moves tags. Returns its id. */
  async commit(content: Readonly<Record<string, RepositoryEntry>>, names: CommitNames = {}): Promise<string> {
    const branch = `refs/heads/${names.branch ?? 'main'}`;
    this.#clock += 60;
    const who = `Author <author@example.com> ${this.#clock} +0000`;
    const parts: (string | Buffer)[] = [`commit ${branch}\nmark :1\ncommitter ${who}\n`, ...data('made by a test')];
    if (this.#branches.has(branch)) parts.push(`from ${branch}^0\n`);
    this.#branches.add(branch);
    parts.push('deleteall\n');
    for (const [path, entry] of Object.entries(content)) parts.push(...change(path, entry));
    for (const tag of names.tags ?? []) parts.push(`reset refs/tags/${tag}\nfrom ${branch}\n\n`);
    for (const tag of names.annotatedTags ?? []) {
      parts.push(`tag ${tag}\nfrom ${branch}\ntagger ${who}\n`, ...data('a release'));
    }
    parts.push('get-mark :1\n');
    return (await git(['fast-import', '--quiet', '--force'], this.directory, parts)).trim();
  }

  async commitOf(revision: string): Promise<string> {
    return (await git(['rev-parse', '--verify', `${revision}^{commit}`], this.directory)).trim();
  }

  /** Runs any git command in it. */
  git(...args: readonly string[]): Promise<string> {
    return git(args, this.directory);
  }

  /** Likewise, with something to read for it. */
  gitWith(input: string, ...args: readonly string[]): Promise<string> {
    return git(args, this.directory, [input]);
  }
}

function change(path: string, entry: RepositoryEntry): (string | Buffer)[] {
  if (typeof entry === 'string' || Buffer.isBuffer(entry)) return [`M 100644 inline ${path}\n`, ...data(entry)];
  if ('executable' in entry) return [`M 100755 inline ${path}\n`, ...data(entry.executable)];
  if ('link' in entry) return [`M 120000 inline ${path}\n`, ...data(entry.link)];
  return [`M 160000 ${entry.submodule} ${path}\n`];
}

function data(content: string | Buffer): (string | Buffer)[] {
  return [`data ${Buffer.byteLength(content)}\n`, content, '\n'];
}

/** Of git, nothing of whoever runs the tests is used. */
export function gitEnvironmentForTests(): Record<string, string> {
  return {
    PATH: process.env['PATH'] ?? '',
    HOME: tmpdir(),
    GIT_CONFIG_NOSYSTEM: '1',
    GIT_CONFIG_GLOBAL: '/dev/null',
    GIT_AUTHOR_NAME: 'Author',
    GIT_AUTHOR_EMAIL: 'author@example.com',
    GIT_COMMITTER_NAME: 'Author',
    GIT_COMMITTER_EMAIL: 'author@example.com',
  };
}

async function git(args: readonly string[], cwd = tmpdir(), input: readonly (string | Buffer)[] = []): Promise<string> {
  const program = requirement('git').path;
  if (program === undefined) throw new Error('there is no git here');
  const child = spawn(program, args, { cwd, env: gitEnvironmentForTests(), stdio: ['pipe', 'pipe', 'pipe'] });
  child.stdin.on('error', () => {});
  for (const part of input) child.stdin.write(part);
  child.stdin.end();
  const ended = new Promise<number | null>((resolve, reject) => {
    child.once('error', reject);
    child.once('close', resolve);
  });
  const [stdout, stderr, code] = await Promise.all([text(child.stdout), text(child.stderr), ended]);
  if (code !== 0) throw new Error(`git ${args.join(' ')} failed: ${stderr}`);
  return stdout;
}
