import { readdir, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import { type Scene, startScene } from './scene.ts';

const SIZE = 100_000;
const ARCHIVES = 40;
/** Room for half of them. */
const LIMIT = (SIZE * ARCHIVES) / 2;
const LOAD = { timeout: 120_000 };

/** Bytes of all archives on the disk, those that are arriving included. */
async function usage(directory: string): Promise<number> {
  let bytes = 0;
  for (const part of ['providers', 'modules', 'partial']) {
    const names = await readdir(join(directory, part), { recursive: true }).catch(() => []);
    for (const name of names) {
      if (part !== 'partial' && !/\.(zip|tar\.gz)$/.test(name)) continue;
      const file = await stat(join(directory, part, name)).catch(() => undefined);
      if (file?.isFile()) bytes += file.size;
    }
  }
  return bytes;
}

const versionOf = (index: number) => `1.0.${index}`;

async function begin(
  count = ARCHIVES,
  config: Record<string, unknown> = { limits: { disk: `${LIMIT}B` } },
): Promise<Scene> {
  const providers = Array.from({ length: count }, (_, index) => ({ version: versionOf(index), sizeBytes: SIZE }));
  return startScene({ providers, config });
}

const evictions = ({ larder }: Scene) => larder.log.filter(({ message }) => message === 'evicted');

describe('limits.disk', () => {
  it('holds under load of twice as much, without a client seeing an error', LOAD, async () => {
    const scene = await begin();
    const { dataDirectory } = scene.larder.setup;
    let isOver = false;
    let highest = 0;
    const watch = (async () => {
      while (!isOver) {
        highest = Math.max(highest, await usage(dataDirectory));
        await delay(10);
      }
    })();
    let random = 1;
    const next = () => {
      random = (random * 48_271) % 2_147_483_647;
      return random % ARCHIVES;
    };
    const client = async () => {
      for (let count = 0; count < 8; count += 1) {
        const index = next();
        const answer = await scene.archive(versionOf(index));
        expect(answer.status, answer.status === 200 ? '' : answer.text()).toBe(200);
        expect(answer.body.length).toBe(SIZE);
      }
    };
    await Promise.all(Array.from({ length: 30 }, client));
    isOver = true;
    await watch;
    expect(highest).toBeGreaterThan(LIMIT / 2);
    expect(highest).toBeLessThanOrEqual(LIMIT + SIZE);
    expect(evictions(scene).length).toBeGreaterThan(0);
    const metrics = (await scene.get('/metrics')).text();
    expect(metrics).toContain(`larder_disk_limit_bytes ${LIMIT}`);
    expect(Number(/^larder_evictions_total (\d+)$/m.exec(metrics)?.[1])).toBe(evictions(scene).length);
    expect(Number(/^larder_disk_bytes (\d+)$/m.exec(metrics)?.[1])).toBeLessThanOrEqual(LIMIT);
  });
});
