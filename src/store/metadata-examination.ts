import { type ChildProcess, spawn } from 'node:child_process';
import { stat } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { join } from 'node:path';

const FILENAME = 'metadata.mdb';
/** Enough to read a few gigabytes. */
const EXAMINATION_LIMIT_MS = 30_000;

export type MetadataVerdict = 'usable' | 'damaged';

/** Where metadata rests in its directory. */
export function metadataFile(directory: string): string {
  return join(directory, FILENAME);
}

/**
 * Reads every page and writes one entry. Whatever a damaged file does to a process, it does to this one. It keeps to the
 * limit by itself, too: whoever waits for it may have ended.
 */
const EXAMINATION = `
  const { open } = require(process.argv[1]);
  const until = Date.now() + ${EXAMINATION_LIMIT_MS};
  try {
    const db = open({ path: process.argv[2], noSubdir: true, encoding: 'string', noSync: true, overlappingSync: false });
    for (const { value } of db.getRange({ snapshot: false })) {
      value.length;
      if (Date.now() > until) process.exit(0);
    }
    db.putSync('examined', '');
    db.removeSync('examined');
    process.exit(0);
  } catch (error) {
    // LMDB's own codes are negative; the operating system's are not about the file's contents.
    process.exit(error.code > 0 ? 0 : 1);
  }`;

/**
 * LMDB maps its file into memory and trusts it: a damaged one ends the process by a signal, at start or at any read.
 * So a process made for it opens the file first. That takes a few tenths of a second of another core, so a server begins
 * with it before it has loaded the rest of itself. Never rejects.
 */
export async function examineMetadata(directory: string): Promise<MetadataVerdict> {
  const file = metadataFile(directory);
  const found = await stat(file).catch(() => undefined);
  if (found === undefined) return 'usable';
  if (!found.isFile()) return 'damaged';
  let child: ChildProcess;
  try {
    const lmdb = createRequire(import.meta.url).resolve('lmdb');
    child = spawn(process.execPath, ['--eval', EXAMINATION, lmdb, file], { stdio: 'ignore' });
  } catch {
    // Without memory for a process it is no event: nothing speaks against the file either.
    return 'usable';
  }
  return new Promise((resolve) => {
    let timedOut = false;
    const timer = setTimeout(() => {
      timedOut = true;
      child.kill('SIGKILL');
    }, EXAMINATION_LIMIT_MS);
    const settle = (verdict: MetadataVerdict) => {
      clearTimeout(timer);
      resolve(verdict);
    };
    // Too slow to tell, or no process to be had: nothing speaks against the file.
    child.once('error', () => settle('usable'));
    child.once('exit', (code, signal) => settle(timedOut || (code === 0 && signal === null) ? 'usable' : 'damaged'));
  });
}
