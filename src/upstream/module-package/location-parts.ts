import type { UpstreamInvalid } from '../../errors.ts';

/** Makes the error for a location that `why` is wrong with. Holds nothing of the location: that may be a secret. */
export type Refuse = (why: string, hint?: string) => UpstreamInvalid;

/** A location taken apart, as it was written. */
export interface LocationParts {
  readonly address: string;
  /** What stands behind `//`. */
  readonly subdir: string;
  /** Without the question mark. */
  readonly query: string;
}

/** The subdirectory ends where the query begins, wherever another `//` may follow. */
export function partsOf(text: string): LocationParts {
  const [, path = '', query = ''] = /^([^?]*)\??(.*)$/s.exec(text) ?? [];
  const scheme = /^[A-Za-z0-9+.-]+:\/\//.exec(path)?.[0] ?? '';
  const at = path.indexOf('//', scheme.length);
  return at === -1
    ? { address: path, subdir: '', query }
    : { address: path.slice(0, at), subdir: path.slice(at + 2), query };
}

/** Without needless slashes and dots. @throws UpstreamInvalid when it leads out of the package */
export function parseSubdir(raw: string, refuse: Refuse): string {
  const segments = raw.split('/').filter((segment) => segment !== '' && segment !== '.');
  if (raw.startsWith('/') || !isSoundPath(raw)) throw refuse('with a directory (//…) that cannot be one in a package');
  return segments.join('/');
}

/** Whether a path is free of what might lead elsewhere, or be taken for an option or for something else by the next program. */
export function isSoundPath(path: string): boolean {
  const segments = decoded(path).split('/');
  return (
    !/[\p{Cc}\\]/u.test(decoded(path)) &&
    !segments.find((segment) => segment !== '')?.startsWith('-') &&
    segments.every((segment) => segment !== '..' && segment.trim() === segment)
  );
}

/** Percent-decoded; as it is when that cannot be done. */
export function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

/** The first value of each parameter named, and the rest of the query byte for byte. Empty values count for none. */
export function takeParameters<Name extends string>(
  query: string,
  names: readonly Name[],
): { readonly taken: Partial<Record<Name, string>>; readonly rest: string } {
  const taken: Partial<Record<string, string>> = {};
  const rest = query.split('&').filter((parameter) => {
    const [, rawName = '', value = ''] = /^([^=]*)=?(.*)$/s.exec(parameter) ?? [];
    const name = decoded(rawName);
    if (!(names as readonly string[]).includes(name)) return true;
    if (value !== '') taken[name] ??= decoded(value);
    return false;
  });
  return { taken: taken as Partial<Record<Name, string>>, rest: rest.join('&') };
}
