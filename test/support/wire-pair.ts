import type { Wire } from '../../src/workers/questions.ts';

/** Both ends of a line between two processes, in one. Messages are copied, and arrive later. */
export function wirePair(): [Wire, Wire] {
  const listeners: [((message: unknown) => void)[], ((message: unknown) => void)[]] = [[], []];
  const end = (own: 0 | 1): Wire => ({
    send: (message) => {
      const copy = structuredClone(message);
      setImmediate(() => {
        for (const listener of listeners[own === 0 ? 1 : 0]) listener(copy);
      });
    },
    receive: (listener) => void listeners[own].push(listener),
  });
  return [end(0), end(1)];
}
