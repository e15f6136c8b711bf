import { execFileSync } from 'node:child_process';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

/** Whether this machine lets us make a disk of our own. */
export function canMount(): boolean {
  try {
    execFileSync('unshare', ['-m', 'mount', '-t', 'tmpfs', 'none', '/mnt'], { stdio: 'ignore' });
    return process.getuid?.() === 0;
  } catch {
    return false;
  }
}

/** Runs `work` on a disk of 8 MiB, which is gone afterwards. */
export async function onSmallDisk<T>(work: (directory: string) => Promise<T>): Promise<T> {
  const mount = await mkdtemp(join(tmpdir(), 'larder-small-disk-'));
  execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=8m', 'none', mount]);
  try {
    return await work(mount);
  } finally {
    // Whatever a failed test left open must not hide how it failed.
    execFileSync('umount', ['--lazy', mount]);
    await rm(mount, { recursive: true });
  }
}

/** Nothing may be written on it from now on. */
export function makeReadOnly(directory: string): void {
  execFileSync('mount', ['-o', 'remount,ro', directory]);
}
