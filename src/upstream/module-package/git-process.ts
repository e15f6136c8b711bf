import { type ChildProcessByStdio, spawn } from 'node:child_process';
import type { Readable, Writable } from 'node:stream';

/** Of what git complains, the end tells why it gave up. */
const MAX_COMPLAINT_BYTES = 16 * 1024;

/** Git ended otherwise than well. Raised and caught within this part: its texts are not fit to be shown as they are. */
export class GitExit extends Error {
  override readonly name = 'GitExit';
  /** `undefined` when it was killed. */
  readonly status: number | undefined;
  /** The end of what it said on standard error. */
  readonly complaint: string;

  constructor(command: string, status: number | undefined, complaint: string) {
    super(`git ${command} ended with ${status ?? 'a signal'}`);
    this.status = status;
    this.complaint = complaint;
  }
}

/** The program is not there, or cannot be run. */
export class GitMissing extends Error {
  override readonly name = 'GitMissing';
}

/** It said more than it may. */
export class GitOutputTooLarge extends Error {
  override readonly name = 'GitOutputTooLarge';
}

export interface GitInvocation {
  readonly args: readonly string[];
  readonly cwd: string;
  /** All of it: nothing of this process's own environment is added. */
  readonly env: Readonly<Record<string, string>>;
  /** Kills it, and everything it has started. */
  readonly signal: AbortSignal;
}

/** A git under way. `close` has to be called, whatever happens. */
export class GitProcess {
  readonly stdin: Writable;
  readonly stdout: Readable;
  /** Settles when it and its pipes are gone. @throws GitExit, GitMissing */
  readonly ended: Promise<void>;
  readonly #child: ChildProcessByStdio<Writable, Readable, Readable>;
  #hasClosed = false;
  readonly #signal: AbortSignal;
  readonly #kill = () => this.kill();

  constructor({ args, cwd, env, signal }: GitInvocation) {
    signal.throwIfAborted();
    // A group of its own, so that the programs git starts (transport, ssh, unpacking) are killed with it.
    const child = spawn('git', args, { cwd, env, stdio: ['pipe', 'pipe', 'pipe'], detached: true, shell: false });
    this.#child = child;
    this.stdin = child.stdin;
    this.stdout = child.stdout;
    this.#signal = signal;
    let complaint = Buffer.alloc(0);
    child.stderr.on('data', (chunk: Buffer) => {
      complaint = Buffer.concat([complaint, chunk]).subarray(-MAX_COMPLAINT_BYTES);
    });
    // It may end before it has read everything; why is told by how it ended.
    for (const stream of [child.stdin, child.stdout, child.stderr]) stream.on('error', () => {});
    this.ended = new Promise<void>((resolve, reject) => {
      child.once('error', (cause) => reject(new GitMissing('git cannot be run', { cause })));
      child.once('close', (status) => {
        this.#hasClosed = true;
        if (status === 0) resolve();
        else reject(new GitExit(commandOf(args), status ?? undefined, complaint.toString('utf8')));
      });
    });
    this.ended.catch(() => {}).finally(() => signal.removeEventListener('abort', this.#kill));
    signal.addEventListener('abort', this.#kill, { once: true });
  }

  /** Ends it with everything it has started. */
  kill(): void {
    try {
      if (this.#child.pid !== undefined) process.kill(-this.#child.pid, 'SIGKILL');
    } catch {
      // Gone already.
    }
    // Whoever has left the group and holds the pipes open is not waited for.
    for (const stream of [this.#child.stdin, this.#child.stdout, this.#child.stderr]) stream.destroy();
  }

  /** Ends it if it has not ended, and returns when it is gone. Never fails. */
  async close(): Promise<void> {
    // Also when it has ended itself: what it started may live on, and hold its pipes.
    if (!this.#hasClosed) this.kill();
    this.#signal.removeEventListener('abort', this.#kill);
    await this.ended.catch(() => {});
  }
}

/**
 * Runs git to its end.
 * @throws GitExit, GitMissing, GitOutputTooLarge; the signal's own reason when it was aborted
 */
export async function runGit(invocation: GitInvocation, maxOutput: number): Promise<Buffer> {
  const git = new GitProcess(invocation);
  try {
    git.stdin.end();
    const chunks: Buffer[] = [];
    let size = 0;
    for await (const chunk of git.stdout as AsyncIterable<Buffer>) {
      size += chunk.length;
      if (size > maxOutput) throw new GitOutputTooLarge(`git said more than ${maxOutput} bytes`);
      chunks.push(chunk);
    }
    await git.ended;
    return Buffer.concat(chunks);
  } catch (error) {
    invocation.signal.throwIfAborted();
    // A program that was never started has no pipes to read from: why is told by how it ended.
    if (!(error instanceof GitOutputTooLarge)) await git.ended;
    throw error;
  } finally {
    await git.close();
  }
}

function commandOf(args: readonly string[]): string {
  return args.find((arg) => !arg.startsWith('-')) ?? '';
}
