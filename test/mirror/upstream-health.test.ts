import { describe, expect, it } from 'vitest';
import { NotFound, UpstreamInvalid, UpstreamRefused, UpstreamUnreachable } from '../../src/errors.ts';
import { UpstreamHealth } from '../../src/mirror/upstream-health.ts';
import { upstreamAt } from '../upstream/scripted-server.ts';

const CORP = 'registry.corp.example:8443';
const OPEN = 'registry.example.com';
const CDN = 'cdn.example.net';

async function begin() {
  let now = Date.parse('2026-03-01T12:00:00Z');
  const leftAlone: string[] = [];
  const health = new UpstreamHealth({ hostnames: [OPEN, CORP], leftAlone: () => leftAlone, now: () => now });
  const upstreams = new Map([
    [OPEN, await upstreamAt(OPEN)],
    [CORP, await upstreamAt(CORP, { partition: 'somebody' })],
    ['another.example', await upstreamAt('another.example')],
  ]);
  const ended = (name: string, error?: Error, host = name) => {
    const upstream = upstreams.get(name);
    if (!upstream) throw new Error(`the test has no ${name}`);
    health.ended({ upstream, host }, error);
  };
  const of = (name: string) => health.report().find(({ hostname }) => hostname === name);
  const advance = (minutes: number) => {
    now += minutes * 60_000;
  };
  return { health, leftAlone, ended, of, advance, now: () => new Date(now) };
}

const slow = (host: string) => new UpstreamUnreachable(host, 'timeout', 'did not answer in time');

describe('the health of upstreams', () => {
  it('is told of every configured one, in their order, and of no other', async () => {
    const { health, ended } = await begin();
    ended('another.example', slow('another.example'));
    expect(health.report()).toEqual([
      { hostname: OPEN, state: 'not asked yet' },
      { hostname: CORP, state: 'not asked yet' },
    ]);
  });

  it('says what went wrong last, in words, also when all is well again', async () => {
    const { ended, of, advance, now } = await begin();
    ended(OPEN, slow(OPEN));
    const lastFailure = { at: now(), reason: 'timeout', message: `${OPEN} did not answer in time` };
    expect(of(OPEN)).toEqual({ hostname: OPEN, state: 'failing', lastFailure });
    advance(1);
    ended(OPEN);
    expect(of(OPEN)).toEqual({ hostname: OPEN, state: 'ok', lastSuccessAt: now(), lastFailure });
  });

  it('is good when the answer is that there is no such thing', async () => {
    const { ended, of } = await begin();
    ended(OPEN, new NotFound('no such provider'));
    expect(of(OPEN)?.state).toBe('ok');
  });

  it.each([
    ['refused', new UpstreamRefused(OPEN, 'refused access (401)')],
    ['invalid', new UpstreamInvalid(OPEN, 'answered with a web page')],
  ])('is bad when the answer is %s', async (reason, error) => {
    const { ended, of } = await begin();
    ended(OPEN, error);
    expect(of(OPEN)).toMatchObject({ state: 'failing', lastFailure: { reason, message: error.message } });
  });

  it('does not suffer from a token of a client that was refused', async () => {
    const { ended, of } = await begin();
    ended(CORP, new UpstreamRefused(CORP, 'refused access (401)'));
    expect(of(CORP)?.state).toBe('not asked yet');
    ended(CORP, slow(CORP));
    expect(of(CORP)?.state).toBe('failing');
  });

  it('suffers from the hosts that an upstream leads to, for as long as they matter', async () => {
    const { ended, of, advance } = await begin();
    ended(OPEN, slow(CDN), CDN);
    ended(OPEN);
    expect(of(OPEN)).toMatchObject({ state: 'failing', lastFailure: { message: `${CDN} did not answer in time` } });
    advance(14);
    expect(of(OPEN)?.state).toBe('failing');
    advance(2);
    expect(of(OPEN)?.state).toBe('ok');
    ended(OPEN, slow(CDN), CDN);
    ended(OPEN, undefined, CDN);
    expect(of(OPEN)?.state).toBe('ok');
  });

  it('tells when an upstream, or a host that it led to, is left alone', async () => {
    const { ended, of, leftAlone } = await begin();
    ended(OPEN);
    leftAlone.push(CDN);
    expect(of(OPEN)?.state).toBe('ok');
    ended(OPEN, slow(CDN), CDN);
    expect(of(OPEN)?.state).toBe('left alone');
    leftAlone[0] = OPEN;
    expect(of(OPEN)?.state).toBe('left alone');
    leftAlone.pop();
    expect(of(OPEN)?.state).toBe('failing');
  });

  it('remembers few hosts, however many an upstream names', async () => {
    const { ended, of, advance } = await begin();
    for (let index = 0; index < 1_000; index += 1) ended(OPEN, slow(`cdn-${index}`), `cdn-${index}`);
    advance(1);
    // All that are remembered are well again.
    for (let index = 968; index < 1_000; index += 1) ended(OPEN, undefined, `cdn-${index}`);
    expect(of(OPEN)?.state).toBe('ok');
  });
});
