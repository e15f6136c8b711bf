import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { Changes } from '../src/changes.ts';
import { Closers } from '../src/closers.ts';
import type { Config } from '../src/config.ts';
import { silentLogger as logger } from '../src/logger.ts';
import { openShared } from '../src/shared.ts';
import { Supervisor, type WorkerEnd } from '../src/workers/supervisor.ts';
import { WorkerLine } from '../src/workers/worker-line.ts';
import { sha256Hex } from './contract/archive-store.ts';
import { releaseOf } from './contract/module-store.ts';
import { afterTest } from './support/after-test.ts';
import { wirePair } from './support/wire-pair.ts';

/** Workers of one machine, all in this process. */
async function workersOf(count: number) {
  const data = await mkdtemp(join(tmpdir(), 'larder-shared-'));
  afterTest(() => rm(data, { recursive: true, force: true }));
  const config = { data, sealed: false, limits: { metadataDeadline: 8_000 } } as unknown as Config;
  const lines: WorkerLine[] = [];
  const ends: ((end: WorkerEnd) => void)[] = [];
  const fork = () => {
    const [here, there] = wirePair();
    lines.push(new WorkerLine({ wire: there }));
    const ended = new Promise<WorkerEnd>((resolve) => ends.push(resolve));
    return { id: lines.length, pid: undefined, wire: here, ended, kill: () => {} };
  };
  const supervisor = new Supervisor({ count, fork, logger });
  const code = supervisor.run();
  const opened = new Closers({ logger });
  afterTest(async () => {
    await opened.close();
    supervisor.end();
    for (const end of ends) end({ code: 0, signal: null });
    await code;
  });
  const open = async (line: WorkerLine) => {
    const worker = { line, place: await line.place() };
    const shared = await openShared(config, {
      measured: (store) => store,
      changes: new Changes(),
      worker,
      opened,
      logger,
    });
    await line.ready();
    return shared;
  };
  const first = await open(lines[0] as WorkerLine);
  await expect.poll(() => lines.length).toBe(count);
  return [first, ...(await Promise.all(lines.slice(1).map(open)))];
}

const kind = {
  decode: (stored: unknown) => stored as string,
  encode: (value: string) => value,
  freshness: () => ({ freshForMs: 60_000, keepForMs: 60_000, absentForMs: 1_000 }),
};

it('what one worker is told to forget, all forget, and what is decided about drift holds for all', async () => {
  const workers = await workersOf(3);
  const [one, ...others] = workers;
  const read = (of: typeof one, said: string) => of?.cache.read('key', kind, async () => said);
  for (const worker of workers) await read(worker, 'before');
  for (const { drift } of others)
    drift.report(releaseOf('1.0.0'), sha256Hex(Buffer.from('1')), sha256Hex(Buffer.from('2')));
  await one?.cache.forget('key');
  for (const worker of workers) expect(await read(worker, 'now')).toMatchObject({ value: 'now' });
  one?.drift.settle(releaseOf('1.0.0'));
  await expect.poll(() => others.flatMap(({ drift }) => drift.all)).toEqual([]);
});
