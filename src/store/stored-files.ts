import type { Stats } from 'node:fs';
import { stat } from 'node:fs/promises';
import { join } from 'node:path';
import { ModuleRelease } from '../address/module.ts';
import { moduleDirectories, moduleFiles } from './module-directories.ts';
import { archiveFiles, providerDirectories } from './provider-directories.ts';
import { pathOf, type Subject } from './room.ts';
import { ifPresent } from './storage-errors.ts';

export interface StoredFile {
  readonly subject: Subject;
  readonly stats: Stats;
}

/**
 * Every file in the place of an archive or a module package, recorded or not: what an interruption left behind takes up
 * room, too. One at a time: it is for those who have time. @throws StorageFailed
 */
export async function* storedFiles(directory: string): AsyncGenerator<StoredFile> {
  for await (const subject of subjects(directory)) {
    const stats = await ifPresent('looking at what is stored', stat(join(directory, pathOf(subject))));
    if (stats?.isFile()) yield { subject, stats };
  }
}

async function* subjects(directory: string): AsyncGenerator<Subject> {
  for await (const provider of providerDirectories(directory)) yield* await archiveFiles(directory, provider);
  for await (const module of moduleDirectories(directory)) {
    const { packages } = await moduleFiles(directory, module);
    for (const version of packages) yield new ModuleRelease(module, version);
  }
}
