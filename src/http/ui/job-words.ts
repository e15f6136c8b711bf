import type { Markup } from '../html.ts';
import type { JobState } from '../job-documents.ts';
import { tag } from './words.ts';

const STATES: Readonly<Record<JobState, Markup>> = {
  planning: tag('plain', 'Planning'),
  running: tag('plain', 'Running'),
  paused: tag('warn', 'Paused'),
  finished: tag('good', 'Finished'),
  cancelled: tag('warn', 'Cancelled'),
  failed: tag('bad', 'Failed'),
};

export function jobStateTag(state: JobState): Markup {
  return STATES[state];
}

export type ItemOutcome = 'present' | 'stored' | 'unsupported' | 'failed';

const OUTCOMES: Readonly<Record<ItemOutcome, Markup>> = {
  stored: tag('good', 'Stored'),
  present: tag('good', 'Present'),
  unsupported: tag('warn', 'Unsupported'),
  failed: tag('bad', 'Failed'),
};

/** What has become of an item, if anything yet. */
export function outcomeTag(outcome: ItemOutcome | undefined): Markup {
  return outcome === undefined ? tag('plain', 'Waiting') : OUTCOMES[outcome];
}

/** `token:NAME` as people call it. */
export function whoAsked(by: string): string {
  return by.startsWith('token:') ? by.slice('token:'.length) : by.replace(/^schedule:/, 'schedule ');
}
