import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll } from 'vitest';
import { type Config, loadConfig } from '../../src/config.ts';

/** A directory with a configuration of Larder and what that names, for as long as a file of tests runs. */
export interface ConfigDirectory {
  /** The absolute path of one of its files. */
  readonly inside: (name: string) => string;
  /** The configuration that such a file gives. @throws InvalidConfiguration */
  readonly load: (yaml: string, env?: Readonly<Record<string, string>>) => Promise<Config>;
}

/** @param files what is in it besides, by name */
export function configDirectory(files: Readonly<Record<string, string>> = {}): ConfigDirectory {
  let directory: string;
  const inside = (name: string) => path.join(directory, name);
  beforeAll(async () => {
    directory = await mkdtemp(path.join(tmpdir(), 'larder-config-'));
    for (const [name, text] of Object.entries(files)) await writeFile(inside(name), text);
  });
  afterAll(() => rm(directory, { recursive: true, force: true }));
  return {
    inside,
    load: async (yaml, env = {}) => {
      await writeFile(inside('larder.yaml'), yaml);
      return loadConfig({ file: 'larder.yaml', env, cwd: directory });
    },
  };
}
