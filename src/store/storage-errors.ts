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

/** No such file, or a file where a directory would have to be. */
export function isAbsent(error: unknown): boolean {
  const code = (error as { code?: unknown } | null)?.code;
  return code === 'ENOENT' || code === 'ENOTDIR';
}
