import fc from 'fast-check';

/** Changes to something valid: most of it stays, so that readers get far into it before they notice. */
type Change = readonly [kind: 'flip' | 'put' | 'cut' | 'drop' | 'repeat' | 'insert', at: number, more: number];

const change: fc.Arbitrary<Change> = fc.tuple(
  fc.constantFrom<Change[0]>('flip', 'flip', 'put', 'put', 'cut', 'drop', 'repeat', 'insert'),
  fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true }),
  fc.nat(0xffff),
);

/** The most bytes that one change adds. */
const MOST_ADDED = 600;

/** One of these, with up to eight changes to its bytes. */
export function mutatedBytes(...valid: readonly Buffer[]): fc.Arbitrary<Buffer> {
  return fc
    .tuple(fc.constantFrom(...valid), fc.array(change, { maxLength: 8 }))
    .map(([bytes, changes]) => changes.reduce(changed, bytes));
}

function changed(bytes: Buffer, [kind, where, more]: Change): Buffer {
  const at = Math.floor(where * bytes.length);
  const length = 1 + (more % MOST_ADDED);
  switch (kind) {
    case 'flip':
    case 'put': {
      if (bytes.length === 0) return bytes;
      const copy = Buffer.from(bytes);
      copy[at] = kind === 'flip' ? bytes.readUInt8(at) ^ (1 << (more % 8)) : more & 0xff;
      return copy;
    }
    case 'cut':
      return bytes.subarray(0, at);
    case 'drop':
      return Buffer.concat([bytes.subarray(0, at), bytes.subarray(at + length)]);
    case 'repeat':
      return Buffer.concat([bytes.subarray(0, at + length), bytes.subarray(at)]);
    case 'insert':
      return Buffer.concat([bytes.subarray(0, at), Buffer.alloc(length % 16, more & 0xff), bytes.subarray(at)]);
  }
}

/** Anything at all, words of the language in any order, and valid texts with changes. */
export function nearly(valid: readonly string[], words: readonly string[]): fc.Arbitrary<string> {
  const word = fc.oneof(
    { weight: 6, arbitrary: fc.constantFrom(...words) },
    { weight: 1, arbitrary: fc.string({ unit: 'binary', maxLength: 4 }) },
    { weight: 1, arbitrary: fc.constantFrom('\0', '\uFEFF', '\r', '\u2028', '\ud800', '__proto__', 'ß', '\u00ad') },
  );
  return fc.oneof(
    { weight: 4, arbitrary: fc.array(word, { maxLength: 60 }).map((parts) => parts.join('')) },
    { weight: 3, arbitrary: mutatedBytes(...valid.map((text) => Buffer.from(text))).map(String) },
    { weight: 1, arbitrary: fc.string({ unit: 'binary', maxLength: 200 }) },
    {
      weight: 1,
      arbitrary: fc.tuple(word, fc.integer({ min: 1, max: 3_000 })).map(([part, times]) => part.repeat(times)),
    },
  );
}
