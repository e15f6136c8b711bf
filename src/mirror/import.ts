import { createHash } from 'node:crypto';
import type { ProviderArchive } from '../address/archive.ts';
import { type Hash, parseSha256, type Sha256, sha256Of, zipHash } from '../address/hash.ts';
import type { ModuleRelease } from '../address/module.ts';
import type { ProviderAddress } from '../address/provider.ts';
import type { Version } from '../address/version.ts';
import { hasCode } from '../errors.ts';
import type { ReleaseFiles } from '../store/archive-store.ts';
import type { PackageRecord } from '../store/module-store.ts';
import type { PackageHasher } from '../store/package-hash.ts';
import { ofStorage } from '../store/storage-errors.ts';
import { listedDigest } from './archive-intake.ts';
import {
  type BroughtDirectory,
  type FoundArchive,
  type FoundPackage,
  type FoundVersion,
  openRegular,
} from './brought-directory.ts';
import { type Intake, type RefusalReason, refused } from './carried.ts';
import { MANIFEST_FILE, releaseDigest, releaseName } from './export-manifest.ts';
import type { CheckedRelease, ReleaseIntake } from './release-intake.ts';

/** An archive that was found to be what its mirror says. */
export interface BroughtArchive {
  readonly archive: ProviderArchive;
  readonly file: string;
  /** Bytes. */
  readonly size: number;
  readonly sha256: Sha256;
  /** Where it had to be computed. */
  readonly h1: Hash | undefined;
}

/** A package that was found to be what its record says. */
export interface BroughtPackage extends PackageRecord {
  readonly release: ModuleRelease;
  readonly file: string;
}

/** What became of something at its target: `failed` when it did not get there, and nothing is said of it itself. */
export type Handed = Intake<unknown> | { readonly outcome: 'failed'; readonly reason: string };

/** Port: where things are brought to. What is thrown ends all that is brought. */
export interface ImportTarget {
  takeArchive(brought: BroughtArchive): Promise<Handed>;
  takeRelease(provider: ProviderAddress, version: Version, checked: CheckedRelease): Promise<Handed>;
  takePackage(brought: BroughtPackage): Promise<Handed>;
}

export type ImportOutcome = 'imported' | 'present' | 'would be imported' | 'refused' | 'failed';

/** What became of one archive, package, or SHA256SUMS of a version. */
export type Imported = {
  readonly outcome: ImportOutcome;
  readonly why?: RefusalReason;
  readonly reason?: string;
} & (
  | { readonly archive: ProviderArchive }
  | { readonly package: ModuleRelease }
  | { readonly checksums: { readonly provider: ProviderAddress; readonly version: Version } }
);

type Outcome = Pick<Imported, 'outcome' | 'why' | 'reason'>;

/**
 * Takes in a directory that somebody brings. Every file is compared with all that is said of it there (SHA256SUMS and its
 * signature, VERSION.json, the record of a package) before the target sees it, and the target compares it with what it
 * knows. What is refused, or does not get there, keeps nothing else from being taken.
 */
export class Import {
  readonly #source: BroughtDirectory;
  readonly #target: ImportTarget;
  readonly #releases: Pick<ReleaseIntake, 'check'>;
  readonly #hasher: Pick<PackageHasher, 'hash'>;
  readonly #isTrusting: boolean;
  readonly #dryRun: boolean;
  readonly #vouchedFor: ReadonlyMap<string, Sha256> | undefined;

  constructor(deps: {
    source: BroughtDirectory;
    target: ImportTarget;
    releases: Pick<ReleaseIntake, 'check'>;
    hasher: Pick<PackageHasher, 'hash'>;
    /** Takes what nothing is said of, too. */
    isTrusting: boolean;
    /** Compares all the same, but takes nothing. */
    dryRun: boolean;
    /** By identity; where it is given, nothing else is taken. */
    vouchedFor?: ReadonlyMap<string, Sha256> | undefined;
  }) {
    this.#source = deps.source;
    this.#target = deps.target;
    this.#releases = deps.releases;
    this.#hasher = deps.hasher;
    this.#isTrusting = deps.isTrusting;
    this.#dryRun = deps.dryRun;
    this.#vouchedFor = deps.vouchedFor;
  }

  /** @throws StorageFailed when the target cannot be written, or a directory not be read */
  async *run(): AsyncGenerator<Imported> {
    for await (const found of this.#source.versions()) yield* this.#version(found);
    for await (const found of this.#source.packages()) {
      yield { package: found.release, ...(await this.#package(found)) };
    }
  }

  async *#version({ provider, version, archives, release: found }: FoundVersion): AsyncGenerator<Imported> {
    const checksums = { provider, version };
    const objection = found && this.#objection(releaseName(provider, version), releaseDigest(found));
    if (objection) yield { checksums, ...objection };
    const release = objection ? undefined : found;
    const checked = release && (await this.#releases.check(provider, release));
    if (checked?.outcome === 'refused') {
      const { why, reason } = checked;
      yield { checksums, outcome: 'refused', why, reason };
      // What was signed by nobody, or by somebody else, is not looked at.
      for (const { archive } of archives) yield { archive, outcome: 'refused', why, reason: `SHA256SUMS: ${reason}` };
      return;
    }
    let taken = 0;
    for (const found of archives) {
      const outcome = await this.#archive(found, checked?.stored.files);
      if (outcome.outcome !== 'refused' && outcome.outcome !== 'failed') taken += 1;
      yield { archive: found.archive, ...outcome };
    }
    // A list of which no archive was any good says more of whoever made it than of the release.
    if (!checked || taken === 0) return;
    const outcome = await this.#hand(() => this.#target.takeRelease(provider, version, checked.stored));
    yield { checksums, ...outcome };
  }

  async #archive(found: FoundArchive, release: ReleaseFiles | undefined): Promise<Outcome> {
    const { archive, file } = found;
    const brought = await this.#compare(found, release);
    if ('outcome' in brought) return brought;
    return this.#hand(() => this.#target.takeArchive({ archive, file, ...brought }));
  }

  /** Everybody who says something of an archive has to be right. */
  async #compare(
    { archive, file, hashes }: FoundArchive,
    release: ReleaseFiles | undefined,
  ): Promise<Pick<BroughtArchive, 'size' | 'sha256' | 'h1'> | Outcome> {
    const listed = release && listedDigest(release, archive);
    if (listed === undefined && hashes.length === 0 && !this.#isTrusting) {
      return refusal('unverifiable', 'nothing beside it says what it should be (--trust takes it all the same)');
    }
    const digested = await digestOf(file);
    if ('outcome' in digested) return digested;
    const { sha256, size } = digested;
    const objection = this.#objection(archive, sha256);
    if (objection) return objection;
    if (listed !== undefined && listed !== sha256) {
      return refusal('digest', `its SHA-256 is ${sha256}; SHA256SUMS says ${listed}`);
    }
    const zips = hashes.filter((hash) => sha256Of(hash));
    if (zips.length > 0 && !zips.includes(zipHash(sha256))) {
      return refusal('digest', `its SHA-256 is ${sha256}; VERSION.json says ${zips.join(' or ')}`);
    }
    const packages = hashes.filter((hash) => hash.startsWith('h1:'));
    // With nothing else to go by, the package hash has to be right; else whoever serves it will compute its own.
    if (listed !== undefined || zips.length > 0) return { size, sha256, h1: undefined };
    const computed = await this.#hasher.hash(file);
    if ('reason' in computed) return refusal('invalid', `it is no readable zip archive: ${computed.reason}`);
    const { hash, unpacked } = computed;
    if (packages.length > 0 && !packages.some((one) => one === hash || one === unpacked)) {
      return refusal('digest', `its package hash is ${hash}; VERSION.json says ${packages.join(' or ')}`);
    }
    return { size, sha256, h1: hash };
  }

  async #package({ release, file, record }: FoundPackage): Promise<Outcome> {
    if (!record && !this.#isTrusting) {
      return refusal('unverifiable', 'there is no record beside it (--trust takes it all the same)');
    }
    const digested = await digestOf(file);
    if ('outcome' in digested) return digested;
    const { sha256, size } = digested;
    const objection = this.#objection(`${release}//${record?.subdir ?? ''}`, sha256);
    if (objection) return objection;
    if (record && (record.sha256 !== sha256 || record.size !== size)) {
      return refusal('digest', `its SHA-256 is ${sha256}; its record says ${record.sha256}`);
    }
    const { subdir = '', source = 'an import', fingerprint } = record ?? {};
    return this.#hand(() => this.#target.takePackage({ release, file, sha256, size, subdir, source, fingerprint }));
  }

  /** Of who vouches for all that is taken, if anybody does. */
  #objection(subject: ProviderArchive | string, sha256: Sha256): Outcome | undefined {
    if (!this.#vouchedFor) return undefined;
    const expected = this.#vouchedFor.get(subject.toString());
    if (expected === undefined) return refusal('unverifiable', `${MANIFEST_FILE} does not speak of it`);
    if (expected === sha256) return undefined;
    return refusal('digest', `its SHA-256 is ${sha256}; ${MANIFEST_FILE} says ${expected}`);
  }

  async #hand(take: () => Promise<Handed>): Promise<Outcome> {
    if (this.#dryRun) return { outcome: 'would be imported' };
    const intake = await take();
    const { outcome } = intake;
    if (outcome === 'refused') return refusal(intake.why, intake.reason);
    return outcome === 'failed' ? intake : { outcome };
  }
}

function refusal(why: RefusalReason, reason: string): Outcome {
  const { outcome, ...more } = refused(why, reason) as Extract<Intake<never>, { outcome: 'refused' }>;
  return { outcome, ...more };
}

async function digestOf(file: string): Promise<{ readonly sha256: Sha256; readonly size: number } | Outcome> {
  let opened: Awaited<ReturnType<typeof openRegular>>;
  try {
    opened = await openRegular(file);
  } catch (error) {
    if (hasCode(error, 'NOT_FOUND')) return refusal('invalid', error.message);
    if (hasCode(error, 'STORAGE_FAILED')) return refusal('invalid', `it cannot be read: ${error.message}`);
    throw error;
  }
  const { handle, size } = opened;
  const digest = createHash('sha256');
  try {
    for await (const chunk of handle.createReadStream({ highWaterMark: 256 * 1024 })) digest.update(chunk as Buffer);
    return { sha256: parseSha256(digest.digest('hex')), size };
  } catch (error) {
    return refusal('invalid', `it cannot be read: ${(error as Error).message}`);
  } finally {
    await ofStorage('closing a file', handle.close()).catch(() => {});
  }
}
