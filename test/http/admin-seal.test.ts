import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { eventually, type SceneOptions, startScene, versionsIn } from '../mirror/scene.ts';
import { runLarder } from '../support/command.ts';
import { holdAfter, status } from '../support/faults.ts';

const OPS = 'token-of-the-operators';
const NARROW = 'token-of-the-platform-team';
const CI = 'token-of-the-builds';
const TOKENS = [
  { name: 'ops', token: OPS, roles: ['admin'] },
  { name: 'narrow', token: NARROW, roles: ['admin'], addresses: ['*/acme/*'] },
  { name: 'ci', token: CI, roles: ['read'] },
];

async function begin(options: SceneOptions = {}) {
  const scene = await startScene({
    providers: [{ version: '1.0.0' }, { version: '2.0.0' }],
    ...options,
    config: { access: { tokens: TOKENS }, log: { audit: 'data/audit.jsonl' }, ...options.config },
  });
  const seal = (body?: unknown, token = OPS) =>
    scene.get('/admin/seal', {
      method: body === undefined ? 'GET' : 'PUT',
      headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
      ...(body !== undefined && { body: JSON.stringify(body) }),
    });
  return { ...scene, seal };
}

describe('sealing through the door for operators', () => {
  it('begins and ends while Larder runs, and shows everywhere', async () => {
    const { seal, larder, registry, get, archive, index } = await begin();
    await archive('1.0.0');
    expect(versionsIn(await index())).toEqual(['2.0.0', '1.0.0']);
    expect((await seal()).json()).toEqual({ sealed: false, configured: false });
    expect((await get('/metrics')).text()).toContain('larder_sealed 0');

    const sealed = await seal({ sealed: true });
    expect(sealed.status, sealed.text()).toBe(200);
    expect(sealed.json()).toMatchObject({ sealed: true, configured: false, by: 'ops' });
    expect((await seal()).json()).toEqual(sealed.json());
    registry.requests.clear();
    expect(versionsIn(await index())).toEqual(['1.0.0']);
    const missing = await archive('2.0.0');
    expect(missing.status).toBe(503);
    expect(missing.json().errors[0]).toContain(`${registry.hostname}/acme/widget 2.0.0 linux_amd64 is not stored`);
    expect(missing.json().hint).toContain(`echo '${registry.hostname}/acme/widget@2.0.0' | larder warm -`);
    expect(missing.json().hint).toContain('--platform linux_amd64');
    expect(registry.requests.all).toEqual([]);
    expect((await get('/readyz')).json()).toMatchObject({ status: 'ready', sealed: true });
    expect((await get('/')).text()).toContain('sealed');
    expect((await get('/metrics')).text()).toContain('larder_sealed 1');

    expect((await seal({ sealed: false })).json()).toMatchObject({ sealed: false, by: 'ops' });
    expect((await archive('2.0.0')).status).toBe(200);
    expect((await get('/readyz')).json()).not.toHaveProperty('sealed');
    const messages = larder.log.map(({ message }) => message);
    expect(messages).toContain('sealed: nothing leaves, what is stored is all there is');
    expect(messages).toContain('unsealed: upstreams are asked again');
    await larder.app.reopenAuditLog();
    const audit = await readFile(join(larder.setup.dataDirectory, 'audit.jsonl'), 'utf8');
    const events = audit
      .trimEnd()
      .split('\n')
      .map((line) => JSON.parse(line) as Record<string, unknown>);
    expect(events.filter(({ event }) => /^(un)?sealed$/.test(String(event)))).toMatchObject([
      { event: 'sealed', client: 'ops' },
      { event: 'unsealed', client: 'ops' },
    ]);
  });

  it('survives a restart', async () => {
    const { seal, larder, registry } = await begin();
    await seal({ sealed: true });
    await larder.close();
    const again = await begin({ registry, setup: larder.setup, providers: [] });
    expect((await again.seal()).json()).toMatchObject({ sealed: true, by: 'ops' });
    expect((await again.index()).status).toBe(503);
  });

  it('may have been before, when neither a file nor Redis can tell: the log and /readyz say so', async () => {
    // Nothing listens there.
    const { seal, larder, get } = await begin({ config: { redis: { url: 'redis://127.0.0.1:1' } } });
    expect((await seal()).json()).toEqual({ sealed: false, configured: false, unknown: true });
    const ready = await get('/readyz');
    expect(ready.status).toBe(200);
    expect(ready.json()).toMatchObject({
      status: 'degraded',
      checks: { seal: { status: 'degraded', reason: 'finding out whether this mirror was sealed failed' } },
    });
    const errors = larder.log.filter(({ level }) => level === 'error').map(({ message }) => message);
    expect(errors).toEqual([expect.stringMatching(/^NOT SEALED, although it may have been/)]);
    // Whoever says it now is heard.
    expect((await seal({ sealed: true })).json()).toMatchObject({ sealed: true, by: 'ops', unshared: true });
    expect((await seal()).json()).not.toHaveProperty('unknown');
  });

  it('is not for readers, nor for operators of some addresses only; these may look', async () => {
    const { seal, index } = await begin();
    expect((await seal({ sealed: true }, CI)).status).toBe(403);
    expect((await seal(undefined, CI)).status).toBe(403);
    expect((await seal({ sealed: true }, NARROW)).status).toBe(403);
    expect((await seal(undefined, NARROW)).json()).toMatchObject({ sealed: false });
    expect((await seal({ sealed: 'yes' })).status).toBe(400);
    expect((await seal({})).status).toBe(400);
    expect((await index()).status).toBe(200);
  });

  it('cannot undo the configuration, and says what can', async () => {
    const { seal } = await begin({ config: { sealed: true } });
    const refused = await seal({ sealed: false });
    expect(refused.status).toBe(409);
    expect(refused.json().hint).toContain('sealed: true');
    expect((await seal({ sealed: true })).json()).toEqual({ sealed: true, configured: true });
  });

  it('forgets the troubles that hosts were in before', async () => {
    const { seal, registry, index } = await begin();
    registry.on(/versions/, status(503));
    expect((await index()).status).toBe(502);
    registry.heal();
    await seal({ sealed: true });
    await seal({ sealed: false });
    expect(versionsIn(await index())).toEqual(['2.0.0', '1.0.0']);
  });

  it('breaks off what is on its way to a client, which is told by name what is missing', async () => {
    const { seal, registry, archive, larder } = await begin({ providers: [{ sizeBytes: 300_000 }] });
    const hold = holdAfter(1_000);
    registry.releases.on(/\.zip/, hold.fault);
    const broken = archive('1.0.0').catch((error: Error) => error);
    await hold.reached;
    await seal({ sealed: true });
    expect(await broken).toBeInstanceOf(Error);
    await eventually(() => registry.releases.requests.all.at(-1)?.aborted).toBe(true);
    const failed = larder.log.find(({ message }) => message === 'request failed');
    expect(JSON.stringify(failed?.fields, (_, value) => (value instanceof Error ? value.message : value))).toContain(
      'was sealed while',
    );
  });
});

// Each command is a process.
describe('larder seal', { timeout: 120_000 }, () => {
  it('seals, tells and opens, and says why when it cannot', async () => {
    const { larder, index } = await begin();
    const run = (...args: string[]) =>
      runLarder(['seal', ...args, '--server', larder.url, '--ca', larder.setup.caFile, '--token', OPS]);
    const sealed = await run();
    expect(sealed).toMatchObject({ code: 0 });
    expect(sealed.stdout).toMatch(/^sealed: nothing leaves.*by ops\)\n$/);
    expect((await index()).status).toBe(503);
    const told = await run('--status', '--json');
    expect(told.code).toBe(0);
    expect(told.lines()).toMatchObject([{ sealed: true, by: 'ops' }]);
    expect(await run('--off')).toMatchObject({ code: 0 });
    expect((await index()).status).toBe(200);
    expect(await run('--status')).toMatchObject({ code: 1, stdout: expect.stringMatching(/^not sealed/) });
    const without = await runLarder(['seal']);
    expect(without.code).toBe(2);
    expect(without.stderr).toContain('--server');
  });

  it('ends with 1 when it sealed a replica whose metadata store could not be told, and says what that means', async () => {
    // Nothing listens there.
    const { larder } = await begin({ config: { redis: { url: 'redis://127.0.0.1:1' } } });
    const run = (...args: string[]) =>
      runLarder(['seal', ...args, '--server', larder.url, '--ca', larder.setup.caFile, '--token', OPS]);
    const sealed = await run();
    expect(sealed.code).toBe(1);
    expect(sealed.stdout).toMatch(/^sealed: nothing leaves.*\nother replicas may still ask upstream: /);
    const told = await run('--status', '--json');
    expect([told.code, told.lines()]).toMatchObject([0, [{ sealed: true, unshared: true }]]);
  });

  it('passes on that the configuration has the last word', async () => {
    const { larder } = await begin({ config: { sealed: true } });
    const refused = await runLarder(['seal', '--off', '--server', larder.url, '--ca', larder.setup.caFile], {
      LARDER_TOKEN: OPS,
    });
    expect(refused.code).toBe(2);
    expect(refused.stderr).toContain('the configuration seals this mirror');
    expect(refused.stderr).toContain('take sealed: true out');
  });
});
