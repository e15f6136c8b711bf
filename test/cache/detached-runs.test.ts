import { beforeEach, describe, expect, test } from 'vitest';
import { type DetachedRun, DetachedRuns } from '../../src/cache/detached-runs.ts';
import { type LarderError, UpstreamUnreachable } from '../../src/errors.ts';
import { gate } from './scripted-source.ts';

/** Runs until it is told to end, or given up. */
class Scripted implements DetachedRun {
  readonly #gate = gate();
  readonly #begun = gate();
  readonly #onEnd: () => void;
  hasBegun = false;
  reason: LarderError | undefined;

  constructor(onEnd: () => void) {
    this.#onEnd = onEnd;
  }

  get begun(): Promise<void> {
    return this.#begun.passed;
  }

  end(): void {
    this.#gate.open();
  }

  async run(): Promise<void> {
    this.hasBegun = true;
    this.#begun.open();
    await this.#gate.passed;
    this.#onEnd();
  }

  abort(reason: LarderError): void {
    this.reason = reason;
    this.end();
  }
}

const closed = new UpstreamUnreachable('Larder', 'busy', 'is shutting down');
const sealed = new UpstreamUnreachable('Larder', 'busy', 'is sealed');

let runs: DetachedRuns<Scripted>;
beforeEach(() => {
  runs = new DetachedRuns({ concurrent: 1, shuttingDown: () => closed });
});

const join = (key: string) => runs.join(key, (onEnd) => new Scripted(onEnd));

describe('runs', () => {
  test('are joined by all who ask for the same, until the outcome is known', async () => {
    const run = join('a');
    expect(join('a')).toBe(run);
    expect(runs.get('a')).toBe(run);
    run.end();
    await runs.drain(10_000);
    expect(runs.get('a')).toBeUndefined();
    expect(join('a')).not.toBe(run);
    await runs.close();
  });

  test('wait for their turn, and are under way all the same', async () => {
    const [first, second] = [join('a'), join('b')];
    await first.begun;
    expect([first.hasBegun, second.hasBegun, runs.size]).toEqual([true, false, 2]);
    first.end();
    await second.begun;
    expect(runs.size).toBe(1);
    await runs.close();
  });

  test('that end late take no other out of the way that has begun under their key', async () => {
    let tell = () => {};
    const first = runs.join('a', (onEnd) => {
      tell = onEnd;
      return new Scripted(onEnd);
    });
    tell();
    const second = join('a');
    expect(second).not.toBe(first);
    first.end();
    await second.begun;
    expect(runs.get('a')).toBe(second);
    await runs.close();
  });
});

describe('the end', () => {
  test('drain waits for those that wait for their turn, and for those that come meanwhile, but not for ever', async () => {
    const [first, second] = [join('a'), join('b')];
    await runs.drain(5);
    expect(runs.size).toBe(2);
    let isDrained = false;
    const drained = runs.drain(10_000).then(() => {
      isDrained = true;
    });
    const third = join('c');
    for (const run of [first, second, third]) {
      await run.begun;
      expect(isDrained).toBe(false);
      run.end();
    }
    await drained;
    expect(runs.size).toBe(0);
  });

  test('breakOff gives up all there is, and lets others begin', async () => {
    const given = [join('a'), join('b')];
    await runs.breakOff(() => sealed);
    expect(given.map(({ reason }) => reason)).toEqual([sealed, sealed]);
    expect(runs.size).toBe(0);
    const later = join('a');
    await later.begun;
    expect(later.reason).toBeUndefined();
    await runs.close();
    expect(later.reason).toBe(closed);
  });

  test('close also gives up what comes afterwards', async () => {
    await runs.close();
    const late = join('a');
    expect(late.reason).toBe(closed);
    await runs.drain(10_000);
    expect(runs.size).toBe(0);
  });
});
