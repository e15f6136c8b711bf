import type { Hostname } from '../address/hostname.ts';
import type { MirroredAddress } from '../address/mirrored-address.ts';
import type { Diagnostic } from '../configuration/requirements.ts';
import type { PlannedItem, Wish } from './wanted.ts';

/** Whether somebody may have something warmed. */
export type MayWarm = (address: MirroredAddress) => boolean;

/** What a wish comes down to, and what there was to say about it. */
export interface PlannedWish {
  readonly items: readonly PlannedItem[];
  readonly diagnostics: readonly Diagnostic[];
  /** The registry that was meant where none is named. */
  readonly impliedHostname?: Hostname | undefined;
  /** Names of what had to be fetched to find that out. */
  readonly broughtIn: ReadonlySet<string>;
}

/** How a wish is planned. */
export interface PlanOptions {
  readonly signal: AbortSignal;
  /** Told of each item as it is found, but of none once `signal` is aborted. */
  readonly onPlanned: (item: PlannedItem) => void;
}

/** May reject with the reason of its signal, and for nothing that is in the wish. */
export type PlanWish = (wish: Wish, mayWarm: MayWarm, options: PlanOptions) => Promise<PlannedWish>;
