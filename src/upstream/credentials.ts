import { readFile, stat } from 'node:fs/promises';
import { InvalidConfiguration } from '../errors.ts';

/** Where an upstream's bearer token comes from. */
export type TokenOrigin = { readonly token: string } | { readonly tokenFile: string };

/**
 * The token for the next request. A token file is read anew whenever it changes, so that a rotated secret needs no
 * restart.
 * @throws InvalidConfiguration when the file cannot be read or is empty
 */
export function tokenSource(origin: TokenOrigin | undefined): () => Promise<string | undefined> {
  if (!origin) return async () => undefined;
  if ('token' in origin) return async () => origin.token;

  let known: { token: string; modifiedAt: number } | undefined;
  return async () => {
    try {
      const { mtimeMs } = await stat(origin.tokenFile);
      if (known?.modifiedAt !== mtimeMs) {
        known = { token: (await readFile(origin.tokenFile, 'utf8')).trim(), modifiedAt: mtimeMs };
      }
    } catch (error) {
      throw new InvalidConfiguration('the token file of an upstream cannot be read', { cause: error });
    }
    if (known.token === '') throw new InvalidConfiguration('the token file of an upstream is empty');
    return known.token;
  };
}
