import { execFile } from 'node:child_process';
import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { expect, onTestFinished, vi } from 'vitest';
import { UpstreamInvalid } from '../../../src/errors.ts';
import { silentLogger } from '../../../src/logger.ts';
import { FileTree } from '../../../src/upstream/module-package/file-tree.ts';
import { parseRepository } from '../../../src/upstream/module-package/git-location.ts';
import { GitSource } from '../../../src/upstream/module-package/git-source.ts';
import type { GitRepository } from '../../../src/upstream/module-package/module-location.ts';
import type { PackageLimits } from '../../../src/upstream/module-package/package-limits.ts';
import type { Upstream } from '../../../src/upstream/upstream.ts';
import { clientFor, patience, upstreamAt } from '../scripted-server.ts';

export const LIMITS: PackageLimits = { download: 20_000_000, unpacked: 20_000_000, files: 1_000, time: 20_000 };

export type SceneOptions = Partial<Omit<ConstructorParameters<typeof GitSource>[0], 'http' | 'limits'>> & {
  limits?: Partial<PackageLimits>;
  upstream?: Partial<Upstream>;
};

/** What came of fetching: links as `-> target`, executable files with a `*` behind their content. */
export interface Fetched {
  readonly commit: string;
  readonly files: Readonly<Record<string, string>>;
}

/** A source of git repositories with nothing configured but what the test says. */
export async function gitScene(options: SceneOptions = {}) {
  const { limits: changed, upstream: overrides, ...rest } = options;
  const limits = { ...LIMITS, ...changed };
  const isSealed = options.isSealed ?? (() => false);
  const source = new GitSource({
    http: clientFor({ isSealed, proxy: options.proxy ?? {}, limits: { attempts: 1, circuitMs: 0 } }),
    hosts: new Map(),
    proxy: {},
    searchPath: process.env['PATH'],
    logger: silentLogger,
    ...rest,
    limits,
  });
  const upstream = await upstreamAt('registry.example', overrides);
  const directory = await mkdtemp(join(tmpdir(), 'larder-git-test-'));
  onTestFinished(() => rm(directory, { recursive: true, force: true }));

  return {
    source,
    upstream,
    directory,
    /** What is in the directory besides trees. */
    leftovers: async () => (await readdir(directory)).filter((name) => !name.startsWith('tree-')),
    resolve: (url: string, ref?: string) => source.resolve(upstream, repositoryAt(url), ref, patience()),
    async fetch(url: string, ref?: string, signal = patience()): Promise<Fetched> {
      const repository = repositoryAt(url);
      // A tree has a directory of its own, which is empty when it begins.
      const contents = await mkdtemp(join(directory, 'tree-'));
      const tree = new FileTree({ directory: contents, limits, host: repository.host });
      const { commit } = await source.fetch(upstream, repository, ref, tree, { directory, signal });
      await tree.flush();
      const files: Record<string, string> = {};
      for (const [path, entry] of tree.entries) {
        if (entry.kind === 'link') files[path] = `-> ${entry.target}`;
        if (entry.kind === 'file') {
          const bytes = await readFile(join(contents, entry.content));
          const text = bytes.toString('utf8', entry.offset, entry.offset + entry.size);
          files[path] = text + (entry.executable ? '*' : '');
        }
      }
      return { commit, files };
    },
  };
}

export function repositoryAt(text: string): GitRepository {
  return parseRepository(text, (why) => new UpstreamInvalid('registry.example', `gives a location ${why}`));
}

/** Command lines of processes that hold this text, in their arguments. */
export async function processesWith(text: string): Promise<string[]> {
  const { stdout } = await promisify(execFile)('ps', ['-eo', 'args']);
  return stdout.split('\n').filter((line) => line.includes(text) && !line.startsWith('ps '));
}

/** What was killed may take a moment until it is gone, on a busy machine. */
export function expectNoProcessWith(text: string): Promise<void> {
  return vi.waitFor(async () => expect(await processesWith(text)).toEqual([]), { timeout: 5_000 });
}
