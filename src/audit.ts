import { once } from 'node:events';
import { type FileHandle, open } from 'node:fs/promises';
import { Writable } from 'node:stream';
import winston from 'winston';
import type { Logger } from './logger.ts';

/** Where it is written down who did what. Never throws and never waits. */
export interface Audit {
  /**
   * @param event `served`, `refused`, `failed`, or the name of what an operator did
   * @param fields who, what and with which outcome; never secrets
   */
  record(event: string, fields: Readonly<Record<string, unknown>>): void;
}

/** Characters that may wait for a disk that does not take them; what comes then is lost, and counted. */
const MAX_WAITING = 8 * 1024 * 1024;

/**
 * The audit log: a file of JSON lines, only ever appended to, so that several processes may share it.
 *
 * An entry that cannot be written is reported to the ordinary log, once until it works again: that somebody is served
 * does not depend on it.
 */
export class AuditLog implements Audit {
  readonly #file: AppendedFile;
  readonly #transport: InstanceType<typeof winston.transports.Stream>;
  readonly #logger: winston.Logger;
  #isClosed = false;

  constructor({ file, logger }: { file: string; logger: Logger }) {
    this.#file = new AppendedFile(file, logger);
    this.#transport = new winston.transports.Stream({ stream: this.#file, eol: '\n' });
    this.#logger = winston.createLogger({
      format: winston.format.printf(({ message }) => String(message)),
      transports: [this.#transport],
      exitOnError: false,
    });
    // A file that cannot be written is reported now, not only once something happens.
    void this.reopen();
  }

  record(event: string, fields: Readonly<Record<string, unknown>>): void {
    if (this.#isClosed) return;
    if (this.#file.writableLength > MAX_WAITING) this.#file.countLost(1);
    else this.#logger.info(JSON.stringify({ time: new Date().toISOString(), event, ...fields }));
  }

  /** Begins a new file under the same name, for when the old one was moved away. Resolves when that is done. */
  reopen(): Promise<void> {
    return this.#file.reopen();
  }

  /** Resolves when everything recorded so far is written, or could not be. */
  async close(): Promise<void> {
    if (this.#isClosed) return;
    this.#isClosed = true;
    // Entries pass from the logger to its transport, and from there to the file: each is ended once the one before is.
    const passedOn = once(this.#transport, 'finish');
    this.#logger.end();
    await passedOn;
    await new Promise<void>((resolve) => {
      this.#file.end(resolve);
    });
  }
}

/** What comes while a write is under way goes out with the next one. Never fails: what it cannot write is lost. */
class AppendedFile extends Writable {
  readonly #path: string;
  readonly #log: Logger;
  #handle: FileHandle | undefined;
  #isMovedAway = false;
  #isFailing = false;
  #lost = 0;

  constructor(path: string, log: Logger) {
    super({ decodeStrings: false });
    this.#path = path;
    this.#log = log;
  }

  countLost(entries: number): void {
    this.#lost += entries;
  }

  async reopen(): Promise<void> {
    if (this.writableEnded) return;
    this.#isMovedAway = true;
    await new Promise<void>((resolve) => {
      this.write('', () => resolve());
    });
  }

  override _write(chunk: string, _encoding: BufferEncoding, done: () => void): void {
    void this.#append([chunk]).then(done);
  }

  override _writev(chunks: { chunk: string }[], done: () => void): void {
    void this.#append(chunks.map(({ chunk }) => chunk)).then(done);
  }

  override _final(done: () => void): void {
    void this.#close().then(done);
  }

  async #append(lines: readonly string[]): Promise<void> {
    if (this.#isMovedAway) await this.#close();
    this.#isMovedAway = false;
    try {
      this.#handle ??= await open(this.#path, 'a', 0o600);
      await this.#handle.appendFile(lines.join(''));
      if (this.#isFailing || this.#lost > 0) {
        this.#log.warn('the audit log is written again', { file: this.#path, lost: this.#lost });
      }
      this.#isFailing = false;
      this.#lost = 0;
    } catch (error) {
      this.#lost += lines.filter((line) => line !== '').length;
      if (!this.#isFailing) this.#log.error('the audit log cannot be written', { file: this.#path, error });
      this.#isFailing = true;
      // Perhaps it can be opened anew.
      await this.#close();
    }
  }

  async #close(): Promise<void> {
    const handle = this.#handle;
    this.#handle = undefined;
    await handle?.close().catch(() => {});
  }
}
