import type { ProviderArchive } from '../address/archive.ts';
import type { Sha256 } from '../address/hash.ts';
import type { Hostname } from '../address/hostname.ts';
import type { MirroredAddress } from '../address/mirrored-address.ts';
import type { ModuleAddress, ModuleRelease } from '../address/module.ts';
import type { ProviderAddress } from '../address/provider.ts';
import type { Version } from '../address/version.ts';

/**
 * Every key and every path that Larder spells. Both take parsed addresses only: their parts can hold neither `/` nor
 * `..`, so joining them is safe, and one address has one spelling, so two addresses never share a place.
 */

/** Raised when the shape of what rests under the keys changes: older entries are then no longer looked at. */
const METADATA_VERSION = 'v1';

/** Keys in the metadata store. Hostnames are in comparison form; versions keep their case. */
export const metadataKeys = {
  /** What service discovery of a host said. */
  discovery: (hostname: Hostname): string => `${METADATA_VERSION}:discovery:${hostname}`,
  /** The versions that a registry lists for a provider. */
  providerVersions: (provider: ProviderAddress): string => `${METADATA_VERSION}:versions:${provider}`,
  /** Platforms, checksums and hashes of one version of a provider. */
  providerPackages: (provider: ProviderAddress, version: Version): string =>
    `${METADATA_VERSION}:packages:${provider}/${version}`,
  /** The registry's answer to "find a provider package". */
  packageDocument: ({ provider, version, platform }: ProviderArchive): string =>
    `${METADATA_VERSION}:document:${provider}/${version}/${platform}`,
  /** The `h1:` of the archive with this digest. */
  packageHash: (sha256: Sha256): string => `${METADATA_VERSION}:h1:${sha256}`,
  /** The same of its files as they lie unpacked. */
  unpackedHash: (sha256: Sha256): string => `${METADATA_VERSION}:h1-unpacked:${sha256}`,
  /** When each version of a provider or a module was first seen here. */
  firstSeen: (address: MirroredAddress): string => `${METADATA_VERSION}:first-seen:${address}`,
  /** The versions that a registry lists for a module. As the module was written: that is how upstream was asked. */
  moduleVersions: (module: ModuleAddress): string =>
    `${METADATA_VERSION}:module-versions:${module.hostname}/${module.written}`,
  /** Where a registry says that a module version's package is. As the module was written, too. */
  moduleLocation: (module: ModuleAddress, version: Version): string =>
    `${METADATA_VERSION}:module-location:${module.hostname}/${module.written}/${version}`,
  /** Which jobs there are. */
  jobs: `${METADATA_VERSION}:jobs`,
  /** The state of one job, without what it consists of. */
  job: (id: string): string => `${METADATA_VERSION}:job:${id}`,
  /** What a job was asked for, in pieces. */
  jobWish: (id: string, piece: number): string => `${METADATA_VERSION}:job-wish:${id}:${piece}`,
  /** What a job consists of, in pieces. */
  jobItems: (id: string, piece: number): string => `${METADATA_VERSION}:job-items:${id}:${piece}`,
  /** What there was to say about what a job was asked for. */
  jobFindings: (id: string): string => `${METADATA_VERSION}:job-findings:${id}`,
  /** Somebody wants a job to end. */
  jobCancel: (id: string): string => `${METADATA_VERSION}:job-cancel:${id}`,
  /** Who runs what is scheduled for one moment. */
  scheduled: (schedule: string, due: string): string => `${METADATA_VERSION}:scheduled:${schedule}:${due}`,
  /** Whether somebody sealed the mirror. */
  seal: `${METADATA_VERSION}:seal`,
  /** The last of what operators had forgotten. */
  forgettings: `${METADATA_VERSION}:forgettings`,
  /** Which replicas have written down what went through them. */
  traffic: `${METADATA_VERSION}:traffic`,
  /** What went through one replica. */
  trafficOf: (replica: string): string => `${METADATA_VERSION}:traffic:${replica}`,
  /** Somebody who is signed in to the dashboard, by the SHA-256 of what their browser sends. */
  session: (digest: string): string => `${METADATA_VERSION}:session:${digest}`,
  /** What an upstream told one requester: the key of what it tells everybody, and a name for who asked. */
  told: (key: string, partition: string): string => `${key}@${partition}`,
};

/** Keys in Redis itself, beside the metadata store. */
export const redisKeys = {
  /** What download links are signed with. Secret. */
  linkKeys: 'larder:link-keys',
  /** Written and removed to see whether that can be done. With a tag: where the keys with that tag are. */
  probe: (tag?: string): string => `larder::check${tag === undefined ? '' : `:{${tag}}`}`,
  /** Who does what all replicas need. In braces: what is changed in one step must be in one part of a cluster. */
  lease: (key: string): string => `larder:{leases}:${key}`,
  /** The last token that was given out for any of them. */
  leaseToken: 'larder:{leases}',
};

/** What replicas do once for all of them. */
export const leaseKeys = {
  archive: (archive: ProviderArchive): string => `archive:${archive}`,
  modulePackage: (release: ModuleRelease): string => `package:${release}`,
};

/**
 * Paths relative to the data directory, with `/` between their parts.
 *
 * Below `providers/` this is the packed layout that OpenTofu and Terraform read as a `filesystem_mirror`, and with the
 * JSON files also a static network mirror:
 *
 *     providers/HOSTNAME/NAMESPACE/TYPE/index.json
 *                                       VERSION.json
 *                                       terraform-provider-TYPE_VERSION_OS_ARCH.zip
 *                                       terraform-provider-TYPE_VERSION_SHA256SUMS
 *                                       terraform-provider-TYPE_VERSION_SHA256SUMS.sig
 *                                       terraform-provider-TYPE_VERSION_release.json
 *
 * HOSTNAME is the display form with its `:PORT`, as the clients look for it. No version can be called `index`, and
 * neither versions nor platforms hold an underscore, so the names within one directory are all different.
 *
 *     modules/HOSTNAME/NAMESPACE/NAME/SYSTEM/VERSION.tar.gz
 *                                            VERSION.json
 *
 * NAMESPACE and NAME are in lower case. A version may itself end in `.json` or `.tar.gz`; with what is put behind it,
 * names are different all the same.
 */
export const paths = {
  /** Root of the packed layout. */
  providers: 'providers',
  /** Root of the module packages. */
  modules: 'modules',
  /** What is still arriving or being made. On the same file system as the two above, so that it can be renamed into them. */
  partial: 'partial',
  /** Who changes what at the moment. On a file system that all who do so share. */
  locks: 'locks',
  /** The embedded metadata store. */
  metadata: 'metadata',
  /** Larder's own certificates and keys. */
  tls: 'tls',
  /** What download links are signed with. Secret. */
  linkKeys: 'links.json',
  /** What is never evicted. */
  pins: 'pins.json',
  /** Whether somebody sealed the mirror. */
  seal: 'seal.json',
  /** When archives and packages were last used: an empty file for each, below its own path. */
  lastUse: 'last-use',
  /** Damaged archives and packages, each in a directory with a note. Never served. */
  quarantine: 'quarantine',

  /** Directory of everything stored of one provider. */
  provider: (provider: ProviderAddress): string =>
    `providers/${provider.hostname.display}/${provider.namespace}/${provider.type}`,
  index: (provider: ProviderAddress): string => `${paths.provider(provider)}/index.json`,
  version: (provider: ProviderAddress, version: Version): string => `${paths.provider(provider)}/${version}.json`,
  archive: (archive: ProviderArchive): string => `${paths.provider(archive.provider)}/${archive.filename}`,
  /** In a bucket: what was verified of an archive. */
  archiveRecord: (archive: ProviderArchive): string => `${paths.archive(archive)}.json`,
  shasums: (provider: ProviderAddress, version: Version): string =>
    `${paths.provider(provider)}/terraform-provider-${provider.type}_${version}_SHA256SUMS`,
  signature: (provider: ProviderAddress, version: Version): string => `${paths.shasums(provider, version)}.sig`,
  /** What else upstream says of a version. */
  statement: (provider: ProviderAddress, version: Version): string =>
    `${paths.provider(provider)}/terraform-provider-${provider.type}_${version}_release.json`,

  /** Directory of everything stored of one module. */
  module: ({ hostname, written }: ModuleAddress): string => `modules/${hostname.display}/${written.toLowerCase()}`,
  modulePackage: ({ module, version }: ModuleRelease): string => `${paths.module(module)}/${version}.tar.gz`,
  /** What is remembered of a package. */
  moduleRecord: ({ module, version }: ModuleRelease): string => `${paths.module(module)}/${version}.json`,
  /** Of an archive or a package, given by its own path. Its modification time is when that was last used. */
  lastUseOf: (path: string): string => `${paths.lastUse}/${path}`,
};
