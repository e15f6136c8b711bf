import path from 'node:path';
import { MetadataCache } from './cache/metadata-cache.ts';
import type { Changes } from './changes.ts';
import type { Closers } from './closers.ts';
import type { Config } from './config.ts';
import type { Logger } from './logger.ts';
import { DriftReports } from './mirror/drift.ts';
import { Forgettings } from './mirror/forgettings.ts';
import { Seal } from './mirror/seal.ts';
import { redisSettings } from './redis.ts';
import { openEmbeddedMetadata } from './store/embedded-keyv.ts';
import { paths } from './store/keys.ts';
import type { Leases } from './store/leases.ts';
import { LocalLeases } from './store/local-leases.ts';
import type { MetadataVerdict } from './store/metadata-examination.ts';
import type { MetadataStore } from './store/metadata-store.ts';
import { PartialFiles } from './store/partial-files.ts';
import { SealFile } from './store/seal-file.ts';
import type { WorkerLine, WorkerPlace } from './workers/worker-line.ts';

/** What workers tell each other when it was decided whether anything may leave. */
const SEALING = 'sealing';
/** What they tell each other when an operator had something forgotten, and when one has decided about drift. */
const FORGETTING = 'forgetting';
const SETTLING = 'settling';

/** What all processes of one Larder have in common, wherever it rests. */
export interface Shared {
  readonly metadataStore: MetadataStore;
  readonly leases: Leases;
  readonly seal: Seal;
  readonly cache: MetadataCache;
  readonly drift: DriftReports;
}

/**
 * Opens it: in Redis, between the workers of one machine, or for this process alone.
 * @param deps.measured the store, with its operations counted
 * @param deps.examined what is known of the metadata file already
 * @throws InvalidConfiguration, StorageFailed
 */
export async function openShared(
  config: Config,
  deps: {
    measured: (store: MetadataStore) => MetadataStore;
    examined?: Promise<MetadataVerdict> | undefined;
    changes: Changes;
    worker: { readonly line: WorkerLine; readonly place: WorkerPlace } | undefined;
    opened: Closers;
    logger: Logger;
  },
): Promise<Shared> {
  const { worker, changes, opened, logger } = deps;
  const telling = (topic: string) =>
    worker && (async (about?: string) => void (await worker.line.askOthers(topic, about)));
  const redis = await redisSettings(config);
  const metadataStore = deps.measured(
    redis
      ? // Its client is a good part of all that is loaded at a start.
        await (await import('./store/redis-keyv.ts')).openRedisMetadata({ ...redis, logger })
      : await openEmbeddedMetadata(path.join(config.data, paths.metadata), {
          logger,
          isInUse: worker && !worker.place.isAlone,
          examined: deps.examined,
        }),
  );
  opened.add('metadata', () => metadataStore.close());
  const leases = redis
    ? await (await import('./store/redis-leases.ts')).RedisLeases.open({ ...redis, logger })
    : (worker?.line.leases ?? new LocalLeases());
  opened.add('leases', () => leases.close());
  const seal = await openSeal(config, {
    store: metadataStore,
    tellOthers: telling(SEALING),
    logger,
  });
  opened.add('seal', () => seal.close());
  const forgettings = redis && (await Forgettings.open({ store: metadataStore, logger }));
  const [tellWorkers, settleWorkers] = [telling(FORGETTING), telling(SETTLING)];
  const cache = new MetadataCache({
    store: metadataStore,
    changes,
    tellOthers: async (key) => {
      forgettings?.note({ key });
      await tellWorkers?.(key);
    },
    logger,
    deadlineMs: config.limits.metadataDeadline,
  });
  opened.add('cache', () => cache.close());
  const drift = new DriftReports({
    logger,
    tellOthers: (subject) => {
      forgettings?.note({ subject });
      void settleWorkers?.(subject);
    },
  });
  forgettings?.watch({
    forget: (key) => cache.forgetHere(key),
    settle: (subject) => drift.settleHere(subject),
    forgetAll: () => {
      cache.forgetHere();
      drift.settleHere();
    },
  });
  if (forgettings) opened.add('forgettings', () => forgettings.close());
  worker?.line.hear(SEALING, () => seal.look());
  worker?.line.hear(FORGETTING, (key) => cache.forgetHere(String(key)));
  worker?.line.hear(SETTLING, (subject) => drift.settleHere(String(subject)));
  return { metadataStore, leases, seal, cache, drift };
}

async function openSeal(
  { data: directory, sealed: configured }: Config,
  deps: { store: MetadataStore; tellOthers: (() => Promise<void>) | undefined; logger: Logger },
): Promise<Seal> {
  const partials = await PartialFiles.open(path.join(directory, paths.partial), deps.logger);
  return Seal.open({ configured, file: new SealFile({ directory, partials }), ...deps });
}
