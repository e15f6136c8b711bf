import { open, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { archiveName, startScene } from '../mirror/scene.ts';
import { runLarder } from '../support/command.ts';

const TOKEN = 'token-of-the-operators';
const config = { access: { tokens: [{ name: 'ops', token: TOKEN, roles: ['admin'] }] } };
/** Several processes are started one after the other. */
const PROCESSES = { timeout: 120_000 };

async function begin() {
  const scene = await startScene({ config });
  const { body } = await scene.archive();
  await scene.stored();
  const { url, setup } = scene.larder;
  const there = ['--server', url, '--ca', setup.caFile, '--token', TOKEN];
  const here = ['--config', setup.configFile];
  return { ...scene, body, there, here, address: `${scene.registry.hostname}/acme/widget` };
}

it(
  'larder pin and unpin: the same pins with a server and without, which ls shows and purge respects',
  PROCESSES,
  async () => {
    const { there, here, address } = await begin();
    const pin = `${address}@1.0.0`;
    expect(await runLarder(['pin', pin, ...there])).toMatchObject({ code: 0, stdout: `${pin}\n` });
    const [listed, ls, purged, wrong, nothing] = await Promise.all([
      runLarder(['pin', '--list', ...here]),
      runLarder(['ls', ...there]),
      runLarder(['purge', address, '--yes', ...here]),
      runLarder(['pin', 'acme/widget', ...here]),
      runLarder(['pin', ...here]),
    ]);
    expect(listed).toMatchObject({ code: 0, stdout: `${pin}\n` });
    expect(ls.stdout).toMatch(/LAST USE.*\n.*\d{4}-\d\d-\d\d .*pinned$/m);
    expect(purged).toMatchObject({ code: 1, stderr: expect.stringContaining('everything that matches is pinned') });
    expect(wrong).toMatchObject({ code: 2, stderr: expect.stringContaining('HOST/NAMESPACE/TYPE') });
    expect(nothing).toMatchObject({ code: 2, stderr: expect.stringContaining('nothing to pin is named') });

    const unpinned = await runLarder(['unpin', pin, `${address}@2.0.0`, ...there]);
    expect(unpinned).toMatchObject({ code: 1, stdout: `${pin}: not pinned any more\n` });
    expect(unpinned.stderr).toContain(`${address}@2.0.0 is no pin`);
    const gone = await runLarder(['purge', address, '--yes', ...here]);
    expect(gone.stdout).toMatch(/^removed: 1 archive of 1 version/m);
  },
);

it('larder verify --heal has a running server fetch anew what is damaged', PROCESSES, async () => {
  const { there, here, registry, larder, body } = await begin();
  const directory = join(larder.setup.dataDirectory, 'providers', registry.hostname, 'acme', 'widget');
  const file = join(directory, archiveName('1.0.0', 'linux_amd64'));
  const handle = await open(file, 'r+');
  await handle.write(Buffer.from([(body[20] ?? 0) ^ 0xff]), 0, 1, 20);
  await handle.close();
  expect(await runLarder(['verify', '--heal', ...here])).toMatchObject({
    code: 2,
    stderr: expect.stringContaining('only a running server can fetch anew'),
  });
  const healed = await runLarder(['verify', '--heal', ...there]);
  expect(healed).toMatchObject({ code: 0, stderr: '' });
  expect(healed.stdout).toMatch(/linux_amd64\.zip: was damaged, fetched anew\n0 intact, 1 healed, 0 damaged/);
  expect((await readFile(file)).equals(body)).toBe(true);
  expect(await runLarder(['ls', '--quarantined', ...there])).toMatchObject({ code: 1, stdout: '' });
});
