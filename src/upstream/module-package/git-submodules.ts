import { LarderError, NotFound, UpstreamInvalid, UpstreamRefused, UpstreamUnreachable } from '../../errors.ts';
import type { Gitlink } from './git-commit-reader.ts';
import { parseRepository } from './git-location.ts';
import type { GitObjects } from './git-objects.ts';
import { GitExit } from './git-process.ts';
import type { GitRepository } from './module-location.ts';

export interface Submodule {
  /** As .gitmodules calls it. */
  readonly name: string;
  readonly path: string;
  readonly commit: string;
  readonly repository: GitRepository;
}

/** What git config says when nothing fits. */
const NOTHING_FOUND = 1;
const MAX_URL_LENGTH = 2_000;

/**
 * The repositories that belong at `gitlinks`, as .gitmodules of the commit names them. Those with `update = none` are
 * left out, as clones leave them empty.
 * https://git-scm.com/docs/gitmodules
 *
 * @throws UpstreamInvalid for one that is not named there, or leads to anything but a git host over https or ssh
 */
export async function submodulesOf(
  objects: GitObjects,
  commit: string,
  gitlinks: readonly Gitlink[],
  parent: GitRepository,
): Promise<Submodule[]> {
  if (gitlinks.length === 0) return [];
  const named = await readGitmodules(objects, commit, parent);
  return gitlinks.flatMap(({ path, commit: wanted }) => {
    const found = [...named].find(([, settings]) => settings.get('path')?.replace(/\/+$/, '') === path);
    const url = found?.[1].get('url');
    if (!found || url === undefined) {
      throw new UpstreamInvalid(
        parent.host,
        `has a submodule ${shown(path)} in ${parent.url.pathname} that its .gitmodules does not name`,
      );
    }
    const [name, settings] = found;
    if (settings.get('update') === 'none') return [];
    return [{ name, path, commit: wanted, repository: submoduleRepository(url, parent, name) }];
  });
}

async function readGitmodules(
  objects: GitObjects,
  commit: string,
  { host, url }: GitRepository,
): Promise<Map<string, Map<string, string>>> {
  const pattern = String.raw`^submodule\..*\.(path|url|update)$`;
  const output = await objects
    .run('config', `--blob=${commit}:.gitmodules`, '--null', '--get-regexp', pattern)
    .catch((error: unknown) => {
      if (error instanceof GitExit && error.status === NOTHING_FOUND) return Buffer.alloc(0);
      throw new UpstreamInvalid(host, `has submodules in ${url.pathname} and no .gitmodules that can be read`, {
        cause: error,
      });
    });
  const named = new Map<string, Map<string, string>>();
  for (const entry of output.toString('utf8').split('\0')) {
    const [, name, key, value] = /^submodule\.(.*)\.(path|url|update)\n(.*)$/s.exec(entry) ?? [];
    if (name === undefined || key === undefined || value === undefined) continue;
    named.set(name, (named.get(name) ?? new Map<string, string>()).set(key, value));
  }
  return named;
}

/** Reads the URL of a submodule: one that a location might hold as well, or one relative to the repository it is in. */
function submoduleRepository(given: string, parent: GitRepository, name: string): GitRepository {
  const refuse = (why: string) =>
    new UpstreamInvalid(
      parent.host,
      `has a submodule ${shown(name)} in ${parent.url.pathname} that is not fetched: its address is one ${why}`,
    );
  if (given.length > MAX_URL_LENGTH || /[\p{C}\s?#\\]/u.test(given))
    throw refuse('with characters that cannot be in it');
  if (!/^\.{1,2}\//.test(given)) return parseRepository(given, refuse);
  const url = relativeUrl(given, parent.url);
  if (!url) throw refuse('that leads out of its host');
  // As clones inherit them.
  return { ...parseRepository(url.href, refuse), userinfo: parent.userinfo };
}

/** Each `../` takes away the last part of the parent's path. `undefined` where nothing is left to take away. */
function relativeUrl(given: string, parent: URL): URL | undefined {
  const parts = parent.pathname.split('/').filter(Boolean);
  let rest = given;
  for (let step = /^(\.{1,2})\/+/.exec(rest); step; step = /^(\.{1,2})\/+/.exec(rest)) {
    if (step[1] === '..' && parts.pop() === undefined) return undefined;
    rest = rest.slice(step[0].length);
  }
  const url = new URL(parent);
  url.pathname = `/${[...parts, ...rest.split('/').filter(Boolean)].join('/')}`;
  return rest === '' ? undefined : url;
}

function shown(text: string): string {
  return JSON.stringify(text.slice(0, 200));
}

/** The same failure, with the submodule it is about. Absent is not the package but a part of it. */
export function inSubmodule(error: unknown, { name }: Submodule, parent: GitRepository): unknown {
  const which = `(submodule ${shown(name)} of ${parent.host}${parent.url.pathname})`;
  const options = { cause: error, ...(error instanceof LarderError && error.hint ? { hint: error.hint } : {}) };
  if (error instanceof NotFound) {
    return new UpstreamInvalid(parent.host, `needs a repository that is not there: ${error.message} ${which}`, options);
  }
  if (error instanceof UpstreamUnreachable) {
    const { host, reason, retryAfterMs } = error;
    return new UpstreamUnreachable(host, reason, `${detailOf(error)} ${which}`, { ...options, retryAfterMs });
  }
  if (error instanceof UpstreamRefused) return new UpstreamRefused(error.host, `${detailOf(error)} ${which}`, options);
  if (error instanceof UpstreamInvalid) return new UpstreamInvalid(error.host, `${detailOf(error)} ${which}`, options);
  return error;
}

function detailOf({ host, message }: { host: string; message: string }): string {
  return message.startsWith(`${host} `) ? message.slice(host.length + 1) : message;
}
