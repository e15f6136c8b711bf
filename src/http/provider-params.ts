import { ProviderArchive } from '../address/archive.ts';
import { Hostname } from '../address/hostname.ts';
import { ProviderAddress } from '../address/provider.ts';
import { RequestError } from './request-error.ts';

/** What routes of the form `/:hostname/:namespace/:type/…` capture. */
export interface ProviderParams {
  readonly hostname: string;
  readonly namespace: string;
  readonly type: string;
  readonly [name: string]: string;
}

/** @throws InvalidAddress, RequestError */
export function parseProvider({ hostname, namespace, type }: ProviderParams): ProviderAddress {
  if (hostname !== hostname.trim()) {
    throw new RequestError(404, 'NOT_FOUND', 'the hostname has a space before or behind it', {
      hint: 'take the stray space out of the mirror URL in the CLI configuration',
    });
  }
  return new ProviderAddress(Hostname.parse(hostname), namespace, type);
}

/** @throws InvalidAddress, RequestError */
export function parseArchive(params: ProviderParams & { filename: string }): ProviderArchive {
  const { filename } = params;
  const provider = parseProvider(params);
  if (!filename.endsWith('.zip')) throw notAnArchive(filename);
  return ProviderArchive.parseFilename(provider, filename);
}

function notAnArchive(filename: string): RequestError {
  const escapedQuery = filename.includes('.zip?');
  return new RequestError(404, 'NOT_FOUND', 'there is no such file', {
    hint: escapedQuery
      ? 'the "?" of a query was percent-encoded into the file name: ask without it, archives here need no query'
      : 'a provider has index.json, VERSION.json and the archives that VERSION.json names',
  });
}
