import { readFile } from 'node:fs/promises';
import { expect, it } from 'vitest';
import { faultsDocument } from './document.ts';
import { type Cell, COLUMNS, type Row, TABLE, TROUBLES } from './table.ts';

it('docs/faults.md says what the table says: to mend it, run `npx tsx test/faults/write-document.ts`', async () => {
  const written = await readFile(new URL('../../docs/faults.md', import.meta.url), 'utf8');
  expect(written).toBe(faultsDocument());
});

it('may say of all that was asked for a moment ago that it comes as ever', () => {
  for (const trouble of TROUBLES) {
    const cells: Cell[] = Object.values(TABLE[trouble] as Row);
    expect(cells).toHaveLength(Object.keys(COLUMNS).length);
    for (const cell of cells) if (!('never' in cell)) expect(cell[1], trouble).toBe('fresh');
  }
});

it('names a reason for each cell that cannot be', () => {
  expect(faultsDocument()).not.toMatch(/\[\^0]|undefined/);
  expect(faultsDocument()).toMatch(/\[\^1]: Cannot be: \w/);
});
