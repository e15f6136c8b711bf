import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { appendFile, mkdtemp, rm, truncate, writeFile } from 'node:fs/promises';
import { createServer, type RequestListener } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { buffer } from 'node:stream/consumers';
import { describe, expect, it } from 'vitest';
import { ProviderArchive } from '../../src/address/archive.ts';
import { parseSha256 } from '../../src/address/hash.ts';
import { Platform } from '../../src/address/platform.ts';
import { ProviderAddress } from '../../src/address/provider.ts';
import { Version } from '../../src/address/version.ts';
import { ServerCarrier } from '../../src/cli/server-carrier.ts';
import { bytesOf, packageOf, startScene, WIDGET } from '../mirror/scene.ts';
import { afterTest } from '../support/after-test.ts';
import { publish } from '../support/published-provider.ts';

const TOKEN = 'token-of-the-operators';
const OF_ACME = 'token-for-acme-alone';
const config = {
  access: {
    tokens: [
      { name: 'ops', token: TOKEN, roles: ['read', 'admin'] },
      { name: 'acme', token: OF_ACME, roles: ['read', 'admin'], addresses: ['*/acme/*'] },
    ],
  },
};

/** Puts files where they may be brought from. */
async function packing() {
  const directory = await mkdtemp(join(tmpdir(), 'larder-carrier-'));
  afterTest(() => rm(directory, { recursive: true, force: true }));
  const bytes = bytesOf(packageOf(await publish(WIDGET)));
  const brought = async (
    bytes: Buffer,
    { host = 'registry.example.test', version = '1.0.0', name = 'acme/widget' } = {},
  ) => {
    const file = join(directory, 'brought.zip');
    await writeFile(file, bytes);
    const sha256 = parseSha256(createHash('sha256').update(bytes).digest('hex'));
    const provider = ProviderAddress.parse(`${host}/${name}`);
    const archive = new ProviderArchive(provider, Version.parse(version), Platform.parse('linux_amd64'));
    return { archive, file, size: bytes.length, sha256, h1: undefined };
  };
  return { bytes, brought };
}

async function begin() {
  const { bytes, brought: packed } = await packing();
  const scene = await startScene({ config });
  const carrier = await ServerCarrier.at(scene.larder.url, { token: TOKEN, ca: scene.larder.setup.caFile });
  afterTest(() => carrier.close());
  const brought = (what: Buffer, named: { host?: string; version?: string; name?: string } = {}) =>
    packed(what, { host: scene.registry.hostname.toString(), ...named });
  return { ...scene, carrier, brought, bytes };
}

describe('a running server that things are carried to', () => {
  it('takes what is new, has what it has, and gives it back', async () => {
    const { carrier, larder, brought, bytes } = await begin();
    const archive = await brought(bytes);
    expect((await carrier.takeArchive(archive)).outcome).toBe('imported');
    expect((await carrier.takeArchive(archive)).outcome).toBe('present');
    const again = await ServerCarrier.at(larder.url, { token: TOKEN, ca: larder.setup.caFile });
    afterTest(() => again.close());
    const given: Buffer[] = [];
    for await (const carried of again.archives()) given.push(await buffer(await again.openArchive(carried)));
    expect(given).toEqual([bytes]);
    expect((await again.takeArchive(archive)).outcome).toBe('present');
  });

  it('says what it does not take, also while much is still on its way, and takes the next', async () => {
    const { carrier, brought, bytes, archive } = await begin();
    expect((await archive()).status).toBe(200);
    const large = Buffer.concat([bytes, Buffer.alloc(20_000_000)]);
    expect(await carrier.takeArchive(await brought(large))).toMatchObject({ outcome: 'refused', why: 'drift' });
    const unknown = await brought(bytes, { host: 'unknown.example.test' });
    expect(await carrier.takeArchive(unknown)).toMatchObject({
      outcome: 'refused',
      why: 'excluded',
      reason: expect.stringContaining('unknown.example.test'),
    });
    expect((await carrier.takeArchive(await brought(bytes, { version: '2.0.0' }))).outcome).toBe('imported');
  });

  it('ends a command whose token is no good', async () => {
    const { larder, brought, bytes } = await begin();
    const carrier = await ServerCarrier.at(larder.url, { token: 'another-token', ca: larder.setup.caFile });
    afterTest(() => carrier.close());
    await expect(carrier.takeArchive(await brought(bytes))).rejects.toMatchObject({ code: 'COMMAND_FAILED' });
  });

  it('goes on past what the token is not for', async () => {
    const { larder, brought, bytes } = await begin();
    const carrier = await ServerCarrier.at(larder.url, { token: OF_ACME, ca: larder.setup.caFile });
    afterTest(() => carrier.close());
    expect(await carrier.takeArchive(await brought(bytes, { name: 'other/widget' }))).toMatchObject({
      outcome: 'refused',
      why: 'forbidden',
      reason: expect.stringContaining('other/widget'),
    });
    expect((await carrier.takeArchive(await brought(bytes))).outcome).toBe('imported');
  });

  it('says of a file that is no archive that it is none, not that its digest is another', async () => {
    const { carrier, brought } = await begin();
    expect(await carrier.takeArchive(await brought(Buffer.from('no zip at all')))).toMatchObject({
      outcome: 'refused',
      why: 'invalid',
      reason: expect.stringContaining('no zip archive'),
    });
  });

  it('is not blamed for a file that changed or went on its way', async () => {
    const { carrier, brought, bytes, archive } = await begin();
    const taken = async (change: (file: string) => Promise<void>) => {
      const one = await brought(bytes);
      await change(one.file);
      return carrier.takeArchive(one);
    };
    const changed = { outcome: 'failed', reason: 'it has changed since it was looked at' };
    expect(await taken((file) => appendFile(file, 'more'))).toEqual(changed);
    expect(await taken((file) => truncate(file, 10))).toEqual(changed);
    expect(await taken((file) => rm(file))).toEqual({ outcome: 'failed', reason: 'it cannot be read (ENOENT)' });
    // However often that is.
    expect((await carrier.takeArchive(await brought(bytes))).outcome).toBe('imported');
    expect((await archive()).body.equals(bytes)).toBe(true);
  });
});

/** A server that answers uploads as it is told to, one after the other. */
async function answering(...answers: readonly RequestListener[]) {
  const { brought, bytes } = await packing();
  let count = 0;
  const server = createServer((req, res) => {
    if (req.url === '/admin/inventory') return void res.end('{"archives":[],"modules":[],"drift":[]}');
    answers[count++]?.(req, res);
  });
  server.listen(0, '127.0.0.1');
  afterTest(async () => {
    server.closeAllConnections();
    server.close();
  });
  await once(server, 'listening');
  const carrier = await ServerCarrier.at(`http://127.0.0.1:${(server.address() as AddressInfo).port}`, {});
  afterTest(() => carrier.close());
  return { carrier, take: async (body = bytes) => carrier.takeArchive(await brought(body)) };
}

const saying =
  (status: number, text: string): RequestListener =>
  (req, res) => {
    req.resume();
    res.writeHead(status).end(text);
  };
const larderSays = (status: number, code: string) =>
  saying(status, JSON.stringify({ errors: [`so says ${code}`], code }));
const cut: RequestListener = (req) => {
  req.once('data', () => req.socket.destroy());
};
const LARGE = Buffer.alloc(5_000_000);

describe('what a server answers to something that is carried to it', () => {
  it.each([
    [422, 'INTEGRITY_MISMATCH', 'digest'],
    [422, 'SIGNATURE_MISMATCH', 'signature'],
    [422, 'INVALID_ARCHIVE', 'invalid'],
    [400, 'INVALID_REQUEST', 'invalid'],
    [400, 'DIGEST_REQUIRED', 'unverifiable'],
    [403, 'FORBIDDEN', 'forbidden'],
    [404, 'ADDRESS_EXCLUDED', 'excluded'],
    [404, 'HOST_NOT_ALLOWED', 'excluded'],
    [409, 'DRIFT', 'drift'],
    [413, 'BODY_TOO_LARGE', 'too large'],
  ])('%s %s is about that alone', async (status, code, why) => {
    const { take } = await answering(larderSays(status, code), larderSays(201, 'OK'));
    expect(await take()).toEqual({ outcome: 'refused', why, reason: `so says ${code}` });
    expect((await take()).outcome).toBe('imported');
  });

  it.each([
    [401, 'UNAUTHENTICATED'],
    [404, 'NOT_FOUND'],
    [422, 'SOMETHING_NEW'],
    [500, 'STORAGE_FAILED'],
    [507, 'STORAGE_FAILED'],
  ])('%s %s ends the command, in the words of the server', async (status, code) => {
    const { take } = await answering(larderSays(status, code));
    const error = await take().catch((failure: unknown) => failure);
    expect(error).toMatchObject({ code: 'COMMAND_FAILED', message: expect.stringContaining(`so says ${code}`) });
  });

  it('is about that alone, too, when a proxy lets nothing so large through', async () => {
    const { take } = await answering(saying(413, '<html>Request Entity Too Large</html>'), larderSays(201, 'OK'));
    expect(await take()).toMatchObject({ outcome: 'refused', why: 'too large' });
    expect((await take()).outcome).toBe('imported');
  });
});

describe('SHA256SUMS of a running server', () => {
  const asked = async (answer: RequestListener) => {
    const { carrier } = await answering(answer);
    return carrier.release(ProviderAddress.parse('registry.example.test/acme/widget'), Version.parse('1.0.0'));
  };

  it('are what it has, or nothing where it has none', async () => {
    const shasums = Buffer.from('of this version');
    const document = { shasums: shasums.toString('base64') };
    expect(await asked(saying(200, JSON.stringify(document)))).toMatchObject({ shasums });
    expect(await asked(larderSays(404, 'NOT_FOUND'))).toBeUndefined();
  });

  it.each([
    [larderSays(404, 'HOST_NOT_ALLOWED'), 'so says HOST_NOT_ALLOWED'],
    [larderSays(422, 'SOMETHING_NEW'), 'so says SOMETHING_NEW'],
    [saying(404, '<html>'), 'not as Larder does'],
    [saying(200, '{"shasums":1}'), 'as nobody can read them'],
  ])('end the command when it answers something else (%#)', async (answer, said) => {
    const error = await asked(answer).catch((failure: unknown) => failure);
    expect(error).toMatchObject({ code: 'COMMAND_FAILED', message: expect.stringContaining(said) });
  });
});

describe('a connection that breaks off', () => {
  it.each([
    ['cut in the middle', cut, /broke off/],
    ['given up by the server', larderSays(408, 'REQUEST_TIMEOUT'), /so says REQUEST_TIMEOUT/],
    ['given up by a proxy', saying(504, '<html>Gateway Time-out</html>'), /504/],
  ])('%s, is the failure of one thing, and the next is taken', async (_, listener, reason) => {
    const { take } = await answering(listener, larderSays(201, 'OK'));
    expect(await take(LARGE)).toEqual({ outcome: 'failed', reason: expect.stringMatching(reason) });
    expect((await take()).outcome).toBe('imported');
  });

  it('three times on end is the end of the command, but not with one between them that got there', async () => {
    const { take } = await answering(cut, cut, larderSays(201, 'OK'), cut, cut, cut);
    const outcomes: string[] = [];
    for (let i = 0; i < 5; i += 1) outcomes.push((await take(LARGE)).outcome);
    expect(outcomes).toEqual(['failed', 'failed', 'imported', 'failed', 'failed']);
    const error = await take(LARGE).catch((failure: unknown) => failure);
    expect(error).toMatchObject({
      code: 'COMMAND_FAILED',
      message: expect.stringContaining('broke off'),
      hint: expect.stringContaining('goes on where it stopped'),
    });
  });
});
