import { type ChildProcess, spawn } from 'node:child_process';
import { access, constants, stat } from 'node:fs/promises';
import path from 'node:path';
import type { Hostname } from '../address/hostname.ts';
import { LarderError, UpstreamRefused } from '../errors.ts';
import { type Logger, redact } from '../logger.ts';
import { isToken } from '../secret-source.ts';

const TIME_LIMIT_MS = 10_000;
const MAX_OUTPUT_BYTES = 64 * 1024;
/** Of what it says on standard error, only the first line is of interest. */
const MAX_COMPLAINT_LENGTH = 200;
/** Requests come in bursts; a renewed token is used after so long. */
const KEEP_MS = 60_000;
/** A program that fails is not started for each of them, either. */
const KEEP_FAILURE_MS = 5_000;

const GO_ARCH: Readonly<Record<string, string>> = { x64: 'amd64', ia32: '386' };

export interface CredentialsHelperOptions {
  /** Of `terraform-credentials-NAME`. */
  readonly name: string;
  readonly args: readonly string[];
  /** The clients' plugin directories are in it. */
  readonly home: string | undefined;
  /** Where programs are looked for after that: directories separated by colons. */
  readonly path: string | undefined;
  readonly logger: Logger;
  readonly now?: () => number;
  readonly timeLimitMs?: number;
}

const UNDER_WAY = Number.POSITIVE_INFINITY;

/**
 * A credentials helper: a program that is asked `get HOST` and answers `{"token": "…"}`, or `{}` for none.
 * https://opentofu.org/docs/internals/credentials-helpers/
 *
 * It is run without a shell, sees nothing of the environment but PATH and HOME, and is killed with everything it has
 * started when it takes too long or says too much.
 */
export class CredentialsHelper {
  readonly #options: CredentialsHelperOptions;
  readonly #now: () => number;
  readonly #answers = new Map<string, { answer: Promise<string | undefined>; until: number }>();

  constructor(options: CredentialsHelperOptions) {
    this.#options = options;
    this.#now = options.now ?? Date.now;
  }

  /**
   * Remembered for a minute. Whoever asks at the same time shares one run.
   * @throws UpstreamRefused naming the helper, never what it said: that may hold a secret
   */
  token(hostname: Hostname): Promise<string | undefined> {
    const host = hostname.toString();
    const known = this.#answers.get(host);
    if (known && this.#isGood(known.until)) return known.answer;

    const entry = { answer: this.#ask(host), until: UNDER_WAY };
    this.#answers.set(host, entry);
    entry.answer.then(
      () => {
        entry.until = this.#now() + KEEP_MS;
      },
      () => {
        entry.until = this.#now() + KEEP_FAILURE_MS;
      },
    );
    return entry.answer;
  }

  #isGood(until: number): boolean {
    const left = until - this.#now();
    // More than was ever given: the clock was put back.
    return left > 0 && (left <= KEEP_MS || until === UNDER_WAY);
  }

  async #ask(host: string): Promise<string | undefined> {
    const { name, args, home, path: searchPath, logger, timeLimitMs = TIME_LIMIT_MS } = this.#options;
    const fail = (what: string, cause?: unknown) =>
      new UpstreamRefused(host, `cannot be asked: the credentials helper ${JSON.stringify(name)} ${what}`, {
        hint: `Run \`terraform-credentials-${name} get ${host}\` on the machine of the mirror to see why.`,
        ...(cause === undefined ? {} : { cause }),
      });
    try {
      const program = await findProgram(`terraform-credentials-${name}`, home, searchPath);
      if (program === undefined) throw fail('is neither in the plugin directories nor in PATH');
      const env = {
        ...(searchPath !== undefined && { PATH: searchPath }),
        ...(home !== undefined && { HOME: home }),
      };
      const run = await runProgram(program, [...args, 'get', host], env, timeLimitMs);
      if (run.complaint) logger.warn('a credentials helper complains', { helper: name, host, says: run.complaint });
      if ('failure' in run) throw fail(run.failure);
      const answer = parseAnswer(run.output);
      if (!answer) throw fail('answered something that is not {"token": "…"}');
      return answer.token;
    } catch (error) {
      throw error instanceof LarderError ? error : fail('could not be run', error);
    }
  }
}

type Outcome = { readonly complaint: string } & ({ readonly output: string } | { readonly failure: string });

/** Runs it to its end, or ends it. */
async function runProgram(
  program: string,
  args: readonly string[],
  env: Readonly<Record<string, string>>,
  timeLimitMs: number,
): Promise<Outcome> {
  // A group of its own, so that what it has started can be killed with it.
  const child = spawn(program, args, { env, stdio: ['ignore', 'pipe', 'pipe'], detached: true, shell: false });
  const output: Buffer[] = [];
  let size = 0;
  let complaint = '';
  let ended: string | undefined;
  const end = (why: string) => {
    ended ??= why;
    killGroup(child);
    // Whoever has left the group and holds the pipes open is not waited for.
    child.stdout.destroy();
    child.stderr.destroy();
  };
  child.stdout.on('data', (chunk: Buffer) => {
    size += chunk.length;
    if (size > MAX_OUTPUT_BYTES) end(`said more than ${MAX_OUTPUT_BYTES} bytes`);
    else output.push(chunk);
  });
  child.stderr.on('data', (chunk: Buffer) => {
    if (complaint.length < 8 * MAX_COMPLAINT_LENGTH) complaint += chunk.toString('utf8');
  });
  const timer = setTimeout(() => end(`took longer than ${timeLimitMs / 1000} s`), timeLimitMs);
  try {
    const code = await new Promise<string | undefined>((resolve, reject) => {
      child.once('error', reject);
      child.once('close', (status, signal) => resolve(status === 0 ? undefined : `failed (${signal ?? status})`));
    });
    const failure = ended ?? code;
    const [firstLine = ''] = complaint.trim().split(/\r?\n/);
    const said = { complaint: redact(firstLine).slice(0, MAX_COMPLAINT_LENGTH) };
    return failure === undefined ? { ...said, output: Buffer.concat(output).toString('utf8') } : { ...said, failure };
  } finally {
    clearTimeout(timer);
  }
}

function killGroup(child: ChildProcess): void {
  try {
    if (child.pid !== undefined) process.kill(-child.pid, 'SIGKILL');
  } catch {
    child.kill('SIGKILL');
  }
}

/** `undefined`: it is not an answer. */
function parseAnswer(output: string): { token: string | undefined } | undefined {
  try {
    const answer: unknown = JSON.parse(output);
    if (typeof answer !== 'object' || answer === null || Array.isArray(answer)) return undefined;
    const { token } = answer as { token?: unknown };
    if (token === undefined || token === null) return { token: undefined };
    return isToken(token) ? { token } : undefined;
  } catch {
    return undefined;
  }
}

async function findProgram(
  file: string,
  home: string | undefined,
  searchPath: string | undefined,
): Promise<string | undefined> {
  const plugins = home === undefined ? [] : [path.join(home, '.terraform.d', 'plugins')];
  const platform = `${process.platform}_${GO_ARCH[process.arch] ?? process.arch}`;
  const directories = [
    ...plugins.flatMap((directory) => [directory, path.join(directory, platform)]),
    // Relative ones would depend on where Larder was started.
    ...(searchPath ?? '').split(path.delimiter).filter((directory) => path.isAbsolute(directory)),
  ];
  for (const directory of directories) {
    const candidate = path.join(directory, file);
    if (await isProgram(candidate)) return candidate;
  }
  return undefined;
}

async function isProgram(file: string): Promise<boolean> {
  try {
    await access(file, constants.X_OK);
    return (await stat(file)).isFile();
  } catch {
    return false;
  }
}
