import { spawn } from 'node:child_process';
import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterTest } from './after-test.ts';
import { requirement } from './requirements.ts';
import type { UpstreamRegistry } from './upstream-registry.ts';

const TIME_LIMIT_MS = 60_000;

export interface ClientRun {
  readonly program?: 'terraform' | 'tofu';
  /** `['init', '-no-color']`. */
  readonly args: readonly string[];
  readonly directory: string;
  /** Text of the CLI configuration file. */
  readonly cliConfig: string;
  /** PEM certificates to trust, and no others. */
  readonly ca: string;
  readonly env?: Readonly<Record<string, string>>;
  /** The client is killed after it; 60 s unless given. */
  readonly timeLimitMs?: number;
}

export interface ClientResult {
  /** `undefined` if it was killed. */
  readonly code: number | undefined;
  /** stdout and stderr as they came. */
  readonly output: string;
  readonly durationMs: number;
}

/**
 * Runs the real client with nothing of this machine: an empty HOME, no proxies, no plug-in cache, no credentials, no
 * version check. Resolves whatever its exit code; rejects only if it cannot be started.
 */
export async function runClient(run: ClientRun): Promise<ClientResult> {
  const program = run.program ?? 'terraform';
  const { path } = requirement(program);
  if (path === undefined) throw new Error(`${program} is not installed: use describeWith(['${program}'], …)`);

  const home = await mkdtemp(join(tmpdir(), 'larder-client-'));
  try {
    const cliConfigFile = join(home, 'cli.tfrc');
    const caFile = join(home, 'ca.pem');
    await Promise.all([writeFile(cliConfigFile, run.cliConfig), writeFile(caFile, run.ca)]);
    return await execute(path, run, {
      PATH: process.env['PATH'] ?? '',
      HOME: home,
      TMPDIR: home,
      TF_CLI_CONFIG_FILE: cliConfigFile,
      SSL_CERT_FILE: caFile,
      // Without it Go adds the system's certificates from its usual directories.
      SSL_CERT_DIR: home,
      CHECKPOINT_DISABLE: '1',
      TF_IN_AUTOMATION: '1',
      TF_INPUT: '0',
      ...run.env,
    });
  } finally {
    await rm(home, { recursive: true, force: true });
  }
}

function execute(path: string, run: ClientRun, env: Record<string, string>): Promise<ClientResult> {
  const started = performance.now();
  return new Promise((resolve, reject) => {
    const child = spawn(path, run.args, {
      cwd: run.directory,
      env,
      stdio: ['ignore', 'pipe', 'pipe'],
      timeout: run.timeLimitMs ?? TIME_LIMIT_MS,
      killSignal: 'SIGKILL',
    });
    const output: Buffer[] = [];
    child.stdout.on('data', (chunk: Buffer) => output.push(chunk));
    child.stderr.on('data', (chunk: Buffer) => output.push(chunk));
    child.once('error', reject);
    child.once('close', (code) =>
      resolve({
        code: code ?? undefined,
        output: Buffer.concat(output).toString(),
        durationMs: performance.now() - started,
      }),
    );
  });
}

/** A directory with a configuration, as a user has it. */
export interface Workspace {
  readonly directory: string;
  /** `.terraform.lock.hcl`, `undefined` if there is none. */
  lockFile(): Promise<string | undefined>;
  remove(): Promise<void>;
}

/** Makes a temporary configuration requiring `providers`. Inside a test it is removed when the test ends. */
export async function workspace(options: {
  providers: Readonly<Record<string, { source: string; version?: string }>>;
  lockFile?: string;
}): Promise<Workspace> {
  const required = Object.entries(options.providers).map(
    ([name, { source, version }]) =>
      `    ${name} = {\n      source = "${source}"\n${version === undefined ? '' : `      version = "${version}"\n`}    }\n`,
  );
  return configuration({
    'main.tf': `terraform {\n  required_providers {\n${required.join('')}  }\n}\n`,
    ...(options.lockFile === undefined ? {} : { '.terraform.lock.hcl': options.lockFile }),
  });
}

/** Makes a temporary configuration of these files, by path. Inside a test it is removed when the test ends. */
export async function configuration(files: Readonly<Record<string, string>>): Promise<Workspace> {
  const directory = await mkdtemp(join(tmpdir(), 'larder-workspace-'));
  for (const [path, text] of Object.entries(files)) {
    await mkdir(dirname(join(directory, path)), { recursive: true });
    await writeFile(join(directory, path), text);
  }
  const lockPath = join(directory, '.terraform.lock.hcl');
  const made: Workspace = {
    directory,
    lockFile: () => readFile(lockPath, 'utf8').catch(() => undefined),
    remove: () => rm(directory, { recursive: true, force: true }),
  };
  afterTest(() => made.remove());
  return made;
}

/**
 * CLI configuration for going straight to `registry`, without Larder. Clients take `localhost:PORT/NS/TYPE` as it is;
 * with `as` they also know the registry by that (dotted) name.
 */
export function directCliConfig(registry: UpstreamRegistry, options: { as?: string } = {}): string {
  const host = options.as === undefined ? '' : hostBlock(options.as, `${registry.url}/v1`);
  return `disable_checkpoint = true\nprovider_installation {\n  direct {}\n}\n${host}`;
}

/** CLI configuration for going through a Larder at `url` and nowhere else. */
export function mirrorCliConfig(url: string): string {
  return `disable_checkpoint = true\nprovider_installation {\n  network_mirror {\n    url = "${url}/providers/"\n  }\n}\n`;
}

/** CLI configuration for going through a Larder at `url` as if it were the registries `hosts`, and nowhere else. */
export function hostCliConfig(url: string, ...hosts: readonly string[]): string {
  const blocks = hosts.map((host) => hostBlock(host, `${url}/registry/${host}/v1`));
  return `disable_checkpoint = true\n${blocks.join('')}`;
}

function hostBlock(host: string, base: string): string {
  const services = ['providers', 'modules'].map((kind) => `    "${kind}.v1" = "${base}/${kind}/"\n`);
  return `host "${host}" {\n  services = {\n${services.join('')}  }\n}\n`;
}
