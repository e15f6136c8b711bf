import path from 'node:path';
import pLimit from 'p-limit';
import type { S3Config } from './config/s3.ts';
import type { Config } from './config.ts';
import { InvalidConfiguration } from './errors.ts';
import type { Logger } from './logger.ts';
import { secretSource } from './secret-source.ts';
import type { ArchiveStore } from './store/archive-store.ts';
import { DirectoryArchiveStore } from './store/directory-archive-store.ts';
import { DirectoryModuleStore } from './store/directory-module-store.ts';
import { freeKeeping, type Keeping } from './store/keeping.ts';
import { paths } from './store/keys.ts';
import type { ModuleStore } from './store/module-store.ts';
import type { PackageHasher } from './store/package-hash.ts';
import { PartialFiles } from './store/partial-files.ts';
import { PinFile, type PinStore } from './store/pin-file.ts';
import { Quarantine } from './store/quarantine.ts';
import { Bucket } from './store/s3/bucket.ts';
import { BucketArchiveStore } from './store/s3/bucket-archive-store.ts';
import { BucketMarkers } from './store/s3/bucket-markers.ts';
import { BucketModuleStore } from './store/s3/bucket-module-store.ts';
import { BucketPins } from './store/s3/bucket-pins.ts';
import { BucketQuarantine } from './store/s3/bucket-quarantine.ts';
import { BucketWatch } from './store/s3/bucket-watch.ts';
import type { UseMarkers } from './store/use-markers.ts';

/** Parts of 8 MiB that are sent to a bucket at a time: so many are in memory. */
const CONCURRENT_PARTS = 6;

/** Where archives and packages rest: in the data directory, or in a bucket. */
export interface Storage {
  /** Where it is written down when something was last used, unless in the data directory. */
  readonly markers: UseMarkers | undefined;
  readonly pins: PinStore;
  readonly quarantine: Pick<Quarantine, 'list' | 'remove'>;
  /** Without keeping there is no limit, and uses are forgotten with the process. The caller closes it. @throws StorageFailed */
  openArchives(deps: { hasher: PackageHasher; keeping?: Keeping }): Promise<ArchiveStore>;
  /** The same of modules. @throws StorageFailed */
  openModules(deps: { keeping?: Keeping }): Promise<ModuleStore>;
  /** For a server: tells at once when it cannot be reached, and sweeps in the background what dead processes left. */
  begin(): void;
  close(): Promise<void>;
}

/**
 * Asks nothing of a bucket yet.
 * @param deps.patienceMs how long whoever asks for a file that was written to waits until it has been compared; to the
 * end, where nothing is said
 * @throws InvalidConfiguration, StorageFailed
 */
export async function openStorage(
  config: Pick<Config, 'data' | 's3' | 'extraCa'>,
  { patienceMs, logger }: { patienceMs?: number; logger: Logger },
): Promise<Storage> {
  const { data: directory } = config;
  const partials = await PartialFiles.open(path.join(directory, paths.partial), logger);
  if (config.s3) return storageInBucket({ ...config, s3: config.s3 }, { partials, logger });
  return {
    markers: undefined,
    pins: new PinFile({ directory, partials }),
    quarantine: new Quarantine({ directory, partials }),
    openArchives: (deps) => DirectoryArchiveStore.open({ directory, ...deps, patienceMs, logger }),
    openModules: (deps) => DirectoryModuleStore.open({ directory, ...deps, patienceMs, logger }),
    begin: () => {},
    close: async () => {},
  };
}

async function storageInBucket(
  { data: directory, s3, extraCa }: { data: string; s3: S3Config; extraCa: string | undefined },
  { partials, logger }: { partials: PartialFiles; logger: Logger },
): Promise<Storage> {
  const bucket = await Bucket.open({ ...s3, credentials: await credentialsOf(s3), extraCa }).catch((cause) => {
    throw new InvalidConfiguration('s3.bucket: the AWS SDK is not installed', {
      hint: 'install Larder with its optional dependencies',
      cause,
    });
  });
  const markers = new BucketMarkers({ bucket });
  const watch = new BucketWatch({ bucket, logger });
  const shared = { bucket, partials, sending: pLimit(CONCURRENT_PARTS), redirect: s3.redirect, logger };
  const kept = (keeping: Keeping | undefined) => keeping ?? freeKeeping({ directory, markers, logger });
  return {
    markers,
    pins: new BucketPins({ bucket }),
    quarantine: new BucketQuarantine({ bucket }),
    openArchives: async ({ hasher, keeping }) => new BucketArchiveStore({ ...shared, hasher, keeping: kept(keeping) }),
    openModules: async ({ keeping }) => new BucketModuleStore({ ...shared, keeping: kept(keeping) }),
    begin: () => watch.begin(),
    close: async () => {
      bucket.close();
      await watch.settled();
    },
  };
}

/** A file with a secret is read again now and then; one that is no good is told at the start. */
async function credentialsOf({ credentials }: S3Config) {
  if (!credentials) return undefined;
  const { accessKeyId, secret } = credentials;
  const read = secretSource(secret, 's3.secretAccessKeyFile');
  await read();
  return async () => ({ accessKeyId, secretAccessKey: await read() });
}
