import type { Sha256 } from '../address/hash.ts';

/** What a replica that fetches an archive tells those that wait for it. */
export interface ArrivalNote {
  /** Where the bytes are that have come in, for stores in which others can see them. */
  readonly partial: string | undefined;
  /** What it must turn out to be. */
  readonly sha256: Sha256;
  /** Bytes, when upstream told. Once verified, what they are. */
  readonly size: number | undefined;
  /** Bytes that were there already when it began, taken from others that did not get to the end. */
  readonly taken: number;
  /** Where those were. */
  readonly takenFrom: readonly string[];
  /** Everything is there, and right. It will be in the store in a moment. */
  readonly isVerified: boolean;
}

export function formatNote(note: ArrivalNote): string {
  return JSON.stringify(note);
}

/** `undefined` for what is none, or of another time. */
export function parseNote(text: string | undefined): ArrivalNote | undefined {
  let told: Partial<Record<keyof ArrivalNote, unknown>> | null;
  try {
    told = JSON.parse(text ?? 'null') as typeof told;
  } catch {
    return undefined;
  }
  if (typeof told !== 'object' || told === null) return undefined;
  const { partial, sha256, size, taken, takenFrom, isVerified } = told;
  if (typeof sha256 !== 'string' || !Number.isSafeInteger(taken) || !Array.isArray(takenFrom)) return undefined;
  return {
    partial: typeof partial === 'string' ? partial : undefined,
    // Only ever compared with what this replica was told by upstream.
    sha256: sha256 as Sha256,
    size: Number.isSafeInteger(size) ? (size as number) : undefined,
    taken: taken as number,
    takenFrom: takenFrom.map(String),
    isVerified: isVerified === true,
  };
}
