import { createHash } from 'node:crypto';
import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { afterTest } from '../support/after-test.ts';
import { runLarder } from '../support/command.ts';
import { holdAfter } from '../support/faults.ts';
import { type HttpAnswer, HttpClient } from '../support/http.ts';
import { type LarderProcess, startLarderProcess } from '../support/larder-process.ts';
import { type LarderSetup, larderSetup } from '../support/larder-setup.ts';
import { startWithOneProvider } from '../support/one-provider.ts';

const CLIENTS = 40;
const SIZE = 2_000_000;
/** A supervisor and a worker start one after the other, which takes long on a busy machine. */
const START_LIMIT_MS = 120_000;
const PATIENCE = { timeout: 240_000 };
const SOON = { timeout: 60_000, interval: 100 };

const ADMIN = { authorization: 'Bearer operator-token' };

async function withWorkers(count: number, config: Record<string, unknown> = {}) {
  const { registry, archive } = await startWithOneProvider(SIZE);
  const setup = await larderSetup({ registries: [registry], config });
  const larder = await startLarderProcess(setup, { args: ['--workers', String(count)], startLimitMs: START_LIMIT_MS });
  const pids = () => pidsOf(larder);
  await expect.poll(() => pids().length, SOON).toBe(count);
  const base = `${larder.url}/providers/${registry.hostname}/acme/widget`;
  return {
    registry,
    setup,
    larder,
    pids,
    /** Through a connection of its own, so that it may be any worker's. */
    get: async (path: string, headers: Record<string, string> = {}): Promise<HttpAnswer> => {
      const http = new HttpClient({ ca: setup.ca });
      try {
        return await http.get(path.startsWith('/') ? `${larder.url}${path}` : `${base}/${path}`, { headers });
      } finally {
        await http.close();
      }
    },
    zip: archive.filename,
    isWhole: ({ status, body }: HttpAnswer) =>
      status === 200 && createHash('sha256').update(body).digest('hex') === archive.sha256,
    upstreamGets: () => registry.releases.requests.count('GET', new RegExp(`/${archive.filename}`)),
  };
}

/** Of all workers that ever listened, in the order in which they did. */
function pidsOf({ lines }: LarderProcess): number[] {
  return lines.filter((line) => line.includes('"listening"')).map((line) => (JSON.parse(line) as { pid: number }).pid);
}

it('R24: forty cold clients of two workers: one upstream GET, and all of them counted', PATIENCE, async () => {
  const { registry, larder, get, zip, isWhole, upstreamGets, pids } = await withWorkers(2);
  const hold = holdAfter(SIZE / 2);
  registry.releases.on(/^GET .*\.zip/, hold.fault);
  const clients = Array.from({ length: CLIENTS }, () => get(zip));
  await hold.reached;
  setTimeout(hold.release, 500);
  expect((await Promise.all(clients)).filter(isWhole)).toHaveLength(CLIENTS);
  expect(upstreamGets()).toBe(1);

  const served = larder.lines.filter((line) => line.includes('"request"') && line.includes(zip));
  expect(served).toHaveLength(CLIENTS);
  const metrics = (await get('/metrics')).text();
  expect(metrics).toMatch(/^larder_leases_unshared_total 0$/m);
  const [, misses] = /^larder_cache_lookups_total\{cache="archives",result="miss"\} (\d+)$/m.exec(metrics) ?? [];
  expect(Number(misses)).toBeLessThanOrEqual(2);
  expect(sumOf(metrics, /^larder_requests_total\{.*\} (\d+)$/gm)).toBeGreaterThanOrEqual(CLIENTS);

  // Whoever is killed is missed by nobody who comes later, and comes back.
  const [victim, survivor] = pids() as [number, number];
  process.kill(victim, 'SIGKILL');
  await larder.line(/a worker has ended, and is started again/);
  for (let index = 0; index < 10; index += 1) expect(isWhole(await get(zip))).toBe(true);
  await expect.poll(() => pids().length, SOON).toBe(3);
  expect(pids()).toContain(survivor);
  expect(isWhole(await get(zip))).toBe(true);
  expect(upstreamGets()).toBe(1);
  const after = (await get('/metrics')).text();
  expect(sumOf(after, /^larder_requests_total\{.*\} (\d+)$/gm)).toBeGreaterThanOrEqual(CLIENTS);

  larder.signal('SIGTERM');
  expect(await larder.ended).toEqual({ code: 0, signal: undefined });
  for (const pid of pids()) expect(() => process.kill(pid, 0)).toThrow('ESRCH');
});

it('R24: a worker that is killed in mid-download is succeeded by another one at once', PATIENCE, async () => {
  const { registry, setup, get, zip, isWhole, pids } = await withWorkers(2);
  const hold = holdAfter(SIZE / 2);
  registry.releases.on(/^GET .*\.zip/, hold.fault, { times: 1 });
  const clients = Array.from({ length: 8 }, () => get(zip).catch((error: unknown) => error));
  await hold.reached;
  const leader = await leaderOf(setup, pids());
  process.kill(leader, 'SIGKILL');
  const answers = await Promise.all(clients);
  const served = answers.filter((answer): answer is HttpAnswer => !(answer instanceof Error));
  expect(served.length).toBeGreaterThan(0);
  for (const answer of served) expect(isWhole(answer)).toBe(true);
  expect(isWhole(await get(zip))).toBe(true);
});

it('R24: once it is answered that Larder is sealed, all workers are', PATIENCE, async () => {
  const { larder, setup, get } = await withWorkers(2, {
    access: { tokens: [{ name: 'operator', token: 'operator-token', roles: ['read', 'admin'] }] },
  });
  const http = new HttpClient({ ca: setup.ca });
  afterTest(() => http.close());
  const put = (sealed: boolean) =>
    http.send(`${larder.url}/admin/seal`, {
      method: 'PUT',
      headers: { ...ADMIN, 'content-type': 'application/json' },
      body: JSON.stringify({ sealed }),
    });
  for (const sealed of [true, false, true]) {
    expect((await put(sealed)).status).toBe(200);
    const states = await Promise.all(Array.from({ length: 8 }, () => get('/admin/seal', ADMIN)));
    expect(states.map((answer) => answer.json().sealed)).toEqual(Array(8).fill(sealed));
  }
  expect((await get('/metrics')).text()).toMatch(/^larder_sealed 1$/m);
});

it('R24: a scan that one worker makes is told of by all of them', PATIENCE, async () => {
  const { larder, setup, get, zip, pids } = await withWorkers(2, {
    access: { tokens: [{ name: 'operator', token: 'operator-token', roles: ['read', 'admin'] }] },
  });
  await get(zip);
  const http = new HttpClient({ ca: setup.ca });
  afterTest(() => http.close());
  const begun = await http.send(`${larder.url}/admin/verify`, { method: 'POST', headers: ADMIN });
  expect(begun.status).toBe(202);
  const { startedAt } = begun.json();
  await expect.poll(async () => (await get('/admin/verify', ADMIN)).json().state, SOON).toBe('done');
  const told = await Promise.all(Array.from({ length: 6 }, () => get('/admin/verify', ADMIN)));
  for (const answer of told) expect(answer.json()).toMatchObject({ state: 'done', startedAt });

  // Without a supervisor nobody could end them: they end themselves.
  larder.signal('SIGKILL');
  await larder.ended;
  await expect.poll(() => pids().filter(isAlive), SOON).toEqual([]);
});

it('what keeps the first worker from starting is said once, and ends all', PATIENCE, async () => {
  const setup = await larderSetup({ config: { listen: { host: '192.0.2.1', port: 8443 } } });
  const { code, stderr } = await runLarder(['serve', '--config', setup.configFile, '--workers', '2']);
  expect(code).toBe(1);
  expect(stderr.match(/cannot listen on 192\.0\.2\.1, port 8443/g)).toHaveLength(1);
  expect(stderr).not.toContain('    at ');
});

/** The worker that fetches: the one that writes a partial file. */
async function leaderOf({ dataDirectory }: LarderSetup, pids: readonly number[]): Promise<number> {
  const names = await readdir(join(dataDirectory, 'partial'));
  const pid = pids.find((one) => names.some((name) => name.includes(`-${one}-`)));
  if (pid === undefined) throw new Error(`none of ${pids.join(', ')} writes: ${names.join(', ')}`);
  return pid;
}

function isAlive(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch {
    return false;
  }
}

function sumOf(metrics: string, series: RegExp): number {
  return [...metrics.matchAll(series)].reduce((sum, [, value]) => sum + Number(value), 0);
}
