/** Where in a configuration: `['access', 'tokens', 0, 'name']`. */
export type KeyPath = readonly (string | number)[];

/** What said something: shown in front of every problem. */
export interface Origin {
  /** `larder.yaml:12`, or the name of an environment variable. */
  readonly label: string;
  /** Where relative paths start. */
  readonly directory: string;
}

/** Plain values, and for every one of them where it was said. */
export interface Layer {
  readonly value: Record<string, unknown>;
  readonly origins: Origins;
}

export class Origins {
  readonly #byPath = new Map<string, Origin>();

  add(path: KeyPath, origin: Origin): void {
    this.#byPath.set(JSON.stringify(path), origin);
  }

  /** Of the value at `path`, or of the nearest thing around it: what is missing has no place of its own. */
  of(path: KeyPath): Origin | undefined {
    for (let length = path.length; length >= 0; length -= 1) {
      const origin = this.#byPath.get(JSON.stringify(path.slice(0, length)));
      if (origin) return origin;
    }
    return undefined;
  }

  addAll(others: Origins): void {
    for (const [path, origin] of others.#byPath) this.#byPath.set(path, origin);
  }
}

/**
 * Lays one layer over another: maps merge, lists and scalars replace. An empty section (`redis:` with all its keys
 * commented out) changes nothing. Neither argument is altered.
 *
 * @param isRemovable tells of which maps a `null` takes an entry away
 */
export function overlay(below: Layer, above: Layer, isRemovable: (path: KeyPath) => boolean): Layer {
  const origins = new Origins();
  origins.addAll(below.origins);
  origins.addAll(above.origins);
  return { value: merged(below.value, above.value, [], isRemovable), origins };
}

function merged(
  below: Record<string, unknown>,
  above: Record<string, unknown>,
  path: KeyPath,
  isRemovable: (path: KeyPath) => boolean,
): Record<string, unknown> {
  const result = new Map(Object.entries(below));
  for (const [key, value] of Object.entries(above)) {
    const known = result.get(key);
    if (value === null && known !== undefined && isRemovable(path)) result.delete(key);
    else if (isMap(known) && isMap(value)) result.set(key, merged(known, value, [...path, key], isRemovable));
    else if (!(isMap(known) && value === null)) result.set(key, value);
  }
  return Object.fromEntries(result);
}

function isMap(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** `access.tokens[0].name`, `upstreams.hosts."registry.example:8443".ca` */
export function formatPath(path: KeyPath): string {
  return path
    .map((part) => {
      if (typeof part === 'number') return `[${part}]`;
      return /^[\w-]+$/.test(part) ? `.${part}` : `.${JSON.stringify(part)}`;
    })
    .join('')
    .replace(/^\./, '');
}
