import type { Command } from 'commander';

/** What every command is added to, and which Larder this is. */
interface About {
  readonly program: Command;
  readonly version: string;
}

/**
 * By their names, in the order in which they are listed. Each brings half of Larder with it: only the one that is asked
 * for is loaded.
 */
export const COMMANDS: Readonly<Record<string, (about: About) => Promise<void>>> = {
  serve: async ({ program, version }) => (await import('./serve.ts')).addServe(program, version),
  verify: async ({ program }) => (await import('./verify.ts')).addVerify(program),
  warm: async ({ program }) => (await import('./warm.ts')).addWarm(program),
  ls: async ({ program }) => (await import('./ls.ts')).addLs(program),
  purge: async ({ program }) => (await import('./purge.ts')).addPurge(program),
  pin: async ({ program }) => (await import('./pin.ts')).addPin(program),
  unpin: async ({ program }) => (await import('./pin.ts')).addUnpin(program),
  lock: async ({ program }) => (await import('./lock.ts')).addLock(program),
  export: async ({ program }) => (await import('./export.ts')).addExport(program),
  import: async ({ program }) => (await import('./import.ts')).addImport(program),
  gaps: async ({ program }) => (await import('./gaps.ts')).addGaps(program),
  seal: async ({ program }) => (await import('./seal.ts')).addSeal(program),
  hash: async ({ program }) => (await import('./hash.ts')).addHash(program),
  'rotate-links': async ({ program }) => (await import('./rotate-links.ts')).addRotateLinks(program),
};
