import { InvalidAddress } from '../errors.ts';
import { Version } from './version.ts';

const MAX_CONSTRAINT_LENGTH = 1_024;
const OPERATORS = ['=', '!=', '>', '>=', '<', '<=', '~>'] as const;
type Operator = (typeof OPERATORS)[number];

interface Term {
  readonly operator: Operator;
  readonly boundary: Version;
  /** Only of `~>`: the first version beyond. */
  readonly beyond?: Version;
  /** As written, without needless spaces. */
  readonly text: string;
}

/**
 * Which versions a configuration accepts, in OpenTofu's grammar: `>= 1.2, < 2.0, != 1.5.0`. Not the ranges of npm:
 * `~> 1.2` reaches up to 2.0, `1.2` is exactly 1.2.0, and a comma means *and*.
 *
 * Pre-releases are accepted only where an exact term names them. Build metadata counts in `=` and `!=` alone.
 */
export class VersionConstraint {
  readonly #terms: readonly Term[];

  private constructor(terms: readonly Term[]) {
    this.#terms = terms;
  }

  /** An empty text accepts every release. @throws InvalidAddress */
  static parse(text: string): VersionConstraint {
    if (text.length > MAX_CONSTRAINT_LENGTH) {
      throw new InvalidAddress('version constraint', text, `it is longer than ${MAX_CONSTRAINT_LENGTH} characters`);
    }
    if (text.trim() === '') return new VersionConstraint([]);
    return new VersionConstraint(text.split(',').map((term) => parseTerm(term.trim(), text)));
  }

  /**
   * All of them together, as several modules may require one provider: a pre-release that one of them names exactly is
   * accepted when the others leave room for it.
   */
  static all(constraints: readonly VersionConstraint[]): VersionConstraint {
    return new VersionConstraint(constraints.flatMap((constraint) => constraint.#terms));
  }

  allows(version: Version): boolean {
    if (version.isPrerelease && !this.#terms.some((term) => term.operator === '=' && accepts(term, version))) {
      return false;
    }
    return this.#terms.every((term) => accepts(term, version));
  }

  /** All that are allowed, newest first, each once. */
  select(versions: readonly Version[]): Version[] {
    return versions
      .filter((version) => this.allows(version))
      .sort((a, b) => Version.compare(b, a))
      .filter((version, index, sorted) => String(version) !== String(sorted[index - 1]));
  }

  /** Parses back to the same constraint. Empty for any version. */
  toString(): string {
    return this.#terms.map(({ text }) => text).join(', ');
  }
}

function parseTerm(term: string, whole: string): Term {
  const invalid = (why: string, hint?: string) =>
    new InvalidAddress('version constraint', whole, why, hint === undefined ? {} : { hint });
  if (term === '') throw invalid('there is a comma with nothing before or after it');

  const [, operator = '', given = ''] = /^([^\w\s.*]*)\s*(.*)$/su.exec(term) ?? [];
  if (operator !== '' && !isOperator(operator)) {
    const meant = { '=>': '>=', '=<': '<=', '==': '=', '~': '~>', '^': '~>' }[operator];
    throw invalid(`${JSON.stringify(operator)} is no operator${meant ? `; did you mean "${meant}"?` : ''}`);
  }
  if (given === '') throw invalid(`a version is missing after ${JSON.stringify(operator)}`);
  if (/^v\d/i.test(given)) throw invalid('versions are written without the letter v', `write ${given.slice(1)}`);
  if (/^[\d.]*[*xX](\.|$)/.test(given)) throw invalid('there are no wildcards; leave out the parts that may vary');
  if (/^\d+(\.\d+){3,}/.test(given)) throw invalid('a version has at most three numbers');
  if (/\s/.test(given)) throw invalid('a comma is missing between its parts', 'write >= 1.0, < 2.0');

  const boundary = Version.fromPublished(given);
  if (!boundary) throw invalid(`${JSON.stringify(given)} is not a version`);
  const text = operator === '' ? given : `${operator} ${given}`;
  if (operator !== '~>') return { operator: operator || '=', boundary, text };

  const hasPatch = /^\d+\.\d+\.\d+/.test(given);
  const beyond = boundary.next(hasPatch ? 'minor' : 'major');
  if (!beyond) throw invalid('the number is too large');
  return { operator, boundary, beyond, text };
}

function isOperator(text: string): text is Operator {
  return (OPERATORS as readonly string[]).includes(text);
}

function accepts({ operator, boundary, beyond }: Term, version: Version): boolean {
  const order = Version.comparePrecedence(version, boundary);
  const isSame = order === 0 && version.build === boundary.build;
  switch (operator) {
    case '=':
      return isSame;
    case '!=':
      return !isSame;
    case '>':
      return order > 0;
    case '>=':
      return order >= 0;
    case '<':
      return order < 0;
    case '<=':
      return order <= 0;
    case '~>':
      return order >= 0 && beyond !== undefined && Version.comparePrecedence(version, beyond) < 0;
  }
}
