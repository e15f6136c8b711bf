import { InvalidAddress } from '../errors.ts';
import type { ProviderAddress } from './provider.ts';
import { Version } from './version.ts';

/** In bytes, as for archives. */
const MAX_FILENAME_LENGTH = 220;

export type ReleaseFileKind = 'SHA256SUMS' | 'SHA256SUMS.sig';

/** What is published beside the archives of a version: their checksums, and the signature of these. */
export class ReleaseFile {
  readonly provider: ProviderAddress;
  readonly version: Version;
  readonly kind: ReleaseFileKind;

  /** @throws InvalidAddress when type and version together make a name that no file can have. */
  constructor(provider: ProviderAddress, version: Version, kind: ReleaseFileKind) {
    this.provider = provider;
    this.version = version;
    this.kind = kind;
    if (Buffer.byteLength(this.filename) > MAX_FILENAME_LENGTH) {
      throw new InvalidAddress('release file name', this.filename, `it is longer than ${MAX_FILENAME_LENGTH} bytes`);
    }
  }

  /** Reads `terraform-provider-TYPE_VERSION_SHA256SUMS`, with or without `.sig`. @throws InvalidAddress */
  static parseFilename(provider: ProviderAddress, filename: string): ReleaseFile {
    const prefix = `terraform-provider-${provider.type}_`;
    const [version, kind, ...rest] = filename.slice(prefix.length).split('_');
    if (!filename.startsWith(prefix) || !version || rest.length > 0) throw noSuchName(provider, filename);
    if (kind !== 'SHA256SUMS' && kind !== 'SHA256SUMS.sig') throw noSuchName(provider, filename);
    return new ReleaseFile(provider, Version.parse(version), kind);
  }

  get filename(): string {
    return `terraform-provider-${this.provider.type}_${this.version}_${this.kind}`;
  }

  /** Identity, unique over all providers, and never that of an archive. */
  toString(): string {
    return `${this.provider}/${this.filename}`;
  }
}

function noSuchName(provider: ProviderAddress, filename: string): InvalidAddress {
  const expected = `terraform-provider-${provider.type}_VERSION_SHA256SUMS`;
  return new InvalidAddress(
    'release file name',
    filename,
    `${provider} has files named ${expected} and ${expected}.sig`,
  );
}
