import fc from 'fast-check';
import { expect, test } from 'vitest';
import { NotFound } from '../../src/errors.ts';
import { Links } from '../../src/http/links.ts';
import { start } from './harness.ts';

const absentKey = { id: 'none', secret: Buffer.alloc(32) };

const piece = fc.oneof(
  fc.constantFrom(
    'providers',
    'registry',
    'registry/registry.example.com/v1/providers/acme/widget',
    'get/1.a.b.c/registry.example.com/acme/widget',
    'versions',
    '1.0.0',
    'download/linux/amd64',
    'SHA256SUMS',
    'terraform-provider-widget_1.0.0_SHA256SUMS',
    'registry.example.com',
    'registry.example.com:8443',
    'acme',
    'widget',
    'index.json',
    '1.0.0.json',
    'terraform-provider-widget_1.0.0_linux_amd64.zip',
    '..',
    '.',
    '',
    '%2e%2e',
    '%2f',
    '%00',
    '%',
    '%ff',
    '__proto__',
    'constructor',
    '{}',
    '*',
    ':x',
    'index.json%3F',
  ),
  fc.string({ unit: 'grapheme', maxLength: 12 }).map(encodeURIComponent),
  fc.stringMatching(/^[!-~]{0,12}$/),
);

test('no target makes Larder fail: all are answered in order, and what is refused is refused in JSON', async () => {
  const absent = async () => {
    throw new NotFound('not here');
  };
  const { ask, log } = await start(
    {
      listVersions: async () => ({ versions: [] }),
      listPackages: async () => ({ archives: [] }),
      describeArchive: async () => ({ size: 1, sha256: undefined, storedAt: undefined }),
    },
    {
      releases: {
        list: async () => ({ catalogue: { releases: [], warnings: [] } }),
        describe: absent,
        checksums: async () => ({ files: { shasums: Buffer.from('x'), signature: undefined } }),
      },
      links: new Links({ keys: { signing: () => absentKey, find: async () => undefined }, lifetimeMs: 1 }),
    },
  );
  await fc.assert(
    fc.asyncProperty(
      // HEAD of archives is described, GET would open one: both go the same way up to there.
      fc.constantFrom('GET', 'HEAD', 'POST', 'DELETE', 'OPTIONS'),
      fc.array(piece, { minLength: 1, maxLength: 7 }),
      async (method, pieces) => {
        const target = `/${pieces.join('/')}`;
        const isArchive = method === 'GET' && target.endsWith('.zip');
        const answer = await ask(`${isArchive ? 'HEAD' : method} ${target}`);
        expect(answer.statusLine).toMatch(/^HTTP\/1\.1 (200|400|403|404|405|414) /);
        if (!answer.statusLine.includes(' 200 ')) expect(answer.headers['content-type']).toBe('application/json');
        expect(answer.headers['location']).toBeUndefined();
      },
    ),
    { numRuns: 400 },
  );
  expect(log.entries.filter(({ level }) => level === 'error' || level === 'warn')).toEqual([]);
});
