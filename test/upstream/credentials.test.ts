import { describe, expect, it } from 'vitest';
import { authenticatesFile } from '../../src/upstream/credentials.ts';
import { clientFor, failureOf, patience, serve, upstreamAt } from './scripted-server.ts';

describe('files', () => {
  it.each([
    ['https://files.example/a.zip', true],
    ['https://FILES.example:443/a.zip', true],
    ['https://files.example:8443/a.zip', false],
    ['https://ported.example:8443/a.zip', true],
    ['https://ported.example/a.zip', false],
    ['https://bücher.example/a.zip', true],
    ['https://sub.files.example/a.zip', false],
    ['https://files.example.evil.example/a.zip', false],
    ['https://files.example@evil.example/a.zip', false],
    ['http://files.example:443/a.zip', false],
    ['http://ported.example:8443/a.zip', false],
  ])('R29: with %s, a listed host gets the token: %s', async (url, expected) => {
    const archiveHosts = new Set(['files.example', 'ported.example:8443', 'xn--bcher-kva.example']);
    expect(authenticatesFile(await upstreamAt('up.example', { archiveHosts }), new URL(url))).toBe(expected);
  });
});

describe('a token that takes its time', () => {
  it('is not waited for beyond the request', async () => {
    const server = await serve((_, response) => response.end('{}'));
    const upstream = await upstreamAt(server.host, { token: () => new Promise(() => {}) });
    const started = performance.now();
    const error = await failureOf(
      clientFor().fetchBody({
        upstream,
        url: new URL(server.origin),
        authenticate: true,
        maxBytes: 100,
        maxRedirects: 0,
        signal: AbortSignal.timeout(50),
      }),
    );
    expect(error).toMatchObject({ code: 'UPSTREAM_UNREACHABLE', reason: 'timeout' });
    expect(performance.now() - started).toBeLessThan(10_000);
    expect(server.requests).toEqual([]);
  });

  it('that fails, too late for anybody, is no unhandled rejection', async () => {
    const server = await serve((_, response) => response.end('{}'));
    let fail = (_: Error) => {};
    const token = () =>
      new Promise<string>((_, reject) => {
        fail = reject;
      });
    const asked = clientFor().fetchBody({
      upstream: await upstreamAt(server.host, { token }),
      url: new URL(server.origin),
      authenticate: true,
      maxBytes: 100,
      maxRedirects: 0,
      signal: AbortSignal.timeout(50),
    });
    expect(await failureOf(asked)).toMatchObject({ reason: 'timeout' });
    const unhandled: unknown[] = [];
    const note = (error: unknown) => unhandled.push(error);
    process.on('unhandledRejection', note);
    fail(new Error('too late'));
    await new Promise((resume) => setImmediate(resume));
    process.off('unhandledRejection', note);
    expect(unhandled).toEqual([]);
  });

  it('R27: is sent to a listed host of files, and left behind at its redirect to another port', async () => {
    const bucket = await serve((_, response) => response.end('bytes'));
    const files = await serve((_, response) =>
      response.writeHead(302, { location: `${bucket.origin}/a.zip?sig=1` }).end(),
    );
    const upstream = await upstreamAt('up.example', {
      token: async () => 'tok',
      archiveHosts: new Set([files.host, bucket.host]),
    });
    const { body } = await clientFor().openBody({
      upstream,
      url: new URL(`${files.origin}/a.zip`),
      offset: 0,
      signal: patience(),
    });
    expect(Buffer.concat(await body.toArray()).toString()).toBe('bytes');
    expect(files.requests.map(({ headers }) => headers.authorization)).toEqual(['Bearer tok']);
    expect(bucket.requests.map(({ headers }) => headers.authorization)).toEqual([undefined]);
  });
});
