import type { Hostname } from '../address/hostname.ts';
import type { ProviderAddress } from '../address/provider.ts';
import type { Version } from '../address/version.ts';
import { hasCode } from '../errors.ts';
import { KeyedTurns } from '../keyed-turns.ts';
import type { ArchiveStore, ReleaseFiles } from '../store/archive-store.ts';
import type { ReleaseChecksums } from '../upstream/registry-answers.ts';
import { parseShasums } from '../upstream/shasums.ts';
import { verifySignature } from '../upstream/signature.ts';
import type { SignaturePolicy } from '../upstream/upstream.ts';
import { type Intake, refused } from './carried.ts';
import { firstChecksums } from './first-checksums.ts';
import { parseStatementFile } from './release-statement.ts';

/** SHA256SUMS that were brought, with what was found out about their signature. */
export interface CheckedRelease {
  readonly files: ReleaseFiles;
  readonly checksums: ReleaseChecksums;
}

/** Takes in SHA256SUMS, signatures and statements that somebody brings. */
export class ReleaseIntake {
  readonly #store: Pick<ArchiveStore, 'getRelease' | 'putRelease'>;
  readonly #signatures: (hostname: Hostname) => SignaturePolicy;
  /** By version: each sees what the one before has kept. */
  readonly #turns = new KeyedTurns();

  constructor(deps: {
    store: Pick<ArchiveStore, 'getRelease' | 'putRelease'>;
    /** What the registry's signatures are held to. */
    signatures: (hostname: Hostname) => SignaturePolicy;
  }) {
    this.#store = deps.store;
    this.#signatures = deps.signatures;
  }

  /** Whether they can be believed, and why not. */
  async check(provider: ProviderAddress, files: ReleaseFiles): Promise<Intake<CheckedRelease>> {
    try {
      const digests = parseShasums(files.shasums, 'this file');
      const verdict = await this.#verdictOf(provider.hostname, files);
      if (typeof verdict === 'string') return refused('signature', verdict);
      const { shasums, signature } = files;
      return { outcome: 'imported', stored: { files, checksums: { digests, shasums, signature, verdict } } };
    } catch (error) {
      if (hasCode(error, 'UPSTREAM_INVALID')) return refused('invalid', error.message);
      if (hasCode(error, 'INTEGRITY_MISMATCH')) return refused('signature', error.message);
      throw error;
    }
  }

  /**
   * Keeps them, unless others were seen before that they contradict. @throws StorageFailed
   */
  keep(provider: ProviderAddress, version: Version, checked: CheckedRelease): Promise<Intake<ReleaseFiles>> {
    return this.#turns.take(`${provider} ${version}`, () => this.#keep(provider, version, checked));
  }

  async #keep(
    provider: ProviderAddress,
    version: Version,
    { files, checksums }: CheckedRelease,
  ): Promise<Intake<ReleaseFiles>> {
    const kept = await this.#store.getRelease(provider, version);
    const statement = files.statement && parseStatementFile(files.statement);
    if (!kept && !statement) {
      // Without a statement there is nothing to tell a client besides; upstream will say it one day.
      await this.#store.putRelease(provider, version, { shasums: files.shasums, signature: files.signature });
      return { outcome: 'imported', stored: files };
    }
    const before = kept?.statement && parseStatementFile(kept.statement);
    const nothingSaid = { signing_keys: { gpg_public_keys: [] }, protocols: [] };
    const said = statement ?? before ?? nothingSaid;
    const first = await firstChecksums(this.#store, provider, version, checksums, said);
    const contradicted = [...checksums.digests].find(([name, digest]) => first?.seenFirst(name, digest));
    if (contradicted) {
      const [name] = contradicted;
      return refused(
        'drift',
        `SHA256SUMS of ${provider} ${version} gives ${JSON.stringify(name)} another digest than the one seen first ` +
          `(an operator who knows why can accept it: larder purge ${provider} ${version})`,
      );
    }
    const isNew = !kept?.shasums.equals(first?.files.shasums ?? files.shasums);
    return { outcome: isNew ? 'imported' : 'present', stored: first?.files ?? files };
  }

  /** A text is why it is refused. @throws IntegrityMismatch when the signature is wrong */
  async #verdictOf(
    hostname: Hostname,
    { shasums, signature, statement }: ReleaseFiles,
  ): Promise<ReleaseChecksums['verdict'] | string> {
    const policy = this.#signatures(hostname);
    const keys = (statement && parseStatementFile(statement)?.signing_keys.gpg_public_keys) ?? [];
    const armoredKeys = keys.flatMap((key) => (typeof key['ascii_armor'] === 'string' ? [key['ascii_armor']] : []));
    const isCheckable = signature !== undefined && armoredKeys.length > 0;
    if (!isCheckable && policy === 'require') {
      return `${hostname} has to sign what it publishes, and the signature or its keys are not there`;
    }
    if (!isCheckable || policy === 'ignore') {
      return { state: signature ? 'unchecked' : 'unsigned', keyId: undefined, notes: [] };
    }
    return verifySignature({ shasums, signature, armoredKeys });
  }
}
