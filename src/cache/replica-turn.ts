import { setTimeout as delay } from 'node:timers/promises';
import { isLease, LEASE_TTL_MS, type Lease, type Leases } from '../store/leases.ts';

/** How often is looked whether another replica has ended, in milliseconds. */
const LOOK_MS = 200;

/**
 * Waits until it is this replica's turn to make something, unless another one makes it meanwhile. Without Redis each
 * replica has its turn.
 * @param find what was made
 * @returns what another one made, or a lease, which has to be released
 * @throws the reason of the signal, and what `find` throws
 */
export async function turnToMake<T>(
  leases: Leases,
  key: string,
  { find, signal }: { find: () => Promise<T | undefined>; signal: AbortSignal },
): Promise<{ readonly made: T } | { readonly lease: Lease }> {
  for (;;) {
    signal.throwIfAborted();
    const acquired = await leases.acquire(key);
    if (!isLease(acquired)) await untilLeft(leases, key, signal);
    let made: T | undefined;
    try {
      made = await find();
    } catch (error) {
      if (isLease(acquired)) await acquired.release();
      throw error;
    }
    if (made === undefined && isLease(acquired)) return { lease: acquired };
    if (isLease(acquired)) await acquired.release();
    if (made !== undefined) return { made };
  }
}

/** Until nobody makes it any more, as far as can be found out. */
async function untilLeft(leases: Leases, key: string, signal: AbortSignal): Promise<void> {
  let heardAt = performance.now();
  for (;;) {
    signal.throwIfAborted();
    try {
      if ((await leases.look(key)) === undefined) return;
      heardAt = performance.now();
    } catch {
      if (performance.now() - heardAt > LEASE_TTL_MS) return;
    }
    await delay(LOOK_MS, undefined, { signal }).catch(() => {});
  }
}
