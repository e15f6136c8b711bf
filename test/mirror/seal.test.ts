import { describe, expect, it, vi } from 'vitest';
import { StorageFailed } from '../../src/errors.ts';
import { Seal, type SealEffects } from '../../src/mirror/seal.ts';
import type { MetadataEntry } from '../../src/store/metadata-store.ts';
import type { SealRecord } from '../../src/store/seal-file.ts';
import { afterTest } from '../support/after-test.ts';
import { recordingLogger } from '../support/recording-logger.ts';
import { eventually } from './scene.ts';

const LOOK_MS = 20;

/** A file of a data directory, which can be lost, damaged or on a full disk. */
function sealFile() {
  return {
    content: undefined as SealRecord | 'damaged' | undefined,
    isFull: false,
    async read() {
      return this.content;
    },
    async write(record: SealRecord) {
      if (this.isFull) throw new StorageFailed('writing a file', new Error('no room'));
      this.content = record;
    },
  };
}

/** A metadata store that can be lost, or not answer. */
function store() {
  const entries = new Map<string, MetadataEntry>();
  return {
    entries,
    isDown: false,
    async get(key: string) {
      if (this.isDown) throw new StorageFailed('metadata read', new Error('down'));
      return entries.get(key);
    },
    async put(key: string, entry: MetadataEntry) {
      if (this.isDown) throw new StorageFailed('metadata write', new Error('down'));
      entries.set(key, JSON.parse(JSON.stringify(entry)) as MetadataEntry);
    },
  };
}

async function replica(
  options: {
    file?: ReturnType<typeof sealFile>;
    metadata?: ReturnType<typeof store>;
    configured?: boolean;
    /** What is under way. */
    ends?: Record<string, Promise<unknown>>;
  } = {},
) {
  const { file = sealFile(), metadata = store(), configured = false } = options;
  const ends = options.ends ?? {};
  const effects = { sealed: vi.fn(() => ends), unsealed: vi.fn() } satisfies SealEffects;
  const logger = recordingLogger();
  const seal = await Seal.open({ configured, file, store: metadata, endingMs: 20, logger });
  seal.watch(effects, LOOK_MS);
  afterTest(() => seal.close());
  return { seal, file, metadata, effects, logger };
}

describe('a mirror that is sealed at run time', () => {
  it('ends what is under way once, and says who sealed it and when', async () => {
    const { seal, effects } = await replica();
    expect(seal.state()).toEqual({ sealed: false, configured: false });
    const { untilSealed } = seal.opening;
    effects.sealed.mockImplementation(() => {
      // Nothing is let out by the time that what is under way is ended.
      expect([seal.isSealed, untilSealed.aborted]).toEqual([true, true]);
      return {};
    });
    expect(await seal.set(true, 'ops')).toBe(true);
    expect(await seal.set(true, 'somebody else')).toBe(false);
    expect(effects.sealed).toHaveBeenCalledTimes(1);
    expect(seal.state()).toMatchObject({ sealed: true, configured: false, by: 'ops' });
    expect(Date.parse(seal.state().changedAt ?? '')).toBeGreaterThan(0);
    expect(await seal.set(false, 'ops')).toBe(true);
    expect(effects.unsealed).toHaveBeenCalledTimes(1);
    expect(seal.isSealed).toBe(false);
    expect(seal.opening.isSealed).toBe(false);
  });

  it('tells what has not ended when it gives up waiting for that, until it has', async () => {
    let end = () => {};
    const slow = new Promise<void>((resolve) => {
      end = resolve;
    });
    const failing = Promise.reject(new Error('it cannot be ended'));
    failing.catch(() => {});
    const { seal, logger } = await replica({ ends: { downloads: Promise.resolve(), packages: slow, failing } });
    expect(await seal.set(true, 'ops')).toBe(true);
    expect(seal.state()).toMatchObject({ sealed: true, underWay: ['packages', 'failing'] });
    expect(logger.lines.map(({ message }) => message)).toContain('sealed, but what was under way is slow to end');
    end();
    await eventually(() => seal.state().underWay).toEqual(['failing']);
    await seal.set(false, 'ops');
    expect(seal.state()).not.toHaveProperty('underWay');
  });

  it('tells that others could not be told, until the store has it', async () => {
    const { seal, metadata, logger } = await replica();
    metadata.isDown = true;
    expect(await seal.set(true, 'ops')).toBe(true);
    expect(seal.state()).toMatchObject({ sealed: true, unshared: true });
    // Saying it again does not make it so.
    expect(await seal.set(true, 'ops')).toBe(false);
    expect(seal.state()).toMatchObject({ sealed: true, unshared: true });
    metadata.isDown = false;
    await eventually(() => seal.state().unshared).toBeUndefined();
    expect([...metadata.entries.values()]).toMatchObject([{ value: { sealed: true } }]);
    const warnings = logger.lines.filter(({ level }) => level === 'warn').map(({ message }) => message);
    expect(warnings).toEqual([expect.stringContaining('could not be told of the seal')]);
  });

  it('says loudly that it may have been sealed when neither file nor store can tell, until the store does', async () => {
    const { seal: other, metadata } = await replica();
    await other.set(true, 'ops');
    metadata.isDown = true;
    const { seal, logger, effects } = await replica({ metadata });
    expect(seal.state()).toEqual({ sealed: false, configured: false, unknown: true });
    expect(logger.lines.filter(({ level }) => level === 'error')).toMatchObject([
      { message: expect.stringContaining('NOT SEALED, although it may have been') },
    ]);
    await expect(seal.check()).rejects.toMatchObject({
      code: 'STORAGE_FAILED',
      message: expect.stringContaining('finding out whether this mirror was sealed'),
    });
    metadata.isDown = false;
    await eventually(() => seal.isSealed).toBe(true);
    expect(effects.sealed).toHaveBeenCalledTimes(1);
    await expect(seal.check()).resolves.toBeUndefined();
    expect(seal.state()).not.toHaveProperty('unknown');
  });

  it.each([true, false])(
    'stays as it is said to be (sealed: %s) while nobody can tell what was before',
    async (sealed) => {
      const { seal: other, metadata } = await replica();
      await other.set(true, 'a');
      await other.set(false, 'a');
      if (!sealed) await other.set(true, 'a');
      await other.close();
      metadata.isDown = true;
      const { seal, file } = await replica({ metadata });
      expect(await seal.set(sealed, 'ops')).toBe(true);
      expect(seal.state()).toMatchObject({ sealed, by: 'ops' });
      expect(seal.state()).not.toHaveProperty('unknown');
      metadata.isDown = false;
      await eventually(() => metadata.entries.get('v1:seal')?.value).toMatchObject({ sealed, by: 'ops' });
      expect(seal.isSealed).toBe(sealed);
      expect(file.content).toMatchObject({ sealed, by: 'ops' });
    },
  );

  it('is certain of itself when the configuration, a file or an empty store tells', async () => {
    const down = Object.assign(store(), { isDown: true });
    const { file } = await replica();
    const open = { sealed: false, revision: 2, changedAt: '2026-01-02T03:04:05Z', by: 'ops' };
    for (const one of [
      await replica(),
      await replica({ metadata: down, configured: true }),
      await replica({ metadata: down, file: Object.assign(file, { content: open }) }),
    ]) {
      expect(one.seal.state()).not.toHaveProperty('unknown');
      await one.seal.check();
    }
  });

  it('is sealed after a restart, also when the metadata store was lost or does not answer', async () => {
    const first = await replica();
    await first.seal.set(true, 'ops');
    const { file } = first;
    expect((await replica({ file })).seal.isSealed).toBe(true);
    const metadata = Object.assign(store(), { isDown: true });
    expect((await replica({ file, metadata })).seal.isSealed).toBe(true);
  });

  it('is sealed after a restart, also when the file was lost', async () => {
    const { seal, metadata } = await replica();
    await seal.set(true, 'ops');
    const again = await replica({ metadata });
    expect(again.seal.isSealed).toBe(true);
    await eventually(() => again.file.content).toMatchObject({ sealed: true });
  });

  it('seals and unseals the other replicas, which keep it for themselves', async () => {
    const one = await replica();
    const other = await replica({ metadata: one.metadata });
    await one.seal.set(true, 'ops');
    await eventually(() => other.seal.isSealed).toBe(true);
    expect(other.effects.sealed).toHaveBeenCalledTimes(1);
    expect(other.file.content).toMatchObject({ sealed: true, by: 'ops' });
    await other.seal.set(false, 'night shift');
    await eventually(() => one.seal.isSealed).toBe(false);
    expect(one.seal.state().by).toBe('night shift');
  });

  it('a lost or outdated store unseals nobody, and is told again', async () => {
    const { seal, metadata, effects } = await replica();
    await seal.set(true, 'a');
    const [[key, outdated] = []] = [...metadata.entries];
    await seal.set(false, 'b');
    await seal.set(true, 'c');
    metadata.entries.clear();
    await eventually(() => metadata.entries.get(key ?? '')?.value).toMatchObject({ sealed: true, by: 'c' });
    metadata.entries.set(key ?? '', outdated as MetadataEntry);
    await eventually(() => metadata.entries.get(key ?? '')?.value).toMatchObject({ by: 'c' });
    expect(seal.isSealed).toBe(true);
    expect(effects.unsealed).toHaveBeenCalledTimes(1);
  });

  it('replicas that disagree at the same moment are sealed', async () => {
    const one = await replica();
    const other = await replica();
    await one.seal.set(true, 'a');
    await one.seal.set(false, 'a');
    await other.seal.set(true, 'b');
    await other.seal.set(false, 'b');
    await other.seal.set(true, 'b');
    await one.seal.set(true, 'a');
    expect(one.file.content?.valueOf()).toMatchObject({ revision: 3 });
    await one.metadata.put('v1:seal', { value: { ...(one.file.content as SealRecord), sealed: false }, fetchedAt: 0 });
    await eventually(() => one.metadata.entries.get('v1:seal')?.value).toMatchObject({ sealed: true });
    expect(one.seal.isSealed).toBe(true);
  });

  it('is changed although the store is down, which is told when it is back', async () => {
    const { seal, metadata } = await replica();
    metadata.isDown = true;
    await seal.set(true, 'ops');
    expect(seal.isSealed).toBe(true);
    metadata.isDown = false;
    await eventually(() => metadata.entries.size).toBe(1);
  });

  it('is not changed when that cannot be kept', async () => {
    const { seal, file, effects } = await replica();
    file.isFull = true;
    await expect(seal.set(true, 'ops')).rejects.toThrow(StorageFailed);
    expect(seal.isSealed).toBe(false);
    file.isFull = false;
    await seal.set(true, 'ops');
    file.isFull = true;
    await expect(seal.set(false, 'ops')).rejects.toThrow(StorageFailed);
    expect(seal.isSealed).toBe(true);
    expect(effects.unsealed).not.toHaveBeenCalled();
  });

  it('a damaged file that nobody can make up for means sealed, until somebody says otherwise', async () => {
    const file = Object.assign(sealFile(), { content: 'damaged' as const });
    const { seal } = await replica({ file });
    expect(seal.isSealed).toBe(true);
    expect(await seal.set(false, 'ops')).toBe(true);
    expect(seal.isSealed).toBe(false);
    expect(file.content).toMatchObject({ sealed: false });
  });

  it('is not unsealed by others where its own configuration seals it', async () => {
    const one = await replica();
    const other = await replica({ metadata: one.metadata, configured: true });
    await one.seal.set(true, 'ops');
    await one.seal.set(false, 'ops');
    await eventually(() => other.file.content).toMatchObject({ sealed: false });
    expect(other.seal.state()).toMatchObject({ sealed: true, configured: true });
    expect(other.effects.sealed).not.toHaveBeenCalled();
    expect(other.effects.unsealed).not.toHaveBeenCalled();
  });
});
