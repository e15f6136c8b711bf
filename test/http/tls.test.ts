import { X509Certificate } from 'node:crypto';
import { mkdtemp, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { certificateNames, loadTls, type TlsMaterial } from '../../src/http/tls.ts';

const DAY_MS = 86_400_000;
const NAMES = ['localhost', '127.0.0.1', '::1', 'mirror.example.com'];

async function directory(): Promise<string> {
  const path = await mkdtemp(join(tmpdir(), 'larder-tls-'));
  onTestFinished(() => rm(path, { recursive: true, force: true }));
  return join(path, 'tls');
}

async function selfSigned(path: string, names: readonly string[] = NAMES, now?: Date): Promise<TlsMaterial> {
  const material = await loadTls({ mode: 'selfsigned', directory: path, names }, now);
  if (!material) throw new Error('there is no certificate');
  return material;
}

test('the first start makes a small authority and a certificate for all names', async () => {
  const path = await directory();
  const { cert, key, authority, expiresAt } = await selfSigned(path);
  const leaf = new X509Certificate(cert);
  const ca = new X509Certificate(authority?.certificate ?? '');

  expect(authority?.file).toBe(join(path, 'ca.pem'));
  expect(ca.ca).toBe(true);
  expect(ca.subject).toMatch(/^CN=Larder CA [0-9a-f]{8}$/);
  expect(leaf.ca).toBe(false);
  expect(leaf.verify(ca.publicKey)).toBe(true);
  expect(leaf.publicKey.asymmetricKeyDetails?.namedCurve).toBe('prime256v1');
  for (const name of ['localhost', 'mirror.example.com']) expect(leaf.checkHost(name, { subject: 'never' })).toBe(name);
  for (const address of ['127.0.0.1', '::1']) expect(leaf.checkIP(address)).toBe(address);
  expect(leaf.checkHost('elsewhere.example.com')).toBeUndefined();

  const days = (certificate: X509Certificate) =>
    (Date.parse(certificate.validTo) - Date.parse(certificate.validFrom)) / DAY_MS;
  expect(days(leaf)).toBe(397);
  expect(days(ca)).toBeGreaterThan(3_640);
  expect(expiresAt.getTime()).toBe(Date.parse(leaf.validTo));

  expect(await readFile(join(path, 'key.pem'), 'utf8')).toBe(key);
  for (const secret of ['ca.key', 'key.pem']) expect((await stat(join(path, secret))).mode & 0o777).toBe(0o600);
  expect((await readdir(path)).sort()).toEqual(['ca.key', 'ca.pem', 'cert.pem', 'key.pem']);
});

test('the next start changes nothing', async () => {
  const path = await directory();
  const first = await selfSigned(path);
  expect(await selfSigned(path)).toEqual(first);
});

test.each([
  ['a month before it expires', NAMES, new Date(Date.now() + 370 * DAY_MS)],
  ['when a name is missing', [...NAMES, 'new.example.com'], undefined],
])('the certificate is renewed %s; authority and key stay', async (_when, names, now) => {
  const path = await directory();
  const first = await selfSigned(path);
  const second = await selfSigned(path, names, now);
  expect(second.cert).not.toBe(first.cert);
  expect(second.key).toBe(first.key);
  expect(second.authority).toEqual(first.authority);
  expect(second.expiresAt.getTime()).toBeGreaterThan((now ?? new Date()).getTime() + 300 * DAY_MS);
});

test('names that are no longer needed are no reason to renew', async () => {
  const path = await directory();
  const first = await selfSigned(path);
  expect(await selfSigned(path, ['localhost'])).toEqual(first);
});

test('an authority about to expire is replaced by another one', async () => {
  const path = await directory();
  const first = await selfSigned(path);
  const now = new Date(Date.now() + 3_640 * DAY_MS);
  const second = await selfSigned(path, NAMES, now);
  const [before, after] = [first, second].map(({ authority }) => new X509Certificate(authority?.certificate ?? ''));
  expect(after?.subject).not.toBe(before?.subject);
  expect(second.expiresAt.getTime()).toBeGreaterThan(now.getTime());
});

test.each(['cert.pem', 'key.pem'])('a damaged %s is made anew under the same authority', async (file) => {
  const path = await directory();
  const first = await selfSigned(path);
  await writeFile(join(path, file), '');
  const second = await selfSigned(path);
  expect(second.authority).toEqual(first.authority);
  expect(
    new X509Certificate(second.cert).verify(new X509Certificate(first.authority?.certificate ?? '').publicKey),
  ).toBe(true);
});

test.each(['ca.pem', 'ca.key'])('a lost %s does not stop a start', async (file) => {
  const path = await directory();
  await selfSigned(path);
  await Promise.all([rm(join(path, file)), rm(join(path, 'cert.pem'))]);
  const { cert, authority } = await selfSigned(path);
  expect(new X509Certificate(cert).verify(new X509Certificate(authority?.certificate ?? '').publicKey)).toBe(true);
});

test('as long as the certificate is good, a lost authority key is not missed', async () => {
  const path = await directory();
  const first = await selfSigned(path);
  await rm(join(path, 'ca.key'));
  expect(await selfSigned(path)).toEqual(first);
});

test('many starts at once agree on one authority and one key, and leave nothing else behind', async () => {
  const path = await directory();
  const materials = await Promise.all(Array.from({ length: 8 }, () => selfSigned(path)));
  expect(new Set(materials.map(({ key }) => key)).size).toBe(1);
  expect(new Set(materials.map(({ authority }) => authority?.certificate)).size).toBe(1);
  const ca = new X509Certificate(materials[0]?.authority?.certificate ?? '');
  for (const { cert } of materials) expect(new X509Certificate(cert).verify(ca.publicKey)).toBe(true);
  expect((await readdir(path)).sort()).toEqual(['ca.key', 'ca.pem', 'cert.pem', 'key.pem']);
});

test('a directory that cannot be had is an error of storage', async () => {
  const path = await directory();
  const file = join(path, '..', 'file');
  await writeFile(file, '');
  await expect(selfSigned(join(file, 'tls'))).rejects.toMatchObject({ code: 'STORAGE_FAILED' });
});

test('files are read as they are, chains too', async () => {
  const path = await directory();
  const { cert, key, authority } = await selfSigned(path);
  const chain = join(path, 'chain.pem');
  await writeFile(chain, cert + (authority?.certificate ?? ''));
  const loaded = await loadTls({ mode: 'files', cert: chain, key: join(path, 'key.pem') });
  expect(loaded).toMatchObject({ cert: cert + (authority?.certificate ?? ''), key, authority: undefined });
  expect(loaded?.expiresAt).toBeInstanceOf(Date);
});

test.each([
  ['a missing certificate', { cert: 'none.pem' }, /tls\.cert: .*none\.pem cannot be read \(ENOENT\)/],
  ['a missing key', { key: 'none.pem' }, /tls\.key: .*none\.pem cannot be read \(ENOENT\)/],
  ['a certificate that is none', { cert: 'garbage' }, /tls\.cert: .*garbage holds no PEM certificate/],
  ['a key that is none', { key: 'garbage' }, /tls\.key: .*garbage holds no PEM private key/],
  ['a key of another certificate', { key: 'ca.key' }, /tls\.key: .*ca\.key is not the key of/],
])('%s is an error of configuration that names setting and file', async (_name, change, message) => {
  const path = await directory();
  await selfSigned(path);
  await writeFile(join(path, 'garbage'), 'garbage');
  const files = { cert: 'cert.pem', key: 'key.pem', ...change };
  const loading = loadTls({ mode: 'files', cert: join(path, files.cert), key: join(path, files.key) });
  await expect(loading).rejects.toMatchObject({
    code: 'INVALID_CONFIGURATION',
    message: expect.stringMatching(message),
  });
});

test('off is no certificate', async () => {
  expect(await loadTls({ mode: 'off' })).toBeUndefined();
});

test('a certificate is made for every name that clients may use', () => {
  const names = certificateNames({ listenHost: '10.1.2.3', publicUrl: 'https://Mirror.Example.com:8443/larder' });
  expect(names).toEqual(expect.arrayContaining(['localhost', '127.0.0.1', '::1', '10.1.2.3', 'mirror.example.com']));
  expect(new Set(names).size).toBe(names.length);
  expect(certificateNames({ listenHost: '0.0.0.0', publicUrl: null })).not.toContain('0.0.0.0');
  expect(certificateNames({ listenHost: '::' })).not.toContain('::');
  expect(certificateNames({ listenHost: 'not_a_name' })).not.toContain('not_a_name');
  expect(certificateNames({ listenHost: '::', publicUrl: 'https://[fd00::1]/' })).toContain('fd00::1');
});
