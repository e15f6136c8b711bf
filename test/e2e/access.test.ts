import { execFile } from 'node:child_process';
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { expect, it } from 'vitest';
import { afterTest } from '../support/after-test.ts';
import { larderCommand } from '../support/built-program.ts';
import { type ClientResult, mirrorCliConfig, runClient, workspace } from '../support/client.ts';
import { HttpClient } from '../support/http.ts';
import { Internet, REGISTRY } from '../support/internet.ts';
import { type Larder, startLarder } from '../support/larder.ts';
import { describeWith } from '../support/requirements.ts';

const TOKEN = 'ci-t0ken.of~this+test/only=';
const OTHER = 'the-token-of-somebody-else';
const ZIP = 'terraform-provider-widget_1.2.3_linux_amd64.zip';

async function begin(access: Record<string, unknown> = {}) {
  const internet = await Internet.start();
  for (const version of ['1.2.2', '1.2.3']) {
    await internet.registry.addProvider({ namespace: 'acme', type: 'widget', version });
  }
  const tokens = [
    { name: 'ci', token: TOKEN, roles: ['read'] },
    { name: 'narrow', token: OTHER, roles: ['read'], addresses: [`${REGISTRY}/platform/*`] },
  ];
  const config = internet.larderConfig({
    access: { anonymous: 'none', tokens, ...access },
    log: { audit: 'data/audit.jsonl' },
  });
  const larder = await startLarder({ config, env: internet.env });
  const http = new HttpClient({ ca: larder.ca });
  afterTest(() => http.close());
  const mirror = `${larder.url}/providers/${REGISTRY}/acme/widget`;
  const get = (url: string, token?: string, method = 'GET', headers = {}) =>
    http.send(url, {
      method,
      headers: { ...(token === undefined ? {} : { authorization: `Bearer ${token}` }), ...headers },
    });
  /** The link that a client is given for the archive. */
  const linkFor = async (token: string, version = '1.2.3') => {
    const { url } = (await get(`${mirror}/${version}.json`, token)).json().archives.linux_amd64;
    return new URL(url, `${mirror}/${version}.json`).href;
  };
  const audit = async () => {
    await larder.app.reopenAuditLog();
    const text = await readFile(join(larder.setup.dataDirectory, 'audit.jsonl'), 'utf8');
    return {
      text,
      entries: text
        .trimEnd()
        .split('\n')
        .map((line) => JSON.parse(line) as Record<string, unknown>),
    };
  };
  return { internet, larder, http, mirror, get, linkFor, audit };
}

async function init(
  larder: Larder,
  options: { cliConfig?: string; env?: Record<string, string> },
): Promise<ClientResult> {
  const { directory } = await workspace({
    providers: { widget: { source: `${REGISTRY}/acme/widget`, version: '1.2.3' } },
  });
  return runClient({
    args: ['init', '-no-color'],
    directory,
    ca: larder.ca,
    cliConfig: mirrorCliConfig(larder.url),
    ...options,
  });
}

const credentials = (host: string, token = TOKEN) => `credentials "${host}" {\n  token = "${token}"\n}\n`;

describeWith(['terraform'], 'terraform init through a Larder that wants a token', () => {
  it('R01: credentials for host and port let it install, archives included, for which the client sends no token', async () => {
    const { larder, audit } = await begin();
    const cliConfig = mirrorCliConfig(larder.url) + credentials(`localhost:${larder.port}`);
    const result = await init(larder, { cliConfig });
    expect(result.code, result.output).toBe(0);

    const { text, entries } = await audit();
    const served = entries.filter(({ event }) => event === 'served');
    expect(served.map(({ client, what }) => `${client} ${what}`)).toEqual(
      expect.arrayContaining(['ci versions', 'ci packages', 'ci archive']),
    );
    expect(entries.filter(({ event }) => event !== 'served')).toEqual([]);
    expect(served.find(({ what }) => what === 'archive')).toMatchObject({
      provider: `${REGISTRY}/acme/widget`,
      version: '1.2.3',
      platform: 'linux_amd64',
      status: 200,
      remote: '127.0.0.1',
      path: expect.stringMatching(/^\/get\/…\//),
    });
    // Neither the token nor what makes a link good is in any log.
    const logged = JSON.stringify(larder.log.map(({ message, fields }) => [message, fields, String(fields['error'])]));
    for (const log of [text, logged]) {
      expect(log).not.toContain(TOKEN);
      expect(log).not.toMatch(/\/get\/[^…]/);
    }
    const { dataDirectory } = larder.setup;
    // Hashes and documents are still being written: once it has ended, no file moves away between listing and reading.
    await larder.close();
    const kept = await readdir(dataDirectory, { recursive: true, withFileTypes: true });
    for (const entry of kept.filter((found) => found.isFile())) {
      expect((await readFile(join(entry.parentPath, entry.name))).includes(TOKEN), entry.name).toBe(false);
    }
  });

  it('credentials for the host without its port are for another host, and the client says so', async () => {
    const { larder } = await begin();
    const result = await init(larder, { cliConfig: mirrorCliConfig(larder.url) + credentials('localhost') });
    expect(result.code).toBe(1);
    expect(result.output.replace(/\s+/g, ' ')).toContain('rejected the given authentication credentials');
  });

  it('no credentials, and wrong ones, get the same message from the client', async () => {
    const { larder } = await begin();
    const wrong = mirrorCliConfig(larder.url) + credentials(`localhost:${larder.port}`, 'wrong');
    for (const result of [await init(larder, {}), await init(larder, { cliConfig: wrong })]) {
      expect(result.code).toBe(1);
      expect(result.output.replace(/\s+/g, ' ')).toContain('rejected the given authentication credentials');
    }
  });

  it('the token may come in the variable that is named for host and port', async () => {
    const { larder } = await begin();
    const result = await init(larder, { env: { [`TF_TOKEN_localhost:${larder.port}`]: TOKEN } });
    expect(result.code, result.output).toBe(0);
  });

  it('the token may be the password in the URL of the mirror', async () => {
    const { larder } = await begin();
    const url = larder.url.replace('//', `//any:${encodeURIComponent(TOKEN)}@`);
    const result = await init(larder, { cliConfig: mirrorCliConfig(url) });
    expect(result.code, result.output).toBe(0);
  });

  it('a token for other addresses is refused', async () => {
    const { larder } = await begin();
    const cliConfig = mirrorCliConfig(larder.url) + credentials(`localhost:${larder.port}`, OTHER);
    const result = await init(larder, { cliConfig });
    expect(result.code).toBe(1);
    expect(result.output.replace(/\s+/g, ' ')).toContain('rejected the given authentication credentials');
  });
});

it('R01: a link needs no token, for HEAD, GET, parts and again and again; the archive itself needs one', async () => {
  const { mirror, get, linkFor } = await begin();
  const link = await linkFor(TOKEN);
  expect(link).toMatch(new RegExp(`/get/[\\w.-]+/${REGISTRY}/acme/widget/${ZIP}$`));
  expect(await linkFor(TOKEN)).toBe(link);

  expect((await get(link, undefined, 'HEAD')).status).toBe(200);
  const whole = await get(link);
  expect(whole.status).toBe(200);
  expect(whole.headers['cache-control']).toBe('private, max-age=31536000, immutable');
  const part = await get(link, undefined, 'GET', { range: 'bytes=10-19' });
  expect(part.status).toBe(206);
  expect(part.body).toEqual(whole.body.subarray(10, 20));
  // A token that the client sends along for some reason of its own changes nothing.
  expect((await get(link, 'wrong')).status).toBe(200);

  const direct = `${mirror}/${ZIP}`;
  for (const method of ['HEAD', 'GET']) {
    expect((await get(direct, undefined, method)).status).toBe(401);
    expect((await get(direct, 'wrong', method)).status).toBe(401);
    expect((await get(direct, OTHER, method)).status).toBe(403);
    expect((await get(direct, TOKEN, method)).status).toBe(200);
  }
  const basic = `Basic ${Buffer.from(`anybody:${TOKEN}`).toString('base64')}`;
  expect((await get(direct, undefined, 'GET', { authorization: basic })).body).toEqual(whole.body);
});

it('R78: a token in the query of an archive is no token, escaped or not, and a header is', async () => {
  const { mirror, get } = await begin();
  for (const url of [`${mirror}/${ZIP}?token=${TOKEN}`, `${mirror}/${ZIP}%3Ftoken=${TOKEN}`]) {
    const refused = await get(url);
    expect(refused.status).toBe(401);
    expect(refused.text()).not.toContain(TOKEN);
  }
  expect((await get(`${mirror}/${ZIP}?token=x`, TOKEN)).status).toBe(200);
  const escaped = await get(`${mirror}/${ZIP}%3Ftoken=x`, TOKEN);
  expect(escaped.status).toBe(404);
  expect(escaped.json().hint).toContain('percent-encoded');
});

it('a link for another file, changed, or out of time is refused, and only its own end is told', async () => {
  const { get, linkFor, audit } = await begin({ links: { lifetime: '3s' } });
  const older = await linkFor(TOKEN, '1.2.2');
  const link = await linkFor(TOKEN);
  const capability = (url: string) => /\/get\/([^/]+)/.exec(url)?.[1] ?? '';

  const reaimed = link.replace(capability(link), capability(older));
  const forged = link.replace(/\.[\w-]{43}\//, `.${'A'.repeat(43)}/`);
  for (const url of [reaimed, forged]) {
    const refused = await get(url);
    expect(refused.status).toBe(403);
    expect(refused.json()).toMatchObject({ code: 'LINK_NOT_VALID', errors: ['this download link is not valid'] });
  }
  expect((await get(link)).status).toBe(200);
  await expect.poll(async () => (await get(link)).status, { timeout: 15_000, interval: 200 }).toBe(403);
  expect((await get(link)).json()).toMatchObject({ code: 'LINK_EXPIRED' });
  expect((await get(forged)).json()).toMatchObject({ code: 'LINK_NOT_VALID' });

  const { entries } = await audit();
  const reasons = new Set(entries.filter(({ event }) => event === 'refused').map(({ reason }) => reason));
  expect(reasons).toEqual(
    new Set(['this download link is not valid: it was not signed for this file', 'this download link has expired']),
  );
});

it('wrong tokens by the dozen are slowed down, and a valid one is not', async () => {
  const { mirror, get } = await begin();
  const bad = await Promise.all(
    Array.from({ length: 25 }, (_, index) => get(`${mirror}/index.json`, `guess-${index}`)),
  );
  expect(bad.map(({ status }) => status).sort()).toEqual([...Array(20).fill(401), ...Array(5).fill(429)]);
  expect(bad.find(({ status }) => status === 429)?.headers['retry-after']).toBe('5');
  expect((await get(`${mirror}/index.json`, TOKEN)).status).toBe(200);
  // Who presents nothing guesses nothing.
  expect((await get(`${mirror}/index.json`)).status).toBe(401);
});

it('a link whose holder is no longer configured, or no longer for this address, is refused', async () => {
  const { internet, larder, get, linkFor } = await begin();
  const link = await linkFor(TOKEN);
  await larder.close();

  const restart = async (token: Record<string, unknown>) => {
    const config = internet.larderConfig({
      data: larder.setup.dataDirectory,
      access: { anonymous: 'none', tokens: [token] },
    });
    return startLarder({ config, env: internet.env });
  };
  const at = (other: Larder) => link.replace(`:${larder.port}/`, `:${other.port}/`);
  const same = await restart({ name: 'ci', token: 'a new secret'.replaceAll(' ', '-'), roles: ['read'] });
  expect((await get(at(same))).status).toBe(200);
  await same.close();
  const gone = await restart({ name: 'other', token: TOKEN, roles: ['read'] });
  expect((await get(at(gone))).json()).toMatchObject({ code: 'LINK_NOT_VALID' });
  await gone.close();
  const narrowed = await restart({ name: 'ci', token: TOKEN, roles: ['read'], addresses: ['*/platform/*'] });
  expect((await get(at(narrowed))).json()).toMatchObject({ code: 'LINK_NOT_VALID' });
});

it('larder rotate-links --revoke takes back all links of a running server', { timeout: 90_000 }, async () => {
  const { larder, get, linkFor, audit } = await begin();
  const link = await linkFor(TOKEN);
  expect((await get(link)).status).toBe(200);

  const args = await larderCommand('rotate-links', '--config', larder.setup.configFile, '--revoke');
  const { stdout } = await promisify(execFile)(process.execPath, args, { env: { PATH: process.env['PATH'] ?? '' } });
  expect(stdout).toContain('refused within seconds');

  await expect.poll(async () => (await get(link)).status, { timeout: 30_000, interval: 500 }).toBe(403);
  expect((await get(await linkFor(TOKEN))).status).toBe(200);
  expect((await audit()).entries).toContainEqual(expect.objectContaining({ event: 'links-rotated', revoke: true }));
});
