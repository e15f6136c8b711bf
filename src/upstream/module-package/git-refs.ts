/** What a repository's names stand for at one moment. */
export interface GitRefs {
  /** What HEAD stands for; `undefined` in an empty repository. */
  readonly head: string | undefined;
  /** Full name of the default branch, when told. */
  readonly defaultBranch: string | undefined;
  /** Commits of branches and tags by full name, annotated tags looked through. */
  readonly commits: ReadonlyMap<string, string>;
}

/** What is to be fetched for a ref. */
export type GitTarget =
  | { readonly kind: 'name' /** `HEAD` or `refs/…` */; readonly name: string; readonly commit: string }
  | { readonly kind: 'commit'; readonly commit: string }
  /** Only a copy of the whole history can tell which commit that is. */
  | { readonly kind: 'abbreviation'; readonly prefix: string };

/** SHA-1 or SHA-256. */
const FULL_COMMIT = /^(?:[0-9a-f]{40}|[0-9a-f]{64})$/i;
/** Git takes no shorter ones. */
const ABBREVIATED_COMMIT = /^[0-9a-f]{4,63}$/i;
/** Never what git would read as an option, a pattern or two names. https://git-scm.com/docs/git-check-ref-format */
const REF_NAME = /^refs\/(?:heads|tags)\/(?!.*(?:\.\.|@\{|\/\/))[^\s~^:?*[\\\p{Cc}]+$/u;

/** Collects what a host says line by line: a name, possibly with `^{}` behind it, and an object. */
export class GitRefsReader {
  #head: string | undefined;
  readonly #commits = new Map<string, string>();

  add(name: string, object: string): void {
    if (!FULL_COMMIT.test(object)) return;
    const commit = object.toLowerCase();
    if (name === 'HEAD') this.#head = commit;
    const peeled = name.endsWith('^{}');
    const full = peeled ? name.slice(0, -3) : name;
    if (REF_NAME.test(full) && (peeled || !this.#commits.has(full))) this.#commits.set(full, commit);
  }

  finish(defaultBranch: string | undefined): GitRefs {
    return { head: this.#head, defaultBranch, commits: this.#commits };
  }
}

/** Reads what `git ls-remote --symref` prints. */
export function parseListedRefs(output: string): GitRefs {
  const reader = new GitRefsReader();
  let defaultBranch: string | undefined;
  for (const line of output.split('\n')) {
    const [object = '', name = ''] = line.split('\t');
    if (name === 'HEAD' && object.startsWith('ref: ')) defaultBranch = object.slice('ref: '.length);
    else reader.add(name, object);
  }
  return reader.finish(defaultBranch);
}

/**
 * What `git checkout REF` in a fresh clone would take: a full commit id before anything of that name, then the default
 * branch, a tag, another branch, and at last an abbreviated commit id. `undefined` when it can be none of these.
 */
export function targetOf(refs: GitRefs, ref: string | undefined): GitTarget | undefined {
  if (ref === undefined || ref === 'HEAD') {
    return refs.head === undefined ? undefined : { kind: 'name', name: 'HEAD', commit: refs.head };
  }
  if (FULL_COMMIT.test(ref)) return { kind: 'commit', commit: ref.toLowerCase() };
  for (const name of fullNames(refs, ref)) {
    const commit = refs.commits.get(name);
    if (commit !== undefined) return { kind: 'name', name, commit };
  }
  return ABBREVIATED_COMMIT.test(ref) ? { kind: 'abbreviation', prefix: ref.toLowerCase() } : undefined;
}

function fullNames({ defaultBranch }: GitRefs, ref: string): string[] {
  const branch = `refs/heads/${ref}`;
  return [
    ...(branch === defaultBranch ? [branch] : []),
    ref,
    `refs/${ref}`,
    `refs/tags/${ref}`,
    branch,
    // How a clone names the branches of where it came from.
    ...(ref.startsWith('origin/') ? [`refs/heads/${ref.slice('origin/'.length)}`] : []),
  ];
}
