import type { Audit } from './audit.ts';
import type { Config } from './config.ts';
import { Forbidden } from './errors.ts';
import type { Authenticator } from './http/authenticate.ts';
import type { Logger } from './logger.ts';
import type { Metrics } from './metrics.ts';
import type { JobHead } from './mirror/job.ts';
import type { ModuleMirror } from './mirror/module-mirror.ts';
import type { Opening } from './mirror/opening.ts';
import type { MayWarm } from './mirror/planned-wish.ts';
import type { ProviderMirror } from './mirror/provider-mirror.ts';
import type { ProviderReleases } from './mirror/provider-releases.ts';
import type { TooNewVersions } from './mirror/too-new.ts';
import type { WantedItem } from './mirror/wanted.ts';
import { Warm } from './mirror/warm.ts';
import { WarmJobs } from './mirror/warm-jobs.ts';
import { WarmPlanner } from './mirror/warm-planner.ts';
import { WarmSchedules } from './mirror/warm-schedules.ts';
import { clientOf, type WishReader } from './mirror/wish-reader.ts';
import type { MetadataStore } from './store/metadata-store.ts';

/** Everything that brings things in before somebody asks for them. */
export interface Warming {
  readonly jobs: WarmJobs;
  /** Goes on with jobs that were left behind, and begins what is scheduled. */
  start(): void;
  /** Leaves jobs where they are. Whoever watches one is let go. */
  close(): Promise<void>;
}

/** Puts the parts together that warm. */
export function assembleWarming(
  { warm, limits, upstreams }: Config,
  deps: {
    mirror: ProviderMirror;
    releases: ProviderReleases;
    modules: ModuleMirror;
    reader: WishReader;
    tooNew: TooNewVersions;
    isStored: (wanted: WantedItem) => Promise<boolean>;
    opening: Opening;
    authenticator: Authenticator;
    metadataStore: MetadataStore;
    metrics: Metrics;
    audit: Audit | undefined;
    logger: Logger;
  },
): Warming {
  const {
    mirror,
    releases,
    modules,
    reader,
    tooNew,
    isStored,
    opening,
    authenticator,
    metadataStore: store,
    metrics,
    audit,
    logger,
  } = deps;
  const planner = new WarmPlanner({ reader, providers: mirror, modules, tooNew, logger });
  const jobs = new WarmJobs({
    store,
    warm: new Warm({ providers: mirror, releases, modules, logger }),
    isStored,
    plan: (wish, mayWarm, options) => planner.plan(wish, mayWarm, options),
    opening,
    mayWarm: (by) => permissionOf(by, authenticator),
    // Clients find a turn, whatever is warmed.
    concurrency: Math.max(1, Math.min(warm.concurrency, limits.downloads - 1)),
    onOutcome: (outcome) => metrics.warm.settled(outcome),
    onEnd: (head) => {
      const summary = summaryOf(head);
      metrics.warm.ended(head.state);
      logger.info('a job has ended', summary);
      audit?.record('warm-ended', summary);
    },
    logger,
  });
  const schedules = new WarmSchedules({
    schedules: warm.schedules,
    jobs,
    store,
    client: clientOf(upstreams.default),
    logger,
  });
  return {
    jobs,
    start: () => {
      jobs.start();
      schedules.start();
    },
    close: async () => {
      await schedules.close();
      await jobs.close();
    },
  };
}

/** What is scheduled was configured by whoever may have everything. @throws Forbidden */
async function permissionOf(by: string, authenticator: Authenticator): Promise<MayWarm> {
  if (by.startsWith('schedule:')) return () => true;
  const client = await authenticator.clientOf(by);
  if (client?.roles.includes('admin')) return client.mayAdminister.bind(client);
  throw new Forbidden("the token that this was asked for with is not an operator's any more");
}

function summaryOf({ id, by, state, reason, totals, bytes }: JobHead): Record<string, unknown> {
  return { job: id, by, state, reason, ...totals, bytes };
}
