import { spawn } from 'node:child_process';
import { once } from 'node:events';
import http from 'node:http';
import https from 'node:https';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { afterTest } from '../support/after-test.ts';
import { CertificateAuthority } from '../support/certificates.ts';

const PROGRAM = join(import.meta.dirname, '../../deploy/container/health-check.mjs');

async function check(server: http.Server | https.Server): Promise<number> {
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  afterTest(async () => void server.close());
  const child = spawn(process.execPath, [PROGRAM], { env: { PORT: String(port) }, stdio: 'ignore' });
  const [code] = (await once(child, 'exit')) as [number];
  return code;
}

const answering = (status: number) => (req: http.IncomingMessage, res: http.ServerResponse) =>
  void res.writeHead(req.url === '/healthz' ? status : 404).end();

it('the health check of the image takes an answer for health, by TLS and in the clear', async () => {
  const authority = await CertificateAuthority.shared();
  const { cert, key } = await authority.issue();
  expect(await check(https.createServer({ cert, key }, answering(200)))).toBe(0);
  expect(await check(http.createServer(answering(200)))).toBe(0);
});

it('the health check of the image fails where the answer is another one', async () => {
  expect(await check(http.createServer(answering(503)))).toBe(1);
});
