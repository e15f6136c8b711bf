import { CommandFailed } from './command-failed.ts';

/** Why a file that somebody named cannot be read, in words where there are some. */
export function unreadable(file: string, error: unknown, options: { hint?: string } = {}): CommandFailed {
  const code = (error as NodeJS.ErrnoException).code ?? 'for no known reason';
  return new CommandFailed(`${file} ${WORDS[code] ?? `cannot be read (${code})`}`, options);
}

const WORDS: Readonly<Record<string, string>> = {
  EACCES: 'may not be read by this user (EACCES)',
  EISDIR: 'is a directory, not a file',
  ELOOP: 'is a link that leads round in circles (ELOOP)',
  ENOENT: 'does not exist',
  ENOTDIR: 'does not exist',
};
