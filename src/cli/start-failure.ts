import type { Config } from '../config.ts';
import { hasCode } from '../errors.ts';
import { CommandFailed } from './command-failed.ts';

/** Ports below need a privilege on most systems. */
const FIRST_ORDINARY_PORT = 1024;

/** What keeps the server from starting, said with what to do about it. Errors that nobody can mend come back as they are. */
export function startFailure(error: unknown, { data, listen }: Pick<Config, 'data' | 'listen'>): unknown {
  if (hasCode(error, 'STORAGE_FAILED')) {
    const hint = `the data directory is ${data}: this user must be able to write there; another one is set by LARDER_DATA, or data in the configuration`;
    return new CommandFailed(error.message, { hint, cause: error });
  }
  const { code, syscall } = (error ?? {}) as NodeJS.ErrnoException;
  // Workers have their supervisor listen for them, which says `bind`.
  if (syscall !== 'listen' && syscall !== 'bind' && syscall !== 'getaddrinfo') return error;
  return new CommandFailed(`cannot listen on ${listen.host}, port ${listen.port} (${code})`, {
    hint: hintFor(code, listen.port),
    cause: error,
  });
}

function hintFor(code: string | undefined, port: number): string {
  if (code === 'EADDRINUSE') {
    return 'something else listens there, perhaps another Larder; take another port: PORT, or listen.port in the configuration';
  }
  if (code === 'EACCES' && port < FIRST_ORDINARY_PORT) {
    return `this user may not use ports below ${FIRST_ORDINARY_PORT}; take another port: PORT, or listen.port in the configuration`;
  }
  return 'listen.host must be an address of this machine: 0.0.0.0 is all of them, 127.0.0.1 this machine only';
}
