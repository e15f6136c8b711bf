import { afterEach, beforeEach, expect, test } from 'vitest';
import { mirrorCliConfig, runClient, workspace } from './client.ts';
import { HttpClient } from './http.ts';
import { startLarder } from './larder.ts';
import { startLarderProcess } from './larder-process.ts';
import { larderSetup } from './larder-setup.ts';
import type { PublishedVersion } from './published-provider.ts';
import { requirement } from './requirements.ts';
import { UpstreamRegistry } from './upstream-registry.ts';

/** Starting takes seconds on a busy machine. */
const PROCESS_TEST = { timeout: 90_000 };

let registry: UpstreamRegistry;
let published: PublishedVersion;
beforeEach(async () => {
  registry = await UpstreamRegistry.start({ name: 'registry.example.test' });
  published = await registry.addProvider({ namespace: 'acme', type: 'widget', version: '1.2.3' });
});
afterEach(() => registry.stop());

async function widgetVersions(larder: { url: string }, ca: string): Promise<unknown> {
  const client = new HttpClient({ ca });
  try {
    return (await client.get(`${larder.url}/providers/${registry.hostname}/acme/widget/index.json`)).json();
  } finally {
    await client.close();
  }
}

test('a Larder in the test answers from the scripted registry, and starts again on its data', async () => {
  const larder = await startLarder({ registries: [registry] });
  expect(await widgetVersions(larder, larder.ca)).toEqual({ versions: { '1.2.3': {} } });
  await larder.close();
  const again = await startLarder({ setup: larder.setup });
  expect(await widgetVersions(again, again.ca)).toEqual({ versions: { '1.2.3': {} } });
});

test('a Larder in its own process says when it listens, can be killed and starts again', PROCESS_TEST, async () => {
  const setup = await larderSetup({ registries: [registry] });
  const larder = await startLarderProcess(setup);
  expect(await widgetVersions(larder, setup.ca)).toEqual({ versions: { '1.2.3': {} } });
  larder.signal('SIGKILL');
  expect(await larder.ended).toEqual({ code: undefined, signal: 'SIGKILL' });

  const again = await startLarderProcess(setup);
  expect(await widgetVersions(again, setup.ca)).toEqual({ versions: { '1.2.3': {} } });
  again.signal('SIGTERM');
  expect(await again.ended).toEqual({ code: 0, signal: undefined });
});

test('a Larder that cannot start gives its reasons', PROCESS_TEST, async () => {
  const setup = await larderSetup({ config: { nonsense: true } });
  await expect(startLarderProcess(setup)).rejects.toThrow(/nonsense/);
});

test.skipIf(!requirement('terraform').present)('the real client installs through it', async () => {
  const larder = await startLarder({ registries: [registry] });
  const { directory, lockFile } = await workspace({
    providers: { widget: { source: `${registry.hostname}/acme/widget` } },
  });
  const { code, output } = await runClient({
    args: ['init', '-no-color'],
    directory,
    cliConfig: mirrorCliConfig(larder.url),
    ca: larder.ca,
  });
  expect(code, output).toBe(0);
  expect(await lockFile()).toContain(`"${published.packages.get('linux_amd64')?.h1}"`);
  expect(registry.releases.requests.count('GET', /\.zip$/)).toBe(1);
});
