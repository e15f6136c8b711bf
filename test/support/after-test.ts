import { onTestFinished } from 'vitest';

/** Runs `finish` at the end of the test that is running, if one is. The last registered runs first. */
export function afterTest(finish: () => Promise<void>): void {
  try {
    onTestFinished(finish);
  } catch {
    // Not inside a test (a hook, the demo, the benchmark): the caller cleans up.
  }
}
