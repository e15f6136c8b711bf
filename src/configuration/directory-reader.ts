import type { Hostname } from '../address/hostname.ts';
import {
  type Client,
  type ConfigurationDirectory,
  type ConfigurationFile,
  isJsonFile,
  sortFiles,
} from './configuration-files.ts';
import type { HclConverter } from './hcl-converter.ts';
import { type ConfigurationReading, readJsonConfiguration } from './json-configuration.ts';
import { type LockFile, readLockFile } from './lock-file.ts';
import { type ModuleConfiguration, resolveModule } from './module-configuration.ts';
import { readNativeConfiguration } from './native-configuration.ts';
import { joinFiles } from './overrides.ts';

/** What is known of one directory. */
export interface ReadDirectory {
  /** With all that is wrong with its files. */
  readonly module: ModuleConfiguration;
  readonly lock: LockFile | undefined;
}

export interface ReadingOptions {
  readonly client: Client;
  /** Whose providers and modules are meant when no host is named. */
  readonly defaultHostname: Hostname;
  readonly converter: HclConverter;
}

/** The directories of an upload or a package. Each is read when it is asked for first. */
export class DirectoryReader {
  readonly #sorted: ReadonlyMap<string, ConfigurationDirectory>;
  readonly #options: ReadingOptions;
  readonly #read = new Map<string, ReadDirectory>();

  constructor(files: readonly ConfigurationFile[], options: ReadingOptions) {
    this.#sorted = sortFiles(files, options.client);
    this.#options = options;
  }

  /** Of all that hold configuration or a lock file. */
  get paths(): string[] {
    return [...this.#sorted.keys()];
  }

  has(path: string): boolean {
    return this.#sorted.has(path);
  }

  /** Never rejects. */
  async read(path: string): Promise<ReadDirectory | undefined> {
    const files = this.#sorted.get(path);
    const read = this.#read.get(path) ?? (files && (await readDirectory(files, this.#options)));
    if (read) this.#read.set(path, read);
    return read;
  }
}

async function readDirectory(directory: ConfigurationDirectory, options: ReadingOptions): Promise<ReadDirectory> {
  const { converter, defaultHostname } = options;
  const readAll = async (files: readonly ConfigurationFile[]) => {
    const readings: ConfigurationReading[] = [];
    for (const file of files) {
      readings.push(
        isJsonFile(file)
          ? readJsonConfiguration(file.text, file.path)
          : await readNativeConfiguration(file.text, file.path, converter),
      );
    }
    return readings;
  };
  const primary = await readAll(directory.primary);
  const overrides = await readAll(directory.overrides);
  const joined = joinFiles(
    primary.map(({ declarations }) => declarations),
    overrides.map(({ declarations }) => declarations),
  );
  const module = resolveModule(joined.declarations, defaultHostname);
  const diagnostics = [
    ...[...primary, ...overrides].flatMap((reading) => reading.diagnostics),
    ...joined.diagnostics,
    ...module.diagnostics,
  ];
  const { providers, registryCalls, localCalls } = module;
  return {
    module: { providers, registryCalls, localCalls, diagnostics },
    lock: directory.lock && readLockFile(directory.lock.text, directory.lock.path, defaultHostname),
  };
}
