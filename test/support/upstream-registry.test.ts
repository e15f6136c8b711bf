import { afterEach, beforeEach, expect, test } from 'vitest';
import { directCliConfig, runClient, workspace } from './client.ts';
import { describeWith } from './requirements.ts';
import { SigningKey } from './signing-key.ts';
import { UpstreamRegistry } from './upstream-registry.ts';

let registry: UpstreamRegistry;
beforeEach(async () => {
  registry = await UpstreamRegistry.start();
});
afterEach(() => registry.stop());

describeWith(['terraform'], 'the real client, straight to the scripted registry', () => {
  async function init(providers: Parameters<typeof workspace>[0]['providers'], cliConfig = directCliConfig(registry)) {
    const { directory, lockFile } = await workspace({ providers });
    const result = await runClient({
      args: ['init', '-no-color'],
      directory,
      cliConfig,
      ca: registry.ca,
    });
    return { ...result, lockFile: await lockFile() };
  }

  test('installs a provider and locks the digests of all platforms: zips, checksums and signature are real', async () => {
    const { packages } = await registry.addProvider({
      namespace: 'acme',
      type: 'widget',
      version: '1.2.3',
      platforms: ['linux_amd64', 'linux_arm64', 'darwin_arm64'],
    });

    const { code, output, lockFile } = await init({ widget: { source: `${registry.hostname}/acme/widget` } });

    expect(code, output).toBe(0);
    const locked = lockFile?.match(/"(h1|zh):[^"]+"/g)?.map((quoted) => quoted.slice(1, -1));
    expect(locked?.toSorted()).toEqual(
      [packages.get('linux_amd64')?.h1, ...[...packages.values()].map(({ zh }) => zh)].toSorted(),
    );
    expect(registry.releases.requests.withCredentials()).toEqual([]);
  });

  test.each([
    ['rsa4096', { type: 'rsa4096' }],
    ['ed25519', { type: 'ed25519' }],
    ['signing subkey', { subkey: true }],
    ['expired key', { expired: true }],
  ] as const)('accepts signatures of: %s', async (_name, options) => {
    const sign = await SigningKey.generate(options);
    await registry.addProvider({ namespace: 'acme', type: 'widget', version: '1.2.3', sign });

    const { code, output } = await init({ widget: { source: `${registry.hostname}/acme/widget` } });

    expect(code, output).toBe(0);
  });

  test('refuses a signature of a key that the registry does not name: it does check them', async () => {
    const [sign, other] = await Promise.all([SigningKey.shared(), SigningKey.generate({ type: 'ed25519' })]);
    await registry.addProvider({ namespace: 'acme', type: 'widget', version: '1.2.3', sign, publishedKeys: [other] });

    const { code, output } = await init({ widget: { source: `${registry.hostname}/acme/widget` } });

    expect(code).toBe(1);
    expect(output).toContain('signature');
  });

  test('knows the registry by another name, follows relative URLs and unpacks a large package', async () => {
    await registry.addProvider({
      namespace: 'acme',
      type: 'widget',
      version: '1.2.3',
      sizeBytes: 3_000_000,
      relativeUrls: true,
    });

    const { code, output, lockFile } = await init(
      { widget: { source: 'registry.example.test/acme/widget' } },
      directCliConfig(registry, { as: 'registry.example.test' }),
    );

    expect(code, output).toBe(0);
    expect(lockFile).toContain('registry.example.test/acme/widget');
    expect(registry.requests.count('GET', /^\/files\/.*\.zip$/)).toBe(1);
  });
});
