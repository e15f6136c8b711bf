import { Cron } from 'croner';
import { z } from 'zod';
import type { Platform } from '../address/platform.ts';

export const CRON_PROBLEM =
  'must be a cron expression of five fields that comes true some day: minute, hour, day of the month, month, day of ' +
  'the week, such as "30 2 * * 1-5"';

/** The expression itself, `undefined` when it is none or never comes true. */
export function parseCron(text: string): string | undefined {
  const expression = text.trim();
  const next = new Cron(expression, { mode: '5-part', paused: true }).nextRun();
  return next === null ? undefined : expression;
}

/** The section `warm`, given how the other sections read texts, platforms and numbers. */
export function warmSchema<
  Text extends z.ZodType<string>,
  OnePlatform extends z.ZodType<Platform>,
  Count extends z.ZodType<number>,
  Expression extends z.ZodType<string>,
>(kinds: { text: Text; platform: OnePlatform; count: Count; cron: Expression }) {
  const { text, platform, count, cron } = kinds;
  const platforms = z.array(platform).min(1, 'is empty: nothing could be warmed');
  return z.strictObject({
    platforms,
    concurrency: count,
    schedules: z.array(z.strictObject({ file: text, cron, platforms: platforms.optional() })),
  });
}

/** What is warmed again and again. */
export interface WarmSchedule {
  /** Absolute path of a warm list, lock file or configuration. */
  readonly file: string;
  /** Five fields, in the time zone of the process. */
  readonly cron: string;
  /** `undefined`: those of the list, or else `warm.platforms`. */
  readonly platforms: readonly Platform[] | undefined;
}
