import { expect, it } from 'vitest';
import { afterTest } from '../support/after-test.ts';
import { HttpClient } from '../support/http.ts';
import { startLarder } from '../support/larder.ts';
import { UpstreamRegistry } from '../support/upstream-registry.ts';

const PLATFORMS = ['linux', 'darwin', 'windows', 'freebsd', 'openbsd'].flatMap((os) =>
  ['amd64', 'arm64', '386'].map((arch) => `${os}_${arch}`),
);
const ARCHIVE_BYTES = 200_000_000;

it('describes fifteen platforms of 200 MB each with five calls upstream, and a second version with three', async () => {
  const registry = await UpstreamRegistry.start();
  afterTest(() => registry.stop());
  const published = [];
  for (const version of ['1.0.0', '1.1.0']) {
    const about = { namespace: 'acme', type: 'widget', version, platforms: PLATFORMS };
    published.push(await registry.addProvider({ ...about, sizeBytes: ARCHIVE_BYTES, digestsOnly: true }));
  }
  const larder = await startLarder({ registries: [registry] });
  const http = new HttpClient({ ca: larder.ca });
  afterTest(() => http.close());
  const calls = () => [...registry.requests.all, ...registry.releases.requests.all].map(({ path }) => path);
  const describe = (version: string) =>
    http.get(`${larder.url}/providers/${registry.hostname}/acme/widget/${version}.json`);

  const first = await describe('1.0.0');
  expect(first.status).toBe(200);
  const expected = Object.fromEntries(
    [...(published[0]?.packages.values() ?? [])].map(({ platform, zh }) => [
      platform,
      { hashes: [zh], url: `terraform-provider-widget_1.0.0_${platform}.zip` },
    ]),
  );
  expect(first.json()).toEqual({ archives: expected });
  expect(calls()).toEqual([
    '/.well-known/terraform.json',
    '/v1/providers/acme/widget/versions',
    '/v1/providers/acme/widget/1.0.0/download/linux/amd64',
    expect.stringMatching(/_SHA256SUMS$/),
    expect.stringMatching(/_SHA256SUMS\.sig$/),
  ]);

  registry.requests.clear();
  registry.releases.requests.clear();
  const second = await describe('1.1.0');
  expect(Object.keys(second.json().archives)).toHaveLength(PLATFORMS.length);
  expect(calls()).toEqual([
    '/v1/providers/acme/widget/1.1.0/download/linux/amd64',
    expect.stringMatching(/_SHA256SUMS$/),
    expect.stringMatching(/_SHA256SUMS\.sig$/),
  ]);

  registry.requests.clear();
  registry.releases.requests.clear();
  await Promise.all(Array.from({ length: 20 }, () => describe('1.1.0')));
  expect(calls()).toEqual([]);
});
