/** Whether a path's name is a pattern, as the clients see it. */
export function isGlob(name: string): boolean {
  return /[*?[]/.test(name);
}

/** Whether `name` is what `pattern` says: `*` for any characters, `?` for one, `[a-z]` and `[^a-z]` for one of a set. */
export function matchesGlob(name: string, pattern: string): boolean {
  const characters = [...name];
  const parts = partsOf(pattern);
  let at = 0;
  let part = 0;
  // Where to go on when the last star has to take one character more. Earlier stars need no second try.
  let star = -1;
  let starAt = 0;
  while (at < characters.length) {
    const wanted = parts[part];
    if (wanted === '*') {
      star = part++;
      starAt = at;
    } else if (wanted?.(characters[at] as string)) {
      at++;
      part++;
    } else if (star >= 0) {
      part = star + 1;
      at = ++starAt;
    } else {
      return false;
    }
  }
  return parts.slice(part).every((rest) => rest === '*');
}

type Part = '*' | ((character: string) => boolean);

function partsOf(pattern: string): Part[] {
  return Array.from(pattern.matchAll(/\*|\?|\[(\^?)([^\]]+)\]|\\?(.)/gsu), ([text, not, set, character]): Part => {
    if (text === '*') return '*';
    if (text === '?') return () => true;
    if (set !== undefined) return (candidate) => isIn(candidate, set) !== (not === '^');
    return (candidate) => candidate === character;
  });
}

function isIn(candidate: string, set: string): boolean {
  return Array.from(set.matchAll(/\\?(.)(?:-\\?(.))?/gsu)).some(
    ([, from = '', to = from]) => candidate >= from && candidate <= to,
  );
}
