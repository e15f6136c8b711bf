import { connect } from 'node:net';
import { expect, test } from 'vitest';
import {
  AddressExcluded,
  HostNotAllowed,
  IntegrityMismatch,
  NotFound,
  StorageFailed,
  UpstreamInvalid,
  UpstreamRefused,
  UpstreamUnreachable,
} from '../../src/errors.ts';
import { start, WIDGET_PATH } from './harness.ts';

const HOST = 'registry.example.com';
const diskFull = Object.assign(new Error('write /srv/secret'), { code: 'ENOSPC' });
const diskBroken = Object.assign(new Error('write /srv/secret'), { code: 'EIO' });

test.each([
  [404, new NotFound('there is no acme/widget')],
  [404, new HostNotAllowed(`${HOST} is not mirrored`, { hint: 'add it' })],
  [404, new AddressExcluded('acme/widget is excluded')],
  [502, new UpstreamUnreachable(HOST, 'connection', 'refused the connection')],
  [502, new UpstreamUnreachable(HOST, 'failing', 'answered 500')],
  [503, new UpstreamUnreachable(HOST, 'busy', 'answered 429', { retryAfterMs: 2_100 })],
  [503, new UpstreamUnreachable(HOST, 'sealed', 'is not asked: Larder is sealed')],
  [504, new UpstreamUnreachable(HOST, 'timeout', 'did not answer within 8 s')],
  [502, new UpstreamRefused(HOST, 'answered 401')],
  [502, new UpstreamInvalid(HOST, 'answered with HTML')],
  [502, new IntegrityMismatch('expected aa, got bb')],
  [507, new StorageFailed('writing the archive', diskFull)],
  [500, new StorageFailed('writing the archive', diskBroken)],
  [503, new StorageFailed('comparing a file', new Error('takes longer'), { busy: true })],
])('%i for %o', async (status, error) => {
  const { ask, log } = await start({ listVersions: () => Promise.reject(error) });
  const answer = await ask(`GET ${WIDGET_PATH}/index.json`);
  expect(answer.statusLine).toMatch(new RegExp(`^HTTP/1.1 ${status} `));
  expect(answer.headers['content-type']).toBe('application/json');
  expect(answer.headers['cache-control']).toBe('no-store');
  expect(answer.json()).toEqual({
    errors: [error.message],
    code: error.code,
    ...(error.hint ? { hint: error.hint } : {}),
    requestId: answer.headers['x-request-id'],
  });
  expect(answer.body.toString()).not.toContain('secret');
  expect((await log.entry('request')).fields).toMatchObject({ status, outcome: error.code });
});

test('what rests in Redis alone is not to be had while it is away, and that is said of Redis', async () => {
  const away = new StorageFailed('metadata read', Object.assign(new Error('10.0.0.1'), { code: 'ECONNREFUSED' }), {
    store: 'redis',
  });
  const { ask, log } = await start({ listVersions: () => Promise.reject(away) });
  const answer = await ask(`GET ${WIDGET_PATH}/index.json`);
  expect(answer.statusLine).toBe('HTTP/1.1 503 Service Unavailable');
  expect(answer.json()).toMatchObject({
    errors: [
      'Redis does not answer as it should (metadata read failed (ECONNREFUSED)); no job can be begun until it does',
    ],
    code: 'REDIS_UNAVAILABLE',
    hint: expect.stringContaining('/readyz'),
  });
  expect(answer.body.toString()).not.toContain('10.0.0.1');
  expect((await log.entry('request')).fields).toMatchObject({ status: 503, outcome: 'REDIS_UNAVAILABLE' });
});

test.each([
  [undefined, '1'],
  [0, '1'],
  [400, '1'],
  [2_100, '3'],
  [3_600_000, '5'],
])('an upstream busy for %s ms sends clients away for %s s', async (retryAfterMs, seconds) => {
  const { ask } = await start({
    listVersions: () => Promise.reject(new UpstreamUnreachable(HOST, 'busy', 'answered 429', { retryAfterMs })),
  });
  expect((await ask(`GET ${WIDGET_PATH}/index.json`)).headers['retry-after']).toBe(seconds);
});

test('a store that is busy does, too', async () => {
  const busy = new StorageFailed('comparing a file', new Error('takes longer'), { busy: true });
  const { ask } = await start({ listVersions: () => Promise.reject(busy) });
  expect((await ask(`GET ${WIDGET_PATH}/index.json`)).headers['retry-after']).toBe('1');
});

test('an upstream that fails does not send clients away', async () => {
  const { ask } = await start({
    listVersions: () => Promise.reject(new UpstreamUnreachable(HOST, 'failing', 'answered 500', { retryAfterMs: 9 })),
  });
  expect((await ask(`GET ${WIDGET_PATH}/index.json`)).headers['retry-after']).toBeUndefined();
});

test.each([
  ['an error', new TypeError('cannot read /srv/secret')],
  ['an error with a code from elsewhere', Object.assign(new Error('secret'), { code: 'constructor' })],
  ['a string', 'secret'],
])('a defect (%s) is a 500 without details, and the log has them', async (_name, thrown) => {
  const { ask, log } = await start({
    listVersions: async () => {
      throw thrown;
    },
  });
  const answer = await ask(`GET ${WIDGET_PATH}/index.json`);
  expect(answer.statusLine).toBe('HTTP/1.1 500 Internal Server Error');
  expect(answer.json()['code']).toBe('INTERNAL');
  expect(answer.body.toString()).not.toContain('secret');
  const entry = await log.entry('request failed unexpectedly');
  expect(entry.level).toBe('error');
  expect(entry.fields['error']).toBe(thrown);
  expect(entry.fields['requestId']).toBe(answer.headers['x-request-id']);
  if (thrown instanceof Error) expect(entry.fields['stack']).toContain('error-handler.test.ts');
});

test('a message with line breaks stays inside the body', async () => {
  const { ask } = await start({
    listVersions: () => Promise.reject(new UpstreamUnreachable(HOST, 'busy', 'said\r\nX-Evil: 1\r\n\r\n<html>')),
  });
  const answer = await ask(`GET ${WIDGET_PATH}/index.json`);
  expect(answer.headers['x-evil']).toBeUndefined();
  expect(answer.json()['errors']).toEqual([`${HOST} said\r\nX-Evil: 1\r\n\r\n<html>`]);
});

test('HEAD of what fails has the status and no body', async () => {
  const { ask } = await start({ listVersions: () => Promise.reject(new NotFound('there is no acme/widget')) });
  const answer = await ask(`HEAD ${WIDGET_PATH}/index.json`);
  expect(answer.statusLine).toBe('HTTP/1.1 404 Not Found');
  expect(answer.body.length).toBe(0);
});

test('a failure for a client that has gone away is no crash and no noise', async () => {
  let fail = (_error: Error) => {};
  const failing = new Promise<never>((_resolve, reject) => {
    fail = reject;
  });
  const { port, log, mirror } = await start({ listVersions: () => failing });
  const socket = connect(port, '127.0.0.1');
  socket.write(`GET ${WIDGET_PATH}/index.json HTTP/1.1\r\nHost: larder.test\r\n\r\n`);
  await expect.poll(() => mirror.asked.length).toBe(1);
  socket.destroy();
  await log.entry('request');
  fail(new NotFound('there is no acme/widget'));
  expect((await log.entry('request refused')).level).toBe('debug');
});
