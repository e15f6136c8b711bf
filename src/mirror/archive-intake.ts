import { createHash } from 'node:crypto';
import type { Readable } from 'node:stream';
import type { ProviderArchive } from '../address/archive.ts';
import { type Hash, parseSha256, type Sha256 } from '../address/hash.ts';
import { KeyedTurns } from '../keyed-turns.ts';
import type { Logger } from '../logger.ts';
import type { ArchiveStore, IncomingArchive, ReleaseFiles, StoredArchive } from '../store/archive-store.ts';
import { parseShasums } from '../upstream/shasums.ts';
import { type Intake, refused } from './carried.ts';
import type { DriftReports } from './drift.ts';
import { ZipEnds } from './zip-ends.ts';

/** Bytes. The largest provider that is published has less than a fifth of it. */
const MAX_ARCHIVE_BYTES = 4 * 1024 * 1024 * 1024;

/** What whoever brings an archive says of it. */
export interface ArchiveClaims {
  readonly sha256?: Sha256 | undefined;
  /** Package hash, if it was computed of these very bytes. */
  readonly h1?: Hash | undefined;
  /** Bytes, where it is known before. */
  readonly size?: number | undefined;
  /** It may be what it likes, where nothing is known of it: somebody vouches for it. */
  readonly isTrusted?: boolean | undefined;
}

/**
 * Takes in archives that somebody brings, under the rules for those that upstream sends: nothing is visible before it was
 * hashed and found to be what it should be, and what was seen first under a name stays.
 */
export class ArchiveIntake {
  readonly #store: ArchiveStore;
  readonly #drift: DriftReports;
  readonly #onStored: (stored: StoredArchive) => void;
  readonly #logger: Logger;
  /** By archive: what several bring at once is judged and kept one by one. Nobody waits for another's bytes. */
  readonly #turns = new KeyedTurns();

  constructor(deps: {
    store: ArchiveStore;
    drift: DriftReports;
    logger: Logger;
    /** Told of each archive that has come in. */
    onStored?: (stored: StoredArchive) => void;
  }) {
    this.#store = deps.store;
    this.#drift = deps.drift;
    this.#onStored = deps.onStored ?? (() => {});
    this.#logger = deps.logger;
  }

  /**
   * What is stored, or was published first, wins over what is claimed. The body is not opened where it cannot be taken.
   * @throws StorageFailed, and what the body fails with
   */
  async take(
    archive: ProviderArchive,
    open: () => Promise<Readable> | Readable,
    claims: ArchiveClaims,
  ): Promise<Intake<StoredArchive>> {
    const verdict = await this.#judge(archive, claims);
    if (verdict) return verdict;
    const promised = claims.sha256 ?? (await this.published(archive));
    const body = await open();
    // Whoever iterates hears of errors; one that comes while nobody does must not take the process along.
    body.on('error', () => {});
    try {
      return await this.#receive(archive, body, { ...claims, sha256: promised });
    } finally {
      body.destroy();
    }
  }

  /** What can be said without the bytes: `undefined` when they are needed. @throws StorageFailed */
  async #judge(archive: ProviderArchive, claims: ArchiveClaims): Promise<Intake<StoredArchive> | undefined> {
    const { sha256, size } = claims;
    const stored = await this.#store.find(archive);
    if (stored && (sha256 === undefined || stored.sha256 === sha256)) return { outcome: 'present', stored };
    const published = await this.published(archive);
    const first = stored?.sha256 ?? published;
    if (sha256 !== undefined && first !== undefined && first !== sha256) return this.#drifted(archive, first, sha256);
    if (first === undefined && sha256 === undefined && !claims.isTrusted) {
      return refused('unverifiable', `nothing says what ${archive.filename} should be: no SHA-256 is known of it`);
    }
    return size !== undefined && size > MAX_ARCHIVE_BYTES ? tooLarge(archive) : undefined;
  }

  /** What SHA256SUMS that is kept here says of it. @throws StorageFailed */
  async published(archive: ProviderArchive): Promise<Sha256 | undefined> {
    const files = await this.#store.getRelease(archive.provider, archive.version);
    return files && listedDigest(files, archive);
  }

  async #receive(archive: ProviderArchive, body: Readable, claims: ArchiveClaims): Promise<Intake<StoredArchive>> {
    const incoming = await this.#store.receive(archive);
    try {
      // Room is made as the bytes come: whoever only says that many will come takes nobody's place.
      const read = await this.#write(incoming, body);
      if (read === 'too large') return tooLarge(archive);
      if (claims.sha256 !== undefined && read.sha256 !== claims.sha256) {
        return refused(
          'digest',
          `${archive.filename} is not what it should be: its SHA-256 should be ${claims.sha256} and is ${read.sha256}`,
        );
      }
      if (!read.isZip) return refused('invalid', `${archive.filename} is no zip archive`);
      return await this.#turns.take(archive.toString(), () =>
        this.#keep(archive, incoming, { ...claims, sha256: read.sha256 }),
      );
    } finally {
      // Harmless once it is kept.
      await incoming.abort().catch((error: unknown) => {
        this.#logger.warn('a partial file could not be removed', { archive: archive.toString(), error });
      });
    }
  }

  async #keep(
    archive: ProviderArchive,
    incoming: IncomingArchive,
    claims: ArchiveClaims & { readonly sha256: Sha256 },
  ): Promise<Intake<StoredArchive>> {
    // While it came in, somebody may have fetched or brought something else under its name.
    const late = await this.#judge(archive, claims);
    if (late) return late;
    const stored = await incoming.commit(claims.sha256);
    if (claims.h1) await this.#store.putPackageHash(stored, claims.h1);
    this.#logger.info('took in an archive that was brought', { archive: archive.toString(), sha256: claims.sha256 });
    const known = { ...stored, h1: stored.h1 ?? claims.h1 };
    this.#onStored(known);
    return { outcome: 'imported', stored: known };
  }

  async #write(
    incoming: IncomingArchive,
    body: Readable,
  ): Promise<{ readonly sha256: Sha256; readonly isZip: boolean } | 'too large'> {
    const digest = createHash('sha256');
    const ends = new ZipEnds();
    let size = 0;
    for await (const chunk of body as AsyncIterable<Uint8Array>) {
      size += chunk.length;
      if (size > MAX_ARCHIVE_BYTES) return 'too large';
      digest.update(chunk);
      ends.update(chunk);
      await incoming.write(chunk);
    }
    return { sha256: parseSha256(digest.digest('hex')), isZip: ends.areThere };
  }

  #drifted(archive: ProviderArchive, first: Sha256, brought: Sha256): Intake<never> {
    this.#drift.report(archive, first, brought);
    const { provider, version } = archive;
    return refused(
      'drift',
      `${archive.filename} is known here with other bytes: the SHA-256 seen first is ${first}, that of what was brought ` +
        `is ${brought} (an operator who knows why can accept it: larder purge ${provider} ${version})`,
    );
  }
}

/** The digest that SHA256SUMS has for an archive, under its own name or another one of its platform. */
export function listedDigest({ shasums }: Pick<ReleaseFiles, 'shasums'>, archive: ProviderArchive): Sha256 | undefined {
  return listedFile(shasums, archive)?.sha256;
}

/** The same with the name it goes by there. What is no checksum list says nothing. */
export function listedFile(
  shasums: Buffer,
  { filename, platform }: ProviderArchive,
): { readonly name: string; readonly sha256: Sha256 } | undefined {
  let digests: ReadonlyMap<string, Sha256>;
  try {
    digests = parseShasums(shasums);
  } catch {
    return undefined;
  }
  const name = digests.has(filename) ? filename : [...digests.keys()].find((one) => one.endsWith(`_${platform}.zip`));
  const sha256 = name === undefined ? undefined : digests.get(name);
  return name !== undefined && sha256 !== undefined ? { name, sha256 } : undefined;
}

function tooLarge({ filename }: ProviderArchive): Intake<never> {
  return refused('too large', `${filename} is longer than ${MAX_ARCHIVE_BYTES} bytes`);
}
