import { expect, it } from 'vitest';
import { doorsFor, OPS } from '../mirror/warm-scene.ts';
import { holdAnswer } from '../support/faults.ts';
import type { HttpOptions } from '../support/http.ts';
import type { LarderProcess } from '../support/larder-process.ts';
import { type Neighbourhood, neighbourhood } from '../support/replicas.ts';
import { describeWith } from '../support/requirements.ts';

/** Most of it is for starting two processes on a busy machine. */
const PATIENCE = { timeout: 150_000 };
const SOON = { timeout: 20_000, interval: 100 };

const doors = (all: Neighbourhood, replica: LarderProcess) =>
  doorsFor((path: string, options?: HttpOptions) => all.get(replica, path, options));

describeWith(['redis-server'], 'what one replica does is seen on the other', () => {
  it('jobs, their end, the seal, links for downloads, and what was stored', PATIENCE, async () => {
    const tokens = [
      { name: 'ops', token: OPS, roles: ['admin', 'read'] },
      { name: 'ci', token: 'token-of-ci', roles: ['read'] },
    ];
    const all = await neighbourhood({ config: { access: { anonymous: 'none', tokens } } });
    const { registry } = all;
    const about = { namespace: 'acme', type: 'widget', version: '1.0.0' };
    const archive = (await registry.addProvider(about)).packages.get('linux_amd64');
    const [here, there] = [await all.start(), await all.start()];

    // A job that runs on one of them.
    const hold = holdAnswer();
    registry.releases.on(/^GET .*\.zip/, hold.fault);
    const id = await doors(all, here).warm({ providers: [`${registry.hostname}/acme/widget`] });
    await hold.reached;
    await expect.poll(async () => (await doors(all, there).job(id)).state, SOON).toBe('running');
    hold.release();
    const job = await doors(all, there).ended(id);
    expect(job).toMatchObject({ state: 'finished', totals: { items: 1, stored: 1 } });

    // A link that one of them has signed.
    const authorization = 'Bearer token-of-ci';
    const mirror = `/providers/${registry.hostname}/acme/widget`;
    const document = await all.get(here, `${mirror}/1.0.0.json`, { headers: { authorization } });
    const { url } = document.json().archives.linux_amd64;
    const link = new URL(url, `https://larder${mirror}/1.0.0.json`).pathname;
    expect(link).toMatch(/^\/get\//);
    const download = await all.get(there, link);
    expect([download.status, download.body.length]).toEqual([200, archive?.size]);

    // The seal.
    const put = { method: 'PUT', headers: { authorization: `Bearer ${OPS}`, 'content-type': 'application/json' } };
    await all.get(here, '/admin/seal', { ...put, body: '{"sealed":true}' });
    const sealOf = async (replica: LarderProcess) => (await doors(all, replica).admin('GET', 'seal')).json();
    await expect.poll(async () => (await sealOf(there)).sealed, SOON).toBe(true);
    await all.get(there, '/admin/seal', { ...put, body: '{"sealed":false}' });
    await expect.poll(async () => (await sealOf(here)).sealed, SOON).toBe(false);
  });
});
