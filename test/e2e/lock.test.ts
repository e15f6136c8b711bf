import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { afterTest } from '../support/after-test.ts';
import {
  type ClientResult,
  hostCliConfig,
  mirrorCliConfig,
  runClient,
  type Workspace,
  workspace,
} from '../support/client.ts';
import { HttpClient } from '../support/http.ts';
import { Internet, REGISTRY } from '../support/internet.ts';
import { type Larder, startLarder } from '../support/larder.ts';
import { describeWith } from '../support/requirements.ts';

const PLATFORMS = ['linux_amd64', 'linux_arm64', 'darwin_arm64', 'windows_amd64'];
const WANTED = PLATFORMS.slice(0, 3);
const MANIFEST = `${'ab'.repeat(32)}  terraform-provider-widget_1.2.3_manifest.json`;
const TOKEN = 'token-of-the-operators';
const SOURCE = `${REGISTRY}/acme/widget`;
const INCOMPLETE = 'Incomplete lock file information';

for (const program of ['terraform', 'tofu'] as const) {
  describeWith([program], `a completed lock file and ${program}`, () => suite(program));
}

function suite(program: 'terraform' | 'tofu'): void {
  async function begin(provider: Record<string, unknown> = {}) {
    const internet = await Internet.start();
    await internet.registry.addProvider({
      namespace: 'acme',
      type: 'widget',
      version: '1.2.3',
      platforms: PLATFORMS,
      extraShasumsLines: [MANIFEST],
      ...provider,
    });
    const access = { tokens: [{ name: 'ops', token: TOKEN, roles: ['admin'] }] };
    const larder = await startLarder({ config: internet.larderConfig({ access }), env: internet.env });
    const configs = {
      origin: 'disable_checkpoint = true\n',
      mirror: mirrorCliConfig(larder.url),
      host: hostCliConfig(larder.url, REGISTRY),
    };
    const run = async (through: keyof typeof configs, args: readonly string[], lockFile?: string) => {
      const made = await workspace({
        providers: { widget: { source: SOURCE } },
        ...(lockFile !== undefined && { lockFile }),
      });
      return { ...(await execute(made, through, args)), made, lock: (await made.lockFile()) ?? '' };
    };
    const execute = (made: Workspace, through: keyof typeof configs, args: readonly string[]) =>
      runClient({
        program,
        args: [...args, '-no-color'],
        directory: made.directory,
        cliConfig: configs[through],
        ca: larder.ca,
        ...(through === 'origin' && { env: internet.env }),
      });
    return { internet, larder, run, execute };
  }

  async function complete(larder: Larder, lock: string, platforms: readonly string[] = WANTED): Promise<string> {
    const client = new HttpClient({ ca: larder.ca });
    afterTest(() => client.close());
    const query = platforms.map((platform) => `platform=${platform}&`).join('');
    const answer = await client.get(`${larder.url}/admin/lock?${query}fetch=true`, {
      method: 'POST',
      headers: { authorization: `Bearer ${TOKEN}` },
      body: lock,
    });
    expect(answer.status, answer.text()).toBe(200);
    return answer.text();
  }

  const lockArgs = ['providers', 'lock', ...WANTED.map((platform) => `-platform=${platform}`)];

  it('R22: an h1-only lock file becomes what `providers lock` writes at the registry itself', async () => {
    const { larder, run, internet } = await begin();
    const origin = await run('origin', lockArgs);
    expectSuccess(origin);
    const throughHost = await run('host', lockArgs);
    expectSuccess(throughHost);
    const bare = await run('mirror', ['init']);
    expectSuccess(bare);
    if (program === 'terraform') {
      expect(bare.output).toContain(INCOMPLETE);
      expect(bare.lock).not.toContain('zh:');
    }

    const completed = await complete(larder, bare.lock);
    expect(completed.match(/"h1:/g)).toHaveLength(WANTED.length);
    expect(completed.match(/"zh:/g)).toHaveLength(PLATFORMS.length + 1);
    // `providers lock` knows no constraints of this configuration either.
    expect(completed).toBe(origin.lock);
    expect(completed).toBe(throughHost.lock);

    // Everything else is a lock file of one platform, as the registry gives it.
    const own = await run('origin', ['init']);
    expect(await complete(larder, bare.lock, ['linux_amd64'])).toBe(own.lock);

    // In a world where nothing else is to be had.
    await internet.stop();
    for (const through of ['mirror', 'host'] as const) {
      const readonly = await run(through, ['init', '-lockfile=readonly'], completed);
      expectSuccess(readonly);
      expect(readonly.lock).toBe(completed);
      expect(readonly.output).not.toContain(INCOMPLETE);
    }
  });

  it('R02: also of a package with entries for directories, which is found in its directory again', async () => {
    const { larder, run, execute } = await begin({ directoryEntries: true });
    const origin = await run('host', lockArgs);
    expectSuccess(origin);
    const bare = await run('mirror', ['init']);
    expectSuccess(bare);
    const completed = await complete(larder, bare.lock);
    expect(completed).toBe(origin.lock);
    // What is unpacked already is compared by its h1: alone.
    await writeFile(join(bare.made.directory, '.terraform.lock.hcl'), completed);
    const again = await execute(bare.made, 'mirror', ['init', '-lockfile=readonly']);
    expectSuccess(again);
    expect(again.output).toContain('Using previously-installed');
    expect(await bare.made.lockFile()).toBe(completed);
  });
}

/** When it did not, what the client said is the first thing one wants to know. */
function expectSuccess(result: ClientResult): void {
  expect(result.code, result.output).toBe(0);
}
