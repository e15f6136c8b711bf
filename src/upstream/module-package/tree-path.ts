/** As systems have it for paths: nothing that is longer can be unpacked. Bytes. */
const MAX_PATH_BYTES = 4096;
/** Of one name in a path, likewise. Bytes. */
const MAX_NAME_BYTES = 255;

// biome-ignore lint/suspicious/noControlCharactersInRegex: these are what is looked for
const CONTROL = /[\u0000-\u001f\u007f]/;
const WINDOWS_ROOT = /^(?:[A-Za-z]:[\\/]|\\)/;
/** The history of a repository, and in a submodule the file that points to it. */
const LEFT_OUT = '.git';
const MAX_SHOWN = 120;

/** A path in a package, taken apart; or what is wrong with it, as the end of a sentence. */
export type TreePath = { readonly names: readonly string[] } | { readonly problem: string };

/**
 * Reads the path of an entry as archives and repositories write it. `./a`, `a//b` and `a/` are `a`, `a/b` and `a`; the
 * root has no names.
 */
export function readTreePath(text: string): TreePath {
  const problem = problemOf(text);
  if (problem) return { problem };
  if (isAbsolute(text)) return { problem: 'is absolute' };
  const names = text.split('/').filter((name) => name !== '' && name !== '.');
  if (names.some((name) => name.split('\\').includes('..'))) return { problem: 'leads out of the package' };
  if (names.some((name) => Buffer.byteLength(name) > MAX_NAME_BYTES)) {
    return { problem: `has a name of more than ${MAX_NAME_BYTES} bytes in it` };
  }
  return { names };
}

/** What is wrong with any path or link target, wherever it leads. */
export function problemOf(text: string): string | undefined {
  if (CONTROL.test(text)) return 'holds control characters';
  if (Buffer.byteLength(text) > MAX_PATH_BYTES) return `is longer than ${MAX_PATH_BYTES} bytes`;
  return undefined;
}

export function isAbsolute(path: string): boolean {
  return path.startsWith('/') || WINDOWS_ROOT.test(path);
}

/** Whether a package does without it and all that is below it. */
export function isLeftOut(names: readonly string[]): boolean {
  return names.includes(LEFT_OUT);
}

/** A path made by others, fit for a message. */
export function quoted(path: string): string {
  return JSON.stringify(path.length > MAX_SHOWN ? `${path.slice(0, MAX_SHOWN - 1)}…` : path);
}
