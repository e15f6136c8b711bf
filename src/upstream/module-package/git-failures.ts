import {
  type LarderError,
  NotFound,
  StorageFailed,
  UpstreamInvalid,
  UpstreamRefused,
  UpstreamUnreachable,
} from '../../errors.ts';
import { accessHint } from './git-host-access.ts';
import type { GitExit } from './git-process.ts';
import type { GitRepository } from './module-location.ts';

const MAX_SHOWN_LENGTH = 200;

/** How the part of a complaint that is recognised is told. The first that fits counts: later ones come along with it. */
const MEANINGS: readonly [RegExp, (repository: GitRepository, complaint: string) => LarderError][] = [
  // Of this machine's disk; that of the host is not ours to mend.
  [/^(?!remote:).*No space left on device/m, () => new StorageFailed('fetching a git repository', { code: 'ENOSPC' })],
  [/^(?!remote:).*Disk quota exceeded/m, () => new StorageFailed('fetching a git repository', { code: 'EDQUOT' })],
  [
    /Host key verification failed|HOST IDENTIFICATION HAS CHANGED|No \S+ host key is known/i,
    ({ host }) =>
      new UpstreamRefused(host, 'is not trusted: its host key is not the one that is known here', {
        hint: accessHint(host, 'knownHosts'),
      }),
  ],
  [
    /Permission denied|Too many authentication failures|no supported authentication|Load key ".*"/i,
    ({ host, url }) =>
      new UpstreamRefused(host, `refused access to ${url.pathname} over ssh`, {
        hint: `${accessHint(host, 'sshKey')} The file may be readable by its owner only.`,
      }),
  ],
  [
    /Authentication failed|could not read (Username|Password)|terminal prompts disabled|returned error: 40[13]/i,
    (repository) => accessRefused(repository),
  ],
  [
    /couldn't find remote ref|not our ref/i,
    ({ host, url }) => new NotFound(`${host} no longer has what was asked for in ${url.pathname}`),
  ],
  [
    /repository\b.* (not found|does not exist)|does not appear to be a git repository|returned error: (404|410)|project you were looking for|not a git repository/i,
    (repository) => noRepository(repository),
  ],
  [/returned error: 429/i, ({ host }) => new UpstreamUnreachable(host, 'busy', 'asks for fewer requests (429)')],
  [
    /returned error: (5\d\d)/i,
    ({ host }, complaint) =>
      new UpstreamUnreachable(host, 'failing', `failed (${/error: (5\d\d)/.exec(complaint)?.[1] ?? '5xx'})`),
  ],
  [
    /returned error: \d{3}/i,
    ({ host, url }, complaint) =>
      new UpstreamInvalid(
        host,
        `answered ${/error: (\d{3})/.exec(complaint)?.[1] ?? 'something'} for ${url.pathname}, which means nothing here`,
      ),
  ],
  [/Could not resolve (host|proxy)/i, ({ host }) => new UpstreamUnreachable(host, 'connection', 'is not known to DNS')],
  [
    /certificate|server verification failed/i,
    ({ host }) =>
      new UpstreamUnreachable(host, 'connection', 'has a certificate that is not trusted here', {
        hint: 'If its certificate comes from a private CA, set ca for this upstream.',
      }),
  ],
  [
    /timed out|timeout|too slow|Operation too slow/i,
    ({ host }) => new UpstreamUnreachable(host, 'timeout', 'did not answer in time'),
  ],
  [
    /Connection refused|Failed to connect|Couldn't connect|No route to host|unreachable/i,
    ({ host }) => new UpstreamUnreachable(host, 'connection', 'could not be reached'),
  ],
  [
    /hung up|early EOF|unexpected disconnect|Connection (reset|closed)|RPC failed|Recv failure|kex_exchange|SSL|TLS|Broken pipe/i,
    ({ host }) => new UpstreamUnreachable(host, 'connection', 'cut the connection before the answer was complete'),
  ],
  [
    /attempting to allocate .* over limit|out of memory/i,
    ({ host, url }) => new UpstreamInvalid(host, `has files in ${url.pathname} that are too large to be read`),
  ],
  [
    /\bfsck\b|fsck error|index-pack failed|bad object|corrupt|invalid index-pack/i,
    ({ host, url }, complaint) =>
      new UpstreamInvalid(host, `sent damaged objects for ${url.pathname}${shown(complaint)}`),
  ],
];

/** A complaint of git's in the words of the domain, without what only this machine or its operator should know. */
export function gitFailure(repository: GitRepository, exit: GitExit): LarderError {
  const { host, url } = repository;
  for (const [pattern, meaning] of MEANINGS) {
    if (pattern.test(exit.complaint)) return meaning(repository, exit.complaint);
  }
  return new UpstreamInvalid(host, `cannot be fetched from: git gave up on ${url.pathname}${shown(exit.complaint)}`);
}

export function noRepository({ host, url }: GitRepository): NotFound {
  return new NotFound(`${host} has no git repository ${url.pathname}`);
}

export function noSuchRef({ host, url }: GitRepository, ref: string | undefined): NotFound {
  if (ref === undefined) return new NotFound(`${host} has no default branch in ${url.pathname}`);
  return new NotFound(`${host} has no branch, tag or commit ${JSON.stringify(ref.slice(0, 200))} in ${url.pathname}`);
}

/** Hosts answer so to everybody who has no right to know whether the repository exists. */
export function accessRefused({ host, url }: GitRepository, refuser = host): UpstreamRefused {
  if (refuser !== host) {
    return new UpstreamRefused(host, `sends on to ${refuser} for ${url.pathname}, which refused access`, {
      hint: `Credentials are not taken along to another host: the registry has to name ${refuser} itself.`,
    });
  }
  return new UpstreamRefused(host, `refused access to ${url.pathname}, or has no such repository`, {
    hint: accessHint(host, 'token'),
  });
}

/** Git's last word, without URLs, paths and what the other side said. */
function shown(complaint: string): string {
  const line = complaint
    .split('\n')
    .map((text) => /^(?:fatal|error): (.+)$/.exec(text.trim())?.[1])
    .find((text) => text !== undefined);
  if (line === undefined) return '';
  const clean = line
    .replace(/[a-z][a-z0-9+.-]*:\/\/[^\s'"]*/gi, '…')
    .replace(/(^|[\s'"(=:])\/[^\s'"):]*/g, '$1…')
    .replace(/[^\x20-\x7e…]/g, '?');
  return `: ${clean.slice(0, MAX_SHOWN_LENGTH)}`;
}
