import type { Upstream } from '../upstream.ts';
import type { GitRepository } from './module-location.ts';

/** How one git host is asked. What stands here goes to that host and no other. */
export interface GitHostAccess {
  /** Goes with the token; `x-access-token` unless given, which the common hosts take for tokens that belong to nobody. */
  readonly username?: string | undefined;
  /** The password over https, asked for anew with each package. */
  readonly token?: (() => Promise<string | undefined>) | undefined;
  /** File of the private key for ssh, without a passphrase. */
  readonly sshKey?: string | undefined;
  /** File of the host keys trusted over ssh; the system's unless given. */
  readonly knownHosts?: string | undefined;
  /**
   * Registries, in comparison form, for whose modules the credentials are; every one unless given. Where anybody may
   * publish, anybody may name a repository, as a submodule say, that only these credentials open.
   */
  readonly registries?: ReadonlySet<string> | undefined;
}

/** What a host is asked with for a module of this registry. */
export function accessFor(access: GitHostAccess | undefined, { hostname }: Upstream): GitHostAccess | undefined {
  if (access?.registries?.has(hostname.toString()) ?? true) return access;
  // Which host keys are trusted is no credential.
  return { knownHosts: access?.knownHosts };
}

const DEFAULT_USERNAME = 'x-access-token';

/**
 * The value of an Authorization header for a repository over https. What is configured for its host comes first; user
 * name and password that a location brings along are used where nothing is.
 */
export async function basicCredentials(
  repository: GitRepository,
  access: GitHostAccess | undefined,
): Promise<string | undefined> {
  const token = await access?.token?.();
  if (token !== undefined) return basic(access?.username ?? DEFAULT_USERNAME, token);
  return repository.userinfo && basic(repository.userinfo.username, repository.userinfo.password);
}

/** What to do about a host that refuses. */
export function accessHint(host: string, key: 'token' | 'sshKey' | 'knownHosts'): string {
  return (
    `Set ${key} of modules.git."${host}" (HOST or HOST:PORT, exactly)` +
    `${key === 'knownHosts' ? '' : '; for modules of a public registry, name that in its registries, too'}.`
  );
}

function basic(username: string, password: string): string {
  return `Basic ${Buffer.from(`${username}:${password}`).toString('base64')}`;
}
