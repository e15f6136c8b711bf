import { buffer } from 'node:stream/consumers';
import { expect, it } from 'vitest';
import { observedBy } from '../../src/upstream/observer.ts';
import { clientFor, patience, serve, upstreamAt } from './scripted-server.ts';

/** A client, and what its observer was told. */
async function begin(handler: Parameters<typeof serve>[0]) {
  const server = await serve(handler);
  const upstream = await upstreamAt(server.host);
  const told: string[] = [];
  let bytes = 0;
  const client = clientFor({
    observer: observedBy({
      answered: ({ host }, seconds) => {
        expect(seconds).toBeGreaterThan(0);
        told.push(`answered ${host === server.host}`);
      },
      ended: (call, error) => {
        expect(call.upstream).toBe(upstream);
        told.push(`ended ${(error as { code?: string } | undefined)?.code}`);
      },
      received: (host, more) => {
        expect(host).toBe(server.host);
        bytes += more;
      },
    }),
  });
  const url = new URL('/thing', server.origin);
  const fetch = () =>
    client.fetchBody({
      upstream,
      url,
      authenticate: false,
      maxBytes: 1_000_000,
      maxRedirects: 3,
      signal: patience(),
    });
  const open = () => client.openBody({ upstream, url, offset: 0, signal: patience() });
  return { fetch, open, told, received: () => bytes };
}

it('is told of an answer and its bytes', async () => {
  const { fetch, told, received } = await begin((_, response) => response.end('x'.repeat(100_000)));
  await fetch();
  expect(told).toEqual(['answered true', 'ended undefined']);
  expect(received()).toBe(100_000);
});

it('is told of the bytes of an archive as they come, however it is read', async () => {
  const content = Buffer.alloc(3_000_000, 'larder');
  const { open, received } = await begin((_, response) => response.end(content));
  expect((await buffer((await open()).body)).equals(content)).toBe(true);
  expect(received()).toBe(content.length);
});

it('is told of each try that was answered, and once of what it all came to', async () => {
  let tries = 0;
  const { fetch, told } = await begin((_, response) => {
    tries += 1;
    response.writeHead(tries < 3 ? 502 : 200).end();
  });
  await fetch();
  expect(told).toEqual(['answered true', 'answered true', 'answered true', 'ended undefined']);
});

it('is told why it came to nothing', async () => {
  const { fetch, told } = await begin((_, response) => response.writeHead(403).end());
  await expect(fetch()).rejects.toThrow();
  expect(told).toEqual(['answered true', 'ended UPSTREAM_REFUSED']);
});

it('is told when an archive breaks off in the middle', async () => {
  const { open, told, received } = await begin((_, response) => {
    response.writeHead(200, { 'content-length': 1_000_000 });
    response.write('x'.repeat(1_000), () => response.destroy());
  });
  await expect(buffer((await open()).body)).rejects.toThrow();
  expect(told).toEqual(['answered true', 'ended undefined', 'ended UPSTREAM_UNREACHABLE']);
  expect(received()).toBe(1_000);
});
