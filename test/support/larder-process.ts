import { spawn } from 'node:child_process';
import { createInterface } from 'node:readline';
import { afterTest } from './after-test.ts';
import { larderCommand } from './built-program.ts';
import type { LarderSetup } from './larder-setup.ts';
import { namesForChild } from './loopback-network.ts';

const START_LIMIT_MS = 90_000;

export interface ProcessEnd {
  /** `undefined` when a signal ended it. */
  readonly code: number | undefined;
  readonly signal: NodeJS.Signals | undefined;
}

/** A Larder in a process of its own: to be killed, drained and started again. */
export interface LarderProcess {
  readonly pid: number;
  /** `https://localhost:PORT`. */
  readonly url: string;
  readonly port: number;
  /** Lines of its standard error so far. */
  readonly lines: readonly string[];
  /** The first line that matches, seen already or still to come. @throws if the process ends without one. */
  line(pattern: RegExp): Promise<string>;
  readonly ended: Promise<ProcessEnd>;
  /** Sends the signal; await `ended` for its end. */
  signal(name: NodeJS.Signals): void;
  /** Ends it, by force if need be, and waits until it is gone. */
  stop(): Promise<ProcessEnd>;
}

/**
 * Starts `larder serve` as it is built, on the tests' internet, and resolves once it listens. Inside a test it is killed at the end of it.
 * @throws with its output, if it ends before or says nothing for too long.
 */
export async function startLarderProcess(
  setup: LarderSetup,
  options: { env?: Readonly<Record<string, string>>; args?: readonly string[]; startLimitMs?: number } = {},
): Promise<LarderProcess> {
  const args = await larderCommand('serve', '--config', setup.configFile, ...(options.args ?? []));
  const child = spawn(process.execPath, args, {
    env: { PATH: process.env['PATH'] ?? '', HOME: setup.dataDirectory, ...namesForChild(), ...options.env },
    stdio: ['ignore', 'ignore', 'pipe'],
  });
  const lines: string[] = [];
  const waiting = new Set<(line: string) => void>();
  const reader = createInterface({ input: child.stderr });
  reader.on('line', (line) => {
    lines.push(line);
    for (const look of waiting) look(line);
  });
  const ended = new Promise<ProcessEnd>((resolve) => {
    child.once('error', (error) => lines.push(String(error)));
    // 'close' comes after the last line.
    child.once('close', (code, signal) => resolve({ code: code ?? undefined, signal: signal ?? undefined }));
  });

  const line = (pattern: RegExp): Promise<string> => {
    const seen = lines.find((text) => pattern.test(text));
    if (seen !== undefined) return Promise.resolve(seen);
    return new Promise((resolve, reject) => {
      const look = (text: string) => {
        if (!pattern.test(text)) return;
        waiting.delete(look);
        resolve(text);
      };
      waiting.add(look);
      void ended.then(({ code, signal }) =>
        reject(new Error(`Larder ended (${signal ?? code}) without saying ${pattern}:\n${lines.join('\n')}`)),
      );
    });
  };
  const stop = async () => {
    child.kill('SIGKILL');
    return ended;
  };
  afterTest(async () => void (await stop()));

  const limit = setTimeout(() => child.kill('SIGKILL'), options.startLimitMs ?? START_LIMIT_MS);
  try {
    const [, port] = LISTENING.exec(await line(LISTENING)) ?? [];
    return {
      pid: child.pid ?? 0,
      url: `https://localhost:${port}`,
      port: Number(port),
      lines,
      line,
      ended,
      signal: (name) => void child.kill(name),
      stop,
    };
  } finally {
    clearTimeout(limit);
  }
}

/** The line that says where it listens: the word, and a URL or a port. */
const LISTENING = /listening.*?(?:https?:\/\/[^\s"/]+:|"?port"?[=:]\s*)(\d+)/i;
