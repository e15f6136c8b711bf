import { execFileSync } from 'node:child_process';
import { readdirSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { bytesOf, packageOf, startRegistry, WIDGET } from '../mirror/scene.ts';
import { afterTest } from '../support/after-test.ts';
import { HttpClient } from '../support/http.ts';
import { type LarderProcess, startLarderProcess } from '../support/larder-process.ts';
import { larderSetup } from '../support/larder-setup.ts';

const PATIENT = { timeout: 180_000 };
const SIZE = 500_000;

async function begin() {
  const registry = await startRegistry();
  const setup = await larderSetup({ registries: [registry] });
  const http = new HttpClient({ ca: setup.ca });
  afterTest(() => http.close());
  const base = (larder: LarderProcess, type: string) => `${larder.url}/providers/${registry.hostname}/acme/${type}`;
  return {
    registry,
    setup,
    publish: async (type: string) =>
      bytesOf(packageOf(await registry.addProvider({ ...WIDGET, type, sizeBytes: SIZE }))),
    index: (larder: LarderProcess, type: string) => http.get(`${base(larder, type)}/index.json`),
    archive: (larder: LarderProcess, type: string) =>
      http.get(`${base(larder, type)}/terraform-provider-${type}_1.0.0_linux_amd64.zip`),
    alive: async (larder: LarderProcess) => (await http.get(`${larder.url}/healthz`)).status,
  };
}

it(
  'two processes on one directory, by mistake: both serve, both store, and the death of one is no affair of the other',
  PATIENT,
  async () => {
    const { registry, setup, publish, archive, index } = await begin();
    const types = ['one', 'two', 'three', 'four', 'five', 'six'];
    const bytes = new Map<string, Buffer>();
    for (const type of types) bytes.set(type, await publish(type));
    const both = await Promise.all([startLarderProcess(setup), startLarderProcess(setup)]);
    const [first, second] = both;
    const expectWhole = async (larder: LarderProcess, type: string) => {
      const answer = await archive(larder, type);
      expect(answer.status, answer.status === 200 ? '' : answer.text()).toBe(200);
      expect(answer.body.equals(bytes.get(type) as Buffer), type).toBe(true);
    };
    await Promise.all(both.flatMap((larder) => types.slice(0, 4).map((type) => expectWhole(larder, type))));

    const cut = types.slice(4).map((type) => archive(first, type).catch(() => undefined));
    first.signal('SIGKILL');
    await Promise.all([first.ended, ...cut]);
    for (const type of types) {
      await expectWhole(second, type);
      expect((await index(second, type)).status).toBe(200);
    }
    await registry.stop();
    for (const type of types) await expectWhole(second, type);
  },
);

const hasPrlimit = (() => {
  try {
    execFileSync('prlimit', ['--version'], { stdio: 'ignore' });
    return process.platform === 'linux';
  } catch {
    return false;
  }
})();

describe.runIf(hasPrlimit)('descriptors', () => {
  it('that run out end no process: it goes on as soon as there are some again', PATIENT, async () => {
    const { setup, publish, archive, alive } = await begin();
    const bytes = await publish('widget');
    await Promise.all(Array.from({ length: 20 }, (_, index) => publish(`thing${index}`)));
    const larder = await startLarderProcess(setup);
    expect((await archive(larder, 'widget')).status).toBe(200);

    const open = () => readdirSync(`/proc/${larder.pid}/fd`).length;
    for (const spare of [0, 2, 5, 12]) {
      limit(larder.pid, open() + spare);
      // Some are answered, some in words, some not at all.
      const answers = await Promise.all(
        Array.from({ length: 20 }, (_, index) => within(5_000, archive(larder, `thing${index}`))),
      );
      for (const answer of answers) if (answer?.status === 200) expect(answer.body).toHaveLength(SIZE);
      limit(larder.pid, 1_024);
      await expect.poll(() => alive(larder).catch(() => 0), { timeout: 30_000 }).toBe(200);
      const again = await archive(larder, 'widget');
      expect([again.status, again.body.equals(bytes)]).toEqual([200, true]);
    }
    for (let index = 0; index < 20; index += 1) {
      await expect
        .poll(async () => (await archive(larder, `thing${index}`).catch(() => undefined))?.status, { timeout: 30_000 })
        .toBe(200);
    }
    larder.signal('SIGTERM');
    expect((await larder.ended).code).toBe(0);
  });

  function limit(pid: number, descriptors: number): void {
    execFileSync('prlimit', ['--pid', String(pid), `--nofile=${descriptors}:`]);
  }
});

/** What came of it in time; `undefined` when nothing did. */
async function within<T>(ms: number, answer: Promise<T>): Promise<T | undefined> {
  let timer: NodeJS.Timeout | undefined;
  const patience = new Promise<undefined>((resolve) => {
    timer = setTimeout(() => resolve(undefined), ms);
  });
  return Promise.race([answer.catch(() => undefined), patience]).finally(() => clearTimeout(timer));
}
