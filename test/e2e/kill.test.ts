import { createHash } from 'node:crypto';
import { watch } from 'node:fs';
import { readdir, readFile, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { afterTest } from '../support/after-test.ts';
import { all, type Hold, holdAfter, noContentLength, status } from '../support/faults.ts';
import { HttpClient } from '../support/http.ts';
import { type LarderProcess, startLarderProcess } from '../support/larder-process.ts';
import { type LarderSetup, larderSetup } from '../support/larder-setup.ts';
import type { PublishedPackage, PublishedVersion } from '../support/published-provider.ts';
import { UpstreamRegistry } from '../support/upstream-registry.ts';

const SIZE = 1_000_000;
const WITHHELD = 64 * 1024;
const PATIENCE = { timeout: 180_000 };
const POLLING = { timeout: 20_000, interval: 10 };

/** How many bytes of the archive have come in when the process is killed; five downloads die with each process. */
const ROUNDS = [
  [0, 1, 22, 100, 1024],
  [4096, 4097, 65_535, 65_536, 65_537],
  [250_000, 500_000, 750_000, SIZE - WITHHELD - 1, SIZE - WITHHELD],
  // The last one: everything is here, and nobody has said yet that this is all.
  [SIZE - WITHHELD + 1, SIZE - 1000, SIZE - 22, SIZE - 1, SIZE],
];

/** Steps of putting an archive in place: it gets its name, it is recorded, its version is listed. */
const STEPS: readonly ((archive: PublishedPackage, version: string) => string)[] = [
  ({ filename }) => filename,
  (_, version) => `${version}.json`,
  () => 'index.json',
];

it(
  'R03: killed at twenty points of a download and in the midst of storing, it never serves a part',
  PATIENCE,
  async () => {
    const world = await begin();
    const { registry, setup } = world;
    // All of them before anybody asks: lists of versions are remembered.
    const releases: PublishedVersion[] = [];
    for (const [index] of [...ROUNDS.flat(), ...STEPS].entries()) releases.push(await world.publish(`1.0.${index}`));
    const waiting = [...releases];

    let larder = await startLarderProcess(setup);
    for (const points of ROUNDS) {
      const dying = waiting.splice(0, points.length).map(packageOf);
      const holds = dying.map((archive, index) => world.hold(archive, points[index] ?? 0));
      const cut = dying.map((archive) => world.get(larder, archive).catch((error: unknown) => error));
      await Promise.all(holds.map(({ reached }) => reached));
      await expect.poll(() => partialSizes(setup), POLLING).toEqual(points);
      larder.signal('SIGKILL');
      await larder.ended;
      // The proof that it was in the middle of it: nobody got an answer to the end.
      for (const outcome of await Promise.all(cut)) expect(outcome).toBeInstanceOf(Error);
      for (const hold of holds) hold.cut();
      registry.heal();

      larder = await startLarderProcess(setup);
      expect(await partialSizes(setup)).toEqual([]);
      await expectOnlyWhole(setup, releases);
      // Upstream gives nothing now: whatever came as an archive would be what was left behind.
      registry.on(/^/, status(403));
      registry.releases.on(/^/, status(403));
      for (const archive of dying) expect((await world.get(larder, archive)).status).toBe(502);
      registry.heal();
      for (const archive of dying) await world.expectWhole(larder, archive);
      await expectOnlyWhole(setup, releases);
    }

    for (const step of STEPS) {
      const release = waiting.shift() as PublishedVersion;
      const archive = packageOf(release);
      const killed = world.killAtName(larder, step(archive, release.version));
      const cut = world.get(larder, archive).catch(() => undefined);
      await killed;
      await cut;
      larder = await startLarderProcess(setup);
      expect(await partialSizes(setup)).toEqual([]);
      await expectOnlyWhole(setup, releases);
      await world.expectWhole(larder, archive);
    }

    await registry.stop();
    for (const archive of releases.map(packageOf)) await world.expectWhole(larder, archive);
  },
);

async function begin() {
  const registry = await UpstreamRegistry.start();
  afterTest(() => registry.stop());
  const setup = await larderSetup({ registries: [registry] });
  const http = new HttpClient({ ca: setup.ca });
  afterTest(() => http.close());
  const get = (larder: LarderProcess, { filename }: PublishedPackage) =>
    http.get(`${larder.url}/providers/${registry.hostname}/acme/widget/${filename}`);
  return {
    registry,
    setup,
    get,
    expectWhole: async (larder: LarderProcess, archive: PublishedPackage) => {
      const { status, body } = await get(larder, archive);
      expect([status, digestOf(body)], archive.filename).toEqual([200, archive.sha256]);
    },
    /** Kills it as soon as a file of the provider gets this name. */
    killAtName: async (larder: LarderProcess, name: string) => {
      const directory = join(setup.dataDirectory, 'providers', registry.hostname, 'acme/widget');
      await new Promise<void>((resolve) => {
        const watcher = watch(directory, (_event, changed) => {
          if (changed !== name) return;
          larder.signal('SIGKILL');
          watcher.close();
          resolve();
        });
      });
      await larder.ended;
    },
    publish: (version: string) => registry.addProvider({ namespace: 'acme', type: 'widget', version, sizeBytes: SIZE }),
    /** Upstream stops sending this archive after so many bytes; also after all of them, without saying so. */
    hold: ({ filename }: PublishedPackage, bytes: number): Hold => {
      const hold = holdAfter(bytes);
      const fault = bytes === SIZE ? all(noContentLength(), hold.fault) : hold.fault;
      registry.releases.on((request) => request.path.endsWith(`/${filename}`), fault);
      return hold;
    },
  };
}

function packageOf(version: PublishedVersion): PublishedPackage {
  return version.packages.get('linux_amd64') as PublishedPackage;
}

/** In ascending order. */
async function partialSizes({ dataDirectory }: LarderSetup): Promise<number[]> {
  const directory = join(dataDirectory, 'partial');
  const sizes = await Promise.all(
    (await readdir(directory)).map(
      async (name) => (await stat(join(directory, name)).catch(() => undefined))?.size ?? -1,
    ),
  );
  return sizes.sort((a, b) => a - b);
}

/** Whatever lies in the data directory under an archive's name is that archive. */
async function expectOnlyWhole({ dataDirectory }: LarderSetup, releases: readonly PublishedVersion[]): Promise<void> {
  const directory = join(dataDirectory, 'providers');
  const digests = new Map(releases.map(packageOf).map(({ filename, sha256 }) => [filename, sha256]));
  for (const name of await readdir(directory, { recursive: true })) {
    if (!name.endsWith('.zip')) continue;
    expect(digestOf(await readFile(join(directory, name))), name).toBe(digests.get(name.replace(/^.*\//, '')));
  }
}

function digestOf(bytes: Buffer): string {
  return createHash('sha256').update(bytes).digest('hex');
}
