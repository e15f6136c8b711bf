import type { Hash } from '../address/hash.ts';
import type { Hostname } from '../address/hostname.ts';
import type { Diagnostic, Severity } from '../configuration/requirements.ts';
import type { JobFindings } from './job.ts';
import type { PlannedItem, WantedItem } from './wanted.ts';
import { addressOf } from './warm.ts';

/** What is told of a wish: the rest would drown it. */
export const MAX_DIAGNOSTICS = 1_000;

const WEIGHTS: Readonly<Record<Severity, number>> = { error: 0, warning: 1, note: 2 };

/** What there is to say about a wish that was planned. */
export function findingsOf({
  items,
  diagnostics,
  impliedHostname,
}: {
  readonly items: readonly PlannedItem[];
  readonly diagnostics: readonly Diagnostic[];
  readonly impliedHostname?: Hostname | undefined;
}): JobFindings {
  const locked = items.flatMap((one) =>
    'wanted' in one && one.locked ? [[versionOf(one.wanted), [...one.locked]] as [string, Hash[]]] : [],
  );
  return {
    diagnostics: gravest(diagnostics),
    ...(impliedHostname && { impliedHostname: impliedHostname.toString() }),
    locks: Object.fromEntries(locked),
  };
}

/** What is locked is a version of a provider, on whatever platform. */
export function versionOf(wanted: WantedItem): string {
  const version = wanted.kind === 'archive' ? wanted.archive.version : wanted.release.version;
  return `${addressOf(wanted)} ${version}`;
}

/** In the order of the files, unless there are too many: then errors come first, and notes are left out first. */
function gravest(diagnostics: readonly Diagnostic[]): Diagnostic[] {
  if (diagnostics.length <= MAX_DIAGNOSTICS) return [...diagnostics];
  return diagnostics.toSorted((a, b) => WEIGHTS[a.severity] - WEIGHTS[b.severity]).slice(0, MAX_DIAGNOSTICS);
}
