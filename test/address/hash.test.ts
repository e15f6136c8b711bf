import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { parseHash, parseSha256, sha256Of, zipHash } from '../../src/address/hash.ts';
import { InvalidAddress } from '../../src/errors.ts';
import { normalisesOnce } from './arbitraries.ts';

const digest = 'a06bf3b6ffb1b1ab5a4a3a5f3b0f1c2d3e4f5061728394a5b6c7d8e9f0a1b2c3';
const h1 = 'h1:h4NBZ5Ncd8tJWdxEDcbbNpCcw6lDG5rEFUOwbVhFbDQ=';

describe('hashes', () => {
  it('are kept in the exact spelling that lock files hold', () => {
    expect(parseHash(h1)).toBe(h1);
    expect(parseHash(`zh:${digest}`)).toBe(`zh:${digest}`);
  });

  it.each([
    '',
    digest,
    `zh:${digest.toUpperCase()}`,
    `zh:${digest}\n`,
    `ZH:${digest}`,
    `h2:${digest}`,
    'h1:short=',
    h1.slice(0, -1),
    `${h1} `,
    `sha256:${digest}`,
  ])('%j is none', (text) => {
    expect(() => parseHash(text)).toThrow(InvalidAddress);
  });

  it('a zip digest and its zh: form are inverses', () => {
    fc.assert(
      fc.property(fc.uint8Array({ minLength: 32, maxLength: 32 }), (bytes) => {
        const sha256 = parseSha256(Buffer.from(bytes).toString('hex').toUpperCase());
        expect(sha256Of(parseHash(zipHash(sha256)))).toBe(sha256);
      }),
    );
    expect(sha256Of(parseHash(h1))).toBeUndefined();
  });

  it('any text is a hash in its own spelling, or refused', () => {
    normalisesOnce(parseHash);
    normalisesOnce(parseSha256);
    expect(() => parseSha256(digest.slice(1))).toThrow(InvalidAddress);
  });
});
