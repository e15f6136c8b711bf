import { Hostname } from '../../address/hostname.ts';
import { isNo } from './archive-location.ts';
import {
  decoded,
  isSoundPath,
  type LocationParts,
  parseSubdir,
  type Refuse,
  takeParameters,
} from './location-parts.ts';
import type { GitRepository, ModuleLocation } from './module-location.ts';

const MAX_REF_LENGTH = 1_000;
const DEFAULT_PORTS: Readonly<Record<string, string>> = { 'https:': '443', 'http:': '80', 'ssh:': '22' };
/** The schemes over which repositories are fetched. */
const REMOTE = /^(?:https?|ssh):\/\//i;
/** `[USER@]HOST:PATH`, where what follows the colon is never a port. */
const SCP_FORM = /^(?:([^@/:]+)@)?([^@/:]+):\/?([^/:].*)$/s;
const SSH_USER = /^[A-Za-z0-9_][A-Za-z0-9._-]{0,63}$/;
/** Hosts whose repositories have an address without a scheme: how many parts belong to the repository, the host included. */
const SHORTHANDS: Readonly<Record<string, number>> = {
  'github.com': 3,
  'gitlab.com': 3,
  // Without a way to tell, all of it is the repository.
  'bitbucket.org': Number.POSITIVE_INFINITY,
};

/**
 * A location in a git repository. `depth`, and whatever else a query holds that git has no use for, is left out; so is
 * `sshkey`: which key goes to which host is for the operator to say.
 * @throws UpstreamInvalid
 */
export function gitLocation(parts: LocationParts, refuse: Refuse): ModuleLocation {
  const { address, subdir, query } = expanded(parts, refuse);
  const { taken } = takeParameters(query, ['ref', 'archive', 'checksum']);
  if (taken.checksum !== undefined) throw refuse('with a checksum of a git repository, which nothing can have');
  if (taken.archive !== undefined && !isNo(taken.archive)) {
    throw refuse('of an archive inside a git repository, which is not supported');
  }
  if (taken.ref !== undefined && !isRef(taken.ref)) throw refuse('with a git reference that cannot be one');
  return {
    kind: 'git',
    repository: parseRepository(address, refuse),
    ref: taken.ref,
    subdir: parseSubdir(subdir, refuse),
  };
}

/** Whether an address without a scheme is one of a git host by its name. */
export function isGitShorthand(address: string): boolean {
  return Object.keys(SHORTHANDS).some((host) => address.startsWith(`${host}/`));
}

/** Whether it is `git@HOST:PATH`: with any other user the clients want `git::` before it. */
export function isGitScpForm(address: string): boolean {
  return SCP_FORM.exec(address)?.[1] === 'git';
}

function expanded(parts: LocationParts, refuse: Refuse): LocationParts {
  if (!isGitShorthand(parts.address)) return parts;
  const segments = parts.address.split('/');
  const own = segments.slice(0, SHORTHANDS[segments[0] ?? '']);
  if (own.length < 3 || own.some((name) => /^\.*$/.test(name)))
    throw refuse('that names a git host and no repository there');
  const path = own.join('/').replace(/\/$/, '');
  const inside = segments.slice(own.length).join('/');
  return {
    address: `https://${path}${path.endsWith('.git') ? '' : '.git'}`,
    subdir: [inside, parts.subdir].filter(Boolean).join('/'),
    query: parts.query,
  };
}

/** @param address a URL, or in the form of scp; without query. @throws UpstreamInvalid */
export function parseRepository(address: string, refuse: Refuse): GitRepository {
  const text = REMOTE.test(address) ? address : urlOfScpForm(address, refuse);
  if (!URL.canParse(text)) {
    const hint = 'Without a port, ssh is written git::ssh://USER@HOST/PATH or git::USER@HOST:PATH.';
    throw refuse('of a git repository that is no URL', hint);
  }
  const url = new URL(text);
  if (url.protocol === 'ssh:' && url.username !== '' && !SSH_USER.test(url.username)) {
    throw refuse('with a user name that cannot be one for ssh');
  }
  const host = hostOf(url);
  if (host === undefined) throw refuse('of a git repository on a host that cannot be one');
  if (url.pathname.length < 2 || !isSoundPath(url.pathname) || !isSoundPath(address.replace(REMOTE, '/'))) {
    throw refuse('of a git repository with a path that cannot be one');
  }
  const userinfo =
    url.protocol !== 'ssh:' && (url.username || url.password)
      ? { username: decoded(url.username), password: decoded(url.password) }
      : undefined;
  const bare = new URL(`${url.protocol}//${host}${url.pathname}`);
  if (url.protocol === 'ssh:') bare.username = url.username;
  return { url: bare, host, userinfo };
}

function urlOfScpForm(address: string, refuse: Refuse): string {
  const [, user, host, path] = SCP_FORM.exec(address) ?? [];
  // Without a user, a word and a colon may be anything: `file:x`, `C:x`.
  if (host === undefined || path === undefined || (user === undefined && !host.includes('.'))) {
    throw refuse('of a git repository that is reached neither over https nor over ssh');
  }
  return `ssh://${user === undefined ? '' : `${user}@`}${host}/${path}`;
}

/** In comparison form; `undefined` when there can be no such host. */
function hostOf({ protocol, hostname, port }: URL): string | undefined {
  const shownPort = port === '' || port === DEFAULT_PORTS[protocol] ? '' : `:${port}`;
  if (/^\[[0-9a-f:.]+\]$/i.test(hostname)) return `${hostname.toLowerCase()}${shownPort}`;
  try {
    return `${Hostname.parse(decoded(hostname)).name}${shownPort}`;
  } catch {
    return undefined;
  }
}

/**
 * The rules of git for names of branches and tags, which commits obey as well; and none that a command line would take for
 * an option. https://git-scm.com/docs/git-check-ref-format
 */
function isRef(ref: string): boolean {
  return (
    ref.length <= MAX_REF_LENGTH &&
    ref !== '@' &&
    !/[\p{C}\p{Z}~^:?*[\\]|\.\.|@\{|\/\/|^[-/]|[./]$/u.test(ref) &&
    ref.split('/').every((part) => !part.startsWith('.') && !part.endsWith('.lock'))
  );
}
