import { open } from 'node:fs/promises';
import { StorageFailed } from '../../errors.ts';

/** Waits for an operation in a work directory. @throws StorageFailed */
export async function stored<T>(work: Promise<T>): Promise<T> {
  try {
    return await work;
  } catch (error) {
    throw new StorageFailed('making a module package', error);
  }
}

/** Writes a new file; errors of `chunks` pass. @throws StorageFailed */
export async function save(chunks: AsyncIterable<Uint8Array>, file: string): Promise<void> {
  const handle = await stored(open(file, 'wx'));
  try {
    for await (const chunk of chunks) await stored(handle.writeFile(chunk));
  } finally {
    await stored(handle.close());
  }
}
