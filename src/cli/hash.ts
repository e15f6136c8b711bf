import { createHash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { pipeline } from 'node:stream/promises';
import type { Command } from 'commander';
import { parseSha256, zipHash } from '../address/hash.ts';
import { PackageHasher } from '../store/package-hash.ts';
import { unreadable } from './unreadable.ts';

/** Few large reads: each costs as much as some hundred KiB. */
const READ_BYTES = 1024 * 1024;

/** `larder hash FILE…`: what a lock file would say of these archives. */
export function addHash(program: Command): void {
  program
    .command('hash')
    .description('print the h1: and zh: hashes of provider archives, as lock files hold them')
    .argument('<file...>', 'provider archives (zip)')
    .option('--json', 'one JSON object a file')
    .action(async (files: string[], { json = false }: { json?: boolean }) => {
      const hasher = new PackageHasher();
      try {
        for (const file of files) {
          // Side by side: the one is computed here, the other in a thread of its own.
          const [digest, outcome] = await Promise.all([digestOf(file), hasher.hash(file)]);
          const zh = zipHash(digest);
          const h1 = 'hash' in outcome ? outcome.hash : undefined;
          if ('reason' in outcome) {
            console.error(`larder: ${file} has no h1: ${outcome.reason}`);
            process.exitCode = 1;
          }
          // Of zips with entries for directories: what lock files hold is the hash of the files alone.
          const unpacked = 'hash' in outcome ? outcome.unpacked : undefined;
          console.log(
            json ? JSON.stringify({ file, h1, unpacked, zh }) : [h1, unpacked, zh].filter(Boolean).join('\n'),
          );
        }
      } finally {
        await hasher.close();
      }
    });
}

async function digestOf(file: string) {
  const digest = createHash('sha256');
  try {
    await pipeline(createReadStream(file, { highWaterMark: READ_BYTES }), digest);
  } catch (error) {
    throw unreadable(file, error);
  }
  return parseSha256(digest.digest('hex'));
}
