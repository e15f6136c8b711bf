import { ProviderArchive } from '../../src/address/archive.ts';
import { Platform } from '../../src/address/platform.ts';
import { ProviderAddress } from '../../src/address/provider.ts';
import { Version } from '../../src/address/version.ts';
import type { Diagnostic } from '../../src/configuration/requirements.ts';
import { type Logger, silentLogger } from '../../src/logger.ts';
import type { JobHead } from '../../src/mirror/job.ts';
import type { JobEvent } from '../../src/mirror/job-watch.ts';
import type { Looks } from '../../src/mirror/left-jobs.ts';
import type { Opening } from '../../src/mirror/opening.ts';
import type { PlanOptions } from '../../src/mirror/planned-wish.ts';
import type { PlannedItem, WantedItem, Wish } from '../../src/mirror/wanted.ts';
import type { Outcome, Warmed } from '../../src/mirror/warm.ts';
import { WarmJobs } from '../../src/mirror/warm-jobs.ts';
import type { MetadataEntry, MetadataStore } from '../../src/store/metadata-store.ts';
import { afterTest } from '../support/after-test.ts';
import { eventually } from './scene.ts';

export const WISH: Wish = { files: [{ path: 'list.txt', text: 'acme/widget' }], platforms: [], client: 'opentofu' };
export const BY = 'token:ops';

/** Entries as JSON, as every store keeps them. */
export class MemoryStore implements MetadataStore {
  readonly entries = new Map<string, string>();
  isFailing = false;
  /** Keys that cannot be written. */
  refused = /^$/;
  writes = 0;

  async get(key: string): Promise<MetadataEntry | undefined> {
    this.#answer();
    const text = this.entries.get(key);
    return text === undefined ? undefined : (JSON.parse(text) as MetadataEntry);
  }

  async put(key: string, entry: MetadataEntry): Promise<void> {
    this.#answer();
    if (this.refused.test(key)) throw new Error(`the store does not take ${key}`);
    this.writes += 1;
    this.entries.set(key, JSON.stringify(entry));
  }

  async delete(key: string): Promise<void> {
    this.#answer();
    this.entries.delete(key);
  }

  async check(): Promise<void> {}
  async close(): Promise<void> {}

  #answer(): void {
    if (this.isFailing) throw new Error('the store does not answer');
  }
}

export function numbered(count: number): PlannedItem[] {
  const provider = ProviderAddress.parse('registry.example.com/acme/widget');
  return Array.from({ length: count }, (_, index) => {
    const archive = new ProviderArchive(provider, Version.parse(`1.0.${index}`), Platform.parse('linux_amd64'));
    return { wanted: { kind: 'archive', archive } };
  });
}

/** A replica whose upstream does as it is told. */
export function replica(
  store: MetadataStore,
  options: {
    items?: readonly PlannedItem[];
    bring?: (version: string) => Promise<Warmed>;
    plan?: (options: PlanOptions) => Promise<readonly PlannedItem[]>;
    diagnostics?: readonly Diagnostic[];
    onEnd?: (head: JobHead) => void | Promise<void>;
    onOutcome?: (outcome: Outcome) => void;
    isStored?: (version: string) => boolean;
    opening?: Opening;
    looks?: Partial<Looks>;
    logger?: Logger;
  } = {},
) {
  const brought: string[] = [];
  let under = 0;
  let most = 0;
  const jobs = new WarmJobs({
    isStored: async (wanted) =>
      options.isStored?.(String((wanted.kind === 'archive' ? wanted.archive : wanted.release).version)) ?? true,
    store,
    warm: {
      bring: async (wanted: WantedItem) => {
        const { version } = wanted.kind === 'archive' ? wanted.archive : wanted.release;
        brought.push(version.toString());
        under += 1;
        most = Math.max(most, under);
        try {
          return (await options.bring?.(version.toString())) ?? { outcome: 'stored', bytes: 10 };
        } finally {
          under -= 1;
        }
      },
    },
    plan: async (_wish, _mayWarm, how) => ({
      items: (await options.plan?.(how)) ?? options.items ?? numbered(3),
      diagnostics: options.diagnostics ?? [],
      broughtIn: new Set(),
    }),
    mayWarm: async () => () => true,
    concurrency: 4,
    secondTryMs: 1,
    ...(options.onEnd && { onEnd: options.onEnd }),
    ...(options.onOutcome && { onOutcome: options.onOutcome }),
    ...(options.opening && { opening: options.opening }),
    ...(options.looks && { looks: options.looks }),
    logger: options.logger ?? silentLogger,
  });
  afterTest(() => jobs.close());
  return { jobs, brought, most: () => most };
}

export async function ended(jobs: WarmJobs, id: string) {
  await eventually(async () => (await jobs.get(id)).head.state).not.toBe('running');
  return jobs.get(id);
}

export async function heard(events: AsyncGenerator<JobEvent>): Promise<JobEvent[]> {
  const all: JobEvent[] = [];
  for await (const event of events) all.push(event);
  return all;
}

/** Work that waits to be let go. */
export function held() {
  let letGo = () => {};
  const gone = new Promise<void>((resolve) => {
    letGo = resolve;
  });
  return {
    letGo: () => letGo(),
    bring: async (): Promise<Warmed> => gone.then(() => ({ outcome: 'stored', bytes: 1 })),
  };
}
