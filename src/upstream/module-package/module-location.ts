/** How an archive is packed, as far as the clients know how to unpack it. */
export type ArchiveFormat = 'zip' | 'tar.gz' | 'tar.xz' | 'tar.bz2';

/** What `checksum=` demands of an archive. */
export interface LocationChecksum {
  readonly algorithm: 'md5' | 'sha1' | 'sha256' | 'sha512';
  /** Lower-case hex. */
  readonly digest: string;
}

/** A repository as `git` takes it. */
export interface GitRepository {
  /** `https://HOST[:PORT]/PATH`, `http://` likewise, or `ssh://[USER@]HOST[:PORT]/PATH`; no secrets in it. */
  readonly url: URL;
  /** `HOST[:PORT]` in comparison form, the default port of the scheme left out: what credentials are configured for. */
  readonly host: string;
  /** What the location itself authenticates with, over https. A secret: for the repository's host and nobody else. */
  readonly userinfo?: Userinfo | undefined;
}

/** User name and password, decoded. A token may stand in either place. */
export interface Userinfo {
  readonly username: string;
  readonly password: string;
}

/**
 * Where a registry says that a module's package is, in the dialect of go-getter.
 *
 * `subdir` is what stands behind `//`: `modules/vpc`, empty for the root; it may hold globs (`*`), each of which has to
 * match exactly one directory. Percent signs in it are just that: the clients decode nothing there.
 */
export type ModuleLocation =
  | {
      readonly kind: 'archive';
      /** Without `archive` and `checksum`; the rest of the query as it was given, byte for byte. */
      readonly url: URL;
      /** `undefined`: only its first bytes tell. */
      readonly format: ArchiveFormat | undefined;
      readonly checksum: LocationChecksum | undefined;
      readonly subdir: string;
    }
  | {
      readonly kind: 'git';
      readonly repository: GitRepository;
      /** Branch, tag or commit; `undefined` for the default branch. */
      readonly ref: string | undefined;
      readonly subdir: string;
    }
  | {
      /** Something that the clients can fetch and Larder cannot: s3, gcs, hg, oci, a page that points elsewhere. */
      readonly kind: 'unmirrored';
      /** What it is, for messages: `s3`. */
      readonly scheme: string;
      /** For clients, absolute and fit for a header. What else is in it is between them and its host: it may hold secrets. */
      readonly text: string;
    };
