import { createHash } from 'node:crypto';
import { readdir, rename, rm, statfs, truncate, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { gunzipSync } from 'node:zlib';
import { describe, expect, it, vi } from 'vitest';
import { netFiles } from '../mirror/module-scene.ts';
import { bytesOf, packageOf, startRegistry, WIDGET } from '../mirror/scene.ts';
import { canMount, makeReadOnly, onSmallDisk } from '../store/small-disk.ts';
import { afterTest } from '../support/after-test.ts';
import { type HttpAnswer, HttpClient } from '../support/http.ts';
import { startLarder } from '../support/larder.ts';
import { moduleTarGz } from '../support/module-archive.ts';
import type { UpstreamRegistry } from '../support/upstream-registry.ts';

const SIZE = 300_000;
const DAY_MS = 24 * 3_600_000;
const PATIENT = { timeout: 120_000 };

/** Everything that can be asked for of one provider or module, by what it is called. */
const PATHS = {
  index: (of: string) => `/providers/HOST/acme/${of}/index.json`,
  version: (of: string) => `/providers/HOST/acme/${of}/1.0.0.json`,
  archive: (of: string) => `/providers/HOST/acme/${of}/terraform-provider-${of}_1.0.0_linux_amd64.zip`,
  versions: (of: string) => `/registry/HOST/v1/providers/acme/${of}/versions`,
  checksums: (of: string) => `/registry/HOST/v1/providers/acme/${of}/1.0.0/SHA256SUMS`,
  moduleVersions: (of: string) => `/registry/HOST/v1/modules/acme/${of}/aws/versions`,
  download: (of: string) => `/registry/HOST/v1/modules/acme/${of}/aws/1.0.0/download`,
  package: (of: string) => `/registry/HOST/v1/modules/acme/${of}/aws/1.0.0/acme-${of}-aws-1.0.0.tar.gz`,
};

type Thing = keyof typeof PATHS;

async function publish(registry: UpstreamRegistry, of: string) {
  const published = await registry.addProvider({ ...WIDGET, type: of, sizeBytes: SIZE });
  const archive = registry.addModuleArchive(`/${of}.tar.gz`, moduleTarGz(netFiles('1.0.0')));
  registry.addModule({ namespace: 'acme', name: of, system: 'aws', version: '1.0.0', location: archive.url });
  return bytesOf(packageOf(published));
}

/** What asks a Larder, in this process or another, for things of a registry. */
function askerOf({ url, ca }: { url: string; ca: string }, registry: UpstreamRegistry) {
  const http = new HttpClient({ ca });
  afterTest(() => http.close());
  return (thing: Thing, of = 'widget'): Promise<HttpAnswer> =>
    http.get(`${url}${PATHS[thing](of).replace('HOST', registry.hostname)}`);
}

const sha256 = (bytes: Buffer) => createHash('sha256').update(bytes).digest('hex');

/** A whole answer, and what it holds is right. */
function expectWhole(thing: Thing, answer: HttpAnswer, archive: Buffer): void {
  expect(answer.status, `${thing}: ${answer.status === 200 ? '' : answer.text()}`).toBe(
    thing === 'download' ? 204 : 200,
  );
  if (thing === 'archive') expect(sha256(answer.body)).toBe(sha256(archive));
  if (thing === 'package') expect(gunzipSync(answer.body).includes('output "version"')).toBe(true);
  if (thing === 'version') expect(answer.json().archives.linux_amd64.hashes).toContain(`zh:${sha256(archive)}`);
}

const THINGS = Object.keys(PATHS) as Thing[];

describe.runIf(canMount())('a data directory on a disk of its own', () => {
  async function onDisk(work: (data: string, registry: UpstreamRegistry) => Promise<void>): Promise<void> {
    const registry = await startRegistry();
    await onSmallDisk((data) => work(data, registry));
  }

  it('serves what is stored after a start on a directory that may only be read, and says what it cannot do', async () => {
    await onDisk(async (data, registry) => {
      const archive = await publish(registry, 'widget');
      const first = await startLarder({ registries: [registry], config: { data } });
      const askFirst = askerOf(first, registry);
      for (const thing of THINGS) expectWhole(thing, await askFirst(thing), archive);
      await first.close();
      makeReadOnly(data);

      const larder = await startLarder({ setup: first.setup });
      const ask = askerOf(larder, registry);
      for (const thing of THINGS) expectWhole(thing, await ask(thing), archive);
      await registry.stop();
      for (const thing of ['index', 'version', 'archive', 'package'] as const) {
        expectWhole(thing, await ask(thing), archive);
      }
      await registry.restart();
      const warnings = larder.log.filter(({ message }) => message.includes('cannot be written'));
      expect(warnings).toHaveLength(1);

      await publish(registry, 'gadget');
      // What can be told without writing is told; what would have to be stored is refused in words.
      expect((await ask('index', 'gadget')).status).toBe(200);
      expect((await ask('version', 'gadget')).status).toBe(200);
      for (const thing of ['archive', 'package'] as const) {
        const refused = await ask(thing, 'gadget');
        expect([refused.status, refused.json().code]).toEqual([500, 'STORAGE_FAILED']);
        expect(refused.json().errors[0]).toContain('EROFS');
      }
      await larder.close();
    });
  });

  it(
    'R83: however little room is left, nothing wrong is served, what can be told is told, and it is over when there is room',
    PATIENT,
    async () => {
      await onDisk(async (data, registry) => {
        const archive = await publish(registry, 'widget');
        const larder = await startLarder({ registries: [registry], config: { data } });
        const ask = askerOf(larder, registry);
        for (const thing of THINGS) expectWhole(thing, await ask(thing), archive);
        // From "not a byte" on to where the last of several files is the one too many.
        const rooms = [0, 4, 12, 64, 292, 296, 300, 304, 312, 700];
        for (const [round, kibibytes] of rooms.entries()) {
          const of = `thing${round}`;
          const bytes = await publish(registry, of);
          const ballast = await leave(data, kibibytes * 1024);
          for (const thing of THINGS) {
            const answer = await ask(thing, of).catch(() => 'broken off' as const);
            if (answer === 'broken off') expect(['archive', 'package']).toContain(thing);
            else if (answer.status < 300) expectWhole(thing, answer, bytes);
            else {
              expect([answer.status, answer.json().code], `${thing}, ${kibibytes}`).toEqual([507, 'STORAGE_FAILED']);
              expect(['archive', 'download', 'package']).toContain(thing);
            }
            // What was there before is there, and lists cost no room.
            expectWhole(thing, await ask(thing), archive);
          }
          await rm(ballast);
          for (const thing of THINGS) expectWhole(thing, await ask(thing, of), bytes);
          await expect.poll(() => readdir(join(data, 'partial')), { timeout: 10_000 }).toEqual([]);
          // Makes room for the next round.
          // What was under way may still be put there.
          await rm(join(data, 'providers', registry.hostname, 'acme', of), { recursive: true, maxRetries: 10 });
        }
        await larder.close();
      });
    },
  );

  /** Fills the disk up. @returns the file that does */
  async function leave(data: string, bytes: number): Promise<string> {
    const ballast = join(data, 'ballast');
    for (;;) {
      const { bavail, bsize } = await statfs(data);
      try {
        await writeFile(ballast, Buffer.alloc(Math.max(0, bavail * bsize - bytes)));
        return ballast;
      } catch (error) {
        // Somebody took some of it meanwhile.
        if ((error as NodeJS.ErrnoException).code !== 'ENOSPC') throw error;
        await rm(ballast);
      }
    }
  }
});

describe('files under a running server', () => {
  async function scene() {
    const registry = await startRegistry();
    const archive = await publish(registry, 'widget');
    const larder = await startLarder({ registries: [registry] });
    const ask = askerOf(larder, registry);
    for (const thing of THINGS) expectWhole(thing, await ask(thing), archive);
    const below = (...parts: string[]) => join(larder.setup.dataDirectory, ...parts);
    const zip = below('providers', registry.hostname, 'acme/widget/terraform-provider-widget_1.0.0_linux_amd64.zip');
    const tarGz = below('modules', registry.hostname, 'acme/widget/aws/1.0.0.tar.gz');
    return { registry, archive, larder, ask, zip, tarGz };
  }

  const DAMAGE: readonly [string, (file: string) => Promise<void>][] = [
    ['removed', (file) => rm(file)],
    ['emptied', (file) => truncate(file, 0)],
    ['cut short', (file) => truncate(file, 1_000)],
    ['made longer', (file) => writeFile(file, 'more', { flag: 'a' })],
    ['moved away', (file) => rename(file, `${file}.moved`)],
  ];

  it('that are gone or have another size are fetched again, and never served', async () => {
    const { archive, ask, zip, tarGz } = await scene();
    for (const [what, damage] of DAMAGE) {
      for (const [thing, file] of [
        ['archive', zip],
        ['package', tarGz],
      ] as const) {
        await damage(file);
        const answer = await ask(thing);
        expect(answer.status, what).toBe(200);
        expectWhole(thing, answer, archive);
      }
    }
  });

  it('that are gone with everything around them are no reason to fail', async () => {
    const { archive, larder, ask } = await scene();
    for (const name of ['providers', 'modules', 'partial']) {
      await rm(join(larder.setup.dataDirectory, name), { recursive: true, maxRetries: 10 });
      for (const thing of THINGS) expectWhole(thing, await ask(thing), archive);
    }
  });

  it('that hold nonsense where documents should be are written anew', async () => {
    const { archive, ask, zip } = await scene();
    for (const name of ['index.json', '1.0.0.json']) {
      await writeFile(join(zip, '..', name), '{"versions":');
      for (const thing of THINGS) expectWhole(thing, await ask(thing), archive);
    }
  });
});

describe('a clock', () => {
  it.each([
    ['forward by ten years', 3650 * DAY_MS],
    ['back by ten years', -3650 * DAY_MS],
    ['back by a day', -DAY_MS],
  ])('that jumps %s: all is served as before, and a host in trouble is asked again soon', async (_how, jump) => {
    vi.useFakeTimers({ toFake: ['Date'], now: Date.now() });
    afterTest(async () => void vi.useRealTimers());
    const registry = await startRegistry();
    const archive = await publish(registry, 'widget');
    const gadget = await publish(registry, 'gadget');
    const larder = await startLarder({ registries: [registry] });
    const ask = askerOf(larder, registry);
    for (const thing of THINGS) expectWhole(thing, await ask(thing), archive);
    await registry.stop();
    for (const thing of ['index', 'moduleVersions'] as const) expect((await ask(thing, 'gadget')).status).toBe(502);
    vi.setSystemTime(Date.now() + jump);
    for (const thing of ['archive', 'package', 'index'] as const) expectWhole(thing, await ask(thing), archive);
    await registry.restart();
    // Whatever was begun meanwhile found nobody: that is remembered for a moment, by the clock as it is now.
    vi.setSystemTime(Date.now() + 6_000);
    for (const thing of THINGS) expectWhole(thing, await ask(thing), archive);
    // Signatures from the future are good for nothing; all the rest is.
    const unsigned = ['index', 'versions', 'moduleVersions', 'download', 'package'] as const;
    for (const thing of jump > 0 ? THINGS : unsigned) expectWhole(thing, await ask(thing, 'gadget'), gadget);
  });
});

it.runIf(process.platform === 'linux')('a data directory where none can be made ends the start, in words', async () => {
  for (const data of ['/proc/larder/data', '/proc']) {
    await expect(startLarder({ config: { data } })).rejects.toMatchObject({ code: 'STORAGE_FAILED' });
  }
});
