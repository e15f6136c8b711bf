import { readFile } from 'node:fs/promises';
import { InvalidConfiguration } from './errors.ts';

/** A secret itself, or the absolute path of the file that holds it. */
export type SecretOrigin = { readonly token: string } | { readonly tokenFile: string };

/** What an Authorization header can hold, and S3 takes for a key. */
const TOKEN = /^[\x21-\x7e]+$/;

export function isToken(value: unknown): value is string {
  return typeof value === 'string' && TOKEN.test(value);
}

/**
 * The secret for the next request. A file is read anew each time: a rotated secret is used at once, whatever times and
 * sizes its file had.
 * @param name of the file, for messages
 * @throws InvalidConfiguration when the file cannot be read, is empty or holds no token
 */
export function secretSource(origin: SecretOrigin, name: string): () => Promise<string> {
  if ('token' in origin) return async () => origin.token;

  return async () => {
    const secret = await readFile(origin.tokenFile, 'utf8').catch((cause: unknown) => {
      throw new InvalidConfiguration(`${name} cannot be read`, { cause });
    });
    const trimmed = secret.trim();
    if (trimmed === '') throw new InvalidConfiguration(`${name} is empty`);
    if (!isToken(trimmed)) {
      throw new InvalidConfiguration(`${name} holds spaces, line breaks or non-ASCII letters`);
    }
    return trimmed;
  };
}
