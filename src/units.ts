const MILLISECONDS: Readonly<Record<string, number>> = {
  ms: 1,
  s: 1_000,
  m: 60_000,
  h: 3_600_000,
  d: 86_400_000,
};

/** Ten years: beyond that it is a slip of the finger, and dates overflow. */
const MAX_DURATION_MS = 3_650 * 86_400_000;

const BYTES: Readonly<Record<string, number>> = {
  B: 1,
  kB: 1e3,
  KB: 1e3,
  MB: 1e6,
  GB: 1e9,
  TB: 1e12,
  KiB: 2 ** 10,
  MiB: 2 ** 20,
  GiB: 2 ** 30,
  TiB: 2 ** 40,
};

/** Milliseconds of `60s`, `5m`, `1h`, `90d` or `500ms`; `undefined` for anything else, plain numbers included. */
export function parseDuration(text: unknown): number | undefined {
  const [, digits, unit = ''] = (typeof text === 'string' && /^(\d{1,9}) ?(ms|s|m|h|d)$/.exec(text)) || [];
  if (digits === undefined) return undefined;
  const duration = Number(digits) * (MILLISECONDS[unit] ?? Number.NaN);
  return duration > 0 && duration <= MAX_DURATION_MS ? duration : undefined;
}

/** Bytes of `500GB` (decimal), `10GiB` (binary) or `1.5TB`; `undefined` for anything else, plain numbers included. */
export function parseSize(text: unknown): number | undefined {
  const [, number, unit = ''] = (typeof text === 'string' && /^(\d{1,9}(?:\.\d{1,3})?) ?([A-Za-z]+)$/.exec(text)) || [];
  if (number === undefined || !Object.hasOwn(BYTES, unit)) return undefined;
  const size = Math.round(Number(number) * (BYTES[unit] ?? Number.NaN));
  return size > 0 && Number.isSafeInteger(size) ? size : undefined;
}
