import { spawn } from 'node:child_process';
import { tmpdir } from 'node:os';
import { fileURLToPath } from 'node:url';
import { namesForChild } from './loopback-network.ts';

const MAIN = fileURLToPath(new URL('../../src/main.ts', import.meta.url));
const NETWORK = new URL('./loopback-network.ts', import.meta.url).href;
/** A command starts from the sources, which takes seconds on a busy machine. */
const LIMIT_MS = 60_000;

export interface CommandResult {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
  /** Of standard output, each a JSON object. */
  lines(): Record<string, unknown>[];
}

/** Runs `larder …` from the sources, without a terminal, on the tests' internet. */
export async function runLarder(
  args: readonly string[],
  env: Readonly<Record<string, string>> = {},
): Promise<CommandResult> {
  const child = spawn(process.execPath, ['--import', 'tsx', '--import', NETWORK, MAIN, ...args], {
    env: { PATH: process.env['PATH'] ?? '', HOME: tmpdir(), ...namesForChild(), ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const output = { stdout: '', stderr: '' };
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    output.stdout += text;
  });
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    output.stderr += text;
  });
  const limit = setTimeout(() => child.kill('SIGKILL'), LIMIT_MS);
  try {
    const code = await new Promise<number | null>((resolve, reject) => {
      child.once('error', reject);
      child.once('close', resolve);
    });
    return {
      code,
      ...output,
      lines: () =>
        output.stdout
          .trimEnd()
          .split('\n')
          .map((line) => JSON.parse(line) as Record<string, unknown>),
    };
  } finally {
    clearTimeout(limit);
  }
}
