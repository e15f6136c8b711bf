import { execFile } from 'node:child_process';
import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { mkdir, mkdtemp, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { expect, it } from 'vitest';
import { afterTest } from '../support/after-test.ts';
import { CertificateAuthority } from '../support/certificates.ts';
import { HttpClient } from '../support/http.ts';
import { startLarder } from '../support/larder.ts';
import { startNginx } from '../support/nginx.ts';
import { startWithOneProvider } from '../support/one-provider.ts';
import { describeWith, requirement } from '../support/requirements.ts';

const DEPLOY = join(import.meta.dirname, '../../deploy/nginx');
const LOCATIONS = readFileSync(join(DEPLOY, 'larder-locations.conf'), 'utf8');
const SIZE = 300_000;
/** A busy machine. */
const PATIENCE = { timeout: 120_000 };

async function nginxInFront() {
  const { registry, archive } = await startWithOneProvider(SIZE);
  const larder = await startLarder({
    registries: [registry],
    config: { access: { tokens: [{ name: 'operator', token: 'operator-token', roles: ['read', 'admin'] }] } },
  });
  const nginx = await startNginx({
    root: larder.setup.dataDirectory,
    http: `upstream larder { server 127.0.0.1:${larder.port}; keepalive 4; }`,
    server: [
      `proxy_ssl_trusted_certificate ${larder.setup.caFile};`,
      'proxy_ssl_name localhost;',
      'proxy_ssl_verify on;',
      LOCATIONS,
    ].join('\n'),
  });
  const http = new HttpClient({ ca: nginx.ca });
  afterTest(() => http.close());
  const { hostname } = registry;
  return {
    registry,
    larder,
    zip: archive.filename,
    sha256: archive.sha256,
    base: `/providers/${hostname}/acme/widget`,
    door: `/registry/${hostname}/v1/providers/acme/widget/1.0.0`,
    send: (path: string, options = {}) => http.send(`${nginx.url}${path}`, options),
  };
}

/** What nginx says of a configuration. */
async function checkedByNginx(directory: string, text: string): Promise<string> {
  const file = join(directory, 'nginx.conf');
  await writeFile(file, text);
  const { path = '' } = requirement('nginx');
  const run = promisify(execFile)(path, ['-t', '-q', '-c', file, '-e', join(directory, 'error.log'), '-p', directory]);
  return run.then(({ stderr }) => stderr).catch((error: { stderr: string }) => error.stderr);
}

const digest = (bytes: Buffer) => createHash('sha256').update(bytes).digest('hex');

describeWith(['nginx'], 'nginx in front, with the configuration that we ship', () => {
  it('the whole of it is what nginx understands', PATIENCE, async () => {
    const directory = await mkdtemp(join(tmpdir(), 'larder-nginx-check-'));
    afterTest(() => rm(directory, { recursive: true, force: true }));
    const authority = await CertificateAuthority.shared();
    const { cert, key } = await authority.issue();
    await mkdir(join(directory, 'data/tls'), { recursive: true });
    await Promise.all([
      writeFile(join(directory, 'data/tls/cert.pem'), cert),
      writeFile(join(directory, 'data/tls/key.pem'), key),
      writeFile(join(directory, 'data/tls/ca.pem'), authority.pem),
    ]);
    const server = readFileSync(join(DEPLOY, 'larder.conf'), 'utf8')
      .replaceAll('/data', join(directory, 'data'))
      .replace('/etc/nginx/larder-locations.conf', join(DEPLOY, 'larder-locations.conf'))
      // Names are looked up when nginx starts.
      .replace('server larder:8443;', 'server 127.0.0.1:8443;');
    const whole = `pid ${directory}/pid; events { } http { ${server} }`;
    expect(await checkedByNginx(directory, whole)).toBe('');
  });

  it('what is not stored comes through Larder, and from disk afterwards, also without Larder', PATIENCE, async () => {
    const { registry, larder, zip, sha256, base, door, send } = await nginxInFront();
    const list = await send(`${base}/index.json`);
    expect(list.json()).toEqual({ versions: { '1.0.0': {} } });
    expect(list.headers['content-type']).toBe('application/json');

    const cold = await send(`${base}/${zip}`);
    expect([cold.status, digest(cold.body)]).toEqual([200, sha256]);
    expect(cold.headers['x-request-id']).toBeDefined();

    // Whoever waits has it as soon as it is verified; a moment later it has its final name.
    await expect.poll(() => stat(join(larder.setup.dataDirectory, base, zip)), { timeout: 10_000 }).toBeDefined();
    for (const path of [`${base}/${zip}`, `${door}/${zip}`]) {
      const warm = await send(path);
      expect([warm.status, digest(warm.body)]).toEqual([200, sha256]);
      expect(warm.headers).toMatchObject({
        'content-type': 'application/zip',
        'cache-control': 'public, max-age=31536000, immutable',
        'accept-ranges': 'bytes',
      });
      // Larder was not asked.
      expect(warm.headers['x-request-id'], path).toBeUndefined();
    }
    const part = await send(`${base}/${zip}`, { headers: { range: 'bytes=100-199' } });
    expect([part.status, part.body]).toEqual([206, cold.body.subarray(100, 200)]);
    const head = await send(`${base}/${zip}`, { method: 'HEAD' });
    expect([head.status, head.headers['content-length']]).toEqual([200, String(cold.body.length)]);
    expect(registry.releases.requests.count('GET', new RegExp(`/${zip}`))).toBe(1);

    await larder.close();
    expect(digest((await send(`${base}/${zip}`)).body)).toBe(sha256);
    expect((await send(`${base}/index.json`)).status).toBe(502);
  });

  it('nothing of the data directory goes out but archives', PATIENCE, async () => {
    const { larder, base, zip, send } = await nginxInFront();
    await send(`${base}/${zip}`);
    for (const path of [
      '/seal.json',
      '/metadata/metadata.mdb',
      '/tls/ca.key',
      `/data${base}/1.0.0.json`,
      '/partial/',
    ]) {
      const answer = await send(path);
      expect([answer.status, answer.headers['x-request-id']], path).toEqual([404, expect.any(String)]);
    }
    // What Larder answers is more than what is stored.
    const document = await send(`${base}/1.0.0.json`);
    expect(document.headers['x-request-id']).toBeDefined();
    expect(larder.log.filter(({ message }) => message === 'request').length).toBeGreaterThan(5);
  });

  it('operators work through it, with bodies of any size', PATIENCE, async () => {
    const { send } = await nginxInFront();
    const answer = await send('/admin/seal', {
      method: 'PUT',
      headers: { authorization: 'Bearer operator-token', 'content-type': 'application/json' },
      body: JSON.stringify({ sealed: true }),
    });
    expect([answer.status, answer.json().sealed]).toEqual([200, true]);
    const upload = await send('/admin/upload/nothing', {
      method: 'PUT',
      headers: { authorization: 'Bearer operator-token' },
      body: Buffer.alloc(2_000_000),
    });
    // Whatever it says, it is Larder that says it.
    expect(upload.headers['x-request-id']).toBeDefined();
  });
});
