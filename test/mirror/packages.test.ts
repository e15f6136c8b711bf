import { describe, expect, it } from 'vitest';
import { expectedPackageHash, handMadeZip } from '../store/hand-made-zip.ts';
import { editJson, holdAnswer, replaceBody, status } from '../support/faults.ts';
import {
  archiveName,
  eventually,
  hashesIn,
  packageOf,
  platformsIn,
  startScene,
  stoppedClock,
  WIDGET,
} from './scene.ts';

const DOCUMENT = /GET .*\/download\/[a-z0-9]+\/[a-z0-9]+$/;
const SHASUMS = /GET .*_SHA256SUMS$/;
const PLATFORMS = ['linux_amd64', 'linux_arm64', 'darwin_arm64', 'windows_amd64'];
const MINUTE_MS = 60_000;

describe('the packages of a version', () => {
  it('R17: every platform has its zh: in lower case before anything is stored, and h1: once it is', async () => {
    const { registry, version, archive } = await startScene({ providers: [{ platforms: PLATFORMS }] });
    const published = await registry.addProvider({ ...WIDGET, platforms: PLATFORMS });
    const cold = await version('1.0.0');
    expect(platformsIn(cold)).toEqual([...PLATFORMS].sort());
    for (const platform of PLATFORMS) {
      expect(hashesIn(cold, platform)).toEqual([packageOf(published, platform).zh]);
      expect(cold.json().archives[platform].url).toBe(archiveName('1.0.0', platform));
    }
    await archive('1.0.0', 'linux_amd64');
    const { zh, h1 } = packageOf(published);
    await eventually(async () => hashesIn(await version('1.0.0'))).toEqual([h1, zh]);
  });

  it('R18: hashes belong to their own platform, are never empty, and nothing is null', async () => {
    const { registry, version, archive } = await startScene({
      providers: [{ platforms: ['linux_amd64', 'darwin_arm64'] }],
    });
    const published = await registry.addProvider({ ...WIDGET, platforms: ['linux_amd64', 'darwin_arm64'] });
    await archive('1.0.0', 'linux_amd64');
    await eventually(async () => hashesIn(await version('1.0.0'))).toHaveLength(2);
    const answer = await version('1.0.0');
    expect(hashesIn(answer, 'darwin_arm64')).toEqual([packageOf(published, 'darwin_arm64').zh]);
    expect(answer.text()).not.toContain('null');
    for (const { hashes, url } of Object.values<{ hashes: string[]; url: string }>(answer.json().archives)) {
      for (const hash of hashes) expect(hash).toMatch(/^(h1|zh):.+/);
      expect(url).toMatch(/^terraform-provider-widget_1\.0\.0_[a-z0-9]+_[a-z0-9]+\.zip$/);
    }
  });

  it('R60: costs five small requests and no archive, however many platforms and however large', async () => {
    const platforms = ['darwin', 'freebsd', 'linux', 'openbsd', 'windows'].flatMap((os) =>
      ['386', 'amd64', 'arm', 'arm64'].map((arch) => `${os}_${arch}`),
    );
    const { registry, version } = await startScene({
      providers: [{ platforms, digestsOnly: true, sizeBytes: 200_000_000 }],
    });
    expect(platformsIn(await version('1.0.0'))).toEqual([...platforms].sort());
    expect(registry.requests.all.map(({ path }) => path)).toEqual([
      '/.well-known/terraform.json',
      '/v1/providers/acme/widget/versions',
      '/v1/providers/acme/widget/1.0.0/download/linux/amd64',
    ]);
    expect(registry.releases.requests.all.map(({ path }) => path.split('_').at(-1)).sort()).toEqual([
      'SHA256SUMS',
      'SHA256SUMS.sig',
    ]);
    const sent = [...registry.requests.all, ...registry.releases.requests.all].reduce(
      (sum, it) => sum + it.bytesSent,
      0,
    );
    expect(sent).toBeLessThan(50_000);
  });

  it('R42: other files in SHA256SUMS neither disturb nor become archives', async () => {
    const sum = 'ab'.repeat(32);
    const { registry, version, archive } = await startScene({ providers: [] });
    const published = await registry.addProvider({
      ...WIDGET,
      extraShasumsLines: [
        `${sum}  terraform-provider-widget_1.0.0_manifest.json`,
        `${sum}  terraform-provider-widget_1.0.0_linux_amd64.tar.gz`,
        `${sum}  terraform-provider-widget_1.0.0_linux_amd64.sbom.json`,
        'not a checksum line',
      ],
    });
    const answer = await version('1.0.0');
    expect(platformsIn(answer)).toEqual(['linux_amd64']);
    expect(hashesIn(answer)).toEqual([packageOf(published).zh]);
    expect((await archive()).status).toBe(200);
  });

  it('R32: a filename that is no plain name is no path, and the archive is found', async () => {
    const filenames: [string, unknown][] = [
      ['a whole URL', 'https://dl.example.test/terraform-provider-TYPE_1.0.0_linux_amd64.zip?sig=1'],
      ['a path', 'dist/terraform-provider-TYPE_1.0.0_linux_amd64.zip'],
      ['a path upwards', '../../etc/terraform-provider-TYPE_1.0.0_linux_amd64.zip'],
      ['only a path upwards', '../../etc/x.zip'],
      ['missing', undefined],
      ['not a text', 17],
    ];
    const { registry, version, archive } = await startScene({ providers: [] });
    for (const [at, [what, filename]] of filenames.entries()) {
      const type = `widget${at}`;
      const provider = `acme/${type}`;
      const published = await registry.addProvider({ ...WIDGET, type });
      const named = typeof filename === 'string' ? filename.replace('TYPE', type) : filename;
      registry.on(
        new RegExp(`/${type}/.*/download/`),
        editJson((document) => ({ ...document, filename: named })),
      );
      expect(hashesIn(await version('1.0.0', provider)), what).toEqual([packageOf(published).zh]);
      const answer = await archive('1.0.0', 'linux_amd64', { provider });
      expect(answer.status, what).toBe(200);
      expect(answer.body, what).toHaveLength(packageOf(published).size);
    }
  });

  it('R53: an archive that is named with a v upstream has its canonical name here', async () => {
    const { registry, version, archive } = await startScene({ providers: [] });
    const platforms = ['linux_amd64', 'darwin_arm64'];
    const published = await registry.addProvider({
      ...WIDGET,
      platforms,
      filename: (platform) => `terraform-provider-widget_v1.0.0_${platform}.zip`,
    });
    const answer = await version('1.0.0');
    for (const platform of platforms) {
      expect(hashesIn(answer, platform)).toEqual([packageOf(published, platform).zh]);
      expect(answer.json().archives[platform].url).toBe(archiveName('1.0.0', platform));
      expect((await archive('1.0.0', platform)).status).toBe(200);
    }
    expect(registry.requests.count(DOCUMENT)).toBe(2);
    expect(registry.releases.requests.count(SHASUMS)).toBe(1);
  });

  it('R52: hyphenated types and odd platforms are found, and file names are not parsed for identity', async () => {
    const provider = 'hashicorp/google-beta';
    const { registry, version, archive } = await startScene({ providers: [] });
    const published = await registry.addProvider({
      namespace: 'hashicorp',
      type: 'google-beta',
      version: '4.57.0-rc.1',
      platforms: ['linux_amd64', 'linux_arm'],
      filename: (platform) =>
        platform === 'linux_arm'
          ? 'terraform-provider-google-beta_4.57.0-rc.1_linux_arm_v6.zip'
          : `w_4.57.0+b_1_linux_amd64.zip`,
    });
    const answer = await version('4.57.0-rc.1', provider);
    for (const platform of ['linux_amd64', 'linux_arm']) {
      expect(hashesIn(answer, platform)).toEqual([packageOf(published, platform).zh]);
      expect((await archive('4.57.0-rc.1', platform, { provider })).body).toHaveLength(
        packageOf(published, platform).size,
      );
    }
  });

  it('R93: hashes that upstream publishes for all platforms are given out without a download', async () => {
    const { registry, version, archive } = await startScene({ providers: [] });
    const published = await registry.addProvider({ ...WIDGET, platforms: PLATFORMS, withPackages: true });
    const answer = await version('1.0.0');
    for (const platform of PLATFORMS) {
      const { h1, zh } = packageOf(published, platform);
      expect(hashesIn(answer, platform)).toEqual([h1, zh]);
    }
    expect(registry.releases.requests.count('GET', /\.zip/)).toBe(0);
    const head = await archive('1.0.0', 'darwin_arm64', { method: 'HEAD' });
    expect(head.headers['content-length']).toBe(String(packageOf(published, 'darwin_arm64').size));
    expect(registry.releases.requests.count('HEAD', /\.zip/)).toBe(0);
  });

  type Packages = Record<string, { hashes: string[]; package_size: unknown }>;
  it.each<[string, (packages: Packages) => unknown]>([
    [
      'with another zh: for the platform asked for',
      (all) => withHashes(all, 'linux_amd64', [`zh:${'00'.repeat(32)}`, 'h1:AAAA']),
    ],
    ['without the platform asked for', ({ linux_amd64: _, ...rest }) => rest],
    ['without sizes', (all) => Object.fromEntries(Object.entries(all).map(([key, { hashes }]) => [key, { hashes }]))],
    ['with hashes that are none', (all) => withHashes(all, 'darwin_arm64', ['h1:not base64!'])],
    ['that is a list', () => []],
  ])('R93: `packages` %s is ignored and said to be', async (_what, edit) => {
    const { registry, version, archive, warnings } = await startScene({ providers: [] });
    const published = await registry.addProvider({ ...WIDGET, platforms: PLATFORMS, withPackages: true });
    registry.on(
      DOCUMENT,
      editJson((document) => ({ ...document, packages: edit(document['packages'] as Packages) })),
    );
    const answer = await version('1.0.0');
    for (const platform of PLATFORMS) expect(hashesIn(answer, platform)).toEqual([packageOf(published, platform).zh]);
    expect(warnings('left out').length).toBeGreaterThan(0);
    expect((await archive()).status).toBe(200);
  });

  it('R93: a platform whose zh: in `packages` is not that of SHA256SUMS has no h1: from there', async () => {
    const { registry, version, warnings } = await startScene({ providers: [] });
    const published = await registry.addProvider({ ...WIDGET, platforms: PLATFORMS, withPackages: true });
    registry.on(
      DOCUMENT,
      editJson((document) => ({
        ...document,
        packages: withHashes(document['packages'] as Packages, 'darwin_arm64', [
          `zh:${'00'.repeat(32)}`,
          `h1:${'A'.repeat(43)}=`,
        ]),
      })),
    );
    const answer = await version('1.0.0');
    expect(hashesIn(answer, 'darwin_arm64')).toEqual([packageOf(published, 'darwin_arm64').zh]);
    expect(hashesIn(answer, 'linux_arm64')).toHaveLength(2);
    expect(warnings('other hashes')).toEqual([expect.stringContaining('darwin_arm64')]);
  });

  it('R02: h1: covers directory entries, raw names and byte order', async () => {
    const entries = [
      ['docs/', ''],
      ['docs/a.md', '# a\n'],
      ['Zeta', 'upper case sorts first'],
      ['alpha', 'a'],
      ['straße', 'ß'],
      ['back\\slash', 'b'],
      ['terraform-provider-widget_v1.0.0', 'an executable'],
    ] as const;
    const zip = handMadeZip(entries.map(([name, content], index) => ({ name, content, deflate: index % 2 === 1 })));
    const { version, archive } = await startScene({ providers: [{ zip }] });
    expect((await archive()).body.equals(zip)).toBe(true);
    await eventually(async () => hashesIn(await version('1.0.0'))).toEqual([
      expectedPackageHash(entries),
      expect.stringMatching(/^zh:[0-9a-f]{64}$/),
    ]);
  });

  it.each([
    ['no zip', Buffer.from('this is no zip')],
    ['a zip with a compression nobody knows', handMadeZip([{ name: 'x', content: 'x', method: 99 }])],
  ])('R02, R80: %s is served as it is, without any h1:', async (_what, zip) => {
    const { version, archive, warnings } = await startScene({ providers: [{ zip }] });
    expect((await archive()).body.equals(zip)).toBe(true);
    await eventually(() => warnings('no package hash')).toHaveLength(1);
    expect(hashesIn(await version('1.0.0'))).toEqual([expect.stringMatching(/^zh:/)]);
  });

  it('h1: survives a restart and is there when upstream is not', async () => {
    const first = await startScene({ providers: [] });
    const published = await first.registry.addProvider(WIDGET);
    await first.archive();
    await eventually(async () => hashesIn(await first.version('1.0.0'))).toHaveLength(2);
    await first.larder.close();
    await first.registry.stop();
    const { version } = await startScene({ registry: first.registry, setup: first.larder.setup });
    const { h1, zh } = packageOf(published);
    expect(hashesIn(await version('1.0.0'))).toEqual([h1, zh]);
  });

  it('leaves a platform out whose document is missing, and has it as soon as upstream does', async () => {
    const clock = stoppedClock();
    const platforms = ['linux_amd64', 'linux_arm'];
    const { registry, version } = await startScene({
      providers: [{ platforms, unlistedPlatforms: ['linux_arm'] }],
    });
    const missing = registry.on(/\/download\/linux\/arm$/, status(404));
    expect(platformsIn(await version('1.0.0'))).toEqual(['linux_amd64']);
    missing.remove();
    await registry.addProvider({ ...WIDGET, platforms });
    expect(platformsIn(await version('1.0.0'))).toEqual(['linux_amd64']);
    clock.advance(2 * MINUTE_MS);
    expect(platformsIn(await version('1.0.0'))).toEqual(platforms);
  });

  it('fifty requests for a cold version are one', async () => {
    const { registry, version } = await startScene({ providers: [{ platforms: PLATFORMS }] });
    const hold = holdAnswer();
    registry.on(DOCUMENT, hold.fault);
    const answers = Array.from({ length: 50 }, () => version('1.0.0'));
    await hold.reached;
    hold.release();
    for (const answer of await Promise.all(answers)) expect(platformsIn(answer)).toHaveLength(PLATFORMS.length);
    expect(registry.requests.all).toHaveLength(3);
    expect(registry.releases.requests.all).toHaveLength(2);
  });

  it('SHA256SUMS that contradicts the package document is trusted by nobody', async () => {
    const { registry, version, archive } = await startScene({ providers: [{ sign: 'none' }] });
    registry.releases.on(
      SHASUMS,
      replaceBody((original) => original.toString().replace(/^[0-9a-f]{8}/, 'deadbeef')),
    );
    const answer = await version('1.0.0');
    expect(answer.status).toBe(502);
    expect(answer.json()).toMatchObject({
      code: 'INTEGRITY_MISMATCH',
      errors: [expect.stringContaining('SHA256SUMS')],
    });
    expect((await archive()).status).toBe(502);
    registry.heal();
    expect((await version('1.0.0')).status).toBe(200);
  });

  it('what upstream publishes anew under a version is told as drift, and what was verified first is kept', async () => {
    const clock = stoppedClock();
    const { registry, version, archive, stored, warnings } = await startScene({ providers: [] });
    const first = await registry.addProvider(WIDGET);
    const before = await archive();
    await stored();
    const second = await registry.addProvider({ ...WIDGET, directoryEntries: true });
    clock.advance(25 * 60 * MINUTE_MS);
    expect(hashesIn(await version('1.0.0'))).toContain(packageOf(first).zh);
    expect(hashesIn(await version('1.0.0'))).not.toContain(packageOf(second).zh);
    expect((await archive()).body.equals(before.body)).toBe(true);
    expect(warnings('other bytes')[0]).toContain(packageOf(second).sha256);
  });
});

function withHashes(
  packages: Record<string, { hashes: string[]; package_size: unknown }>,
  platform: string,
  hashes: string[],
) {
  return { ...packages, [platform]: { ...packages[platform], hashes } };
}
