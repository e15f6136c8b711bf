import type { IncomingMessage, ServerResponse } from 'node:http';
import type { RequestHandler } from 'express';
import { LRUCache } from 'lru-cache';
import type { Changes } from '../changes.ts';
import { type LoggedPath, logWhenOver, pathForLogs, type RequestLogDeps } from './access-log.ts';
import { requestIdOf } from './request-id.ts';
import { type AnswerNotes, notesOf } from './respond.ts';

/** How long an answer holds at most, in milliseconds: as long as stores take to see what other processes do. */
const LIFETIME_MS = 200;
const MAX_BYTES = 32 * 1024 * 1024;
/** Larger ones spend their time on being sent. */
const MAX_ANSWER_BYTES = 1024 * 1024;
/** What one occupies besides its body, about. */
const OVERHEAD_BYTES = 1024;

/** Whoever sends one of these wants something of their own: another answer, or that it be noted. */
const PARTICULAR = ['authorization', 'if-none-match', 'cookie', 'expect'] as const;

/** An answer as it goes out, but for what is of each request. */
export interface ReadyAnswer {
  /** Names and values in turn. */
  readonly headers: readonly string[];
  readonly body: Buffer | string;
  /** For the logs: alike whoever asks. */
  readonly notes: Omit<AnswerNotes, 'keepReady' | 'span'>;
  readonly path: LoggedPath;
}

interface Kept extends ReadyAnswer {
  readonly size: number;
  /** By the clock of `now`. */
  readonly until: number;
}

/**
 * Documents that everybody gets alike, by request target, ready to be sent. A fleet of runners asks for the same few
 * hundred documents all at once: for a moment after one of them was put together, and unless anything changes here
 * meanwhile, it is not put together again.
 */
export class ReadyAnswers {
  readonly #changes: Changes;
  readonly #now: () => number;
  readonly #kept = new LRUCache<string, Kept>({ maxSize: MAX_BYTES, sizeCalculation: ({ size }) => size });
  #seen = 0;

  constructor({ changes, now = Date.now }: { changes: Changes; now?: () => number }) {
    this.#changes = changes;
    this.#now = now;
  }

  /** Whether a request is one like any other, by anybody. */
  static isPlain({ method, headers }: IncomingMessage): boolean {
    if (method !== 'GET') return false;
    for (const name of PARTICULAR) if (headers[name] !== undefined) return false;
    return true;
  }

  /**
   * @param since the count of changes when putting it together began: if there were any since, it may lack them
   * @param freshUntil milliseconds since the epoch
   */
  keep(
    target: string,
    since: number,
    freshUntil: number,
    { headers, body, notes, path }: Omit<ReadyAnswer, 'body'> & { readonly body: Buffer },
  ): void {
    if (since !== this.#changes.count || body.length > MAX_ANSWER_BYTES) return;
    this.#forgetOld();
    this.#kept.set(target, {
      headers,
      body: asText(body),
      notes,
      path,
      until: Math.min(freshUntil, this.#now() + LIFETIME_MS),
      size: target.length + body.length + OVERHEAD_BYTES,
    });
  }

  find(target: string): ReadyAnswer | undefined {
    this.#forgetOld();
    const kept = this.#kept.get(target);
    if (kept === undefined) return undefined;
    const left = kept.until - this.#now();
    // More than was ever given: the clock was put back.
    return left > 0 && left <= LIFETIME_MS ? kept : undefined;
  }

  #forgetOld(): void {
    if (this.#seen === this.#changes.count) return;
    this.#seen = this.#changes.count;
    this.#kept.clear();
  }
}

/** As one string goes out with the headers before it; anything but ASCII would not be what it was. */
function asText(body: Buffer): Buffer | string {
  for (const byte of body) if (byte > 0x7f) return body;
  return body.toString('latin1');
}

/**
 * The way past all doors, for requests that are answered with what was put together a moment ago.
 *
 * - `answer` answers a request if it can, and says whether it did
 * - `offer`, behind the access log, lets the doors leave their answers to such requests here
 */
export function readyAnswers(deps: RequestLogDeps & { readonly changes: Changes; readonly now?: () => number }) {
  const { changes } = deps;
  const answers = new ReadyAnswers(deps);

  const offer: RequestHandler = (req, res, next) => {
    if (ReadyAnswers.isPlain(req)) {
      const notes = notesOf(res);
      const target = req.originalUrl;
      const since = changes.count;
      notes.keepReady = (document, freshUntil) => {
        const { keepReady: _, span: __, ...kept } = notes;
        answers.keep(target, since, freshUntil, { ...document, notes: kept, path: pathForLogs(target) });
      };
    }
    next();
  };

  const answer = (req: IncomingMessage, res: ServerResponse): boolean => {
    const ready = answers.find(req.url ?? '');
    if (ready === undefined || !ReadyAnswers.isPlain(req)) return false;
    const { headers, body, notes, path } = ready;
    const requestId = requestIdOf(req.headers);
    if (deps.metrics) deps.metrics.requests.ready.hits += 1;
    logWhenOver(deps, req, res, notesFor(requestId, notes), path);
    res.writeHead(200, ['X-Request-Id', requestId, ...headers]);
    if (typeof body === 'string') res.end(body, 'latin1');
    else res.end(body);
    return true;
  };

  return { offer, answer };
}

/** Written out, for the same reason as the fields of the access log. */
function notesFor(
  requestId: string,
  { outcome, client, asked, reason, isPersonal }: ReadyAnswer['notes'],
): AnswerNotes {
  return { requestId, outcome, client, asked, reason, isPersonal };
}
