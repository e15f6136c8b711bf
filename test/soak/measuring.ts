import { readFile } from 'node:fs/promises';
import { descriptors } from '../http/hostile-scene.ts';

export interface Sample {
  /** Since the beginning. */
  readonly seconds: number;
  readonly rssBytes: number;
  readonly descriptors: number;
}

/** What a process occupies at this moment. @param began `performance.now()` */
export async function sample(pid: number, began: number): Promise<Sample> {
  const status = await readFile(`/proc/${pid}/status`, 'utf8');
  return {
    seconds: Math.round((performance.now() - began) / 1000),
    rssBytes: Number(/^VmRSS:\s+(\d+) kB/m.exec(status)?.[1]) * 1024,
    descriptors: await descriptors(pid),
  };
}

/** By how much it grows in an hour, as the straight line through all samples of the second half has it. */
export function slopePerHour(samples: readonly Sample[], of: (sample: Sample) => number): number {
  const late = samples.slice(Math.floor(samples.length / 2));
  const mean = (values: number[]) => values.reduce((sum, value) => sum + value, 0) / values.length;
  const [x, y] = [mean(late.map(({ seconds }) => seconds)), mean(late.map(of))];
  const spread = late.reduce((sum, { seconds }) => sum + (seconds - x) ** 2, 0);
  const together = late.reduce((sum, one) => sum + (one.seconds - x) * (of(one) - y), 0);
  return spread === 0 ? 0 : (together / spread) * 3_600;
}
