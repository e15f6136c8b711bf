import { type ChildProcess, spawn } from 'node:child_process';
import { closeSync, openSync, readFileSync } from 'node:fs';
import { access, readFile } from 'node:fs/promises';
import { delimiter, join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';

/** What is measured has a core to itself, and everything that loads it shares the other. */
export const SERVER_CORE = 0;
export const CLIENT_CORE = 1;

const READY_LIMIT_MS = 30_000;
/** Of the kernel's clock in /proc, on every Linux that Node runs on. */
const TICKS_PER_SECOND = 100;

/** A server under measurement. Its output lies in a file, so that nobody has to keep up with reading it. */
export interface ServerProcess {
  readonly pid: number;
  /** Processor time so far of it and its children, in seconds. */
  cpuSeconds(): number;
  /** The most memory that it has had at once, in bytes. */
  peakMemory(): number;
  /** Asks it to end and waits until it has. */
  stop(): Promise<void>;
}

/**
 * Starts a server on its core and resolves with what `isReady` found.
 * @throws with the end of its output, if it ends or is not ready in time
 */
export async function startServer<T>(options: {
  readonly command: readonly [program: string, ...args: string[]];
  readonly env?: Readonly<Record<string, string>>;
  readonly outputFile: string;
  /** Asked again and again, with the output so far; `undefined` for not yet. */
  readonly isReady: (output: string) => Promise<T | undefined> | T | undefined;
}): Promise<{ server: ServerProcess; ready: T }> {
  const output = openSync(options.outputFile, 'a');
  const child = spawn('taskset', ['-c', String(SERVER_CORE), ...options.command], {
    env: { PATH: process.env['PATH'] ?? '', ...options.env },
    stdio: ['ignore', output, output],
  });
  closeSync(output);
  const ended = new Promise<void>((resolve) => child.once('close', () => resolve()));
  const server = handleOf(child, ended);
  const deadline = performance.now() + READY_LIMIT_MS;
  for (;;) {
    const text = await readFile(options.outputFile, 'utf8');
    const ready = await options.isReady(text);
    if (ready !== undefined) return { server, ready };
    if (child.exitCode !== null || performance.now() > deadline) {
      await server.stop();
      throw new Error(`${options.command.join(' ')} did not become ready:\n${text.slice(-2_000)}`);
    }
    await delay(20);
  }
}

function handleOf(child: ChildProcess, ended: Promise<void>): ServerProcess {
  const pid = child.pid ?? 0;
  return {
    pid,
    cpuSeconds: () => [pid, ...childrenOf(pid)].reduce((sum, each) => sum + cpuSecondsOf(each), 0),
    peakMemory: () => {
      const [, kilobytes] = /^VmHWM:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8')) ?? [];
      return Number(kilobytes) * 1024;
    },
    stop: async () => {
      child.kill('SIGTERM');
      await ended;
    },
  };
}

function childrenOf(pid: number): number[] {
  return readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').split(' ').filter(Boolean).map(Number);
}

function cpuSecondsOf(pid: number): number {
  // The name may hold spaces; what follows its closing parenthesis begins with field 3.
  const fields = readFileSync(`/proc/${pid}/stat`, 'utf8')
    .replace(/^.*\) /s, '')
    .split(' ');
  return (Number(fields[11]) + Number(fields[12])) / TICKS_PER_SECOND;
}

/** Runs a client on its core and resolves with its standard output. @throws if it fails */
export function runPinned(program: string, args: readonly string[]): Promise<string> {
  return runProgram('taskset', ['-c', String(CLIENT_CORE), program, ...args]);
}

/** Runs a program and resolves with its standard output. @throws with all that it said, if it fails */
export function runProgram(program: string, args: readonly string[]): Promise<string> {
  return new Promise((resolve, reject) => {
    const child = spawn(program, args, { stdio: ['ignore', 'pipe', 'pipe'] });
    const output = { stdout: '', stderr: '' };
    for (const stream of ['stdout', 'stderr'] as const) {
      child[stream].setEncoding('utf8').on('data', (text: string) => {
        output[stream] += text;
      });
    }
    child.once('error', reject);
    child.once('close', (code) => {
      if (code === 0) resolve(output.stdout);
      else reject(new Error(`${program} ${args.join(' ')} ended with ${code}:\n${output.stderr}${output.stdout}`));
    });
  });
}

/** What a process took from its start to its end. */
export interface ProcessTime {
  readonly wallMs: number;
  /** Of it and all that it waited for; in steps of 10 ms. */
  readonly cpuMs: number;
}

/** Runs a program on whatever cores are free, and takes the time. @throws with all that it said, if it fails */
export async function timeProgram(
  program: string,
  args: readonly string[],
): Promise<ProcessTime & { readonly output: string }> {
  const startedAt = performance.now();
  // The shell says last what its children took: "0m0.120000s 0m0.030000s", of the user and of the system.
  const said = await runProgram('sh', ['-c', '"$@" || exit; times', 'sh', program, ...args]);
  const wallMs = performance.now() - startedAt;
  const lines = said.trimEnd().split('\n');
  const [user = Number.NaN, system = Number.NaN] = [...(lines.at(-1) ?? '').matchAll(/(\d+)m([\d.]+)s/g)].map(
    ([, minutes, seconds]) => Number(minutes) * 60 + Number(seconds),
  );
  return { output: lines.slice(0, -2).join('\n'), wallMs, cpuMs: (user + system) * 1000 };
}

/** The programs that the harness drives, with how to get them on Debian. @throws naming all that are missing */
export async function requirePrograms(programs: Readonly<Record<string, string>>): Promise<void> {
  const missing: string[] = [];
  for (const [program, howToGet] of Object.entries(programs)) {
    if (!(await isOnPath(program))) missing.push(`${program} is missing: ${howToGet}`);
  }
  if (missing.length > 0) throw new Error(missing.join('\n'));
}

async function isOnPath(program: string): Promise<boolean> {
  const places = (process.env['PATH'] ?? '').split(delimiter).map((directory) => join(directory, program));
  const found = await Promise.allSettled(places.map((place) => access(place)));
  return found.some(({ status }) => status === 'fulfilled');
}
