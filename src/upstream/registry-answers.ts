import type { Hash, Sha256 } from '../address/hash.ts';
import type { Platform } from '../address/platform.ts';
import type { Version } from '../address/version.ts';

/** One entry of a provider's versions list. */
export interface PublishedVersion {
  readonly version: Version;
  /** As upstream spells it, for further requests upstream: `v1.2.3`. */
  readonly published: string;
  readonly protocols: readonly string[];
  readonly platforms: readonly Platform[];
}

/** Answer to `GET …/versions`, sifted. */
export interface ProviderVersions {
  readonly versions: readonly PublishedVersion[];
  /** Entries that are no versions, left out: for the log. */
  readonly skipped: readonly string[];
  readonly warnings: readonly string[];
}

/**
 * What every package document of one version says alike, as upstream gave it: for handing on, so that clients can verify
 * for themselves. JSON-compatible.
 */
export interface ReleaseStatement {
  /** With all that upstream says of each key. There are no holes among them: clients crash on those. */
  readonly signing_keys: { readonly gpg_public_keys: readonly Readonly<Record<string, unknown>>[] };
  readonly protocols: readonly string[];
  /** OpenTofu's `packages`, by platform; absent when upstream gives none or they contradict themselves. */
  readonly packages?: Readonly<Record<string, unknown>> | undefined;
}

/** Answer to `GET …/VERSION/download/OS/ARCH` ("find a provider package"), its URLs made absolute. */
export interface PackageDocument {
  readonly platform: Platform;
  /** Last path segment of what upstream names; the name under which SHA256SUMS lists the archive. */
  readonly filename: string;
  readonly downloadUrl: URL;
  readonly sha256: Sha256;
  readonly shasumsUrl: URL | undefined;
  readonly signatureUrl: URL | undefined;
  /** ASCII-armored public keys. */
  readonly signingKeys: readonly string[];
  readonly statement: ReleaseStatement;
  /** OpenTofu's `packages`: hashes and sizes of every platform; empty when upstream gives none or they contradict themselves. */
  readonly packages: ReadonlyMap<string, { readonly hashes: readonly Hash[]; readonly size: number }>;
}

/** Outcome of checking the signature over SHA256SUMS. A bad signature is an IntegrityMismatch, not an outcome. */
export interface SignatureVerdict {
  readonly state: 'signed' | 'unsigned' | 'unchecked';
  /** 16 hex digits, of the key that signed. */
  readonly keyId: string | undefined;
  /** For logs: `the key expired on …`. */
  readonly notes: readonly string[];
}

/** SHA256SUMS of one version, checked. */
export interface ReleaseChecksums {
  /** Digest by file name. */
  readonly digests: ReadonlyMap<string, Sha256>;
  readonly shasums: Buffer;
  readonly signature: Buffer | undefined;
  readonly verdict: SignatureVerdict;
}
