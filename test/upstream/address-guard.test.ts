import { promisify } from 'node:util';
import { request } from 'undici';
import { expect, onTestFinished, test } from 'vitest';
import { AddressNotAllowed, isPublicAddress, lookupPublic } from '../../src/upstream/address-guard.ts';
import { Connections } from '../../src/upstream/connections.ts';
import { transportFailure } from '../../src/upstream/failures.ts';
import { failureOf, patience, serve, upstreamAt } from './scripted-server.ts';

test.each(['1.1.1.1', '140.82.121.3', '2606:50c0:8000::153', '::ffff:140.82.121.3'])('%s is public', (address) => {
  expect(isPublicAddress(address)).toBe(true);
});

test.each([
  '127.0.0.1',
  '169.254.169.254',
  '168.63.129.16',
  '::ffff:168.63.129.16',
  '::1',
  '::',
  '::127.0.0.1',
  '::ffff:10.0.0.1',
  'fe80::1%eth0',
  '2002:7f00:1::',
  '224.0.0.1',
  'ff02::1',
  'nonsense',
])('%s is not', (address) => {
  expect(isPublicAddress(address)).toBe(false);
});

test('R33: a name that resolves to loopback yields no address at all, in both forms of look-up', async () => {
  for (const all of [true, false]) {
    await expect(promisify(lookupPublic)('localhost', { all })).rejects.toBeInstanceOf(AddressNotAllowed);
  }
});

test('R33: the check stands in the connection itself, and is told in plain words', async () => {
  const server = await serve((_, response) => response.end('never'));
  const connections = new Connections({ proxy: {}, limits: { connectMs: 5_000, headersMs: 5_000, bodyIdleMs: 5_000 } });
  onTestFinished(() => connections.close());
  const dispatcher = connections.for(await upstreamAt(server.host, { privateNetwork: false }));
  const error = await failureOf(request(server.origin, { dispatcher }));
  expect(transportFailure(new URL(server.origin), error, patience())).toMatchObject({
    code: 'UPSTREAM_INVALID',
    hint: expect.stringMatching(/privateNetwork: true/),
  });
  expect(server.connections()).toBe(0);
});
