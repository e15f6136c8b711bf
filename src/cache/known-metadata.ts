import { type LarderError, NotFound } from '../errors.ts';
import type { MetadataEntry } from '../store/metadata-store.ts';
import type { Freshness } from './freshness.ts';

/** Replicas' clocks may differ by this much. What claims to be fetched later than that is not believed. */
export const MAX_CLOCK_SKEW_MS = 60_000;

/** One kind of metadata: how long it is good for, and its JSON form. */
export interface MetadataKind<T> {
  /** May depend on the value. `undefined` stands for "it does not exist"; only `absentForMs` is then looked at. */
  readonly freshness: (value: T | undefined) => Freshness;
  /** Reads what `encode` wrote, perhaps long ago and by another release. Whatever it throws makes the entry a miss. */
  readonly decode: (stored: unknown) => T;
  /** JSON-compatible. */
  readonly encode: (value: T) => unknown;
}

/** What a read found. `value` is shared by all readers: nobody may change it. */
export interface MetadataRead<T> {
  readonly value: T;
  /** Milliseconds since the epoch, when upstream was asked for it. */
  readonly fetchedAt: number;
  /** Until then it is read without asking upstream, unless something changes. Absent when it is stale. */
  readonly freshUntil?: number;
  /** Present when the value is older than wanted and upstream could not be had. */
  readonly stale?: { readonly reason: LarderError };
}

/** What is remembered under one key: a value, or that there is none. Knows nothing of clocks and upstreams. */
export interface Known {
  /** `undefined` when it is known to be absent. */
  readonly found: MetadataRead<unknown> | undefined;
  readonly absent: { readonly message: string; readonly hint: string | undefined } | undefined;
  readonly fetchedAt: number;
  readonly freshForMs: number;
  readonly keepForMs: number;
  /** Length of its JSON form, near enough to what it occupies. */
  readonly size: number;
  /** Upstream gave no usable answer: until then it is not asked again for this entry. */
  unanswered?: { readonly until: number; readonly reason: LarderError };
}

/** JSON form of a `Known`, as the store keeps it. */
type Form = { readonly found: unknown } | { readonly absent: string; readonly hint?: string | undefined };

/** What was just loaded, with the entry that the store is to keep. @throws whatever the kind's functions throw. */
export function present<T>(value: T, fetchedAt: number, kind: MetadataKind<T>): { known: Known; entry: MetadataEntry } {
  const form = { found: kind.encode(value) };
  return { known: knownPresent(value, fetchedAt, kind, form), entry: { value: form, fetchedAt } };
}

/** Upstream said just now that there is no such thing. */
export function absent<T>(
  { message, hint }: LarderError,
  fetchedAt: number,
  kind: MetadataKind<T>,
): { known: Known; entry: MetadataEntry } {
  const form = { absent: message, hint };
  return { known: knownAbsent(message, hint, fetchedAt, kind, form), entry: { value: form, fetchedAt } };
}

/** What the store kept. `undefined` for what this release cannot read, and for what claims to come from the future. */
export function recalled<T>(
  { value, fetchedAt }: MetadataEntry,
  kind: MetadataKind<T>,
  now: number,
): Known | undefined {
  if (typeof value !== 'object' || value === null || fetchedAt > now + MAX_CLOCK_SKEW_MS) return undefined;
  const form = value as { found?: unknown; absent?: unknown; hint?: unknown };
  try {
    if (typeof form.absent === 'string') {
      const hint = typeof form.hint === 'string' ? form.hint : undefined;
      return knownAbsent(form.absent, hint, fetchedAt, kind, { absent: form.absent, hint });
    }
    if (form.found === undefined) return undefined;
    return knownPresent(kind.decode(form.found), fetchedAt, kind, { found: form.found });
  } catch {
    return undefined;
  }
}

function knownPresent<T>(value: T, fetchedAt: number, kind: MetadataKind<T>, form: Form): Known {
  const { freshForMs, keepForMs } = kind.freshness(value);
  const size = JSON.stringify(form).length;
  return {
    found: { value, fetchedAt, freshUntil: fetchedAt + freshForMs },
    absent: undefined,
    fetchedAt,
    freshForMs,
    keepForMs,
    size,
  };
}

function knownAbsent<T>(
  message: string,
  hint: string | undefined,
  fetchedAt: number,
  kind: MetadataKind<T>,
  form: Form,
): Known {
  // Beyond that it is neither believed nor of any use: unlike a value, it is never served stale.
  const { absentForMs } = kind.freshness(undefined);
  const size = JSON.stringify(form).length;
  return {
    found: undefined,
    absent: { message, hint },
    fetchedAt,
    freshForMs: absentForMs,
    keepForMs: absentForMs,
    size,
  };
}

/** @throws NotFound when that is what is known. */
export function answer<T>({ found, absent }: Known): MetadataRead<T> {
  if (found) return found as MetadataRead<T>;
  throw new NotFound(absent?.message ?? 'not found', { hint: absent?.hint });
}

export function stale<T>({ found, fetchedAt }: Known, reason: LarderError): MetadataRead<T> {
  return { value: found?.value as T, fetchedAt, stale: { reason } };
}

export function newest(a: Known | undefined, b: Known | undefined): Known | undefined {
  if (a === undefined || b === undefined) return a ?? b;
  return b.fetchedAt >= a.fetchedAt ? b : a;
}
