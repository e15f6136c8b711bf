import { createHash } from 'node:crypto';
import { constants, type Dirent } from 'node:fs';
import { open, readdir, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { ProviderArchive } from '../address/archive.ts';
import { type Hash, parseHash, parseSha256, type Sha256 } from '../address/hash.ts';
import { Hostname } from '../address/hostname.ts';
import { ModuleAddress, ModuleRelease } from '../address/module.ts';
import { ProviderAddress } from '../address/provider.ts';
import { Version } from '../address/version.ts';
import { IntegrityMismatch, NotFound, StorageFailed } from '../errors.ts';
import type { ReleaseFiles } from '../store/archive-store.ts';
import { paths } from '../store/keys.ts';
import type { PackageRecord } from '../store/module-store.ts';
import { directoriesIn, orForeign } from '../store/provider-directories.ts';
import { readIfFile } from '../store/storage-errors.ts';
import { MANIFEST_FILE, parseManifest, releaseName } from './export-manifest.ts';

/** Bytes. Documents of mirrors have a few thousand. */
const MAX_DOCUMENT = 64 * 1024 * 1024;

/** An archive as it lies there, with what its mirror says of it. */
export interface FoundArchive {
  readonly archive: ProviderArchive;
  readonly file: string;
  /** Of VERSION.json; empty where that does not speak of it. */
  readonly hashes: readonly Hash[];
}

/** All of one version of a provider. */
export interface FoundVersion {
  readonly provider: ProviderAddress;
  readonly version: Version;
  readonly archives: readonly FoundArchive[];
  readonly release: ReleaseFiles | undefined;
}

export interface FoundPackage {
  readonly release: ModuleRelease;
  readonly file: string;
  /** `undefined` where there is none that can be read. */
  readonly record: PackageRecord | undefined;
}

/**
 * A directory that somebody brings: an export or a data directory of Larder (`providers/`, `modules/`), or what the
 * clients' `providers mirror` wrote (`HOST/NAMESPACE/TYPE/`). Nothing in it is believed here; nothing is written.
 */
export class BroughtDirectory {
  readonly #providers: string;
  readonly #modules: string | undefined;

  private constructor(providers: string, modules: string | undefined) {
    this.#providers = providers;
    this.#modules = modules;
  }

  /** @throws NotFound when it is none, StorageFailed when it cannot be read */
  static async open(directory: string): Promise<BroughtDirectory> {
    let entries: string[];
    try {
      entries = await readdir(directory);
    } catch (error) {
      const { code } = error as { code?: unknown };
      if (code === 'ENOENT' || code === 'ENOTDIR') throw new NotFound(`there is no directory ${directory}`);
      throw new StorageFailed(`reading ${directory}`, error);
    }
    const ours = entries.includes(paths.providers) || entries.includes(paths.modules);
    if (ours) return new BroughtDirectory(join(directory, paths.providers), join(directory, paths.modules));
    const found = new BroughtDirectory(directory, undefined);
    for await (const _ of found.#providerDirectories()) return found;
    throw new NotFound(`${directory} holds no mirror`, {
      hint: 'it must be what larder export, tofu providers mirror or terraform providers mirror wrote: HOST/NAMESPACE/TYPE/…',
    });
  }

  /**
   * What the list of an export says of everything in it, by identity; of packages with where in them the module is.
   * @param sha256 of the list as it was made
   * @throws NotFound when there is no list, IntegrityMismatch when it is another one
   */
  async vouchedFor(sha256: Sha256): Promise<ReadonlyMap<string, Sha256>> {
    const file = join(this.#providers, '..', MANIFEST_FILE);
    const bytes = this.#modules === undefined ? undefined : await smallFile(file);
    if (!bytes) throw new NotFound(`there is no ${MANIFEST_FILE} in it`);
    const actual = createHash('sha256').update(bytes).digest('hex');
    const manifest = actual === sha256 ? parseManifest(bytes) : undefined;
    if (!manifest) throw new IntegrityMismatch(`the SHA-256 of ${MANIFEST_FILE} is ${actual}`);
    return new Map([
      ...manifest.archives.map((carried) => [`${carried.archive}`, carried.sha256] as const),
      ...manifest.packages.map((carried) => [`${carried.release}//${carried.subdir}`, carried.sha256] as const),
      ...manifest.releases.map((listed) => [releaseName(listed.provider, listed.version), listed.sha256] as const),
    ]);
  }

  /** Version by version. @throws StorageFailed */
  async *versions(): AsyncGenerator<FoundVersion> {
    for await (const { provider, directory } of this.#providerDirectories()) {
      const entries = await entriesOf(directory);
      const archives = entries
        .filter((entry) => entry.name.endsWith('.zip'))
        .flatMap((entry) => orForeign(() => ProviderArchive.parseFilename(provider, entry.name)) ?? []);
      const versions = new Map(archives.map(({ version }) => [version.toString(), version]));
      for (const version of [...versions.values()].sort(Version.compare)) {
        const hashes = await hashesIn(join(directory, `${version}.json`));
        yield {
          provider,
          version,
          archives: archives
            .filter((archive) => archive.version.toString() === version.toString())
            .map((archive) => ({
              archive,
              file: join(directory, archive.filename),
              hashes: hashes.get(archive.filename) ?? [],
            })),
          release: await releaseIn(directory, provider, version),
        };
      }
    }
  }

  /** @throws StorageFailed */
  async *packages(): AsyncGenerator<FoundPackage> {
    if (this.#modules === undefined) return;
    const root = this.#modules;
    for (const hostname of await directoriesIn(root)) {
      for (const namespace of await directoriesIn(join(root, hostname))) {
        for (const name of await directoriesIn(join(root, hostname, namespace))) {
          for (const system of await directoriesIn(join(root, hostname, namespace, name))) {
            const module = orForeign(() => new ModuleAddress(Hostname.parse(hostname), namespace, name, system));
            if (module) yield* packagesIn(join(root, hostname, namespace, name, system), module);
          }
        }
      }
    }
  }

  async *#providerDirectories(): AsyncGenerator<{ provider: ProviderAddress; directory: string }> {
    const root = this.#providers;
    for (const hostname of await directoriesIn(root)) {
      for (const namespace of await directoriesIn(join(root, hostname))) {
        for (const type of await directoriesIn(join(root, hostname, namespace))) {
          const provider = orForeign(() => ProviderAddress.parse(`${hostname}/${namespace}/${type}`));
          if (provider) yield { provider, directory: join(root, hostname, namespace, type) };
        }
      }
    }
  }
}

/**
 * Opens a file for reading from its beginning to its end. Pipes and devices are no files.
 * @throws NotFound, StorageFailed
 */
export async function openRegular(path: string) {
  try {
    const handle = await open(path, constants.O_RDONLY | constants.O_NONBLOCK);
    const found = await handle.stat();
    if (found.isFile()) return { handle, size: found.size };
    await handle.close();
  } catch (error) {
    if ((error as { code?: unknown }).code !== 'ENOENT')
      throw new StorageFailed('reading a file that was brought', error);
  }
  throw new NotFound('it is no file');
}

async function* packagesIn(directory: string, module: ModuleAddress): AsyncGenerator<FoundPackage> {
  for (const { name } of await entriesOf(directory)) {
    if (!name.endsWith('.tar.gz')) continue;
    const version = orForeign(() => Version.parse(name.slice(0, -'.tar.gz'.length)));
    if (!version) continue;
    const record = recordIn(await documentIn(join(directory, `${version}.json`)));
    yield { release: new ModuleRelease(module, version), file: join(directory, name), record };
  }
}

async function entriesOf(directory: string): Promise<Dirent[]> {
  try {
    const entries = await readdir(directory, { withFileTypes: true });
    return entries.sort((a, b) => (a.name < b.name ? -1 : 1));
  } catch (error) {
    throw new StorageFailed('listing what was brought', error);
  }
}

async function releaseIn(
  directory: string,
  provider: ProviderAddress,
  version: Version,
): Promise<ReleaseFiles | undefined> {
  const read = (path: string) => smallFile(join(directory, path.slice(path.lastIndexOf('/') + 1)));
  const [shasums, signature, statement] = await Promise.all([
    read(paths.shasums(provider, version)),
    read(paths.signature(provider, version)),
    read(paths.statement(provider, version)),
  ]);
  return shasums && { shasums, signature, statement };
}

/** By file name: an entry that names another file says nothing of this one. */
async function hashesIn(path: string): Promise<ReadonlyMap<string, readonly Hash[]>> {
  const hashes = new Map<string, readonly Hash[]>();
  const document = await documentIn(path);
  const archives = isObject(document) && isObject(document['archives']) ? document['archives'] : {};
  for (const entry of Object.values(archives)) {
    if (!isObject(entry) || typeof entry['url'] !== 'string' || !Array.isArray(entry['hashes'])) continue;
    const readable = entry['hashes'].flatMap((hash) => orForeign(() => parseHash(String(hash))) ?? []);
    hashes.set(entry['url'], readable);
  }
  return hashes;
}

function recordIn(document: unknown): PackageRecord | undefined {
  if (!isObject(document)) return undefined;
  const { sha256, size, subdir, source, fingerprint } = document;
  if (typeof sha256 !== 'string' || typeof subdir !== 'string' || typeof source !== 'string') return undefined;
  const digest = orForeign(() => parseSha256(sha256));
  if (!digest || !Number.isSafeInteger(size)) return undefined;
  const mark = typeof fingerprint === 'string' ? fingerprint : undefined;
  return { sha256: digest, size: size as number, subdir, source, fingerprint: mark };
}

/** `undefined` of what is not there, or no JSON. */
async function documentIn(path: string): Promise<unknown> {
  const bytes = await smallFile(path);
  try {
    return bytes && JSON.parse(bytes.toString('utf8'));
  } catch {
    return undefined;
  }
}

async function smallFile(path: string): Promise<Buffer | undefined> {
  const found = await stat(path).catch(() => undefined);
  if (!found?.isFile() || found.size > MAX_DOCUMENT) return undefined;
  return readIfFile('reading a document that was brought', path);
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
