import { stat } from 'node:fs/promises';
import path from 'node:path';
import { AuditLog } from '../audit.ts';
import { MetadataCache } from '../cache/metadata-cache.ts';
import { type Config, loadConfig } from '../config.ts';
import { NotFound } from '../errors.ts';
import type { LockDeps } from '../http/admin-lock.ts';
import { createLogger, type Logger, silentLogger } from '../logger.ts';
import { DriftReports } from '../mirror/drift.ts';
import { Forgettings } from '../mirror/forgettings.ts';
import { Inventory } from '../mirror/inventory.ts';
import { LockCompletion } from '../mirror/lock-completion.ts';
import { forgetModuleRelease, ModulePurge } from '../mirror/module-purge.ts';
import { Pins } from '../mirror/pins.ts';
import { forgetRelease } from '../mirror/provider-metadata.ts';
import { Purge } from '../mirror/purge.ts';
import { type Examined, examineAll } from '../mirror/scrub.ts';
import { redisSettings } from '../redis.ts';
import { openStorage, type Storage } from '../storage.ts';
import type { ArchiveStore } from '../store/archive-store.ts';
import { openEmbeddedMetadata } from '../store/embedded-keyv.ts';
import { paths } from '../store/keys.ts';
import type { ModuleStore } from '../store/module-store.ts';
import { PackageHasher } from '../store/package-hash.ts';
import { CommandFailed } from './command-failed.ts';

/**
 * What commands do without a server, on the data directory of a configuration; one may be running on it meanwhile.
 * Upstream is not asked, so nothing is known of what it contradicts.
 */
export class DataDirectory {
  readonly inventory: Inventory;
  readonly pins: Pins;
  readonly quarantine: Storage['quarantine'];
  readonly #config: Config;
  readonly #logger: Logger;
  readonly #hasher: PackageHasher;
  readonly #storage: Storage;
  readonly #store: ArchiveStore;
  readonly #modules: ModuleStore;
  readonly #drift: DriftReports;

  private constructor(deps: {
    config: Config;
    logger: Logger;
    hasher: PackageHasher;
    storage: Storage;
    store: ArchiveStore;
    modules: ModuleStore;
  }) {
    this.pins = new Pins({ file: deps.storage.pins });
    this.quarantine = deps.storage.quarantine;
    this.#storage = deps.storage;
    this.#config = deps.config;
    this.#logger = deps.logger;
    this.#hasher = deps.hasher;
    this.#store = deps.store;
    this.#modules = deps.modules;
    this.#drift = new DriftReports(deps);
    this.inventory = new Inventory({ ...deps, pins: this.pins, drift: this.#drift });
  }

  /**
   * @param options.create makes the directory where there is none
   * @throws InvalidConfiguration, StorageFailed; CommandFailed when there is no such directory
   */
  static async open(configFile: string | undefined, options: { create?: boolean } = {}): Promise<DataDirectory> {
    const config = await loadConfig({
      ...(configFile && { file: configFile }),
      env: process.env,
      cwd: process.cwd(),
    });
    // Opening it would make it, which is no help to those who meant another.
    const isElsewhere = options.create || config.s3 !== undefined;
    if (!isElsewhere && !(await stat(path.join(config.data, paths.providers)).catch(() => undefined))) {
      throw new CommandFailed(`there is nothing of Larder in ${config.data}`, {
        hint: 'name the directory with LARDER_DATA or data in the configuration (--config), or a running server with --server',
      });
    }
    const logger = createLogger({ ...config.log, level: config.log.level === 'debug' ? 'debug' : 'warn' });
    const hasher = new PackageHasher();
    const storage = await openStorage(config, { logger });
    const store = await storage.openArchives({ hasher });
    const modules = await storage.openModules({});
    return new DataDirectory({ config, logger, hasher, storage, store, modules });
  }

  /** What is stored itself, for carrying it out and in. */
  get carried(): {
    readonly config: Config;
    readonly archives: ArchiveStore;
    readonly modules: ModuleStore;
    readonly hasher: PackageHasher;
    readonly drift: DriftReports;
    readonly logger: Logger;
  } {
    return {
      config: this.#config,
      archives: this.#store,
      modules: this.#modules,
      hasher: this.#hasher,
      drift: this.#drift,
      logger: this.#logger,
    };
  }

  /** Also forgets what rests in Redis or the embedded metadata store. Close it before the directory. @throws StorageFailed */
  async openPurge(): Promise<{
    readonly purge: Purge;
    readonly modulePurge: ModulePurge;
    /** Running servers hear of it, through Redis. */
    readonly isHeard: boolean;
    close(): Promise<void>;
  }> {
    const { data, limits } = this.#config;
    const logger = this.#logger;
    const redis = await redisSettings(this.#config);
    const metadata = redis
      ? await (await import('../store/redis-keyv.ts')).openRedisMetadata({ ...redis, logger })
      : await openEmbeddedMetadata(path.join(data, paths.metadata), { logger });
    const forgettings = redis && (await Forgettings.open({ store: metadata, logger }));
    const cache = new MetadataCache({
      store: metadata,
      tellOthers: async (key) => forgettings?.note({ key }),
      logger,
      deadlineMs: limits.metadataDeadline,
    });
    return {
      isHeard: redis !== undefined,
      purge: new Purge({
        store: this.#store,
        drift: this.#drift,
        pins: this.pins,
        logger,
        metadata: { forget: (...of) => forgetRelease(cache, ...of) },
      }),
      modulePurge: new ModulePurge({
        store: this.#modules,
        drift: this.#drift,
        pins: this.pins,
        logger,
        metadata: { forget: (release) => forgetModuleRelease(cache, release) },
      }),
      close: async () => {
        await cache.close();
        await forgettings?.close();
        await metadata.close();
      },
    };
  }

  /** Reads every archive and every module package; what is damaged is put into quarantine. @throws StorageFailed */
  verify(): AsyncGenerator<Examined> {
    return examineAll({
      archives: this.#store,
      packages: this.#modules,
      quarantine: this.quarantine,
      logger: silentLogger,
    });
  }

  /** Completes lock files with nothing but what is stored. */
  get lock(): LockDeps {
    const { upstreams, warm } = this.#config;
    const store = this.#store;
    const completion = new LockCompletion({
      releases: {
        checksums: async (provider, version) => {
          const files = await store.getRelease(provider, version);
          if (files) return { files };
          throw new NotFound(`nothing is stored of ${provider} ${version}`, {
            hint: 'with --server, a running server can ask upstream',
          });
        },
      },
      store,
      hashes: {
        known: async () => undefined,
        knownUnpacked: async () => undefined,
        unpacked: async (stored) => (await store.computePackageHash(stored))?.unpacked,
      },
      defaultHostname: upstreams.default,
    });
    return { completion, platforms: warm.platforms };
  }

  /** Where it is written down what was done, if anywhere. The caller closes it. */
  openAudit(): AuditLog | undefined {
    const { audit } = this.#config.log;
    return audit === undefined ? undefined : new AuditLog({ file: audit, logger: this.#logger });
  }

  async close(): Promise<void> {
    await this.#store.close();
    await this.#modules.close();
    await this.#storage.close();
    await this.#hasher.close();
  }
}
