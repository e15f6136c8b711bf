import { describe, expect, it } from 'vitest';
import { requestIdOf } from '../../src/http/request-id.ts';
import { eventually, startScene } from '../mirror/scene.ts';

const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/;
const GIVEN = 'build-4711/init:1';

describe('the id of a request', () => {
  it.each([
    GIVEN,
    'x',
    'a'.repeat(128),
    '01J9ZQ3V7S0000000000000000',
    'Root=1-67891233-abcdef012345678912345678',
    '9f86d081884c7d65==',
  ])('is the one that it brings: %s', (given) => {
    expect(requestIdOf({ 'x-request-id': given })).toBe(given);
  });

  it.each([
    undefined,
    '',
    'a'.repeat(129),
    'two words',
    'a, b',
    '"quoted"',
    'a\tb',
    'é',
    '<b>',
    '?token=x',
    ['a', 'b'] as unknown as string,
  ])('is a new one when it brings none that is well-formed: %j', (given) => {
    const [one, other] = [requestIdOf({ 'x-request-id': given }), requestIdOf({ 'x-request-id': given })];
    expect(one).toMatch(UUID);
    expect(other).not.toBe(one);
  });

  it('is in the answer, in errors, and in what is logged of it', async () => {
    const { get, index, larder, registry } = await startScene();
    const headers = { 'x-request-id': GIVEN };
    expect((await get('/healthz', { headers })).headers['x-request-id']).toBe(GIVEN);
    expect((await get('/healthz', { headers: { 'x-request-id': 'not one' } })).headers['x-request-id']).toMatch(UUID);
    expect((await index()).headers['x-request-id']).toMatch(UUID);
    await registry.stop();
    const path = `/providers/${registry.hostname}/acme/gone/index.json`;
    const answer = await get(path, { headers });
    expect(answer.status).toBe(502);
    expect(answer.headers['x-request-id']).toBe(GIVEN);
    expect(answer.json().requestId).toBe(GIVEN);
    const linesOf = (message: string) =>
      larder.log.filter(({ message: said, fields }) => said === message && fields['requestId'] === GIVEN);
    await eventually(() => linesOf('request').map(({ fields }) => fields['path'])).toContain(path);
    expect(linesOf('request failed')).toHaveLength(1);
    // So that what became of each try can be found.
    expect(linesOf('asking upstream again').length).toBeGreaterThan(0);
  });

  it('is that of each request also where the answer was put together a moment ago', async () => {
    const { get, registry } = await startScene();
    const path = `/providers/${registry.hostname}/acme/widget/index.json`;
    const ids = ['one', 'two', 'three', 'four'];
    for (const id of ids) {
      expect((await get(path, { headers: { 'x-request-id': id } })).headers['x-request-id']).toBe(id);
    }
  });

  it('goes along to the registry, and not to the hosts of archives', async () => {
    const { get, registry, stored } = await startScene();
    const base = `/providers/${registry.hostname}/acme/widget`;
    const headers = { 'x-request-id': GIVEN };
    await get(`${base}/index.json`, { headers });
    await get(`${base}/1.0.0.json`, { headers });
    await get(`${base}/terraform-provider-widget_1.0.0_linux_amd64.zip`, { headers });
    await stored();
    const asked = registry.requests.all.filter(({ path }) => path.startsWith('/v1/'));
    expect(asked.length).toBeGreaterThan(1);
    expect(new Set(registry.requests.all.map((request) => request.headers['x-request-id']))).toEqual(new Set([GIVEN]));
    expect(registry.releases.requests.all.length).toBeGreaterThan(0);
    for (const request of registry.releases.requests.all) expect(request.headers).not.toHaveProperty('x-request-id');
  });

  it('goes along with what is passed on, and upstream gets the one that is in the log', async () => {
    const { get, registry } = await startScene();
    const search = `/registry/${registry.hostname}/v1/providers/acme`;
    for (const given of [GIVEN, 'no good id']) {
      const answer = await get(search, { headers: { 'x-request-id': given } });
      const asked = registry.requests.all.at(-1);
      expect(asked?.headers['x-request-id']).toBe(answer.headers['x-request-id']);
      expect(answer.headers['x-request-id'] === given).toBe(given === GIVEN);
    }
  });
});
