import { Hostname } from '../address/hostname.ts';
import type { Problems } from './problems.ts';

const PREFIX = 'TF_TOKEN_';

/** What an Authorization header can hold. */
export const SECRET = /^[\x21-\x7e]+$/;

export interface TokenVariables {
  /** By comparison form of the host. */
  readonly tokens: ReadonlyMap<string, string>;
  /** Names of variables that are for none of the hosts. */
  readonly ignored: readonly string[];
}

/**
 * The `TF_TOKEN_HOST` variables for these hosts, named as the clients name them: `__` is a dash, then `_` a dot; any
 * case, Unicode or punycode; a port behind a colon, which no shell can export but other launchers can. Of several for
 * the same host the last one counts.
 *
 * The clients send an empty one as an empty token, and hide with it whatever else is configured. Here it is a problem.
 */
export function readTokenVariables(
  env: Readonly<Record<string, string | undefined>>,
  hosts: ReadonlySet<string>,
  problems: Problems,
): TokenVariables {
  const found = new Map<string, { variable: string; token: string }>();
  const ignored: string[] = [];
  for (const [variable, token] of Object.entries(env)) {
    if (!variable.startsWith(PREFIX) || token === undefined) continue;
    const host = hostOf(variable.slice(PREFIX.length));
    if (host !== undefined && hosts.has(host)) found.set(host, { variable, token });
    else ignored.push(variable);
  }
  for (const { variable, token } of found.values()) {
    if (SECRET.test(token)) continue;
    const why =
      token === '' ? 'is empty; unset it, or give it a token' : 'holds spaces, line breaks or non-ASCII letters';
    problems.add([], why, { label: variable, directory: '' });
  }
  return { tokens: new Map([...found].map(([host, { token }]) => [host, token])), ignored };
}

function hostOf(name: string): string | undefined {
  try {
    return Hostname.parse(name.replaceAll('__', '-').replaceAll('_', '.')).toString();
  } catch {
    return undefined;
  }
}
