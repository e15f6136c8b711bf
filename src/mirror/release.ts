import type { Hash, Sha256 } from '../address/hash.ts';
import type { Platform } from '../address/platform.ts';
import type { ReleaseFiles } from '../store/archive-store.ts';
import type { ReleaseStatement, SignatureVerdict } from '../upstream/registry-answers.ts';

/** What upstream's metadata tells of one platform's archive, without the archive. */
export interface ReleasePackage {
  readonly platform: Platform;
  /** As first seen: what upstream publishes later under the same version is not believed. */
  readonly sha256: Sha256;
  /** What upstream says now, where that is something else. Such an archive is not fetched. */
  readonly drifted?: Sha256 | undefined;
  /** When upstream publishes it, or when it was computed here before. */
  readonly h1: Hash | undefined;
  /** Bytes, when upstream publishes it. */
  readonly size: number | undefined;
}

/** One version of a provider: every platform's digest, and the signed list that they come from. */
export interface Release {
  /** By platform, `linux_amd64`. */
  readonly packages: ReadonlyMap<string, ReleasePackage>;
  /** `undefined` when upstream has no SHA256SUMS and its policy does not ask for one. */
  readonly files: ReleaseFiles | undefined;
  /** Of the same moment as `files`. */
  readonly statement: ReleaseStatement;
  readonly signature: SignatureVerdict['state'];
  /** Whether every platform that the versions list names is in `packages`; an incomplete release is asked about again soon. */
  readonly complete: boolean;
}
