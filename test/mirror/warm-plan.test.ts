import { describe, expect, it } from 'vitest';
import { ProviderArchive } from '../../src/address/archive.ts';
import type { Hash } from '../../src/address/hash.ts';
import { ModuleAddress } from '../../src/address/module.ts';
import { Platform } from '../../src/address/platform.ts';
import { ProviderAddress } from '../../src/address/provider.ts';
import { Version } from '../../src/address/version.ts';
import { VersionConstraint } from '../../src/address/version-constraint.ts';
import type { ProviderRequirement } from '../../src/configuration/requirements.ts';
import { HostNotAllowed, NotFound, UpstreamUnreachable } from '../../src/errors.ts';
import type { PlannedItem } from '../../src/mirror/wanted.ts';
import { WarmPlan } from '../../src/mirror/warm-plan.ts';
import { recordingLogger } from '../support/recording-logger.ts';

const HOST = 'registry.example.test';
const WIDGET = `${HOST}/acme/widget`;
const H1 = 'h1:FrOpWuh2q5vyQkmu1mNewlXrXoBIxoOTA/oT4cQYiiU=' as Hash;
const ZH = `zh:${'0'.repeat(64)}` as Hash;
const ZH_OTHER = `zh:${'1'.repeat(64)}` as Hash;

type Published = Record<string, Record<string, string[]>>;

const WIDGETS: Published = {
  [WIDGET]: {
    '1.0.0': ['linux_amd64', 'darwin_arm64'],
    '1.5.0': ['linux_amd64'],
    '2.0.0-beta.1': ['linux_amd64'],
  },
};

function planOf(
  published: Published,
  modules: Record<string, string[]> = {},
  tooNew?: ConstructorParameters<typeof WarmPlan>[0]['tooNew'],
) {
  const asked: string[] = [];
  const logger = recordingLogger();
  const plan = new WarmPlan({
    providers: {
      listVersions: async (provider) => {
        asked.push(`versions ${provider}`);
        if (provider.hostname.name === 'closed.example.test') throw new HostNotAllowed('not here', { hint: 'ask ops' });
        if (provider.type === 'broken') throw new TypeError('a defect');
        if (provider.type === 'slow') throw new UpstreamUnreachable(HOST, 'timeout', 'did not answer');
        const versions = published[String(provider)];
        if (!versions) throw new NotFound(`${provider} does not exist`);
        return { versions: Object.keys(versions).map(Version.parse) };
      },
      listPackages: async (provider, version) => {
        asked.push(`packages ${provider} ${version}`);
        const platforms = published[String(provider)]?.[String(version)] ?? [];
        const archives = platforms.map((platform) => ({
          archive: new ProviderArchive(provider, version, Platform.parse(platform)),
          hashes: [],
        }));
        return { archives };
      },
    },
    modules: {
      list: async (module) => {
        const versions = modules[String(module)];
        if (!versions) throw new NotFound(`${module} does not exist`);
        return { versions: versions.map(Version.parse) };
      },
      locate: () => Promise.reject(new Error('not asked')),
      openPackage: () => Promise.reject(new Error('not asked')),
    },
    tooNew,
    logger,
  });
  return { plan, asked, logger };
}

function provider(address: string, constraints: string[] = [], locked?: [string, Hash[]]): ProviderRequirement {
  return {
    address: ProviderAddress.parse(address),
    constraints: constraints.map(VersionConstraint.parse),
    locked: locked && { file: '.terraform.lock.hcl', version: Version.parse(locked[0]), hashes: locked[1] },
    origins: [],
  };
}

const module = (address: string, constraint = '') => ({
  address: ModuleAddress.parse(address),
  constraint: VersionConstraint.parse(constraint),
  subdir: undefined,
  origins: [],
});

async function itemsOf(
  { plan }: { plan: WarmPlan },
  providers: ProviderRequirement[],
  { platforms = ['linux_amd64'], modules = [] as ReturnType<typeof module>[] } = {},
) {
  const items: PlannedItem[] = [];
  const wish = {
    requirements: { providers, modules, diagnostics: [] },
    platforms: platforms.map(Platform.parse),
    diagnostics: [],
    impliedHostname: undefined,
  };
  for await (const item of plan.items(wish)) items.push(item);
  return items;
}

function shown(item: PlannedItem): string {
  if ('unplanned' in item) return `${item.outcome} ${item.unplanned}: ${item.reason}`;
  const { wanted, locked } = item;
  const accepted = locked ? ` (${locked.length} hashes)` : '';
  return wanted.kind === 'package'
    ? String(wanted.release)
    : `${wanted.archive.version} ${wanted.archive.platform}${accepted}`;
}

describe('the version of a provider', () => {
  it.each([
    [[], '1.5.0'],
    [['~> 1.0.0'], '1.0.0'],
    [['>= 1.0', '< 1.2'], '1.0.0'],
    [['>= 1.0', '!= 1.5.0'], '1.0.0'],
    [['2.0.0-beta.1'], '2.0.0-beta.1'],
    [['>= 1.0', '2.0.0-beta.1'], '2.0.0-beta.1'],
  ])('is the newest that all of %j accept', async (constraints, version) => {
    const items = await itemsOf(planOf(WIDGETS), [provider(WIDGET, constraints)]);
    expect(items.map(shown)).toEqual([`${version} linux_amd64`]);
  });

  it('is the locked one, with the hashes that are accepted of it', async () => {
    const items = await itemsOf(planOf(WIDGETS), [provider(WIDGET, ['>= 1.0'], ['1.0.0', [H1]])]);
    expect(items).toMatchObject([{ wanted: { kind: 'archive' }, locked: [H1] }]);
    expect(items.map(shown)).toEqual(['1.0.0 linux_amd64 (1 hashes)']);
  });

  it('goes without hashes where a lock file holds none', async () => {
    const items = await itemsOf(planOf(WIDGETS), [provider(WIDGET, [], ['1.0.0', []])]);
    expect(items.map(shown)).toEqual(['1.0.0 linux_amd64']);
  });
});

describe('a version that is only too new', () => {
  const until = new Date('2026-03-04T05:06:07Z');
  const tooNew = {
    find: async (_: unknown, accepted: { select(versions: readonly Version[]): Version[] }) => {
      const [version] = accepted.select([Version.parse('3.0.0')]);
      return version && { version, until };
    },
  };
  const words = '3.0.0 is too new for this mirror; it is there from 2026-03-04T05:06:07.000Z on (cooldown)';

  it.each([
    ['asked for', provider(WIDGET, ['3.0.0']), `${WIDGET} 3.0.0`],
    ['locked', provider(WIDGET, [], ['3.0.0', []]), `${WIDGET} 3.0.0`],
    ['the only one of a range', provider(WIDGET, ['~> 3.0']), `${WIDGET} ~> 3.0`],
  ])('is said to be that, with the date from which it is there: %s', async (_, requirement, name) => {
    const items = await itemsOf(planOf(WIDGETS, {}, tooNew), [requirement]);
    expect(items.map(shown)).toEqual([`failed ${name}: ${WIDGET} ${words}`]);
  });

  it('is said to be that of modules, too, and what does not exist is not', async () => {
    const address = `${HOST}/acme/net/aws`;
    const plan = planOf(WIDGETS, { [address]: ['1.0.0'] }, tooNew);
    const items = await itemsOf(plan, [provider(WIDGET, ['4.0.0'])], { modules: [module(address, '3.0.0')] });
    expect(items.map(shown)).toEqual([
      `failed ${address} 3.0.0: ${address} ${words}`,
      `failed ${WIDGET} 4.0.0: ${HOST} has no version of acme/widget that is 4.0.0; the newest is 1.5.0`,
    ]);
  });
});

describe('an archive', () => {
  it('is planned for each platform, and one that does not exist for it is unsupported', async () => {
    const items = await itemsOf(planOf(WIDGETS), [provider(WIDGET)], { platforms: ['darwin_arm64', 'linux_amd64'] });
    expect(items.map(shown)).toEqual([
      `unsupported ${WIDGET} 1.5.0 darwin_arm64: ${WIDGET} 1.5.0 does not exist for darwin_arm64; it does for linux_amd64`,
      '1.5.0 linux_amd64',
    ]);
  });

  it('is planned once, however often it is wanted', async () => {
    const items = await itemsOf(planOf(WIDGETS), [
      provider(WIDGET),
      provider(WIDGET, ['~> 1.5']),
      provider(WIDGET, [], ['1.5.0', [ZH]]),
      provider(WIDGET, ['>= 1.0'], ['1.5.0', [ZH, ZH_OTHER]]),
    ]);
    expect(items.map(shown)).toEqual(['1.5.0 linux_amd64 (1 hashes)']);
  });
});

describe('what cannot be planned', () => {
  it('R69: is told with the reason, while the others go on', async () => {
    const plan = planOf(WIDGETS);
    const items = await itemsOf(plan, [
      provider(`${HOST}/hashicorp/hcloud`),
      provider('closed.example.test/x/y'),
      provider(WIDGET, ['>= 9']),
      provider(`${HOST}/acme/slow`),
      provider(`${HOST}/acme/broken`),
      provider(WIDGET, [], ['7.0.0', []]),
      provider(WIDGET),
    ]);
    expect(items.map(shown)).toEqual([
      `failed ${HOST}/hashicorp/hcloud: ${HOST}/hashicorp/hcloud does not exist`,
      'failed closed.example.test/x/y: not here (ask ops)',
      `failed ${WIDGET} >= 9: ${HOST} has no version of acme/widget that is >= 9; the newest is 1.5.0`,
      `failed ${HOST}/acme/slow: ${HOST} did not answer`,
      `failed ${HOST}/acme/broken: an internal error; the log of the server says more`,
      `failed ${WIDGET} 7.0.0: ${HOST} has no version 7.0.0 of acme/widget`,
      '1.5.0 linux_amd64',
    ]);
    expect(plan.logger.lines).toMatchObject([{ level: 'error', fields: { wanted: `${HOST}/acme/broken` } }]);
  });
});

describe('a module', () => {
  const MODULES = { [`${HOST}/acme/net/aws`]: ['1.0.0', '1.2.0', '2.0.0'] };

  it('is one package of the newest version that is accepted, and comes before providers', async () => {
    const modules = [
      module(`${HOST}/acme/net/aws`, '~> 1.0'),
      module(`${HOST}/Acme/Net/aws`, '>= 1.0, < 2.0'),
      module(`${HOST}/acme/net/aws`, '>= 3.0'),
      module(`${HOST}/acme/other/aws`),
    ];
    const items = await itemsOf(planOf(WIDGETS, MODULES), [provider(WIDGET)], { modules });
    expect(items.map(shown)).toEqual([
      `${HOST}/acme/net/aws 1.2.0`,
      `failed ${HOST}/acme/net/aws >= 3.0: ${HOST} has no version of acme/net/aws that is >= 3.0; the newest is 2.0.0`,
      `failed ${HOST}/acme/other/aws: ${HOST}/acme/other/aws does not exist`,
      '1.5.0 linux_amd64',
    ]);
  });
});

it('whoever stops early has nothing looked up any more', async () => {
  const many = Array.from({ length: 50 }, (_, index) => provider(`${HOST}/acme/p${index}`));
  const plan = planOf(Object.fromEntries(many.map(({ address }) => [String(address), { '1.0.0': ['linux_amd64'] }])));
  const requirements = { providers: many, modules: [], diagnostics: [] };
  const wish = { requirements, diagnostics: [], impliedHostname: undefined };
  const items = plan.plan.items({ ...wish, platforms: [Platform.parse('linux_amd64')] });
  await items.next();
  await items.return(undefined);
  const askedThen = plan.asked.length;
  await new Promise((resolve) => setImmediate(resolve));
  expect(plan.asked.length).toBeLessThan(askedThen + 10);
});
