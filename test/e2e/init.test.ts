import { mkdir, mkdtemp, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, beforeEach, expect, it } from 'vitest';
import { afterTest } from '../support/after-test.ts';
import { type ClientResult, mirrorCliConfig, runClient, type Workspace, workspace } from '../support/client.ts';
import { corrupt, json, reply, status } from '../support/faults.ts';
import { HttpClient } from '../support/http.ts';
import { Internet, REGISTRY } from '../support/internet.ts';
import { type Larder, startLarder } from '../support/larder.ts';
import { Origin } from '../support/origin.ts';
import type { ProviderOptions, PublishedVersion } from '../support/published-provider.ts';
import { startRedis, type TestRedis } from '../support/redis.ts';
import { describeWith, type RequirementName } from '../support/requirements.ts';
import { SigningKey } from '../support/signing-key.ts';
import { serveDirectory, writeStaticMirror } from '../support/static-site.ts';

const PLATFORMS = ['linux_amd64', 'linux_arm64', 'darwin_arm64', 'windows_amd64'];
const WIDGET = { namespace: 'acme', type: 'widget', version: '1.2.3', platforms: PLATFORMS };

/** When it did not, what the client said is the first thing one wants to know. */
function expectSuccess(result: ClientResult): void {
  expect(result.code, result.output).toBe(0);
}

for (const program of ['terraform', 'tofu'] as const) {
  for (const store of ['embedded', 'redis'] as const) {
    const needs: RequirementName[] = store === 'redis' ? [program, 'redis-server'] : [program];
    describeWith(needs, `${program} init through Larder, metadata in ${store}`, () => suite(program, store));
  }
}

function suite(program: 'terraform' | 'tofu', store: 'embedded' | 'redis'): void {
  let redis: TestRedis | undefined;
  if (store === 'redis') {
    beforeAll(async () => {
      redis = await startRedis();
    });
    beforeEach(async () => void (await redis?.command('FLUSHALL')));
    afterAll(() => redis?.stop());
  }

  /** Larder behind an egress proxy, in front of a registry that has `published`. */
  async function begin(
    options: { published?: readonly ProviderOptions[]; names?: readonly string[]; mirrored?: readonly string[] } = {},
  ) {
    const internet = await Internet.start(options.names);
    const published: PublishedVersion[] = [];
    for (const provider of options.published ?? [WIDGET]) {
      published.push(await internet.registry.addProvider(provider));
    }
    const mirrored = options.mirrored ?? [REGISTRY, ...(options.names ?? [])];
    const config = internet.larderConfig(redis ? { redis: { url: redis.url } } : {}, mirrored);
    const larder = await startLarder({ config, env: internet.env });
    const http = new HttpClient({ ca: larder.ca });
    afterTest(() => http.close());
    return { internet, larder, http, published: published[0] as PublishedVersion };
  }

  const run = (directory: string, larder: Larder, args: readonly string[], cliConfig = mirrorCliConfig(larder.url)) =>
    runClient({ program, args: [...args, '-no-color'], directory, cliConfig, ca: larder.ca });

  async function init(
    larder: Larder,
    options: {
      source?: string;
      version?: string;
      lockFile?: string;
      args?: readonly string[];
      cliConfig?: string;
    } = {},
  ): Promise<ClientResult & { lock: string | undefined; workspace: Workspace }> {
    const { source = `${REGISTRY}/acme/widget`, version, lockFile } = options;
    const made = await workspace({
      providers: { widget: { source, ...(version === undefined ? {} : { version }) } },
      ...(lockFile === undefined ? {} : { lockFile }),
    });
    const result = await run(made.directory, larder, ['init', ...(options.args ?? [])], options.cliConfig);
    return { ...result, lock: await made.lockFile(), workspace: made };
  }

  /** A lock file as somebody without Larder has it. */
  async function initAtOrigin({ internet, larder }: { internet: Internet; larder: Larder }): Promise<string> {
    const made = await workspace({ providers: { widget: { source: `${REGISTRY}/acme/widget` } } });
    const cliConfig = 'disable_checkpoint = true\nprovider_installation {\n  direct {}\n}\n';
    const result = await runClient({
      program,
      args: ['init', '-no-color'],
      directory: made.directory,
      cliConfig,
      ca: larder.ca,
      env: internet.env,
    });
    expectSuccess(result);
    return (await made.lockFile()) ?? '';
  }

  it('installs cold, warm, and with registry and archive host gone', async () => {
    const { internet, larder, http, published } = await begin();
    const { registry } = internet;

    const cold = await init(larder);
    expectSuccess(cold);
    expect(registry.releases.requests.count('GET', /\.zip$/)).toBe(1);
    const calls = registry.requests.all.length + registry.releases.requests.all.length;

    const warm = await init(larder);
    expectSuccess(warm);
    expect(warm.lock).toBe(cold.lock);
    expect(registry.requests.all.length + registry.releases.requests.all.length).toBe(calls);

    await internet.stop();
    const alone = await init(larder);
    expectSuccess(alone);
    expect(alone.lock).toBe(cold.lock);

    // What the client worked out itself is what the publisher built and what Larder says, once it has worked it out too.
    const [, h1] = /"(h1:[^"]+)"/.exec(cold.lock ?? '') ?? [];
    expect(published.packages.get('linux_amd64')?.h1).toBe(h1);
    await expect.poll(() => advertisedHashes(http, larder), { timeout: 20_000 }).toContain(h1);
    expectSuccess(await init(larder, { lockFile: cold.lock ?? '' }));
  });

  it('installs from a restarted Larder while its upstream has never been back', async () => {
    const { internet, larder } = await begin();
    const cold = await init(larder);
    expectSuccess(cold);
    await larder.close();
    await internet.stop();

    const again = await startLarder({ setup: larder.setup, env: internet.env });
    const alone = await init(again);
    expectSuccess(alone);
    expect(alone.lock).toBe(cold.lock);
  });

  it('accepts a lock file written at the origin, and leaves it alone with -lockfile=readonly', async () => {
    const world = await begin();
    const { larder, published } = world;
    const lockFile = await initAtOrigin(world);
    for (const { zh } of published.packages.values()) expect(lockFile).toContain(zh);

    const accepted = await init(larder, { lockFile });
    expectSuccess(accepted);
    expect(accepted.lock).toBe(lockFile);
    const readonly = await init(larder, { lockFile, args: ['-lockfile=readonly'] });
    expectSuccess(readonly);
    expect(readonly.lock).toBe(lockFile);
  });

  it('refuses to install what a lock file from the origin does not allow', async () => {
    const world = await begin();
    const lockFile = await initAtOrigin(world);
    // The same version with other bytes: the proof that the test above compares anything at all.
    await world.internet.registry.addProvider({ ...WIDGET, directoryEntries: true });
    const refused = await init(world.larder, { lockFile });
    expect(refused.code).toBe(1);
    expect(refused.output).toMatch(/doesn't match any of the\s+checksums/);
  });

  it('gives `providers lock -net-mirror` the hashes of three platforms', async () => {
    const { larder, published } = await begin();
    const made = await workspace({ providers: { widget: { source: `${REGISTRY}/acme/widget` } } });
    const platforms = ['linux_amd64', 'darwin_arm64', 'windows_amd64'];
    const result = await run(made.directory, larder, [
      'providers',
      'lock',
      `-net-mirror=${larder.url}/providers/`,
      ...platforms.map((platform) => `-platform=${platform}`),
    ]);
    expectSuccess(result);
    const lock = await made.lockFile();
    for (const platform of platforms) expect(lock).toContain(published.packages.get(platform)?.h1);
    // And it is a lock file that an install here agrees with.
    const agreeing = await init(larder, { lockFile: lock ?? '' });
    expectSuccess(agreeing);
    expect(agreeing.lock).toBe(lock);
  });

  it('refuses an archive that was tampered with, keeps nothing of it, and recovers by itself', async () => {
    const { internet, larder, http, published } = await begin();
    const { releases } = internet.registry;
    const tampered = releases.on(/^GET .*\.zip$/, corrupt(40));

    const refused = await init(larder);
    expect(refused.code).toBe(1);
    expect(refused.lock).toBeUndefined();
    expect(tampered.applied).toBeGreaterThan(0);
    const archive = `${larder.url}/providers/${REGISTRY}/acme/widget/terraform-provider-widget_1.2.3_linux_amd64.zip`;
    const answer = await http.get(archive);
    expect(answer.status).toBe(502);
    expect(answer.json()).toMatchObject({ code: 'INTEGRITY_MISMATCH' });
    const { sha256 = '' } = published.packages.get('linux_amd64') ?? {};
    expect(answer.json().errors[0]).toContain(sha256);
    expect(await zipsIn(larder)).toEqual([]);
    expect(await readdir(join(larder.setup.dataDirectory, 'partial'))).toEqual([]);

    tampered.remove();
    // For some seconds wrong bytes are not fetched again.
    await expect.poll(async () => (await http.get(archive)).status, { timeout: 20_000, interval: 200 }).toBe(200);
    expectSuccess(await init(larder));
    await expect.poll(() => zipsIn(larder)).toEqual(['terraform-provider-widget_1.2.3_linux_amd64.zip']);
  });

  it('refuses a signature by another key, and names that key, those the registry offers, and the registry', async () => {
    const signer = await SigningKey.generate({ type: 'ed25519' });
    const offered = await SigningKey.shared();
    const { internet, larder, http } = await begin({
      published: [{ ...WIDGET, sign: signer, publishedKeys: [offered] }],
    });

    const refused = await init(larder);
    expect(refused.code).toBe(1);
    const answer = await http.get(`${larder.url}/providers/${REGISTRY}/acme/widget/1.2.3.json`);
    expect(answer.status).toBe(502);
    expect(answer.json().code).toBe('INTEGRITY_MISMATCH');
    const logged = larder.log
      .filter(({ level }) => level === 'warn' || level === 'error')
      .map(({ fields }) => String((fields['error'] as Error | undefined)?.message));
    for (const told of [answer.json().errors[0] as string, logged.find((text) => text.includes('signature')) ?? '']) {
      expect(told).toContain(signer.keyId);
      expect(told).toContain(offered.keyId);
      expect(told).toContain(REGISTRY);
    }
    expect(internet.registry.releases.requests.count('GET', /\.zip$/)).toBe(0);
  });

  it('lets the client go on to its next source for a provider that upstream does not know', async () => {
    const { internet, larder } = await begin();
    const second = await secondSource({ ...WIDGET, namespace: 'elsewhere' });
    const result = await init(larder, {
      source: `${REGISTRY}/elsewhere/widget`,
      cliConfig: mirrors(larder.url, second.url),
    });
    expectSuccess(result);
    expect(internet.registry.requests.count('GET', /\/elsewhere\/widget\/versions$/)).toBe(1);
    expect(second.requests.count('GET', /\.zip$/)).toBe(1);
  });

  it('lets the client go on to its next source for a version that upstream does not have', async () => {
    const { larder } = await begin();
    const second = await secondSource({ ...WIDGET, version: '2.0.0' });
    const result = await init(larder, { version: '2.0.0', cliConfig: mirrors(larder.url, second.url) });
    expectSuccess(result);
    expect(second.requests.count('GET', /\.zip$/)).toBe(1);
    // The client did ask here, and was told that there is nothing rather than that something is wrong.
    expect(larder.log).toContainEqual(
      expect.objectContaining({
        message: 'request',
        fields: expect.objectContaining({ path: expect.stringMatching(/\/widget\/2\.0\.0\.json$/), status: 200 }),
      }),
    );
  });

  it('lets the client go directly for a registry that is not mirrored, with the configuration that it shows', async () => {
    const { internet, larder, http } = await begin({ names: ['another.example.test'], mirrored: [REGISTRY] });
    const shown = (await http.get(`${larder.url}/`)).text();
    const [, snippet = ''] = /(provider_installation \{[\s\S]*?\n\})/.exec(textOf(shown)) ?? [];
    const made = await workspace({
      providers: {
        widget: { source: `${REGISTRY}/acme/widget` },
        other: { source: 'another.example.test/acme/widget' },
      },
    });
    const result = await runClient({
      program,
      args: ['init', '-no-color'],
      directory: made.directory,
      cliConfig: snippet,
      ca: larder.ca,
      env: internet.env,
    });
    expectSuccess(result);
    const asked = larder.log.map(({ fields }) => String(fields['path'] ?? ''));
    expect(asked.filter((path) => path.includes('another.example.test'))).toEqual([]);
    expect(asked.filter((path) => path.endsWith('.zip'))).not.toEqual([]);
  });

  it('does not let the client take trouble for absence: a failing registry is no reason to go elsewhere', async () => {
    const { internet, larder } = await begin();
    const second = await secondSource(WIDGET);
    internet.registry.on(/^GET/, status(500));
    const result = await init(larder, { cliConfig: mirrors(larder.url, second.url) });
    expect(result.code).toBe(1);
    expect(second.requests.count('GET', /\.zip$/)).toBe(0);
  });

  it('goes on installing a stored version that upstream has withdrawn', async () => {
    const { internet, larder } = await begin();
    const first = await init(larder, { version: '1.2.3' });
    expectSuccess(first);
    await larder.close();
    await redis?.command('FLUSHALL');
    internet.registry.removeVersion(WIDGET);
    await internet.registry.addProvider({ ...WIDGET, version: '1.3.0' });

    // No memory of the list that still had it.
    await rm(join(larder.setup.dataDirectory, 'metadata'), { recursive: true, force: true });
    const again = await startLarder({ setup: larder.setup, env: internet.env });
    expectSuccess(await init(again, { version: '1.2.3', lockFile: first.lock ?? '' }));
    expectSuccess(await init(again, { version: '1.3.0' }));
  });

  it('installs a pre-release when it is asked for exactly, and never otherwise', async () => {
    const published = [WIDGET, { ...WIDGET, version: '2.0.0-beta.1' }];
    const { larder } = await begin({ published });
    const exact = await init(larder, { version: '2.0.0-beta.1' });
    expectSuccess(exact);
    expect(exact.lock).toMatch(/version\s+= "2\.0\.0-beta\.1"/);
    const newest = await init(larder);
    expectSuccess(newest);
    expect(newest.lock).toMatch(/version\s+= "1\.2\.3"/);
  });

  it('knows a registry by its international name, and addresses by any case', async () => {
    const { internet, larder } = await begin({ names: ['xn--bcher-kva.example.test'] });
    const unicode = await init(larder, { source: 'Bücher.Example.test/Acme/Widget' });
    expectSuccess(unicode);
    expect(internet.proxy.tunnels).toContain('xn--bcher-kva.example.test:443');
    const upperCase = await init(larder, { source: 'Registry.EXAMPLE.test/ACME/Widget' });
    expectSuccess(upperCase);
    expect(upperCase.lock).toContain(`provider "${REGISTRY}/acme/widget"`);
  });

  it('installs from a registry that lists its version as v1.2.3', async () => {
    const { larder } = await begin({ published: [{ ...WIDGET, published: 'v1.2.3' }] });
    expectSuccess(await init(larder, { version: '1.2.3' }));
  });

  it('R02: advertises the hash that the client computes of an archive with directory entries', async () => {
    const { larder, http, published } = await begin({ published: [{ ...WIDGET, directoryEntries: true }] });
    expectSuccess(await init(larder));
    const { h1 } = published.packages.get('linux_amd64') ?? {};
    await expect.poll(() => advertisedHashes(http, larder), { timeout: 20_000 }).toContain(h1);
    // Without its `zh:` the client has nothing but our `h1:` to compare the archive with.
    const onlyPackageHash = await mirrorWithout('zh:', larder, http);
    expectSuccess(
      await init(larder, {
        cliConfig: `provider_installation {\n  network_mirror {\n    url = "${onlyPackageHash.url}/"\n  }\n}\n`,
      }),
    );
  });

  /** Passes on what Larder says, without hashes of one kind. */
  async function mirrorWithout(kind: string, larder: Larder, http: HttpClient) {
    const origin = await Origin.start(async ({ path }) => {
      const answer = await http.get(`${larder.url}/providers${path}`);
      if (!path.endsWith('.json')) return reply(answer.status, answer.body);
      return json(
        JSON.parse(answer.text(), (_key, value) =>
          Array.isArray(value) ? value.filter((hash) => !String(hash).startsWith(kind)) : value,
        ),
      );
    });
    afterTest(() => origin.stop());
    return origin;
  }

  /** A static mirror elsewhere that has one version of something. */
  async function secondSource(provider: ProviderOptions) {
    const directory = await mkdtemp(join(tmpdir(), 'larder-second-'));
    afterTest(() => rm(directory, { recursive: true, force: true }));
    const internet = await Internet.start();
    await writeStaticMirror(directory, REGISTRY, await internet.registry.addProvider(provider));
    const origin = await serveDirectory(directory);
    afterTest(() => origin.stop());
    return origin;
  }
}

async function advertisedHashes(http: HttpClient, larder: Larder): Promise<string[]> {
  const answer = await http.get(`${larder.url}/providers/${REGISTRY}/acme/widget/1.2.3.json`);
  return answer.json().archives.linux_amd64.hashes;
}

/** A page as its reader copies it. */
function textOf(page: string): string {
  const entities: Record<string, string> = { quot: '"', lt: '<', gt: '>', amp: '&', '#39': "'" };
  return page.replace(/<[^>]*>/g, '').replace(/&(quot|lt|gt|amp|#39);/g, (_, name: string) => entities[name] ?? '');
}

function mirrors(larder: string, second: string): string {
  return `provider_installation {
  network_mirror {
    url = "${larder}/providers/"
  }
  network_mirror {
    url = "${second}/"
  }
}
`;
}

async function zipsIn(larder: Larder): Promise<string[]> {
  const directory = join(larder.setup.dataDirectory, 'providers');
  await mkdir(directory, { recursive: true });
  const files = await readdir(directory, { recursive: true });
  return files.filter((name) => name.endsWith('.zip')).map((name) => name.replace(/^.*\//, ''));
}
