import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { ProviderArchive } from '../../src/address/archive.ts';
import { Changes } from '../../src/changes.ts';
import type { Logger } from '../../src/logger.ts';
import { DiskUse } from '../../src/mirror/disk-use.ts';
import { Pins } from '../../src/mirror/pins.ts';
import { Quota } from '../../src/mirror/quota.ts';
import type { StoredArchive } from '../../src/store/archive-store.ts';
import { DirectoryArchiveStore } from '../../src/store/directory-archive-store.ts';
import { DirectoryModuleStore } from '../../src/store/directory-module-store.ts';
import { Holds } from '../../src/store/holds.ts';
import { LastUses } from '../../src/store/last-uses.ts';
import { PackageHasher } from '../../src/store/package-hash.ts';
import { PartialFiles } from '../../src/store/partial-files.ts';
import { PinFile } from '../../src/store/pin-file.ts';
import { archiveOf, sha256Hex } from '../contract/archive-store.ts';
import { afterTest } from '../support/after-test.ts';
import { type LogEntry, recordingLogger } from '../support/larder.ts';

/** Stores with a quota over them, in a directory that may be shared with another house. */
export interface House {
  readonly directory: string;
  readonly store: DirectoryArchiveStore;
  readonly modules: DirectoryModuleStore;
  readonly quota: Quota;
  readonly pins: Pins;
  readonly uses: LastUses;
  readonly use: DiskUse;
  readonly log: readonly LogEntry[];
  /** Stores an archive as a download does, with the checksums of its version before. */
  bring(archive: ProviderArchive, size?: number): Promise<StoredArchive>;
  close(): Promise<void>;
}

export const SIZE = 1_000;

export function version(index: number): ProviderArchive {
  return archiveOf(`terraform-provider-widget_1.0.${index}_linux_amd64.zip`);
}

export async function temporaryDirectory(): Promise<string> {
  const directory = await mkdtemp(join(tmpdir(), 'larder-house-'));
  afterTest(() => rm(directory, { recursive: true, force: true }));
  return directory;
}

/** Closed at the end of the test. */
export async function openHouse(
  options: {
    limit?: number;
    directory?: string;
    isSealed?: () => boolean;
    now?: () => number;
    logger?: Logger;
    /** Has no checksums kept, as somebody who copies archives in. */
    keepsChecksums?: boolean;
  } = {},
): Promise<House> {
  const { limit, isSealed = () => false, now = Date.now, keepsChecksums = true } = options;
  const directory = options.directory ?? (await temporaryDirectory());
  const log: LogEntry[] = [];
  const logger = options.logger ?? recordingLogger(log);
  const partials = await PartialFiles.open(join(directory, 'partial'), logger);
  const uses = new LastUses({ directory, logger, now });
  const holds = new Holds();
  const pins = new Pins({ file: new PinFile({ directory, partials }) });
  const use = new DiskUse({ directory, uses, now });
  const quota = new Quota({ limit, use, holds, uses, pins, isSealed, logger });
  const keeping = { room: quota, uses, holds, changes: new Changes() };
  const hasher = new PackageHasher();
  const store = await DirectoryArchiveStore.open({ directory, hasher, keeping, logger });
  const modules = await DirectoryModuleStore.open({ directory, keeping, logger });
  quota.begin({ archives: store, packages: modules });
  const close = async () => {
    await quota.close();
    await store.close();
    await hasher.close();
    await uses.close();
  };
  afterTest(close);
  return {
    directory,
    store,
    modules,
    quota,
    pins,
    uses,
    use,
    log,
    bring: async (archive, size = SIZE) => {
      const bytes = Buffer.alloc(size, archive.filename);
      const shasums = Buffer.from(`${sha256Hex(bytes)}  ${archive.filename}\n`);
      if (keepsChecksums) {
        await store.putRelease(archive.provider, archive.version, { shasums, signature: undefined });
      }
      const incoming = await store.receive(archive);
      try {
        await incoming.expect(size);
        await incoming.write(bytes);
        return await incoming.commit(sha256Hex(bytes));
      } catch (error) {
        await incoming.abort();
        throw error;
      }
    },
    close,
  };
}
