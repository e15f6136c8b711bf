import { expect, test } from 'vitest';
import { Version } from '../../src/address/version.ts';
import { Changes } from '../../src/changes.ts';
import { Authenticator } from '../../src/http/authenticate.ts';
import { start, WIDGET_PATH } from './harness.ts';

const NOW = 1_800_000_000_000;
const INDEX = `GET ${WIDGET_PATH}/index.json`;

async function setup({ stale = false, anonymous = 'read' }: { stale?: boolean; anonymous?: 'read' | 'none' } = {}) {
  const changes = new Changes();
  const token = { name: 'ci', digest: SHA256_OF_TOKEN, roles: ['read'] as const, addresses: undefined };
  const running = await start(
    {
      listVersions: async () => ({
        versions: [Version.parse('1.0.0')],
        freshUntil: NOW + 60_000,
        ...(stale && { stale: { ageSeconds: 3, reason: 'upstream is away' } }),
      }),
    },
    { changes, now: () => NOW, authenticator: new Authenticator({ anonymous, tokens: async () => [token] }) },
  );
  return { ...running, changes };
}

const SHA256_OF_TOKEN = Buffer.from('3c469e9d6c5875d37a43f353d4f88e61fcf812c66eee3457465a40b0da4153e0', 'hex');

test('what was answered a moment ago is answered again without asking anybody, and looks the same', async () => {
  const { ask, mirror } = await setup();
  const first = await ask(INDEX);
  const second = await ask(INDEX);
  expect(mirror.asked).toHaveLength(1);
  const { 'x-request-id': id, date, ...headers } = first.headers;
  const { 'x-request-id': otherId, date: otherDate, ...sameHeaders } = second.headers;
  expect(sameHeaders).toEqual(headers);
  expect(second.body).toEqual(first.body);
  expect(otherId).not.toBe(id);
});

test('each answer has its line in the log, with its own id', async () => {
  const { ask, log } = await setup();
  const answers = [await ask(INDEX), await ask(INDEX)];
  await expect.poll(() => log.entries.filter(({ message }) => message === 'request').length).toBe(2);
  const lines = log.entries.filter(({ message }) => message === 'request').map(({ fields }) => fields);
  expect(lines.map(({ requestId }) => requestId)).toEqual(answers.map(({ headers }) => headers['x-request-id']));
  for (const line of lines) {
    expect(line).toMatchObject({ method: 'GET', path: `${WIDGET_PATH}/index.json`, status: 200 });
  }
});

test('a change shows at once', async () => {
  const { ask, changes, mirror } = await setup();
  await ask(INDEX);
  changes.note();
  await ask(INDEX);
  expect(mirror.asked).toHaveLength(2);
});

test('what upstream could not confirm is sent again as well, and goes on saying so', async () => {
  const { ask, mirror, log } = await setup({ stale: true });
  const answers = [await ask(INDEX), await ask(INDEX)];
  expect(mirror.asked).toHaveLength(1);
  for (const { headers } of answers) {
    expect(headers).toMatchObject({ warning: '110 - "Response is Stale"', age: '3' });
  }
  const outcomes = () =>
    log.entries.filter(({ message }) => message === 'request').map(({ fields }) => fields?.['outcome']);
  await expect.poll(outcomes).toEqual(['stale', 'stale']);
});

test('nobody gets what was put together for somebody with a token', async () => {
  const { ask, mirror } = await setup({ anonymous: 'none' });
  expect((await ask(INDEX, 'Authorization: Bearer token')).statusLine).toBe('HTTP/1.1 200 OK');
  expect((await ask(INDEX)).statusLine).toBe('HTTP/1.1 401 Unauthorized');
  expect((await ask(INDEX, 'Authorization: Bearer token')).statusLine).toBe('HTTP/1.1 200 OK');
  expect(mirror.asked).toHaveLength(2);
});

test('a client that has it already is told so', async () => {
  const { ask } = await setup();
  const { headers } = await ask(INDEX);
  expect((await ask(INDEX, `If-None-Match: ${headers['etag']}`)).statusLine).toBe('HTTP/1.1 304 Not Modified');
});
