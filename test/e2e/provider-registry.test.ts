import { expect, it } from 'vitest';
import { Hostname } from '../../src/address/hostname.ts';
import { hostConfiguration } from '../../src/http/cli-snippets.ts';
import { afterTest } from '../support/after-test.ts';
import {
  type ClientResult,
  directCliConfig,
  hostCliConfig,
  runClient,
  type Workspace,
  workspace,
} from '../support/client.ts';
import { Internet, REGISTRY } from '../support/internet.ts';
import { type Larder, startLarder } from '../support/larder.ts';
import { describeWith } from '../support/requirements.ts';
import { UpstreamRegistry } from '../support/upstream-registry.ts';

const PLATFORMS = ['linux_amd64', 'linux_arm64', 'darwin_arm64', 'windows_amd64'];
const WIDGET = { namespace: 'acme', type: 'widget', version: '1.2.3', platforms: PLATFORMS };
const TOKEN = 'a-token-of-larder-e81f';

const credentials = (host: string, token: string) => `credentials "${host}" {\n  token = "${token}"\n}\n`;

interface Run extends ClientResult {
  readonly lock: string | undefined;
  readonly workspace: Workspace;
}

/** When it did not, what the client said is the first thing one wants to know. */
function expectSuccess(result: ClientResult): void {
  expect(result.code, result.output).toBe(0);
}

for (const program of ['terraform', 'tofu'] as const) {
  describeWith([program], `${program} through a host block`, () => suite(program));
}

function suite(program: 'terraform' | 'tofu'): void {
  async function run(
    args: readonly string[],
    options: { source: string; cliConfig: string; ca: string; env?: Record<string, string>; in?: Workspace },
  ): Promise<Run> {
    const { source, in: existing, ...rest } = options;
    const made = existing ?? (await workspace({ providers: { widget: { source } } }));
    const result = await runClient({ program, args: [...args, '-no-color'], directory: made.directory, ...rest });
    return { ...result, lock: await made.lockFile(), workspace: made };
  }

  /** A registry on a port, which lets in nobody without its token. */
  async function registryOnPort(token: string): Promise<UpstreamRegistry> {
    const registry = await UpstreamRegistry.start();
    afterTest(() => registry.stop());
    await registry.addProvider(WIDGET);
    registry.requireToken(token);
    return registry;
  }

  /** Larder with the tokens of two registries that differ in nothing but their ports. */
  async function twoPorts(config: Record<string, unknown> = {}) {
    const [one, other] = [await registryOnPort('token-of-one'), await registryOnPort('token-of-the-other')];
    const hosts = {
      [one.hostname]: { credentials: { token: 'token-of-one' } },
      [other.hostname]: { credentials: { token: 'token-of-the-other' } },
    };
    const larder = await startLarder({ registries: [one, other], config: { upstreams: { hosts }, ...config } });
    const through = (registry: UpstreamRegistry, larder: Larder, args: readonly string[] = ['init'], more = '') =>
      run(args, {
        source: `${registry.hostname}/acme/widget`,
        cliConfig: hostCliConfig(larder.url, registry.hostname) + more,
        ca: larder.ca,
      });
    const atOrigin = (registry: UpstreamRegistry, token: string, args: readonly string[] = ['init']) =>
      run(args, {
        source: `${registry.hostname}/acme/widget`,
        cliConfig: directCliConfig(registry) + credentials(registry.hostname, token),
        ca: registry.ca,
      });
    return { one, other, larder, through, atOrigin };
  }

  it('writes exactly the lock file that the origin gives, and names the key: cold, warm, with upstream gone', async () => {
    const internet = await Internet.start();
    const published = await internet.registry.addProvider(WIDGET);
    const source = `${REGISTRY}/acme/widget`;
    const larder = await startLarder({ config: internet.larderConfig(), env: internet.env });
    const origin = await run(['init'], {
      source,
      cliConfig: 'disable_checkpoint = true\n',
      ca: larder.ca,
      env: internet.env,
    });
    expectSuccess(origin);
    const keyId = published.keys[0]?.primaryKeyId;
    const init = () => run(['init'], { source, cliConfig: hostCliConfig(larder.url, REGISTRY), ca: larder.ca });
    const expectTheSame = (result: Run) => {
      expectSuccess(result);
      expect(result.lock).toBe(origin.lock);
      expect(result.output.replace(/\s+/g, ' ').toLowerCase()).toContain(`key id ${keyId}`.toLowerCase());
    };
    expect(origin.output).toContain('key ID');
    expect(origin.lock?.match(/"zh:/g)).toHaveLength(PLATFORMS.length);

    expectTheSame(await init());
    const calls = internet.registry.requests.all.length + internet.registry.releases.requests.all.length;
    expectTheSame(await init());
    expect(internet.registry.requests.all.length + internet.registry.releases.requests.all.length).toBe(calls);
    await internet.stop();
    expectTheSame(await init());
    await larder.close();
    const again = await startLarder({ setup: larder.setup, env: internet.env });
    expectTheSame(await run(['init'], { source, cliConfig: hostCliConfig(again.url, REGISTRY), ca: again.ca }));
  });

  it('R28: hosts with a port, each with a token of its own, which the clients do not have', async () => {
    const { one, other, larder, through, atOrigin } = await twoPorts();
    for (const [registry, token] of [
      [one, 'token-of-one'],
      [other, 'token-of-the-other'],
    ] as const) {
      const origin = await atOrigin(registry, token);
      expectSuccess(origin);
      const cold = await through(registry, larder);
      expectSuccess(cold);
      expect(cold.lock).toBe(origin.lock);
      await registry.stop();
      const alone = await through(registry, larder);
      expectSuccess(alone);
      expect(alone.lock).toBe(origin.lock);
      const sent = registry.requests.withCredentials().map(({ headers }) => headers.authorization);
      expect(new Set(sent)).toEqual(new Set([`Bearer ${token}`]));
      expect(registry.releases.requests.withCredentials()).toEqual([]);
    }
  });

  it('`providers lock` for three platforms gives the lock file of the origin, also with upstream gone', async () => {
    const { one, larder, through, atOrigin } = await twoPorts();
    const lock = ['providers', 'lock', ...PLATFORMS.slice(0, 3).map((platform) => `-platform=${platform}`)];
    const origin = await atOrigin(one, 'token-of-one', lock);
    expectSuccess(origin);
    expect(origin.lock?.match(/"h1:/g)).toHaveLength(3);
    for (const upstream of ['there', 'gone']) {
      if (upstream === 'gone') await one.stop();
      const result = await through(one, larder, lock);
      expectSuccess(result);
      expect(result.lock, upstream).toBe(origin.lock);
    }
  });

  it('a lock file of the origin is left alone, and archives are what it says', async () => {
    const { one, larder, atOrigin } = await twoPorts();
    const origin = await atOrigin(one, 'token-of-one');
    const source = `${one.hostname}/acme/widget`;
    const made = await workspace({ providers: { widget: { source } }, lockFile: origin.lock ?? '' });
    const cliConfig = hostCliConfig(larder.url, one.hostname);
    const result = await run(['init', '-lockfile=readonly'], { source, cliConfig, ca: larder.ca, in: made });
    expectSuccess(result);
    expect(result.lock).toBe(origin.lock);
  });

  it('R01: where Larder wants a token, it is the one for the registry’s host; none is sent for files', async () => {
    const tokens = [{ name: 'ci', token: TOKEN, roles: ['read'] }];
    const { one, larder, through } = await twoPorts({ access: { anonymous: 'none', tokens } });
    const installed = await through(one, larder, ['init'], credentials(one.hostname, TOKEN));
    expectSuccess(installed);
    expect(installed.lock?.match(/"zh:/g)).toHaveLength(PLATFORMS.length);
    const paths = larder.log.map(({ fields }) => String(fields['path'] ?? ''));
    expect(paths.filter((path) => path.startsWith('/get/…/')).map((path) => path.split('_').pop())).toEqual(
      expect.arrayContaining(['SHA256SUMS', 'SHA256SUMS.sig', 'amd64.zip']),
    );
    expect(one.requests.withCredentials().every(({ headers }) => headers.authorization === 'Bearer token-of-one')).toBe(
      true,
    );
    for (const more of ['', credentials(one.hostname, 'wrong'), credentials(`localhost:${larder.port}`, TOKEN)]) {
      const refused = await through(one, larder, ['init'], more);
      expect(refused.code).toBe(1);
      expect(refused.output.replace(/[\s│]+/g, ' ')).toMatch(/authentication|credentials|unauthorized/i);
    }
  });

  it('an upstream that is asked with clients’ tokens takes the one that the client has for it', async () => {
    const registry = await registryOnPort('token-of-one');
    const hosts = { [registry.hostname]: { credentials: { forward: true } } };
    const larder = await startLarder({ registries: [registry], config: { upstreams: { hosts } } });
    const init = (token: string) =>
      run(['init'], {
        source: `${registry.hostname}/acme/widget`,
        cliConfig: hostCliConfig(larder.url, registry.hostname) + credentials(registry.hostname, token),
        ca: larder.ca,
      });
    expectSuccess(await init('token-of-one'));
    expect((await init('token-of-somebody-else')).code).toBe(1);
  });

  it('the configuration that Larder recommends serves registries with a port and without, by one file', async () => {
    const internet = await Internet.start();
    await internet.registry.addProvider(WIDGET);
    const registry = await registryOnPort('token-of-one');
    const hosts = {
      [registry.hostname]: { ca: 'ca.pem', privateNetwork: true, credentials: { token: 'token-of-one' } },
    };
    const { upstreams } = internet.larderConfig();
    const config = { upstreams: { ...upstreams, hosts: { ...upstreams.hosts, ...hosts } } };
    const larder = await startLarder({ config, env: { ...internet.env, NO_PROXY: 'localhost' } });
    const names = [REGISTRY, registry.hostname].map((name) => Hostname.parse(name));
    const { directory } = await workspace({
      providers: {
        widget: { source: `${REGISTRY}/acme/widget` },
        gadget: { source: `${registry.hostname}/acme/widget` },
      },
    });
    const cliConfig = hostConfiguration({ baseUrl: larder.url, upstreams: names });
    expectSuccess(await runClient({ program, args: ['init', '-no-color'], directory, cliConfig, ca: larder.ca }));
    expect(registry.releases.requests.count('GET', /\.zip$/)).toBe(1);
    expect(internet.registry.releases.requests.count('GET', /\.zip$/)).toBe(1);
  });

  it('what upstream says to those who install is shown', async () => {
    const { one, larder, through } = await twoPorts();
    one.warnings = ['acme/widget will move to acme/gadget'];
    const result = await through(one, larder);
    expectSuccess(result);
    expect(result.output.replace(/[\s│]+/g, ' ')).toContain('acme/widget will move to acme/gadget');
  });
}
