import fc from 'fast-check';

/** One reader or door of Larder, and what must hold of it for any input at all. */
export interface FuzzTarget {
  readonly name: string;
  /** Inputs of the short form. */
  readonly short: number;
  /** Its part of the inputs of the long form, in relation to the others. */
  readonly weight: number;
  open(): Promise<OpenTarget>;
}

export interface OpenTarget {
  readonly inputs: fc.Arbitrary<unknown>;
  /** @throws when the promise is broken by this input */
  readonly check: (input: never) => Promise<void> | void;
  close?(): Promise<void>;
}

/** Whatever one input makes a reader do is over by then, in milliseconds; machines that run tests are busy. */
const INPUT_LIMIT_MS = 20_000;
/** Inputs of one seed: a failure among them is found again in so many. */
const ROUND = 5_000;

export interface FuzzOutcome {
  readonly name: string;
  readonly inputs: number;
  readonly ms: number;
  /** The counter-example, its seed and its path, for `fc.assert`. */
  readonly failure: string | undefined;
}

/** A target, with what its inputs are and what is checked of them belonging together. */
export function target<T>(
  about: Pick<FuzzTarget, 'name' | 'short' | 'weight'>,
  open: () => Promise<{
    inputs: fc.Arbitrary<T>;
    check: (input: T) => Promise<void> | void;
    close?: () => Promise<void>;
  }>,
): FuzzTarget {
  return { ...about, open };
}

/**
 * Runs so many inputs, in rounds with a seed each that follow from `seed`, until one fails or `until` (milliseconds
 * since the epoch) is over.
 */
export async function runTarget(
  { name, open }: FuzzTarget,
  { inputs, seed, until = Number.POSITIVE_INFINITY }: { inputs: number; seed: number; until?: number },
): Promise<FuzzOutcome> {
  const began = performance.now();
  const opened = await open();
  let done = 0;
  let failure: string | undefined;
  try {
    for (let round = 0; done < inputs && failure === undefined && Date.now() < until; round += 1) {
      const property = fc.asyncProperty(opened.inputs, (input) => inTime(opened.check(input as never)));
      const details = await fc.check(property, {
        seed: seed + round,
        numRuns: Math.min(ROUND, inputs - done),
        // Found failures are made small within this, in milliseconds.
        ...(Number.isFinite(until) ? { interruptAfterTimeLimit: Math.max(1, until - Date.now()) } : {}),
      });
      done += details.numRuns;
      if (details.failed && details.counterexample !== null)
        failure = `${String((details.errorInstance as Error | null)?.stack)}\n${fc.defaultReportMessage(details)}`;
    }
  } finally {
    await opened.close?.();
  }
  return { name, inputs: done, ms: performance.now() - began, failure };
}

async function inTime(checking: Promise<void> | void): Promise<void> {
  if (checking === undefined) return;
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error(`this hangs: no end after ${INPUT_LIMIT_MS} ms`)), INPUT_LIMIT_MS);
  });
  try {
    await Promise.race([checking, late]);
  } finally {
    clearTimeout(timer);
  }
}
