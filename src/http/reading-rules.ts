import type { Wish } from '../mirror/wanted.ts';

/** Whose rules decided what files mean, as far as anything depended on them. */
export interface ReadingRules {
  readonly client: string;
  /** The registry that was meant where none is named; absent when all are. */
  readonly impliedHostname?: string | undefined;
}

const NAMES: Readonly<Record<Wish['client'], string>> = { opentofu: 'OpenTofu', terraform: 'Terraform' };

/** What people call whoever reads files by these rules, and who reads them by others. `undefined` when all read the same. */
export function readersOf({ client, impliedHostname }: ReadingRules): { reader: string; other: string } | undefined {
  if (impliedHostname === undefined) return undefined;
  return client === 'terraform'
    ? { reader: NAMES.terraform, other: 'opentofu' }
    : { reader: NAMES.opentofu, other: 'terraform' };
}

/** `as OpenTofu reads these files (--client terraform otherwise)`; `undefined` when all read the same. */
export function readingWords(rules: ReadingRules): string | undefined {
  const readers = readersOf(rules);
  return readers && `as ${readers.reader} reads these files (--client ${readers.other} otherwise)`;
}
