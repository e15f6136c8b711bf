import { expect, it } from 'vitest';
import { OPS } from '../mirror/warm-scene.ts';
import { neighbourhood } from '../support/replicas.ts';
import { describeWith } from '../support/requirements.ts';

/** Most of it is for starting two processes on a busy machine. */
const PATIENCE = { timeout: 150_000 };
/** Two seconds, and what a busy machine makes of them. */
const SOON = { timeout: 20_000, interval: 100 };

describeWith(['redis-server'], 'what is purged through one replica', () => {
  it('is forgotten by the others: they serve what upstream has now, and report no drift', PATIENCE, async () => {
    const tokens = [{ name: 'ops', token: OPS, roles: ['admin', 'read'] }];
    const all = await neighbourhood({ config: { access: { tokens } } });
    const { registry } = all;
    const about = { namespace: 'acme', type: 'widget', version: '1.0.0' };
    await registry.addProvider(about);
    const [here, there] = [await all.start(), await all.start()];
    const mirror = `/providers/${registry.hostname}/acme/widget`;
    const archive = `${mirror}/terraform-provider-widget_1.0.0_linux_amd64.zip`;
    // Both remember what upstream said.
    for (const replica of [here, there]) expect((await all.get(replica, archive)).status).toBe(200);
    const hashes = async () => (await all.get(there, `${mirror}/1.0.0.json`)).json().archives.linux_amd64.hashes;
    const before = await hashes();

    await registry.addProvider({ ...about, zip: () => Buffer.from('other bytes') });
    const purged = await all.get(here, '/admin/purge', {
      method: 'POST',
      headers: { authorization: `Bearer ${OPS}`, 'content-type': 'application/json' },
      body: JSON.stringify({ address: `${registry.hostname}/acme/widget`, version: '1.0.0' }),
    });
    expect(purged.json().purged).toMatchObject([{ version: '1.0.0', checksums: true }]);

    await expect.poll(hashes, SOON).not.toEqual(before);
    const now = await all.get(there, archive);
    expect([now.status, now.text()]).toEqual([200, 'other bytes']);
    const inventory = await all.get(there, '/admin/inventory', { headers: { authorization: `Bearer ${OPS}` } });
    expect(inventory.json().drift).toEqual([]);
  });
});
