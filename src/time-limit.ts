import { setImmediate } from 'node:timers';

/** What is waited for here goes on when its time is over, or nobody wants it; what becomes of it then is nobody's concern. */

/** Its value, or `undefined` when `ms` pass first. @throws what the promise is rejected with before */
export function settledWithin<T>(promise: Promise<T>, ms: number): Promise<T | undefined> {
  return unlessLate(promise, ms, () => undefined);
}

/** Its value. @throws what the promise is rejected with, and Error when `ms` pass first */
export function answeredWithin<T>(promise: Promise<T>, ms: number): Promise<T> {
  return unlessLate(promise, ms, () => {
    throw new Error(`no answer within ${ms} ms`);
  });
}

/** Its value. @throws what the promise is rejected with, and the reason of the signal when that is aborted first */
export async function unlessAborted<T>(promise: Promise<T>, signal: AbortSignal): Promise<T> {
  let onAbort = () => {};
  const aborted = new Promise<never>((_resolve, reject) => {
    onAbort = () => reject(signal.reason);
    if (signal.aborted) onAbort();
    else signal.addEventListener('abort', onAbort);
  });
  try {
    return await Promise.race([promise, aborted]);
  } finally {
    signal.removeEventListener('abort', onAbort);
  }
}

async function unlessLate<T, Late>(promise: Promise<T>, ms: number, late: () => Late): Promise<T | Late> {
  let timer: NodeJS.Timeout | undefined;
  const passed = new Promise<void>((resolve) => {
    // What has arrived while this process was busy has not come too late: it is looked at first.
    timer = setTimeout(() => setImmediate(resolve), Math.max(ms, 0));
  });
  try {
    return await Promise.race([promise, passed.then(late)]);
  } finally {
    clearTimeout(timer);
  }
}
