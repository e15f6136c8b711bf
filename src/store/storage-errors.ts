import { constants } from 'node:fs';
import { open } from 'node:fs/promises';
import { LarderError, StorageFailed } from '../errors.ts';

/** Waits for file operations; what the file system throws becomes StorageFailed. `operation` is shown to clients. */
export async function ofStorage<T>(operation: string, work: Promise<T>): Promise<T> {
  try {
    return await work;
  } catch (error) {
    throw error instanceof LarderError ? error : new StorageFailed(operation, error);
  }
}

/** The same, but what is not there is `undefined`. */
export async function ifPresent<T>(operation: string, work: Promise<T>): Promise<T | undefined> {
  try {
    return await work;
  } catch (error) {
    if (isAbsent(error)) return undefined;
    throw error instanceof LarderError ? error : new StorageFailed(operation, error);
  }
}

/** What was stored is not there any more. */
export function gone(operation: string): StorageFailed {
  return new StorageFailed(operation, Object.assign(new Error('it is gone'), { code: 'ENOENT' }));
}

/**
 * All of a small file. `undefined` when there is none, also when only something else goes by its name: a directory, or
 * a pipe, which would be waited for without end. @throws StorageFailed
 */
export function readIfFile(operation: string, path: string): Promise<Buffer | undefined> {
  return ifPresent(operation, readFileOnly(path));
}

async function readFileOnly(path: string): Promise<Buffer | undefined> {
  const handle = await open(path, constants.O_RDONLY | constants.O_NONBLOCK);
  try {
    return (await handle.stat()).isFile() ? await handle.readFile() : undefined;
  } finally {
    await handle.close();
  }
}

/** ELOOP: a link that leads in a circle. ENXIO: a socket. */
const ABSENT: ReadonlySet<unknown> = new Set(['ENOENT', 'ENOTDIR', 'ELOOP', 'ENXIO']);

/** No such file, a file where a directory would have to be, or something that goes by the name and is no file. */
export function isAbsent(error: unknown): boolean {
  return ABSENT.has((error as { code?: unknown } | null)?.code);
}
