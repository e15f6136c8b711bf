import type { Worker } from 'node:worker_threads';
import pLimit from 'p-limit';
import { startWorker } from '../worker-file.ts';
import type { ConversionOutcome } from './hcl-converter-worker.ts';

/** Five thousand modules take 5 s on a machine that does nothing else. */
const FILE_TIME_LIMIT_MS = 30_000;
/** A file by a human being has less; one by a program is written as JSON. In UTF-16 units. */
const MAX_LENGTH = 1024 * 1024;
/** Three thousand brackets within each other need about so much. */
const STACK_MIB = 4;
const HEAP_MIB = 512;
/** The thread holds more than 100 MB. Files come in bunches, with nothing between them for days. */
const IDLE_MS = 30_000;

/** What is told of a parser that had ended before it was asked. */
const DEAD = /exited|parser ended/;

const PACKAGE = '@cdktn/hcl2json';

/** A file in native syntax as JSON; or why there is none, and whether the file or the parser is to blame. */
export type Conversion = Exclude<ConversionOutcome, { failed: string }> | { readonly failed: string };

/**
 * Turns native syntax into JSON by a parser that is loaded with the first file, in a thread that may crash, hang or
 * run out of memory without harm: it is ended then, and the next file has a new one. Files wait for each other.
 */
export class HclConverter {
  readonly #module: string;
  readonly #timeLimitMs: number;
  readonly #one = pLimit(1);
  #worker: Worker | undefined;
  #idleTimer: NodeJS.Timeout | undefined;
  #isClosed = false;

  /** `module` is what is imported for the parser. */
  constructor({ module = PACKAGE, timeLimitMs = FILE_TIME_LIMIT_MS } = {}) {
    this.#module = module;
    this.#timeLimitMs = timeLimitMs;
  }

  /** Never rejects. */
  async convert(text: string, file: string): Promise<Conversion> {
    if (text.length > MAX_LENGTH) return { failed: `it is longer than ${MAX_LENGTH} characters` };
    return this.#one(async () => {
      if (this.#isClosed) return { failed: 'Larder is shutting down' };
      clearTimeout(this.#idleTimer);
      const isUsed = this.#worker !== undefined;
      const outcome = await this.#ask({ file, text });
      // What an earlier file has left behind is not this one's fault.
      const isDead = 'failed' in outcome && DEAD.test(outcome.failed);
      const conversion = isUsed && isDead ? await this.#ask({ file, text }) : outcome;
      this.#idleTimer = setTimeout(() => this.#end(), IDLE_MS).unref();
      return conversion;
    });
  }

  /** Ends the thread; a file that is being read has `failed` then. */
  async close(): Promise<void> {
    this.#isClosed = true;
    clearTimeout(this.#idleTimer);
    await this.#worker?.terminate();
  }

  async #ask(request: { file: string; text: string }): Promise<ConversionOutcome> {
    const worker = this.#take();
    let timer: NodeJS.Timeout | undefined;
    let settle = (_: ConversionOutcome) => {};
    const onError = ({ message }: Error) => settle({ failed: `the parser ended: ${message}` });
    const onExit = () => settle({ failed: 'the parser ended' });
    const outcome = await new Promise<ConversionOutcome>((resolve) => {
      settle = resolve;
      worker.on('message', settle).on('error', onError).on('exit', onExit);
      const late = { failed: `it took longer than ${this.#timeLimitMs / 1000} s` };
      timer = setTimeout(() => resolve(late), this.#timeLimitMs);
      worker.postMessage(request);
    });
    clearTimeout(timer);
    worker.off('message', settle).off('error', onError).off('exit', onExit);
    if ('failed' in outcome) this.#end();
    else worker.unref();
    return outcome;
  }

  #take(): Worker {
    const worker = this.#worker ?? this.#start();
    worker.ref();
    return worker;
  }

  #start(): Worker {
    const worker = startParser(this.#module);
    this.#worker = worker;
    worker.on('exit', () => {
      if (this.#worker === worker) this.#worker = undefined;
    });
    // Without a listener, a thread that dies between two files would take the process with it.
    worker.on('error', () => {});
    return worker;
  }

  /** Not waited for: what hangs may take its time. */
  #end(): void {
    void this.#worker?.terminate();
    this.#worker = undefined;
  }
}

function startParser(module: string): Worker {
  const worker = startWorker(import.meta.url, 'hcl-converter-worker', {
    workerData: { module },
    resourceLimits: { stackSizeMb: STACK_MIB, maxOldGenerationSizeMb: HEAP_MIB },
    // A crashing Go program tells its whole story.
    stdout: true,
    stderr: true,
  });
  worker.stdout.resume();
  worker.stderr.resume();
  return worker;
}
