import { createHash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { open as openFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Readable } from 'node:stream';
import { parseSha256, type Sha256 } from '../address/hash.ts';
import type { ModuleRelease } from '../address/module.ts';
import { hasCode } from '../errors.ts';
import { KeyedTurns } from '../keyed-turns.ts';
import type { Logger } from '../logger.ts';
import type { MadePackage, ModuleStore, PackageRecord, StoredPackage } from '../store/module-store.ts';
import { ofStorage } from '../store/storage-errors.ts';
import type { PackageLimits } from '../upstream/module-package/package-limits.ts';
import { repack } from '../upstream/module-package/repack.ts';
import { type Intake, refused } from './carried.ts';
import type { DriftReports } from './drift.ts';
import { isSame } from './module-sources.ts';

/** What whoever brings a package says of it. */
export interface PackageClaims extends Pick<PackageRecord, 'subdir' | 'source' | 'fingerprint'> {
  readonly sha256?: Sha256 | undefined;
  readonly isTrusted?: boolean | undefined;
}

/**
 * Takes in module packages that somebody brings. Each is unpacked and packed again under the rules for what upstream has,
 * so that nothing rests here that could not have been made here; a package that a Larder made comes out as it was.
 */
export class PackageIntake {
  readonly #store: ModuleStore;
  readonly #drift: DriftReports;
  readonly #limits: PackageLimits;
  readonly #logger: Logger;
  /** By release: what several bring at once is judged and kept one by one. Nobody waits for another's bytes. */
  readonly #turns = new KeyedTurns();

  constructor(deps: { store: ModuleStore; drift: DriftReports; limits: PackageLimits; logger: Logger }) {
    this.#store = deps.store;
    this.#drift = deps.drift;
    this.#limits = deps.limits;
    this.#logger = deps.logger;
  }

  /** What was first remembered of a release stays. @throws StorageFailed, and what the body fails with */
  async take(
    release: ModuleRelease,
    open: () => Promise<Readable> | Readable,
    claims: PackageClaims,
  ): Promise<Intake<StoredPackage>> {
    const stored = await this.#store.find(release);
    const isKnown = stored && (claims.sha256 === undefined || stored.sha256 === claims.sha256);
    if (isKnown && stored.subdir === claims.subdir) return { outcome: 'present', stored };
    if (claims.sha256 === undefined && !claims.isTrusted) {
      return refused('unverifiable', `nothing says what the package of ${release} should be: no SHA-256 came with it`);
    }
    const work = await this.#store.workDirectory();
    try {
      const file = join(work.path, 'brought');
      const body = await open();
      const sha256 = await this.#save(body, file);
      if (sha256 === 'too large') {
        return refused('too large', `the package of ${release} is longer than ${this.#limits.download} bytes`);
      }
      if (claims.sha256 !== undefined && sha256 !== claims.sha256) {
        return refused(
          'digest',
          `the package of ${release} is not what it should be: its SHA-256 should be ${claims.sha256} and is ${sha256}`,
        );
      }
      return await this.#takeFile(release, file, work.path, claims);
    } finally {
      await work.remove();
    }
  }

  async #takeFile(
    release: ModuleRelease,
    file: string,
    directory: string,
    { subdir, source, fingerprint }: PackageClaims,
  ): Promise<Intake<StoredPackage>> {
    const signal = AbortSignal.timeout(this.#limits.time);
    const name = `the package of ${release}`;
    let packed: Awaited<ReturnType<typeof repack>>;
    try {
      packed = await repack(createReadStream(file), { subdir, directory, limits: this.#limits, name, signal });
    } catch (error) {
      if (hasCode(error, 'UPSTREAM_INVALID')) return refused('invalid', error.message);
      if (hasCode(error, 'UPSTREAM_UNREACHABLE')) return refused('too large', error.message);
      throw error;
    }
    const made = { ...packed, source, fingerprint, brought: true };
    return this.#turns.take(release.toString(), () => this.#keep(release, made));
  }

  async #keep(release: ModuleRelease, made: MadePackage): Promise<Intake<StoredPackage>> {
    const first = await this.#store.recall(release);
    if (first && !isSame(first, made)) {
      this.#drift.report(release, first.sha256, made.sha256);
      return refused(
        'drift',
        `${release} is known here as something else: the SHA-256 of its package was ${first.sha256} when first seen and ` +
          `is ${made.sha256} (an operator who knows why can accept it: larder purge ${release.module} ${release.version})`,
      );
    }
    const stored = await this.#store.find(release);
    if (stored) return { outcome: 'present', stored };
    let put: StoredPackage;
    try {
      put = await this.#store.put(release, made);
    } catch (error) {
      // Another replica has put something else there meanwhile.
      if (hasCode(error, 'INTEGRITY_MISMATCH')) return this.#keep(release, made);
      throw error;
    }
    this.#logger.info('took in a module package that was brought', { module: `${release}`, sha256: made.sha256 });
    return { outcome: 'imported', stored: put };
  }

  async #save(body: Readable, file: string): Promise<Sha256 | 'too large'> {
    body.on('error', () => {});
    const digest = createHash('sha256');
    const handle = await ofStorage('storing a package', openFile(file, 'wx'));
    let size = 0;
    try {
      for await (const chunk of body as AsyncIterable<Uint8Array>) {
        size += chunk.length;
        if (size > this.#limits.download) return 'too large';
        digest.update(chunk);
        await ofStorage('storing a package', handle.writeFile(chunk));
      }
      return parseSha256(digest.digest('hex'));
    } finally {
      body.destroy();
      await handle.close();
    }
  }
}
