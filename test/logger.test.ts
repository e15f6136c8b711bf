import { Writable } from 'node:stream';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { Hostname } from '../src/address/hostname.ts';
import { NotFound, UpstreamUnreachable } from '../src/errors.ts';
import { createLogger, type LogFormat, type LogLevel, redact } from '../src/logger.ts';

function logged(options: { level?: LogLevel; format?: LogFormat; isTTY?: boolean } = {}) {
  let text = '';
  const stream = new Writable({
    write(chunk, _encoding, done) {
      text += chunk;
      done();
    },
  });
  const { level = 'info', format = 'json', isTTY = false } = options;
  const logger = createLogger({ level, format, stream: Object.assign(stream, { isTTY }) });
  const lines = () => text.split('\n').slice(0, -1);
  return { logger, text: () => text, lines, entries: () => lines().map((line) => JSON.parse(line)) };
}

describe('format', () => {
  it('writes one JSON object a line, with time, level and message', () => {
    const { logger, entries } = logged();
    logger.info('stored', { bytes: 42, host: Hostname.parse('Bücher.example:8443') });
    expect(entries()).toEqual([
      { time: expect.any(String), level: 'info', message: 'stored', bytes: 42, host: 'xn--bcher-kva.example:8443' },
    ]);
    expect(Number.isNaN(Date.parse(entries()[0].time))).toBe(false);
  });

  it('auto is text on a terminal and JSON elsewhere', () => {
    const terminal = logged({ format: 'auto', isTTY: true });
    terminal.logger.warn('slow answer', { ms: 12, note: 'a b' });
    expect(terminal.text()).toMatch(/^\S+Z WARN {2}slow answer ms=12 note="a b"\n$/);

    const elsewhere = logged({ format: 'auto' });
    elsewhere.logger.warn('slow answer');
    expect(elsewhere.entries()[0]).toMatchObject({ level: 'warn', message: 'slow answer' });
  });

  it('leaves out what is below the level', () => {
    const { logger, entries } = logged({ level: 'warn' });
    logger.debug('a');
    logger.info('b');
    logger.warn('c');
    logger.error('d');
    expect(entries().map(({ message }) => message)).toEqual(['c', 'd']);
  });

  it('a field cannot pose as level, time or message', () => {
    const { logger, entries } = logged();
    logger.info('honest', { level: 'error', message: 'forged', time: 'never' });
    expect(entries()[0]).toMatchObject({ level: 'info', message: 'honest', 'field.message': 'forged' });
  });
});

describe('errors in fields', () => {
  const error = new UpstreamUnreachable('up.example', 'connection', 'cannot be reached', {
    cause: Object.assign(new Error('connect refused'), { code: 'ECONNREFUSED' }),
  });

  it('are told as code, message and causes, without a stack', () => {
    const { logger, entries } = logged();
    logger.error('failed', { error });
    expect(entries()[0].error).toBe(
      'UPSTREAM_UNREACHABLE: up.example cannot be reached: ECONNREFUSED: connect refused',
    );
  });

  it('come with their stacks at level debug', () => {
    const { logger, entries } = logged({ level: 'debug' });
    logger.error('failed', { error });
    expect(entries()[0].error).toContain('logger.test.ts');
    expect(entries()[0].error).toContain('caused by Error: connect refused');
  });

  it('of many addresses name the first reason', () => {
    const { logger, entries } = logged();
    logger.error('failed', { error: new AggregateError([new Error('connect ECONNREFUSED ::1:1')]) });
    expect(entries()[0].error).toContain('connect ECONNREFUSED ::1:1');
  });

  it('do not loop when a cause is its own cause', () => {
    const { logger, entries } = logged();
    const loop = new NotFound('gone');
    loop.cause = loop;
    logger.error('failed', { loop });
    expect(entries()[0].loop).toContain('NOT_FOUND: gone');
  });
});

describe('no line can be forged', () => {
  const nasty = 'x\r\n{"level":"error"}\u001b[2K\u0085\u2028\u202e\u0000';

  it.each(['json', 'text'] as const)('R76: control characters are escaped in %s', (format) => {
    const { logger, text, lines } = logged({ format });
    logger.info(nasty, { [nasty]: nasty, error: new Error(nasty), list: [nasty], protocols: ['1; mode=block\n'] });
    expect(lines()).toHaveLength(1);
    expect(text().slice(0, -1)).not.toMatch(/[\p{Cc}\p{Cf}\u2028\u2029]/u);
  });

  it('any message and field makes exactly one line, and JSON gives them back', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary' }), fc.dictionary(fc.string(), fc.anything()), (message, fields) => {
        for (const format of ['json', 'text'] as const) {
          const { logger, lines } = logged({ format });
          logger.info(message, fields);
          expect(lines()).toHaveLength(1);
          if (format === 'json') expect(JSON.parse(lines()[0] ?? '')).toMatchObject({ level: 'info' });
        }
      }),
    );
  });

  it('fields that cannot be serialised do not throw', () => {
    const { logger, entries } = logged();
    const cycle: Record<string, unknown> = { big: 10n, when: new Date(Number.NaN), call: () => 1 };
    cycle['self'] = cycle;
    const trap = Object.defineProperty({}, 'x', { enumerable: true, get: () => JSON.parse('{') });
    logger.info('odd', { cycle, trap, bytes: new Uint8Array(9) });
    expect(entries()[0]).toMatchObject({ trap: '[unprintable]', bytes: '[9 bytes]', cycle: { big: '10' } });
  });
});

describe('secrets', () => {
  it.each([
    ['Authorization: Bearer s3cret-Token.x', 'Authorization: Bearer [hidden]'],
    ['authorization="Basic dXNlcjpzM2NyZXQ="', 'authorization="Basic [hidden]"'],
    ['Authorization: s3cret', 'Authorization: [hidden]'],
    ['GET https://user:s3cret@up.example/a failed', 'GET https://[hidden]@up.example/a failed'],
    ['rediss://:s3cret@redis:6379/0', 'rediss://[hidden]@redis:6379/0'],
    ['at https://files.example/z.zip?X-Signature=s3cret&e=1 now', 'at https://files.example/z.zip?[hidden] now'],
    ['at https://files.example/z.zip?s3cret', 'at https://files.example/z.zip?[hidden]'],
    ['a://x,https://u:s3cret@up.example', 'a://x,https://[hidden]@up.example'],
    ['POST /x/y?token=s3cret', 'POST /x/y?[hidden]'],
    ['-----BEGIN PRIVATE KEY-----\ns3cret\n-----END PRIVATE KEY----- after', '[hidden] after'],
  ])('are taken out of %s', (text, clean) => {
    expect(redact(text)).toBe(clean);
    const { logger, text: output } = logged({ level: 'debug' });
    logger.error(text, { deep: { list: [text] }, error: new Error(text), [text]: 1 });
    expect(output()).not.toContain('s3cret');
    expect(output()).not.toContain('dXNlcjpzM2NyZXQ');
  });

  it('are hidden by the name of their field', () => {
    const { logger, entries } = logged();
    logger.info('x', { token: 'abc', headers: { Authorization: 'abc' }, clientSecret: ['abc'], hasToken: true });
    expect(JSON.stringify(entries())).not.toContain('abc');
    expect(entries()[0].hasToken).toBe(true);
  });

  it('ordinary addresses and questions stay readable', () => {
    const text =
      'no answer from https://up.example:8443/v1/providers/a/b: is it up? a@example.com, a bearer token, basic checks';
    expect(redact(text)).toBe(text);
  });

  it('a very long string is cut, and quickly', () => {
    const started = performance.now();
    for (const text of ['a://b', 'a://', '?a', 'bearer ', 'a@', '-----BEGIN PRIVATE KEY-----', ' ', 'a', 'a.']) {
      expect(redact(text.repeat(100_000)).length).toBeLessThan(10_000);
    }
    expect(performance.now() - started).toBeLessThan(5_000);
  });
});
