import type { Readable } from 'node:stream';
import { setTimeout as delay } from 'node:timers/promises';
import type { JobItemDocument, JobProgressDocument, ToldJobDocument } from '../http/job-documents.ts';
import { CommandFailed } from './command-failed.ts';
import { receivedEvents } from './event-source.ts';
import type { JobDisplay } from './job-display.ts';

/** A server that is started again takes a while; in milliseconds. */
const PATIENCE_MS = 120_000;
const RETRY_MS = 500;
const MAX_RETRY_MS = 5_000;

/** A job that has ended. */
export interface EndedJob {
  readonly job: ToldJobDocument;
  /** Those with an outcome, in the order in which they came to it. */
  readonly items: readonly JobItemDocument[];
}

interface Following {
  /** The events of the job from after the one with this number on; `undefined` while the server is not to be reached. */
  readonly events: (last: string | undefined) => Promise<Readable | undefined>;
  readonly display: JobDisplay;
  /** Silence after which the server is given up, and the first pause before it is asked again; in milliseconds. */
  readonly patienceMs?: number;
  readonly retryMs?: number;
}

/**
 * Follows a job until it has ended, however often the connection breaks. A server that says nothing but that it is there
 * is there: it is given up when nothing was heard of it for two minutes while it was asked again and again.
 * @throws CommandFailed when the server stays away
 */
export async function followJob(
  id: string,
  { events, display, patienceMs = PATIENCE_MS, retryMs = RETRY_MS }: Following,
): Promise<EndedJob> {
  const items = new Map<string, JobItemDocument>();
  const item = (one: JobItemDocument) => {
    const key = `${one.kind ?? ''} ${one.name}`;
    // What was told before the connection broke is told again.
    if (items.get(key)?.outcome !== one.outcome) display.item(one);
    items.delete(key);
    items.set(key, one);
  };
  let last: string | undefined;
  let heardAt = performance.now();
  for (let pause = retryMs; ; pause = Math.min(pause * 2, MAX_RETRY_MS)) {
    const stream = await events(last);
    let isHeard = false;
    const onHeard = () => {
      isHeard = true;
      heardAt = performance.now();
    };
    for await (const event of stream ? receivedEvents(stream, onHeard) : []) {
      pause = retryMs;
      last = event.id ?? last;
      if (event.type === 'item') item(event.data as JobItemDocument);
      if (event.type === 'progress') display.progress(event.data as JobProgressDocument);
      if (event.type === 'end') return { job: event.data as ToldJobDocument, items: [...items.values()] };
    }
    // Until now the server was there; patience begins when it is not.
    if (isHeard) heardAt = performance.now();
    if (performance.now() - heardAt > patienceMs) {
      throw new CommandFailed(
        `the server has not answered for two minutes; the job ${id} goes on when it is there again`,
      );
    }
    display.lost();
    await delay(pause);
  }
}
