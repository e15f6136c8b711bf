import { rm } from 'node:fs/promises';
import type { TestProject } from 'vitest/node';
import { buildProgram, rebuildProgram, useProgram } from './built-program.ts';

/** Before the run: tests that start Larder as a process start what people start. Twice as fast as its sources, too. */
export async function setup(project: TestProject): Promise<() => Promise<void>> {
  const directory = await buildProgram();
  useProgram(directory);
  project.onTestsRerun(() => rebuildProgram(directory));
  return () => rm(directory, { recursive: true, force: true });
}
