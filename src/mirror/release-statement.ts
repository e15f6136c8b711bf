import { z } from 'zod';
import type { ReleaseStatement } from '../upstream/registry-answers.ts';

const shape = z.object({
  signing_keys: z.object({ gpg_public_keys: z.array(z.object({ ascii_armor: z.string() })) }),
  protocols: z.array(z.string()),
  packages: z.record(z.string(), z.unknown()).optional(),
});

/** How a statement rests in the metadata store: plain JSON, of which nothing gets lost that is not looked at here. */
export const storedStatement = z.unknown().transform((value): ReleaseStatement => {
  shape.parse(value);
  return value as ReleaseStatement;
});

/** The form in which it is kept beside the archives of its version. */
export function statementFile(statement: ReleaseStatement): Buffer {
  return Buffer.from(`${JSON.stringify(statement, null, 2)}\n`);
}

/** `undefined` of what is no statement any more: damaged, or written by somebody else. */
export function parseStatementFile(file: Buffer): ReleaseStatement | undefined {
  try {
    return storedStatement.parse(JSON.parse(file.toString('utf8')));
  } catch {
    return undefined;
  }
}
