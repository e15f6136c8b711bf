import { mkdir, stat } from 'node:fs/promises';
import { dirname } from 'node:path';
import { hasCode } from '../errors.ts';

/**
 * Makes a directory and those around it that are not there. Node's own way to do so never ends where a file system takes
 * no directories and says so by ENOENT, as `/proc` does.
 *
 * @throws the system's error
 */
export async function makeDirectory(path: string, options: { readonly mode?: number } = {}): Promise<void> {
  const around = dirname(path);
  try {
    await makeOne(path, options);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT' || around === path) throw error;
    await makeDirectory(around, options);
    await makeOne(path, options);
  }
}

async function makeOne(path: string, { mode }: { readonly mode?: number }): Promise<void> {
  try {
    await mkdir(path, { mode });
  } catch (error) {
    // Also of a read-only file system that has it.
    if (!(await stat(path).catch(() => undefined))?.isDirectory()) throw error;
  }
}

/** LMDB gives the system's numbers. */
const MAY_NOT: ReadonlySet<unknown> = new Set(['EROFS', 'EACCES', 'EPERM', 30, 13, 1]);

/** Whether it is the file system's word that nothing may be written there; what is there may be read all the same. */
export function mayNotWrite(error: unknown): boolean {
  const cause = hasCode(error, 'STORAGE_FAILED') ? error.cause : error;
  return MAY_NOT.has((cause as { code?: unknown } | null)?.code);
}
