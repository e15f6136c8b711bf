import { mkdtemp, rm, stat, utimes } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { Changes } from '../../src/changes.ts';
import { RememberedLists } from '../../src/store/remembered-lists.ts';

/** A directory that nobody has touched for long, and lists of it that are finished when told. */
async function scene() {
  const directory = await mkdtemp(join(tmpdir(), 'larder-lists-'));
  onTestFinished(() => rm(directory, { recursive: true }));
  await utimes(directory, 1_700_000_000, 1_700_000_000);
  const seen = await stat(directory);
  const lists = new RememberedLists<string>(new Changes());
  const made: { finish: (list: readonly string[]) => void; fail: (error: Error) => void }[] = [];
  const begun: (() => void)[] = [];
  const read = () =>
    lists.read(
      directory,
      async () => seen,
      () =>
        new Promise((resolve, reject) => {
          made.push({ finish: (list) => resolve({ list, isFinal: true }), fail: reject });
          begun.shift()?.();
        }),
    );
  const nextMaking = () => new Promise<void>((resolve) => begun.push(resolve));
  return { directory, lists, made, read, nextMaking };
}

test('many who ask at once get one list, which is made once', async () => {
  const { made, read, nextMaking } = await scene();
  const begins = nextMaking();
  const asked = Array.from({ length: 20 }, read);
  await begins;
  made[0]?.finish(['1.0.0']);
  const got = await Promise.all(asked);
  expect(made).toHaveLength(1);
  expect(new Set(got).size).toBe(1);
  expect(await read()).toBe(got[0]);
});

test('a list that was begun before a change of our own is for nobody who asks after it', async () => {
  const { directory, lists, made, read, nextMaking } = await scene();
  let begins = nextMaking();
  const before = read();
  await begins;
  lists.forget(directory);
  begins = nextMaking();
  const after = read();
  await begins;
  made[0]?.finish(['old']);
  made[1]?.finish(['new']);
  expect(await before).toEqual(['old']);
  expect(await after).toEqual(['new']);
  expect(await read()).toEqual(['new']);
});

test('a failure reaches those who wait, and the next one begins anew', async () => {
  const { made, read, nextMaking } = await scene();
  let begins = nextMaking();
  const failing = [read(), read()];
  const outcomes = Promise.allSettled(failing);
  await begins;
  made[0]?.fail(new Error('the disk is gone'));
  begins = nextMaking();
  expect((await outcomes).map(({ status }) => status)).toEqual(['rejected', 'rejected']);
  const next = read();
  await begins;
  made[1]?.finish(['1.0.0']);
  expect(await next).toEqual(['1.0.0']);
});
