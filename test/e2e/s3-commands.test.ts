import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { startClient } from '../mirror/scene.ts';
import { afterTest } from '../support/after-test.ts';
import { runLarder } from '../support/command.ts';
import { startLarder } from '../support/larder.ts';
import { larderSetup } from '../support/larder-setup.ts';
import { moduleTarGz } from '../support/module-archive.ts';
import { startS3 } from '../support/s3.ts';
import { UpstreamRegistry } from '../support/upstream-registry.ts';

const REGISTRY = 'registry.example.test';
const WIDGET = { namespace: 'acme', type: 'widget', version: '1.2.3', platforms: ['linux_amd64'] } as const;
const TOKEN = 'token-of-the-operators';
const ARCHIVE = `providers/${REGISTRY}/acme/widget/terraform-provider-widget_1.2.3_linux_amd64.zip`;
const PACKAGE = `modules/${REGISTRY}/acme/net/aws/1.0.0.tar.gz`;

async function begin() {
  const server = await startS3();
  const config = {
    s3: server.settings,
    access: { tokens: [{ name: 'ops', token: TOKEN, roles: ['read', 'admin'] }] },
  };
  const registry = await UpstreamRegistry.start({ name: REGISTRY });
  afterTest(() => registry.stop());
  await registry.addProvider(WIDGET);
  const { url } = registry.addModuleArchive('/net.tar.gz', moduleTarGz({ 'main.tf': 'output "it" { value = 1 }\n' }));
  registry.addModule({ namespace: 'acme', name: 'net', system: 'aws', version: '1.0.0', location: url });
  const larder = await startLarder({ registries: [registry], config });
  const http = startClient(larder);
  expect((await http.get(`${larder.url}/${ARCHIVE}`)).status).toBe(200);
  const located = `${larder.url}/registry/${REGISTRY}/v1/modules/acme/net/aws/1.0.0/download`;
  expect((await http.get(located)).status).toBe(204);
  await expect.poll(() => server.has(`${ARCHIVE}.json`) && server.has(PACKAGE)).toBe(true);
  const operator = { headers: { authorization: `Bearer ${TOKEN}` } };
  return { server, config, registry, larder, http, operator };
}

it('commands work on a bucket as they do on a directory, beside a server and without one', {
  timeout: 240_000,
}, async () => {
  const { server, config, larder, http, operator } = await begin();
  const { configFile: file } = larder.setup;
  expect((await http.get(`${larder.url}/readyz`)).json()).toMatchObject({ status: 'ready' });

  const listed = await runLarder(['ls', '--json', '-c', file]);
  expect(listed.lines()).toMatchObject([{ kind: 'archive' }, { kind: 'module' }]);
  const verified = await runLarder(['verify', '--json', '-c', file]);
  expect(verified, verified.stderr).toMatchObject({ code: 0 });

  const carried = await mkdtemp(join(tmpdir(), 'larder-carried-'));
  afterTest(() => rm(carried, { recursive: true, force: true }));
  const exported = await runLarder(['export', carried, '--link', '--json', '-c', file]);
  expect(exported, exported.stderr).toMatchObject({ code: 0 });
  expect((await readFile(join(carried, ARCHIVE))).equals(await server.get(ARCHIVE))).toBe(true);

  await server.corrupt(ARCHIVE, 30);
  await server.corrupt(PACKAGE, 30);
  const damaged = await runLarder(['verify', '--json', '-c', file]);
  expect(damaged.code).not.toBe(0);
  expect(server.has(ARCHIVE)).toBe(false);
  expect(await server.keys('quarantine/')).toHaveLength(4);
  const { quarantined } = (await http.get(`${larder.url}/admin/quarantine`, operator)).json();
  expect(quarantined).toHaveLength(2);
  expect(quarantined).toContainEqual(expect.objectContaining({ platform: 'linux_amd64' }));
  expect(quarantined).toContainEqual(expect.objectContaining({ version: '1.0.0' }));
  // The running server fetches them anew.
  await expect.poll(async () => (await http.get(`${larder.url}/${ARCHIVE}`)).status, { timeout: 15_000 }).toBe(200);
  await expect.poll(() => server.has(`${ARCHIVE}.json`)).toBe(true);

  const purged = await runLarder(['purge', `${REGISTRY}/acme/widget`, '--yes', '--json', '-c', file]);
  expect(purged, purged.stderr).toMatchObject({ code: 0 });
  expect((await server.keys('providers/')).filter((key) => key.endsWith('.zip'))).toEqual([]);

  const setup = await larderSetup({ config });
  const imported = await runLarder(['import', carried, '--json', '-c', setup.configFile]);
  expect(imported, imported.stderr).toMatchObject({ code: 0 });
  expect((await readFile(join(carried, ARCHIVE))).equals(await server.get(ARCHIVE))).toBe(true);
});

it('a bucket that is away fails readiness and what needs it, in words, and is used again when it is back', async () => {
  const { server, larder, http } = await begin();
  const heal = server.fail(() => true, { status: 403, code: 'AccessDenied' });
  const unready = await http.get(`${larder.url}/readyz`);
  expect(unready.status).toBe(503);
  expect(unready.json().checks.archives).toEqual({
    status: 'failing',
    reason: 'looking into the bucket failed (AccessDenied)',
  });
  const other = ARCHIVE.replace('linux_amd64', 'darwin_arm64');
  const failed = await http.get(`${larder.url}/${other}`);
  expect(failed.status).toBeGreaterThanOrEqual(500);
  expect(failed.text()).not.toContain(server.endpoint);
  heal();
  expect((await http.get(`${larder.url}/readyz`)).status).toBe(200);
  expect((await http.get(`${larder.url}/${ARCHIVE}`)).status).toBe(200);
});

it('Larder starts while the bucket cannot be reached, and says so', async () => {
  const server = await startS3();
  const heal = server.fail(() => true, 'reset');
  const larder = await startLarder({ config: { s3: server.settings } });
  const http = startClient(larder);
  expect((await http.get(`${larder.url}/healthz`)).status).toBe(200);
  expect((await http.get(`${larder.url}/readyz`)).status).toBe(503);
  await expect.poll(() => larder.log.map(({ message }) => message)).toContain('the bucket cannot be used');
  heal();
  expect((await http.get(`${larder.url}/readyz`)).status).toBe(200);
});
