import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { gzipSync } from 'node:zlib';
import express from 'express';
import { expect, test } from 'vitest';
import { RequestError } from '../../src/http/request-error.ts';
import { readWish } from '../../src/http/wish-request.ts';
import { afterTest } from '../support/after-test.ts';

const LIST = '{"providers":["hashicorp/random@~> 3.0"]}';
const CONFIGURATION = '{"terraform":{"required_providers":{"aws":{"version":"~> 5.0"}}}}';

interface Answer {
  readonly status: number;
  readonly wish?: { files: { path: string; text: string }[]; platforms: string[]; client: string };
  readonly error?: string;
  readonly hint?: string;
}

/** Sends a body to a server that answers with the wish it has read. */
async function post(
  body: string | Buffer,
  {
    query = '',
    type = 'application/json',
    headers = {},
    defaultClient,
  }: { query?: string; type?: string; headers?: object; defaultClient?: 'terraform' } = {},
): Promise<Answer> {
  const application = express();
  application.set('query parser', 'simple');
  application.post('/', async (req, res) => {
    try {
      const { files, platforms, client } = await readWish(req, res, defaultClient);
      res.json({ status: 200, wish: { files, platforms: platforms.map(String), client } });
    } catch (error) {
      if (!(error instanceof RequestError)) throw error;
      res.json({ status: error.status, error: error.message, hint: error.hint });
    }
  });
  const server = createServer(application).listen(0, '127.0.0.1');
  afterTest(async () => void server.close());
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  const answer = await fetch(`http://127.0.0.1:${port}/${query}`, {
    method: 'POST',
    body,
    headers: { 'content-type': type, ...headers },
  });
  return (await answer.json()) as Answer;
}

test('files with their paths, platforms and client are a wish', async () => {
  const files = [
    { path: 'net/main.tf', text: 'terraform {}' },
    { path: 'net/.terraform.lock.hcl', text: '' },
  ];
  const body = JSON.stringify({ files, platforms: ['linux_amd64', 'darwin_arm64'], client: 'terraform' });
  expect(await post(body)).toEqual({
    status: 200,
    wish: { files, platforms: ['linux_amd64', 'darwin_arm64'], client: 'terraform' },
  });
});

test('a file as it is, named in the query', async () => {
  const text = '# é\r\nprovider "registry.opentofu.org/acme/widget" {}';
  const query = '?file=.terraform.lock.hcl&platform=linux_amd64&platform=windows_amd64&client=terraform';
  const { wish } = await post(text, { query, type: 'text/plain' });
  expect(wish).toEqual({
    files: [{ path: '.terraform.lock.hcl', text }],
    platforms: ['linux_amd64', 'windows_amd64'],
    client: 'terraform',
  });
});

test('a file that is named is no concern of ours here, JSON or not', async () => {
  const { wish } = await post('{"terraform":', { query: '?file=main.tf.json' });
  expect(wish).toEqual({
    files: [{ path: 'main.tf.json', text: '{"terraform":' }],
    platforms: [],
    client: 'opentofu',
  });
});

test.each([
  ['a warm list', LIST, 'warm-list.json'],
  ['a warm list with a comment', '{"//":"weekly","modules":[]}', 'warm-list.json'],
  ['a configuration', CONFIGURATION, 'main.tf.json'],
  ['a configuration of resources alone', '{"resource":{"random_id":{"x":{}}}}', 'main.tf.json'],
  ['an empty configuration', '{"terraform":null}', 'main.tf.json'],
  ['a configuration in parts', `[${CONFIGURATION}]`, 'main.tf.json'],
  ['a configuration with a byte order mark', `\uFEFF${CONFIGURATION}`, 'main.tf.json'],
])('JSON without files is %s', async (_what, text, path) => {
  const { wish } = await post(text, { query: '?platform=linux_arm64' });
  expect(wish).toEqual({ files: [{ path, text }], platforms: ['linux_arm64'], client: 'opentofu' });
});

test.each([
  ['{', 400, /not valid JSON/],
  ['""', 400, /says nothing/],
  ['{}', 400, /says nothing/],
  ['{"//":1}', 400, /says nothing/],
  ['[1]', 400, /says nothing/],
  ['', 400, /no body/],
  ['{"files":[]}', 400, /^files: /],
  ['{"files":{}}', 400, /^files: /],
  ['{"files":[{"path":"a.tf"}]}', 400, /^files\.0\.text: /],
  ['{"files":[{"path":"a.tf","text":1}]}', 400, /^files\.0\.text: /],
  ['{"files":[{"path":"","text":""}]}', 400, /^files\.0\.path: /],
  ['{"files":[{"path":"a.tf","text":""},{"path":"./a.tf","text":""}]}', 400, /^files\.1\.path: .*already/],
  ['{"files":[{"path":"a.tf","text":""}],"platform":[]}', 400, /platform/],
  ['{"files":[{"path":"a.tf","text":""}],"platforms":["Linux"]}', 400, /^platforms\.0: .*OS_ARCH/],
  ['{"files":[{"path":"a.tf","text":""}],"client":"pulumi"}', 400, /^client: /],
])('%s is %i, in words', async (body, status, words) => {
  const answer = await post(body);
  expect(answer.status).toBe(status);
  expect(answer.error).toMatch(words);
});

test.each([
  ['?platform=windows', /^platform\.0: .*OS_ARCH/],
  ['?client=pulumi', /^client: /],
  ['?file=', /^file: /],
])('%s is refused, in words', async (query, words) => {
  const answer = await post(LIST, { query });
  expect(answer.status).toBe(400);
  expect(answer.error).toMatch(words);
});

test('whose rules hold is told by the JSON, else by the query, else by the default', async () => {
  const files = [{ path: 'a.tf', text: '' }];
  const clientOf = async (...args: Parameters<typeof post>) => (await post(...args)).wish?.client;
  const asked = { query: '?client=terraform' };
  expect(await clientOf(JSON.stringify({ files, client: 'opentofu' }), asked)).toBe('opentofu');
  expect(await clientOf(JSON.stringify({ files }), asked)).toBe('terraform');
  expect(await clientOf(LIST, { defaultClient: 'terraform' })).toBe('terraform');
  expect(await clientOf(LIST, { query: '?client=opentofu', defaultClient: 'terraform' })).toBe('opentofu');
});

test('a body that is not JSON needs a name', async () => {
  const answer = await post('terraform {}', { type: 'text/plain' });
  expect(answer).toMatchObject({ status: 415, hint: expect.stringContaining('?file=') });
});

test('a compressed body is refused, not read as something else', async () => {
  const answer = await post(gzipSync(LIST), { headers: { 'content-encoding': 'gzip' } });
  expect(answer).toMatchObject({ status: 415, error: expect.stringContaining('not compressed') });
});

test('a body that is not UTF-8 is refused', async () => {
  const answer = await post(Buffer.from([0x7b, 0xff, 0x7d]), { query: '?file=main.tf' });
  expect(answer).toMatchObject({ status: 400, error: 'the body is not UTF-8' });
});

test('16 MiB are read, and one byte more is refused', async () => {
  const most = Buffer.alloc(16 * 1024 * 1024, 'x');
  expect((await post(most, { query: '?file=main.tf' })).status).toBe(200);
  const answer = await post(Buffer.concat([most, Buffer.from('x')]), { query: '?file=main.tf' });
  expect(answer).toMatchObject({ status: 413, error: expect.stringContaining('16 MiB') });
});
