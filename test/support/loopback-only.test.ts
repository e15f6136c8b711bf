import { lookup as namedLookup } from 'node:dns';
import { lookup as promisedLookup } from 'node:dns/promises';
import { once } from 'node:events';
import { connect } from 'node:net';
import { expect, test } from 'vitest';
import { CertificateAuthority } from './certificates.ts';
import { reply } from './faults.ts';
import { HttpClient } from './http.ts';
import { isLoopback, putName, removeName, takeAttempts } from './loopback-network.ts';
import { Origin } from './origin.ts';

test('names that exist nowhere fail at once, as a resolver would say it', async () => {
  await expect(promisedLookup('registry.invalid')).rejects.toMatchObject({ code: 'ENOTFOUND' });
  const error = await new Promise((resolve) => namedLookup('registry.example.test', (failure) => resolve(failure)));
  expect(error).toMatchObject({ code: 'ENOTFOUND', hostname: 'registry.example.test' });
  const [failure] = await once(connect(443, 'registry.invalid'), 'error');
  expect(failure).toMatchObject({ code: 'ENOTFOUND' });
});

test('loopback can be reached by name and by address', async () => {
  const origin = await Origin.start(() => reply(200, 'here'));
  const client = new HttpClient({ ca: origin.ca });
  try {
    expect((await client.get(`${origin.url}/`)).text()).toBe('here');
    expect((await client.get(`https://127.0.0.1:${origin.port}/`)).text()).toBe('here');
    await expect(promisedLookup('localhost')).resolves.toMatchObject({ address: expect.any(String) });
  } finally {
    await client.close();
    await origin.stop();
  }
});

test('a name can be put there, and taken away again', async () => {
  const authority = await CertificateAuthority.shared();
  const origin = await Origin.start(() => reply(200, 'here'), { names: ['somewhere.example.test'] });
  const client = new HttpClient({ ca: authority.pem });
  try {
    putName('somewhere.example.test', origin.port);
    expect(await promisedLookup('somewhere.example.test')).toEqual({ address: '127.0.0.1', family: 4 });
    expect((await client.get('https://somewhere.example.test/')).text()).toBe('here');
    removeName('somewhere.example.test');
    await expect(promisedLookup('somewhere.example.test')).rejects.toMatchObject({ code: 'ENOTFOUND' });
  } finally {
    await client.close();
    await origin.stop();
  }
});

test('a connection beyond loopback fails', async () => {
  const [error] = await once(connect(443, '192.0.2.1'), 'error');
  expect(error).toMatchObject({ code: 'EBEYONDLOOPBACK' });
  expect(takeAttempts()).toEqual(['192.0.2.1:443']);
});

test('a look-up of its own does not lead there either', async () => {
  const socket = connect({
    port: 443,
    host: 'somewhere.invalid',
    lookup: (_name, _options, callback) => callback(null, [{ address: '192.0.2.1', family: 4 }]),
  });
  const [error] = await once(socket, 'error');
  expect(error).toMatchObject({ code: 'EBEYONDLOOPBACK' });
  expect(takeAttempts()).toEqual(['somewhere.invalid (192.0.2.1)']);
});

test('names are not asked of the network', async () => {
  await expect(promisedLookup('larder.dev')).rejects.toMatchObject({ code: 'EBEYONDLOOPBACK' });
  expect(takeAttempts()).toEqual(['the name larder.dev']);
});

test.fails('a test that tries fails, even if it looks away', async () => {
  await promisedLookup('larder.dev').catch(() => {});
});

test('addresses are told apart', () => {
  expect(['127.0.0.1', '127.255.0.9', '::1', '::ffff:127.0.0.1'].filter(isLoopback)).toHaveLength(4);
  expect(['10.0.0.1', '192.0.2.1', '::', 'fe80::1', '0.0.0.0', '::ffff:192.0.2.1'].filter(isLoopback)).toEqual([]);
});
