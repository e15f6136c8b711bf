import { type Cell, COLUMNS, type Column, OUTCOMES, type Outcome, type Row, STATES, TABLE, TROUBLES } from './table.ts';

const INTRODUCTION = `# What happens when an upstream fails

Larder stands between clients and registries, and registries fail in many ways. These tables say what clients get then, for
every way to fail and everything they ask for. They are made of the table that the tests hold Larder to: none of the cells
is an intention.

What a failure means to \`tofu init\` and \`terraform init\` is told in
[decision 4](decisions/0004-what-each-trouble-is-to-a-client.md), and what to do about it in
[troubleshooting](troubleshooting.md).

**In all of them**

- What was asked for a moment ago is answered without asking upstream: no trouble changes anything. So is every archive
  and every module package that is stored.
- JSON answers come within \`limits.metadataDeadline\`, whatever upstream does.
- Errors are JSON and name the host that is in trouble.
- Nothing of what went wrong is kept. Once upstream is well again the next answer is right: after a host could not be
  reached it is left alone for 5 seconds, after a 429 for as long as it asks for (a minute at most), an archive that came
  with other bytes than promised is not fetched again for 3 seconds, and a 404 is remembered for \`freshness.absent\`.

**What fails** is the one request that the column is about:
`;

/** `docs/faults.md`, of the table. */
export function faultsDocument(): string {
  return [
    INTRODUCTION,
    table(
      ['asked for', 'what fails of it'],
      Object.values(COLUMNS).map(([asked, fails]) => [asked, fails]),
    ),
    '**The words**, each for what a client gets:\n',
    table(
      ['word', 'what it gets'],
      Object.entries(OUTCOMES).map(([word, meaning]) => [word, meaning]),
    ),
    ...Object.entries(STATES)
      .filter(([state]) => state !== 'warm')
      .map(([state, meaning]) => section(state, meaning)),
    reasons(),
  ].join('\n');
}

const TITLES: Readonly<Record<string, string>> = {
  cold: 'Nothing is known',
  stale: 'It is known, and old',
  stored: 'It is stored, and nothing else is known',
};

function section(state: string, meaning: string): string {
  const index = Object.keys(STATES).indexOf(state);
  const heads = ['upstream', ...Object.values(COLUMNS).map(([asked]) => asked)];
  const rows = TROUBLES.map((trouble) => [
    trouble,
    ...(Object.keys(COLUMNS) as Column[]).map((column) => {
      const cell: Cell = (TABLE[trouble] as Row)[column];
      return 'never' in cell ? `–[^${footnote(cell.never)}]` : (cell[index] as Outcome);
    }),
  ]);
  return `## ${TITLES[state]}\n\nHere ${meaning}.\n\n${table(heads, rows)}`;
}

/** Why some cells cannot be, in order of appearance. */
function never(): string[] {
  const all = TROUBLES.flatMap((trouble) =>
    Object.values(TABLE[trouble] as Row).flatMap((cell) => ('never' in cell ? [cell.never] : [])),
  );
  return [...new Set(all)];
}

function footnote(reason: string): number {
  return never().indexOf(reason) + 1;
}

function reasons(): string {
  return `${never()
    .map((reason) => `[^${footnote(reason)}]: Cannot be: ${reason}.`)
    .join('\n')}\n`;
}

function table(heads: readonly string[], rows: readonly (readonly string[])[]): string {
  const line = (cells: readonly string[]) => `| ${cells.join(' | ')} |`;
  return `${[line(heads), line(heads.map(() => '---')), ...rows.map(line)].join('\n')}\n`;
}
