/** What the holder of a lease told everybody. */
export interface LeaseNote {
  /** Of the lease that is held. */
  readonly token: number;
  /** What was last noted under it, if anything. */
  readonly text: string | undefined;
}

/** Something that one replica does for all of them, until `release`. */
export interface Lease {
  /**
   * Greater than that of whoever held it before. It changes when a lease was forgotten and had to be taken again. 0 as
   * long as nobody could be asked.
   */
  readonly token: number;
  /** Tells everybody who looks; what was told before is replaced. Never rejects: it is told again with each renewal. */
  note(text: string): Promise<void>;
  /** Others may have it now. Never rejects: what cannot be given back expires. Further calls do nothing. */
  release(): Promise<void>;
}

/** Somebody else does it. */
export interface HeldElsewhere {
  readonly heldBy: LeaseNote;
}

/**
 * Port: who of several replicas does what needs to be done once. At most one holds a lease on a key; whoever dies over
 * it holds it for another few seconds, and is then succeeded.
 *
 * It spares work, and protects nothing: replicas that cannot talk to each other each get a lease, and so may somebody
 * whose predecessor still believes to have it. What they do must be harmless when it is done twice.
 */
export interface Leases {
  /** Never rejects, and takes a moment at most. The token of a lease that nobody could be asked about is 0. */
  acquire(key: string): Promise<Lease | HeldElsewhere>;
  /** What its holder last told; `undefined` when nobody has it. @throws StorageFailed when replicas cannot talk to each other */
  look(key: string): Promise<LeaseNote | undefined>;
  /** Leases that were given without anybody having been asked, since the start. */
  readonly unshared: number;
  /** Gives back what is still held. */
  close(): Promise<void>;
}

/** A holder that dies is succeeded after so long, in milliseconds. */
export const LEASE_TTL_MS = 10_000;

export function isLease(acquired: Lease | HeldElsewhere): acquired is Lease {
  return !('heldBy' in acquired);
}
