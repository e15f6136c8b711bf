import { createHash } from 'node:crypto';
import { describe, expect, it } from 'vitest';
import { Hostname } from '../../src/address/hostname.ts';
import { Authenticator } from '../../src/http/authenticate.ts';
import { start } from './harness.ts';

const UPSTREAMS = ['registry.example.com', 'registry.corp.example:8443'].map((text) => Hostname.parse(text));
const OWN = '/.well-known/terraform.json';
const TOKEN = 'larder-token-77d1';

const closed = () =>
  new Authenticator({
    anonymous: 'none',
    tokens: async () => [
      { name: 'ci', digest: createHash('sha256').update(TOKEN).digest(), roles: ['read'], addresses: undefined },
    ],
  });

function open(options: Parameters<typeof start>[1] = {}) {
  return start({}, { upstreams: UPSTREAMS, defaultUpstream: UPSTREAMS[0], ...options });
}

describe('Larder’s own discovery', () => {
  it('names both services of the default registry, as paths', async () => {
    const { ask } = await open();
    const answer = await ask(`GET ${OWN}`);
    expect(answer.statusLine).toBe('HTTP/1.1 200 OK');
    expect(answer.headers['content-type']).toBe('application/json');
    expect(answer.json()).toEqual({
      'modules.v1': '/registry/registry.example.com/v1/modules/',
      'providers.v1': '/registry/registry.example.com/v1/providers/',
    });
    const again = await ask(`GET ${OWN}`, `If-None-Match: ${answer.headers['etag']}`);
    expect(again.statusLine).toBe('HTTP/1.1 304 Not Modified');
    const head = await ask(`HEAD ${OWN}`);
    expect([head.statusLine, head.body.length]).toEqual(['HTTP/1.1 200 OK', 0]);
  });

  it.each([
    ['https://mirror.example.com/larder/', '/larder/registry/registry.corp.example:8443/v1/modules/'],
    ['https://mirror.example.com', '/registry/registry.corp.example:8443/v1/modules/'],
  ])('with the public address %s the paths begin where that does', async (publicUrl, path) => {
    const { ask } = await open({ publicUrl, defaultUpstream: UPSTREAMS[1] });
    expect((await ask(`GET ${OWN}`)).json()['modules.v1']).toBe(path);
  });

  it('is open to all: neither no token nor a strange one is a reason to refuse', async () => {
    const { ask } = await open({ authenticator: closed() });
    for (const headers of [[], ['Authorization: Bearer of-somebody-else'], [`Authorization: Bearer ${TOKEN}`]]) {
      expect((await ask(`GET ${OWN}`, ...headers)).statusLine).toBe('HTTP/1.1 200 OK');
    }
  });

  it('takes nothing but GET and HEAD', async () => {
    const { ask } = await open();
    const answer = await ask(`POST ${OWN}`, 'Content-Length: 0');
    expect([answer.statusLine, answer.headers['allow']]).toEqual(['HTTP/1.1 405 Method Not Allowed', 'GET, HEAD']);
  });
});

describe('discovery below the address of a registry', () => {
  it('names both services completely, for the address that was asked', async () => {
    const { ask } = await open();
    for (const host of ['registry.corp.example:8443', 'registry.corp.example%3A8443', 'REGISTRY.corp.example:8443']) {
      const answer = await ask(`GET /registry/${host}${OWN}`, 'X-Forwarded-Proto: https');
      expect(answer.headers).toMatchObject({ 'content-type': 'application/json', 'cache-control': 'no-store' });
      expect(answer.json()).toEqual({
        'modules.v1': 'https://larder.test/registry/registry.corp.example:8443/v1/modules/',
        'providers.v1': 'https://larder.test/registry/registry.corp.example:8443/v1/providers/',
      });
    }
  });

  it('the configured address wins', async () => {
    const { ask } = await open({ publicUrl: 'https://mirror.example.com/larder/' });
    const answer = await ask(`GET /registry/registry.example.com${OWN}`, 'X-Forwarded-Host: evil.example');
    expect(answer.json()['providers.v1']).toBe(
      'https://mirror.example.com/larder/registry/registry.example.com/v1/providers/',
    );
  });

  it('of a host that is not mirrored, of what is no host: refused', async () => {
    const { ask } = await open();
    const unknown = await ask(`GET /registry/other.example.com${OWN}`);
    expect([unknown.statusLine, unknown.json()['code']]).toEqual(['HTTP/1.1 404 Not Found', 'HOST_NOT_ALLOWED']);
    expect((await ask(`GET /registry/-${OWN}`)).statusLine).toBe('HTTP/1.1 400 Bad Request');
    expect((await ask(`PUT /registry/registry.example.com${OWN}`, 'Content-Length: 0')).statusLine).toContain('405');
  });

  it('is for those who may read', async () => {
    const { ask } = await open({ authenticator: closed() });
    const path = `/registry/registry.example.com${OWN}`;
    const refused = await ask(`GET ${path}`);
    expect(refused.statusLine).toBe('HTTP/1.1 401 Unauthorized');
    expect(refused.json()['hint']).toContain('credentials "registry.example.com"');
    expect((await ask(`GET ${path}`, `Authorization: Bearer ${TOKEN}`)).statusLine).toBe('HTTP/1.1 200 OK');
  });
});
