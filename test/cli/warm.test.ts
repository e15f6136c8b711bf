import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { OPS, startWarmScene } from '../mirror/warm-scene.ts';
import { runLarder } from '../support/command.ts';
import { holdAfter, status } from '../support/faults.ts';
import { startLarder } from '../support/larder.ts';

/** Several processes are started one after the other. */
const PROCESSES = { timeout: 120_000 };

async function begin() {
  const scene = await startWarmScene({ providers: [{}, { type: 'broken' }] });
  const { url, setup } = scene.larder;
  const list = join(setup.dataDirectory, 'warm.yaml');
  const host = scene.registry.hostname;
  await writeFile(list, `providers:\n  - ${host}/acme/widget\n`);
  return { ...scene, host, list, there: ['--server', url, '--ca', setup.caFile, '--token', OPS] };
}

describe('larder warm', () => {
  it('brings in what a list names, says so line by line, and ends well', PROCESSES, async () => {
    const { list, there, host } = await begin();
    const { code, lines, stderr } = await runLarder(['warm', list, ...there]);
    expect(code, stderr).toBe(0);
    const events = lines();
    expect(events[0]).toMatchObject({ event: 'began' });
    expect(events.filter(({ event }) => event === 'item')).toMatchObject([
      { name: `${host}/acme/widget 1.0.0 linux_amd64`, outcome: 'stored' },
    ]);
    expect(events.at(-1)).toMatchObject({ event: 'end', state: 'finished', totals: { items: 1, stored: 1 } });

    const again = await runLarder(['warm', list, ...there, '--platform', 'linux_amd64', '--platform', 'plan9_386']);
    expect(again.code, again.stderr).toBe(0);
    expect(again.lines().at(-1)).toMatchObject({ totals: { items: 2, present: 1, unsupported: 1 } });
  });

  it('ends with 1 when something failed, and with 2 when nothing could be begun', PROCESSES, async () => {
    const { registry, list, there, host } = await begin();
    registry.releases.on(/broken.*\.zip/, status(404));
    await writeFile(list, `providers:\n  - ${host}/acme/broken\n  - ${host}/acme/widget\n`);
    const partial = await runLarder(['warm', list, ...there]);
    const [missing, nobody, unknown] = await Promise.all([
      runLarder(['warm', `${list}.absent`, ...there]),
      runLarder(['warm', list]),
      runLarder(['warm']),
    ]);
    expect(partial.code, partial.stderr).toBe(1);
    expect(partial.lines().at(-1)).toMatchObject({ event: 'end', totals: { stored: 1, failed: 1 } });
    for (const { code, stdout } of [missing, nobody, unknown]) {
      expect(code).toBe(2);
      expect(stdout).toBe('');
    }
    expect(missing.stderr).toContain('does not exist');
    expect(nobody.stderr).toContain('--server');
  });

  it('does not wait when it need not', PROCESSES, async () => {
    const { registry, list, there, ended } = await begin();
    const hold = holdAfter(10);
    registry.releases.on(/widget.*\.zip/, hold.fault);
    const detached = await runLarder(['warm', list, ...there, '--detach']);
    expect(detached.code, detached.stderr).toBe(0);
    const [began] = detached.lines();
    await hold.reached;
    hold.release();
    expect((await ended(String(began?.['job']))).totals).toMatchObject({ stored: 1, items: 1 });
  });

  it('finds its way back to a server that was started again', PROCESSES, async () => {
    const { registry, larder, list, there } = await begin();
    const hold = holdAfter(10);
    registry.releases.on(/widget.*\.zip/, hold.fault, { times: 1 });
    const following = runLarder(['warm', list, ...there]);
    await hold.reached;
    await larder.close();
    hold.cut();
    const { setup, port } = larder;
    await writeFile(setup.configFile, (await readFile(setup.configFile, 'utf8')).replace('port: 0', `port: ${port}`));
    await startLarder({ setup });
    const { code, lines, stderr } = await following;
    expect(code, stderr).toBe(0);
    expect(lines().at(-1)).toMatchObject({ event: 'end', state: 'finished', totals: { items: 1, failed: 0 } });
  });
});
