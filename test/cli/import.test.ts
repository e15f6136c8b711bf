import { once } from 'node:events';
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { createServer, type RequestListener } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { bytesOf, packageOf } from '../mirror/scene.ts';
import { afterTest } from '../support/after-test.ts';
import { runLarder } from '../support/command.ts';
import { publish } from '../support/published-provider.ts';

const VERSIONS = ['1.0.0', '1.1.0', '1.2.0'];

/** As the clients write a mirror. */
async function mirror(): Promise<string> {
  const made = await mkdtemp(join(tmpdir(), 'larder-import-command-'));
  afterTest(() => rm(made, { recursive: true, force: true }));
  const home = join(made, 'registry.example.test/acme/widget');
  await mkdir(home, { recursive: true });
  for (const version of VERSIONS) {
    const one = packageOf(await publish({ namespace: 'acme', type: 'widget', version }));
    await writeFile(join(home, one.filename), bytesOf(one));
    const archives = { linux_amd64: { url: one.filename, hashes: [one.zh] } };
    await writeFile(join(home, `${version}.json`), JSON.stringify({ archives }));
  }
  return made;
}

/** Takes everything but what `amiss` answers for. */
async function startServer(amiss: (path: string) => RequestListener | undefined): Promise<string> {
  const server = createServer((req, res) => {
    const other = amiss(req.url ?? '');
    if (other) return other(req, res);
    req.resume();
    if (req.method === 'GET') return void res.end('{"archives":[],"modules":[],"drift":[]}');
    req.on('end', () => void res.writeHead(201).end('{"outcome":"imported"}'));
  });
  server.listen(0, '127.0.0.1');
  afterTest(async () => {
    server.closeAllConnections();
    server.close();
  });
  await once(server, 'listening');
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

it('one upload that is cut, and one that is refused, keep nothing else from a server; the exit code tells', async () => {
  const server = await startServer((path) => {
    if (path.includes('1.0.0')) return (req) => void req.socket.destroy();
    if (!path.includes('1.1.0')) return undefined;
    return (req, res) => {
      req.resume();
      res.writeHead(403).end('{"errors":["this token is not for it"],"code":"FORBIDDEN"}');
    };
  });
  const target = await mirror();
  const imported = await runLarder(['import', target, '--json', '--server', server]);
  expect(imported.code, imported.stderr).toBe(1);
  expect(imported.lines()).toMatchObject([
    { version: '1.0.0', outcome: 'failed', reason: expect.stringContaining('broke off') },
    { version: '1.1.0', outcome: 'refused', why: 'forbidden', reason: 'this token is not for it' },
    { version: '1.2.0', outcome: 'imported' },
  ]);
  const shown = await runLarder(['import', target, '--server', server]);
  expect(shown.code).toBe(1);
  expect(shown.stderr).toMatch(
    /^larder: failed: registry\.example\.test\/acme\/widget 1\.0\.0 linux_amd64: .*broke off/m,
  );
  expect(shown.stderr).toContain('may come in with the same command again');
  expect(shown.stdout).toMatch(/1 failed, 1 refused, 1 imported/);
}, 60_000);

it('a server that is gone ends the command after what it says', async () => {
  const server = await startServer((path) => {
    if (!path.startsWith('/admin/archives')) return undefined;
    return (req) => void req.socket.destroy();
  });
  const imported = await runLarder(['import', await mirror(), '--json', '--server', server]);
  expect(imported.code).toBe(2);
  expect(imported.lines().map(({ outcome }) => outcome)).toEqual(['failed', 'failed']);
  expect(imported.stderr).toMatch(/broke off the connection[\s\S]*the same command goes on where it stopped/);
}, 60_000);
