/** What is written of a request: plain values, of which none is a secret, and none but the path and the request's id comes from outside. */
export type RequestFields = Readonly<Record<string, string | number | undefined>>;

/** As much is written at once at most, in characters. */
const MAX_PENDING = 64 * 1024;

/**
 * Lines of requests, of which there may be thousands a second: those of one turn of the event loop are written together.
 * Whoever writes to the same stream calls `flush` before, so that lines stay in their order.
 */
export class RequestLines {
  readonly #stream: NodeJS.WritableStream;
  readonly #asText: boolean;
  readonly #clean: (text: string) => string;
  #pending = '';
  #isDue = false;
  /** When it was last asked for the time, and what that was. */
  #time = { at: 0, text: '' };

  /** @param options.clean makes text from outside fit to be shown */
  constructor(options: { stream: NodeJS.WritableStream; asText: boolean; clean: (text: string) => string }) {
    this.#stream = options.stream;
    this.#asText = options.asText;
    this.#clean = options.clean;
  }

  write(fields: RequestFields): void {
    this.#pending += this.#asText ? this.#textLine(fields) : this.#jsonLine(fields);
    if (this.#pending.length > MAX_PENDING) this.flush();
    if (this.#isDue) return;
    this.#isDue = true;
    setImmediate(() => {
      this.#isDue = false;
      this.flush();
    });
  }

  flush(): void {
    if (this.#pending === '') return;
    const lines = this.#pending;
    this.#pending = '';
    this.#stream.write(lines);
  }

  #jsonLine(fields: RequestFields): string {
    let line = `{"time":"${this.#now()}","level":"info","message":"request"`;
    for (const name in fields) {
      const value = fields[name];
      if (value === undefined) continue;
      line += typeof value === 'number' ? `,"${name}":${value}` : `,"${name}":${this.#quoted(value)}`;
    }
    return `${line}}\n`;
  }

  #textLine(fields: RequestFields): string {
    let line = `${this.#now()} INFO  request`;
    for (const name in fields) {
      const value = fields[name];
      if (value === undefined) continue;
      const isBare = typeof value === 'number' || /^[^\s"'=\p{C}]+$/u.test(value);
      line += ` ${name}=${isBare ? value : this.#quoted(value)}`;
    }
    return `${line}\n`;
  }

  #quoted(value: string): string {
    // Words, ids and plain paths: nothing in them to look at.
    return PLAIN.test(value) ? `"${value}"` : JSON.stringify(this.#clean(value));
  }

  #now(): string {
    const at = Date.now();
    if (at !== this.#time.at) this.#time = { at, text: new Date(at).toISOString() };
    return this.#time.text;
  }
}

const PLAIN = /^[\w./-]*$/;
