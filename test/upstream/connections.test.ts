import { once } from 'node:events';
import { type AddressInfo, createServer } from 'node:net';
import { expect, onTestFinished, test } from 'vitest';
import { Hostname } from '../../src/address/hostname.ts';
import { InvalidConfiguration } from '../../src/errors.ts';
import { Connections } from '../../src/upstream/connections.ts';
import type { Upstream } from '../../src/upstream/upstream.ts';
import { CertificateAuthority } from '../support/certificates.ts';

const LIMITS = { connectMs: 1_000, headersMs: 1_000, bodyIdleMs: 1_000 };

function upstream(hostname: string, ca?: string): Upstream {
  return {
    hostname: Hostname.parse(hostname),
    token: async () => undefined,
    archiveHosts: new Set(),
    ca,
    clientCertificate: undefined,
    privateNetwork: true,
    signatures: 'verify',
  } as unknown as Upstream;
}

test('what is prepared is there when it is asked for, and nobody was connected to', async () => {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  let connected = 0;
  server.on('connection', () => {
    connected += 1;
  });
  const connections = new Connections({ proxy: { https: `http://127.0.0.1:${port}` }, limits: LIMITS });
  onTestFinished(async () => {
    await connections.close();
    server.close();
  });
  const asked = upstream('registry.example.test', (await CertificateAuthority.shared()).pem);
  await connections.prepare([asked]);
  const prepared = connections.for(asked);
  expect(connections.for(asked)).toBe(prepared);
  expect(connected).toBe(0);
});

test('certificates that cannot be used are told by the request, not by preparing for it', async () => {
  const connections = new Connections({ proxy: {}, limits: LIMITS });
  const broken = { ...upstream('registry.example.test'), clientCertificate: { cert: 'none', key: 'none' } };
  const good = upstream('other.example.test');
  await connections.prepare([broken, good]);
  expect(() => connections.for(broken)).toThrow(InvalidConfiguration);
  expect(connections.for(good)).toBeDefined();
  await connections.close();
});

test('preparing goes on until it is over also when Larder stops meanwhile', async () => {
  const connections = new Connections({ proxy: {}, limits: LIMITS });
  const preparing = connections.prepare([upstream('a.example.test'), upstream('b.example.test')]);
  await connections.close();
  await expect(preparing).resolves.toBeUndefined();
});
