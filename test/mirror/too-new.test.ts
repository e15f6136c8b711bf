import { expect, it } from 'vitest';
import { ProviderAddress } from '../../src/address/provider.ts';
import { ProviderPattern } from '../../src/address/provider-pattern.ts';
import { Version } from '../../src/address/version.ts';
import { VersionConstraint } from '../../src/address/version-constraint.ts';
import { exactly, TooNewVersions, tooNewWords } from '../../src/mirror/too-new.ts';

const DAY_MS = 24 * 3_600_000;
const WEEK_MS = 7 * DAY_MS;
const NOW = Date.UTC(2026, 0, 20);
const WIDGET = ProviderAddress.parse('registry.example.test/acme/widget');
/** Before any age that is asked for. */
const OLD = 0;

function versionsSeen(
  seen: Record<string, number> | undefined,
  { age = WEEK_MS as number | undefined | null, allowed = [] as readonly string[] } = {},
) {
  const address = ProviderPattern.parse('*/acme/*') as ProviderPattern;
  const allow = allowed.map((version) => ({ address, version: Version.parse(version) }));
  return new TooNewVersions({
    rules: { default: age ?? undefined, patterns: [], allow },
    firstSeen: { note: async () => seen && new Map(Object.entries(seen)) },
    now: () => NOW,
  });
}

async function found(versions: TooNewVersions, constraint = '') {
  const one = await versions.find(WIDGET, VersionConstraint.parse(constraint));
  return one && tooNewWords(one);
}

it('the first that will be there is told with its date when nothing else is accepted', async () => {
  const versions = versionsSeen({ '1.0.0': OLD, '1.1.0': NOW - 2 * DAY_MS, '1.2.0': NOW - DAY_MS });
  const words = '1.1.0 is too new for this mirror; it is there from 2026-01-25T00:00:00.000Z on (cooldown)';
  expect(await found(versions, '~> 1.1')).toBe(words);
  expect(await found(versions, '1.1.0')).toBe(words);
  const exact = await versions.find(WIDGET, exactly(Version.parse('1.2.0')));
  expect(exact?.until).toEqual(new Date(NOW + 6 * DAY_MS));
});

it('there is none where one that is old enough is accepted, or none was ever seen', async () => {
  const versions = versionsSeen({ '1.0.0': OLD, '1.1.0': NOW - 2 * DAY_MS });
  expect(await found(versions)).toBeUndefined();
  expect(await found(versions, '>= 2.0')).toBeUndefined();
  expect(await found(versionsSeen(undefined))).toBeUndefined();
});

it('there is none where no age is asked for, or it may come at any age', async () => {
  const seen = { '1.1.0': NOW };
  expect(await found(versionsSeen(seen))).toContain('1.1.0 is too new');
  expect(await found(versionsSeen(seen, { age: null }))).toBeUndefined();
  expect(await found(versionsSeen(seen, { allowed: ['1.1.0'] }))).toBeUndefined();
});
