import { EventEmitter } from 'node:events';
import type { Response } from 'express';
import { expect, it } from 'vitest';
import { drained } from '../../src/http/drained.ts';

/** An answer that takes nothing more for now. */
class Full extends EventEmitter {
  destroyed = false;

  destroy(): void {
    this.destroyed = true;
    this.emit('close');
  }
}

const asResponse = (res: Full) => res as unknown as Response;

it('waits until there is room again', async () => {
  const res = new Full();
  const waiting = drained(asResponse(res));
  res.emit('drain');
  await waiting;
  expect(res.destroyed).toBe(false);
  expect(res.eventNames()).toEqual([]);
});

it('does not wait for whoever has gone', async () => {
  const res = new Full();
  const waiting = drained(asResponse(res));
  res.destroy();
  await waiting;
  await drained(asResponse(res));
  expect(res.eventNames()).toEqual([]);
});

it('hangs up on whoever takes nothing for too long', async () => {
  const res = new Full();
  await drained(asResponse(res), { patienceMs: 5 });
  expect(res.destroyed).toBe(true);
});

it('waits for nobody when Larder stops', async () => {
  const closing = new AbortController();
  const res = new Full();
  const waiting = drained(asResponse(res), { closing: closing.signal });
  closing.abort();
  await waiting;
  expect(res.destroyed).toBe(true);
  const late = new Full();
  await drained(asResponse(late), { closing: closing.signal });
  expect(late.destroyed).toBe(true);
});
