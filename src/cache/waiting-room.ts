import type { Sha256 } from '../address/hash.ts';
import type { ArchiveStore, StoredArchive } from '../store/archive-store.ts';
import { Arrival, type ArrivingBytes } from './arrival.ts';
import type { ReadableArchive } from './readable-archive.ts';
import { storedReadable } from './stored-readable.ts';

/** Where those are who want an archive that is not stored: they wait for it, or read it already while it arrives. */
export class WaitingRoom {
  readonly #store: ArchiveStore;
  readonly #ended = promised<void>();
  #readable = promised<ReadableArchive>();
  #arrival: Arrival | undefined;

  constructor(deps: { store: ArchiveStore }) {
    this.#store = deps.store;
  }

  /** Resolves once bytes begin to come; rejects when it cannot be had. */
  get readable(): Promise<ReadableArchive> {
    return this.#readable.promise;
  }

  /** What has begun to arrive. */
  get arrival(): Arrival | undefined {
    return this.#arrival;
  }

  /** From now on it can be read, as far as it has come. */
  begin(bytes: ArrivingBytes, about: { sha256: Sha256; size: number | undefined }): Arrival {
    this.#arrival = new Arrival({ store: this.#store, bytes, ...about, ended: this.#ended.promise });
    this.#readable.resolve(this.#arrival);
    return this.#arrival;
  }

  /** Those who read have bytes that may be wrong, and get the error; those who come now get the new ones. */
  startOver(error: Error): void {
    const failed = this.#arrival;
    if (!failed) return;
    this.#arrival = undefined;
    this.#readable = promised();
    failed.fail(error);
  }

  /** It is in the store. */
  complete(stored: StoredArchive): void {
    this.#arrival?.complete(stored);
    this.#readable.resolve(storedReadable(this.#store, stored));
    this.#ended.resolve();
  }

  /** It cannot be had. Everybody who waits or reads gets the error. */
  fail(error: Error): void {
    this.#arrival?.fail(error);
    this.#readable.reject(error);
    this.#ended.reject(error);
  }
}

function promised<T>() {
  let resolve: (value: T) => void = () => {};
  let reject: (error: Error) => void = () => {};
  const promise = new Promise<T>((onResolve, onReject) => {
    resolve = onResolve;
    reject = onReject;
  });
  // Nobody may be waiting: a download goes on when all have hung up.
  promise.catch(() => {});
  return { promise, resolve, reject };
}
