import { devNull, tmpdir } from 'node:os';
import { UpstreamInvalid } from '../../errors.ts';
import type { Upstream } from '../upstream.ts';
import { addressesFor, bareHost } from './git-addresses.ts';
import { gitEnvironment } from './git-environment.ts';
import type { GitHostAccess } from './git-host-access.ts';
import { runGit } from './git-process.ts';
import { type GitRefs, parseListedRefs } from './git-refs.ts';
import type { GitRepository } from './module-location.ts';

const CONNECT_SECONDS = 10;
const ALIVE_SECONDS = 15;
const SSH_PORT = '22';
/** As of references over https. */
const MAX_LISTING_BYTES = 32 * 1024 * 1024;

/** Neither may begin with a dash, which ssh would read as an option, nor hold anything that a shell looks at. */
const USER = /^[A-Za-z0-9_][A-Za-z0-9._-]{0,63}$/;
const HOST = /^(?:[a-z0-9][a-z0-9.-]{0,252}|\[[0-9a-f:.]+\])$/i;

/** How git is to reach a repository over ssh. */
export interface SshAccess {
  /** For git's command line. */
  readonly url: string;
  /** `GIT_SSH_COMMAND` and what belongs to it. */
  readonly variables: Readonly<Record<string, string>>;
}

/**
 * Makes the ssh command of fixed words: it asks nobody, trusts only host keys that are known already, shows only the
 * key that is configured for this very host and lends nothing of this machine to the other side.
 *
 * @throws UpstreamInvalid for names that are none, and for internal hosts; UpstreamUnreachable
 */
export async function sshAccess(
  { url, host }: GitRepository,
  access: GitHostAccess | undefined,
  upstream: Upstream,
  signal: AbortSignal,
): Promise<SshAccess> {
  const path = pathOf(url);
  if (!HOST.test(url.hostname) || (url.username !== '' && !USER.test(url.username)) || path === undefined) {
    throw new UpstreamInvalid(host, 'is named for ssh with a user, host or path that cannot be one');
  }
  const port = url.port || SSH_PORT;
  const addresses = await addressesFor(url, upstream, signal);
  // One is all that ssh takes, and IPv6 is what more often leads nowhere.
  const address = addresses.find((candidate) => !candidate.includes(':')) ?? addresses[0];
  const options = {
    BatchMode: 'yes',
    StrictHostKeyChecking: 'yes',
    UpdateHostKeys: 'no',
    PreferredAuthentications: 'publickey',
    IdentitiesOnly: 'yes',
    IdentityAgent: 'none',
    IdentityFile: access?.sshKey === undefined ? 'none' : fileOption(access.sshKey),
    ForwardAgent: 'no',
    ClearAllForwardings: 'yes',
    PermitLocalCommand: 'no',
    ControlMaster: 'no',
    ControlPath: 'none',
    RequestTTY: 'no',
    ConnectTimeout: String(CONNECT_SECONDS),
    ServerAliveInterval: String(ALIVE_SECONDS),
    ServerAliveCountMax: '2',
    LogLevel: 'ERROR',
    ...(access?.knownHosts !== undefined && {
      UserKnownHostsFile: fileOption(access.knownHosts),
      GlobalKnownHostsFile: 'none',
    }),
    ...(address !== undefined && {
      HostName: address,
      HostKeyAlias: port === SSH_PORT ? bareHost(url) : `[${bareHost(url)}]:${port}`,
    }),
  };
  const words = [
    'ssh',
    '-F',
    '/dev/null',
    ...Object.entries(options).flatMap(([key, value]) => ['-o', `${key}=${value}`]),
  ];
  const user = url.username === '' ? '' : `${url.username}@`;
  return {
    url: `ssh://${user}${url.hostname}${url.port === '' ? '' : `:${url.port}`}${path}`,
    variables: { GIT_SSH_COMMAND: words.map(shellWord).join(' '), GIT_SSH_VARIANT: 'ssh' },
  };
}

/** Asks a repository over ssh for its references. @throws GitExit, GitMissing, GitOutputTooLarge */
export async function askOverSsh(
  { url, variables }: SshAccess,
  { searchPath, signal }: { searchPath: string | undefined; signal: AbortSignal },
): Promise<GitRefs> {
  const directory = tmpdir();
  // No repository is needed for this. Any directory named here could be made, with settings in it, by whoever else is on
  // the machine.
  const env = gitEnvironment({ directory, searchPath, variables: { ...variables, GIT_DIR: devNull } });
  const args = ['ls-remote', '--symref', '--end-of-options', url];
  const output = await runGit({ args, cwd: directory, env, signal }, MAX_LISTING_BYTES);
  return parseListedRefs(output.toString('utf8'));
}

/** `undefined` when it cannot be one. */
function pathOf(url: URL): string | undefined {
  try {
    const path = decodeURIComponent(url.pathname);
    return path.length > 1 && !/\p{Cc}/u.test(path) && !path.startsWith('/-') ? url.pathname : undefined;
  } catch {
    return undefined;
  }
}

/** Ssh takes spaces for the end of a name, and `%` for one of its own abbreviations. */
function fileOption(file: string): string {
  return `"${file.replaceAll('\\', '\\\\').replaceAll('"', '\\"').replaceAll('%', '%%')}"`;
}

/** Git hands the command to a shell. */
function shellWord(word: string): string {
  return /^[\w/=.-]+$/.test(word) ? word : `'${word.replaceAll("'", `'\\''`)}'`;
}
