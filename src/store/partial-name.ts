import { createHash, randomUUID } from 'node:crypto';
import { readFileSync, readlinkSync } from 'node:fs';
import { hostname } from 'node:os';

/** No download takes this long: what is older was left by a process on another machine. */
const ABANDONED_AFTER_MS = 24 * 3_600_000;
/**
 * What arrives is written to all the time. A file of which nobody can tell whether its process lives was left when
 * nothing was written for so long.
 */
export const QUIET_AFTER_MS = 15 * 60_000;

/** `HOST[+PLACE]-PID-UUID`: says who is writing it. */
const PARTIAL_NAME = /^([^+]+)(?:\+([0-9a-f]{8}))?-(\d+)-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;

/**
 * Whoever shares this sees the same processes: another container on the same host, or another machine of the same name,
 * does not. `undefined` where the system does not tell.
 */
const PLACE = placeOfProcess();

/** That of a new file or directory of this process. */
export function newPartialName(): string {
  const place = PLACE === undefined ? '' : `+${PLACE}`;
  return `${hostname()}${place}-${process.pid}-${randomUUID()}`;
}

/** As such names look; they hold no separators. */
export function isPartialName(name: string): boolean {
  return PARTIAL_NAME.test(name) && !/[\\/]/.test(name);
}

/** Whether it was left by a process that is dead, by all that can be told from here. */
export function isAbandoned(name: string, { mtimeMs, isFile }: { mtimeMs: number; isFile: boolean }): boolean {
  const ageMs = Date.now() - mtimeMs;
  if (ageMs > ABANDONED_AFTER_MS) return true;
  const [, host, place, pid] = PARTIAL_NAME.exec(name) ?? [];
  if (host !== hostname()) return false;
  // Its number says nothing here. A directory is not written to by what is made deep in it.
  if (place !== undefined && place !== PLACE) return isFile && ageMs > QUIET_AFTER_MS;
  // A container that restarts has the process id of its predecessor.
  if (Number(pid) === process.pid) return mtimeMs < Date.now() - process.uptime() * 1000;
  return !isAlive(Number(pid));
}

function placeOfProcess(): string | undefined {
  try {
    const boot = readFileSync('/proc/sys/kernel/random/boot_id', 'utf8');
    const namespace = readlinkSync('/proc/self/ns/pid');
    return createHash('sha256').update(`${boot} ${namespace}`).digest('hex').slice(0, 8);
  } catch {
    return undefined;
  }
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    // EPERM: it lives, and belongs to somebody else.
    return (error as NodeJS.ErrnoException).code !== 'ESRCH';
  }
}
