import { spawn } from 'node:child_process';
import { tmpdir } from 'node:os';
import { larderCommand } from './built-program.ts';
import { namesForChild } from './loopback-network.ts';

/** Commands take seconds on a busy machine. */
const LIMIT_MS = 60_000;

export interface CommandResult {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
  /** Of standard output, each a JSON object. */
  lines(): Record<string, unknown>[];
}

/** Runs `larder …` as it is built, without a terminal, on the tests' internet. */
export async function runLarder(
  args: readonly string[],
  env: Readonly<Record<string, string>> = {},
): Promise<CommandResult> {
  const child = spawn(process.execPath, await larderCommand(...args), {
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
