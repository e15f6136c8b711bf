import { describe, expect, it } from 'vitest';
import { Changes } from '../../src/changes.ts';
import { ReadyAnswers } from '../../src/http/ready-answers.ts';

const START = 1_800_000_000_000;
const DAY = 86_400_000;

function setup() {
  const changes = new Changes();
  let now = START;
  const answers = new ReadyAnswers({ changes, now: () => now });
  const keep = (target: string, { since = changes.count, freshUntil = START + DAY, body = '{"versions":{}}' } = {}) =>
    answers.keep(target, since, freshUntil, {
      headers: ['ETag', '"1"'],
      body: Buffer.from(body),
      notes: { requestId: 'one' },
      path: { whole: target, cut: target },
    });
  const pass = (ms: number) => {
    now += ms;
  };
  return { answers, changes, keep, pass };
}

describe('answers that are ready', () => {
  it('are given again for a moment', () => {
    const { answers, keep, pass } = setup();
    keep('/a');
    expect(answers.find('/a')?.body).toBe('{"versions":{}}');
    pass(199);
    expect(answers.find('/a')).toBeDefined();
    pass(1);
    expect(answers.find('/a')).toBeUndefined();
  });

  it('hold no longer than what they were made of is fresh', () => {
    const { answers, keep, pass } = setup();
    keep('/a', { freshUntil: START + 10 });
    pass(9);
    expect(answers.find('/a')).toBeDefined();
    pass(1);
    expect(answers.find('/a')).toBeUndefined();
  });

  it('are forgotten when anything changes', () => {
    const { answers, changes, keep } = setup();
    keep('/a');
    changes.note();
    expect(answers.find('/a')).toBeUndefined();
    keep('/a');
    expect(answers.find('/a')).toBeDefined();
  });

  it('are not kept when something changed while they were put together', () => {
    const { answers, changes, keep } = setup();
    const since = changes.count;
    changes.note();
    keep('/a', { since });
    expect(answers.find('/a')).toBeUndefined();
  });

  it('do not outlive a clock that was put back', () => {
    const { answers, keep, pass } = setup();
    keep('/a');
    pass(-3_600_000);
    expect(answers.find('/a')).toBeUndefined();
  });

  it('keep their bytes, whatever these are', () => {
    const { answers, keep } = setup();
    keep('/a', { body: '{"warnings":["ünicode"]}' });
    expect(answers.find('/a')?.body).toEqual(Buffer.from('{"warnings":["ünicode"]}'));
  });

  it.each([
    ['another method', { method: 'HEAD', headers: {} }],
    ['a token', { method: 'GET', headers: { authorization: 'Bearer x' } }],
    ['a condition', { method: 'GET', headers: { 'if-none-match': '"1"' } }],
    ['a cookie', { method: 'GET', headers: { cookie: 'a=b' } }],
  ])('are not for requests with %s', (_, request) => {
    expect(ReadyAnswers.isPlain(request as never)).toBe(false);
  });

  it('are for everybody else', () => {
    const request = { method: 'GET', headers: { host: 'larder', 'user-agent': 'Terraform/1.11.4', accept: '*/*' } };
    expect(ReadyAnswers.isPlain(request as never)).toBe(true);
  });
});
