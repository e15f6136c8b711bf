import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { doorsFor, OPS } from '../mirror/warm-scene.ts';
import { afterTest } from '../support/after-test.ts';
import { holdAnswer } from '../support/faults.ts';
import { HttpClient, type HttpOptions } from '../support/http.ts';
import { type LarderProcess, startLarderProcess } from '../support/larder-process.ts';
import { larderSetup } from '../support/larder-setup.ts';
import { UpstreamRegistry } from '../support/upstream-registry.ts';

const PROVIDERS = 200;
/** So many are stored when upstream stops answering, and the process is killed. */
const BEFORE = 90;
const PATIENCE = { timeout: 300_000 };

it(
  'killed in the middle of two hundred providers, the next start ends the job and fetches nothing twice',
  PATIENCE,
  async () => {
    const registry = await UpstreamRegistry.start();
    afterTest(() => registry.stop());
    const types = Array.from({ length: PROVIDERS }, (_, index) => `number${index}`);
    for (const type of types) await registry.addProvider({ namespace: 'acme', type, version: '1.0.0' });
    const setup = await larderSetup({
      registries: [registry],
      config: { access: { tokens: [{ name: 'ops', token: OPS, roles: ['admin'] }] } },
    });
    const http = new HttpClient({ ca: setup.ca });
    afterTest(() => http.close());
    const doors = (larder: LarderProcess) =>
      doorsFor((path: string, options?: HttpOptions) => http.get(`${larder.url}${path}`, options));
    const archives = async () =>
      (await readdir(join(setup.dataDirectory, 'providers'), { recursive: true })).filter((name) =>
        name.endsWith('.zip'),
      );

    const larder = await startLarderProcess(setup);
    const hold = holdAnswer();
    registry.releases.on(/\.zip/, (call, next) => {
      const asked = registry.releases.requests.count(/^GET .*\.zip/);
      return asked > BEFORE ? hold.fault(call, next) : next(call);
    });
    const id = await doors(larder).warm({ providers: types.map((type) => `${registry.hostname}/acme/${type}`) });
    await hold.reached;
    await expect.poll(archives, { timeout: 60_000 }).toHaveLength(BEFORE);
    expect((await doors(larder).job(id)).state).toBe('running');
    larder.signal('SIGKILL');
    await larder.ended;
    const stored = new Set((await archives()).map((name) => name.replace(/^.*\//, '')));
    registry.heal();
    hold.cut();
    registry.releases.requests.clear();

    const next = await startLarderProcess(setup);
    const job = await doors(next).ended(id, 120_000);
    expect(job.state).toBe('finished');
    expect(job.totals).toMatchObject({ items: PROVIDERS, unsupported: 0, failed: 0, waiting: 0 });
    expect(job.totals.present + job.totals.stored).toBe(PROVIDERS);
    expect(await archives()).toHaveLength(PROVIDERS);
    const fetched = registry.releases.requests
      .filter(/^GET .*\.zip/)
      .map(({ path }) => path.replace(/^.*\/|\?.*$/g, ''));
    expect(fetched).toHaveLength(PROVIDERS - BEFORE);
    expect(fetched.filter((name) => stored.has(name))).toEqual([]);
    expect(new Set(fetched).size).toBe(fetched.length);

    // It is there, and costs nothing to have again.
    const again = await doors(next).ended(await doors(next).warm({ providers: [`${registry.hostname}/acme/number7`] }));
    expect(again.totals).toMatchObject({ items: 1, present: 1 });
  },
);
