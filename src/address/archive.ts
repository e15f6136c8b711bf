import { InvalidAddress } from '../errors.ts';
import { Platform } from './platform.ts';
import type { ProviderAddress } from './provider.ts';
import { Version } from './version.ts';

/** In bytes. File systems allow 255; the rest is for the marks of files that are still being written. */
const MAX_FILENAME_LENGTH = 220;

/** One provider package: a provider, a version and a platform. Its archive has one canonical file name. */
export class ProviderArchive {
  readonly provider: ProviderAddress;
  readonly version: Version;
  readonly platform: Platform;

  /** @throws InvalidAddress when type and version together make a name that no file can have. */
  constructor(provider: ProviderAddress, version: Version, platform: Platform) {
    this.provider = provider;
    this.version = version;
    this.platform = platform;
    if (Buffer.byteLength(this.filename) > MAX_FILENAME_LENGTH) {
      throw new InvalidAddress('archive file name', this.filename, `it is longer than ${MAX_FILENAME_LENGTH} bytes`);
    }
  }

  /**
   * Reads `terraform-provider-TYPE_VERSION_OS_ARCH.zip`. The type is known from the path, so hyphens in it are no
   * question, and neither a version nor a platform part can hold an underscore. @throws InvalidAddress
   */
  static parseFilename(provider: ProviderAddress, filename: string): ProviderArchive {
    const expected = `terraform-provider-${provider.type}_VERSION_OS_ARCH.zip`;
    const prefix = `terraform-provider-${provider.type}_`;
    const [version, os, arch, ...rest] = filename.slice(prefix.length, -'.zip'.length).split('_');
    if (!filename.startsWith(prefix) || !filename.endsWith('.zip') || !version || !os || !arch || rest.length > 0) {
      throw new InvalidAddress('archive file name', filename, `${provider} has archives named ${expected}`);
    }
    return new ProviderArchive(provider, Version.parse(version), new Platform(os, arch));
  }

  get filename(): string {
    return `terraform-provider-${this.provider.type}_${this.version}_${this.platform}.zip`;
  }

  /** Identity, unique over all providers: usable as a key. */
  toString(): string {
    return `${this.provider}/${this.filename}`;
  }
}
