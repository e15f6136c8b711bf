/** Writes `docs/faults.md` anew, of the table: `npx tsx test/faults/write-document.ts`. */
import { writeFile } from 'node:fs/promises';
import { faultsDocument } from './document.ts';

await writeFile(new URL('../../docs/faults.md', import.meta.url), faultsDocument());
