import { execFile } from 'node:child_process';
import { rmSync } from 'node:fs';
import { mkdtemp, readFile, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { build } from 'esbuild';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const NETWORK = fileURLToPath(new URL('./loopback-network.ts', import.meta.url));
/** Where the built Larder of this run of the tests lies, for those of its processes that test. */
const VARIABLE = 'LARDER_BUILT_FOR_TESTS';

/**
 * Builds Larder as `npm run build` does, into a directory of its own that looks like an installation, and beside it the
 * tests' network.
 */
export async function buildProgram(): Promise<string> {
  const directory = await mkdtemp(join(tmpdir(), 'larder-built-'));
  for (const name of ['node_modules', 'config', 'assets']) await symlink(join(ROOT, name), join(directory, name));
  const about = JSON.parse(await readFile(join(ROOT, 'package.json'), 'utf8')) as { scripts: Record<string, string> };
  // For `npm start` there: it is built already.
  const scripts = { ...about.scripts, build: 'true' };
  await writeFile(join(directory, 'package.json'), JSON.stringify({ ...about, scripts }));
  await rebuildProgram(directory);
  return directory;
}

/** Builds the sources as they are now, where they were built before. */
export async function rebuildProgram(directory: string): Promise<void> {
  const args = ['--import', 'tsx', join(ROOT, 'build.ts'), join(directory, 'dist')];
  await promisify(execFile)(process.execPath, args, { cwd: ROOT });
  await build({
    ...{ entryPoints: [NETWORK], outdir: join(directory, 'network'), bundle: true },
    ...{ format: 'esm', platform: 'node', target: 'node20.19' },
  });
}

/** All processes of this one's run that begin later use it. */
export function useProgram(directory: string): void {
  process.env[VARIABLE] = directory;
}

let own: Promise<string> | undefined;

/** The installation. Outside of a run of the tests (in soaks and the like) it is built now, and removed with this process. */
export async function programDirectory(): Promise<string> {
  own ??= process.env[VARIABLE] ? Promise.resolve(process.env[VARIABLE]) : buildForThisProcess();
  return own;
}

/** What Node is to be given to run `larder ARGUMENTS` as it is built, on the tests' internet. */
export async function larderCommand(...args: readonly string[]): Promise<string[]> {
  const directory = await programDirectory();
  return [
    '--max-semi-space-size=8',
    ...['--import', join(directory, 'network', 'loopback-network.js')],
    join(directory, 'dist', 'main.js'),
    ...args,
  ];
}

async function buildForThisProcess(): Promise<string> {
  const directory = await buildProgram();
  process.once('exit', () => rmSync(directory, { recursive: true, force: true }));
  return directory;
}
