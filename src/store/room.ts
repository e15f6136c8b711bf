import { ProviderArchive } from '../address/archive.ts';
import type { ModuleRelease } from '../address/module.ts';
import { paths } from './keys.ts';

/** What takes up room: an archive or a module package. */
export type Subject = ProviderArchive | ModuleRelease;

/** Where it lies in the data directory. */
export function pathOf(subject: Subject): string {
  return subject instanceof ProviderArchive ? paths.archive(subject) : paths.modulePackage(subject);
}

/** Room that is set aside for something that is arriving. */
export interface Reservation {
  /** So much is set aside. */
  readonly bytes: number;
  /**
   * Sets aside more, until it is `least` in all, and up to `most` where that is free. What is set aside already is not
   * in its way. @throws StorageFailed, `full`, when there cannot be enough; what is set aside stays so
   */
  grow(least: number, most?: number): Promise<void>;
  /** It is stored by now, or will not be. Further calls do nothing. */
  release(): void;
}

/** Port: what a store asks for room, and tells of what takes it up. */
export interface Room {
  /**
   * Sets room aside for `least` bytes, making it when there is none, and for up to `most` where that is free.
   * @throws StorageFailed, `full`, when there cannot be enough
   */
  reserve(least: number, most?: number): Promise<Reservation>;
  /** Something is stored now. It may have been before, with another size. */
  came(subject: Subject, bytes: number): void;
  /** Something is not stored any more. */
  went(subject: Subject): void;
}

/** As much as the disk has. */
export const unlimitedRoom: Room = {
  reserve: async () => ({ bytes: Number.POSITIVE_INFINITY, grow: async () => {}, release: () => {} }),
  came: () => {},
  went: () => {},
};
