import type { Closers } from './closers.ts';
import { Assets } from './http/ui/assets.ts';
import { Refusals } from './http/ui/refusals.ts';
import { Sessions } from './http/ui/sessions.ts';
import type { DashboardDeps } from './http/ui.ts';
import type { Logger } from './logger.ts';
import { SignatureStates } from './mirror/signature-states.ts';
import { StoredIndex } from './mirror/stored-index.ts';
import type { TrafficHistory } from './mirror/traffic-history.ts';
import type { UpstreamHealth } from './mirror/upstream-health.ts';
import type { ArchiveStore } from './store/archive-store.ts';
import type { MetadataStore } from './store/metadata-store.ts';
import type { ModuleStore } from './store/module-store.ts';

/** Puts together what the dashboard shows besides what operators work with anyhow. @throws when its files are missing */
export async function assembleDashboard(deps: {
  archives: ArchiveStore;
  packages: ModuleStore;
  metadataStore: MetadataStore;
  traffic: TrafficHistory;
  upstreamHealth: UpstreamHealth;
  disk: NonNullable<DashboardDeps['disk']>;
  opened: Closers;
  logger: Logger;
}): Promise<DashboardDeps> {
  const { archives, packages, metadataStore: store, traffic, upstreamHealth, disk, opened, logger } = deps;
  const index = new StoredIndex({ archives, packages, logger });
  opened.add('index of what is stored', () => index.close());
  return {
    assets: await Assets.load(),
    sessions: new Sessions({ store, logger }),
    index,
    signatures: new SignatureStates({ store: archives }),
    refusals: new Refusals(),
    traffic,
    upstreamHealth,
    disk,
  };
}
