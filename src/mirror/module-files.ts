import { posix } from 'node:path';
import type { Readable } from 'node:stream';
import { createGunzip } from 'node:zlib';
import type { ModuleRelease } from '../address/module.ts';
import type { ChildPackage, ConfigurationFile } from '../configuration/configuration-files.ts';
import { kindOf } from '../configuration/file-kinds.ts';
import { StorageFailed, UpstreamInvalid } from '../errors.ts';
import { readTar, type TarEntries } from '../upstream/module-package/tar-reader.ts';

/** Of all configuration in one package. The largest real ones, with all examples, have a tenth. */
const MAX_BYTES = 16 * 1024 * 1024;
const MAX_FILES = 5_000;

/** Which module of a package is meant. */
export interface CalledModule {
  readonly release: ModuleRelease;
  /** Where in the package the module of the registry is. */
  readonly subdir: string;
  /** Where below that the called one is. */
  readonly calledSubdir: string | undefined;
}

/**
 * The configuration in a stored package (a flat tar.gz), to find out what the module requires. Paths begin with the
 * module's address and version. Closes the stream.
 * @throws UpstreamInvalid when it is damaged, or has more configuration than anybody writes; StorageFailed
 */
export async function readModuleFiles(
  { release, subdir, calledSubdir }: CalledModule,
  stream: Readable,
): Promise<ChildPackage> {
  const root = `${release.module}@${release.version}`;
  const entries = new ConfigurationEntries(release, root);
  const unpacked = createGunzip();
  // Errors do not go along with what is piped.
  stream.on('error', (error) => unpacked.destroy(error)).pipe(unpacked);
  try {
    await readTar(unpacked, entries);
  } catch (error) {
    throw isOfZlib(error) ? entries.refuse('has an archive that is damaged') : inOurWords(error);
  } finally {
    stream.destroy();
    unpacked.destroy();
  }
  return { files: entries.files, directory: posix.join(root, subdir, calledSubdir ?? '') };
}

/** Keeps configuration, and reads past everything else. */
class ConfigurationEntries implements TarEntries {
  readonly files: ConfigurationFile[] = [];
  /** What a package may hold was decided when it was made. */
  readonly limits = { download: Infinity, unpacked: Infinity, files: Infinity, time: Infinity };
  readonly #release: ModuleRelease;
  readonly #root: string;
  #bytes = 0;

  constructor(release: ModuleRelease, root: string) {
    this.#release = release;
    this.#root = root;
  }

  async addFile(path: string, _about: unknown, content: AsyncIterable<Uint8Array>): Promise<void> {
    const isWanted = kindOf(path) === 'configuration';
    const pieces: Uint8Array[] = [];
    for await (const piece of content) {
      if (!isWanted) continue;
      this.#bytes += piece.length;
      if (this.#bytes > MAX_BYTES) throw this.refuse(`has more than ${MAX_BYTES} bytes of configuration`);
      // Read over with the next piece.
      pieces.push(Buffer.from(piece));
    }
    if (!isWanted) return;
    if (this.files.length === MAX_FILES) throw this.refuse(`has more than ${MAX_FILES} files of configuration`);
    this.files.push({ path: posix.join(this.#root, path), text: Buffer.concat(pieces).toString('utf8') });
  }

  addDirectory(): void {}

  /** Stored packages hold none. */
  addLink(): void {}

  addHardLink(): void {}

  refuse(detail: string): UpstreamInvalid {
    const { module, version } = this.#release;
    return new UpstreamInvalid(String(module.hostname), `${detail}: the package of ${module.written} ${version}`);
  }
}

function isOfZlib(error: unknown): boolean {
  return /^Z_/.test(String((error as NodeJS.ErrnoException | null)?.code));
}

function inOurWords(error: unknown): unknown {
  return (error as NodeJS.ErrnoException | null)?.syscall === undefined
    ? error
    : new StorageFailed('reading a module package', error);
}
