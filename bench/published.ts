import { REGISTRY } from '../test/support/internet.ts';
import type { ProviderOptions } from '../test/support/published-provider.ts';

const MB = 1_000_000;
/** Of the upstream. */
const ARCHIVE_HOST = 'releases.example.test';

/** What the clients of this machine install. */
export const OWN_PLATFORM = `${process.platform}_${process.arch === 'x64' ? 'amd64' : process.arch}`;

const TWO = ['linux_amd64', 'darwin_arm64'];
const FIFTEEN = [
  ...['darwin_amd64', 'darwin_arm64', 'freebsd_386', 'freebsd_amd64', 'freebsd_arm', 'linux_386', 'linux_amd64'],
  ...['linux_arm', 'linux_arm64', 'openbsd_386', 'openbsd_amd64', 'solaris_amd64', 'windows_386', 'windows_amd64'],
  'windows_arm64',
];

const provider = (type: string, more: Partial<ProviderOptions>): ProviderOptions => ({
  namespace: 'bench',
  type,
  version: '1.0.0',
  platforms: [OWN_PLATFORM],
  ...more,
});

/** Many releases for few platforms. */
export const COMMON = Array.from({ length: 20 }, (_, minor) =>
  provider('common', { version: `1.${minor}.0`, platforms: TWO }),
);
/** One release for everything there is. */
export const BROAD = provider('broad', { platforms: FIFTEEN });
/** As many releases as the largest providers have. */
export const MANY = Array.from({ length: 470 }, (_, index) =>
  provider('many', { version: `${Math.floor(index / 100)}.${index % 100}.0` }),
);
export const SMALL_ARCHIVE = provider('small', { sizeBytes: 5 * MB });
export const LARGE_ARCHIVE = provider('large', { sizeBytes: 150 * MB });
export const MIDDLING_ARCHIVE = provider('middling', { sizeBytes: 50 * MB });
/** What one `init` installs, together with the modules below. */
export const WORKSPACE = Array.from({ length: 10 }, (_, index) => provider(`part${index}`, { sizeBytes: 10 * MB }));
/** What a job warms: many small ones. */
export const WARMED = Array.from({ length: 100 }, (_, index) => provider(`warmed${index}`, { sizeBytes: MB }));

export const EVERYTHING = [
  ...[...COMMON, BROAD, ...MANY, SMALL_ARCHIVE, LARGE_ARCHIVE, MIDDLING_ARCHIVE],
  ...[...WORKSPACE, ...WARMED],
];

/** One version of a module, in an archive at the archive host. */
export interface PublishedModule {
  readonly namespace: string;
  readonly name: string;
  readonly system: string;
  readonly version: string;
  /** Of source text, 10 kB each on average: a quarter of that in the package. */
  readonly files: number;
}

const module = (name: string, more: Partial<PublishedModule>): PublishedModule => ({
  namespace: 'bench',
  name,
  system: 'aws',
  version: '1.0.0',
  files: 1,
  ...more,
});

/** About 60 kB as a package. */
export const SMALL_MODULE = module('small', { files: 15 });
/** About 1 MB as a package. */
export const LARGE_MODULE = module('large', { files: 330 });
/** Many versions. */
export const RELEASED_MODULE = Array.from({ length: 20 }, (_, minor) =>
  module('released', { version: `1.${minor}.0` }),
);
/** What one `init` installs. */
export const WORKSPACE_MODULES = Array.from({ length: 5 }, (_, index) => module(`part${index}`, { files: 15 }));
export const MODULES = [SMALL_MODULE, LARGE_MODULE, ...RELEASED_MODULE, ...WORKSPACE_MODULES];

/** Paths of a provider below a mirror: the same for Larder and for a static server on its data directory. */
export function indexPath({ namespace, type }: ProviderOptions): string {
  return `/providers/${REGISTRY}/${namespace}/${type}/index.json`;
}

export function versionPath({ namespace, type, version }: ProviderOptions): string {
  return `/providers/${REGISTRY}/${namespace}/${type}/${version}.json`;
}

export function archivePath(of: ProviderOptions, platform = OWN_PLATFORM): string {
  return `/providers/${REGISTRY}/${of.namespace}/${of.type}/${filename(of, platform)}`;
}

/** Where the upstream itself has an archive. */
export function originUrl(of: ProviderOptions, platform = OWN_PLATFORM): string {
  const release = `${of.namespace}/terraform-provider-${of.type}/releases/download/${of.version}`;
  return `https://${ARCHIVE_HOST}/${release}/${filename(of, platform)}`;
}

/** What a client asks the upstream for, up to the archive. */
export function originUrls(of: ProviderOptions, platform = OWN_PLATFORM): readonly string[] {
  const archive = originUrl(of, platform);
  const { namespace, type, version } = of;
  return [
    `https://${REGISTRY}/.well-known/terraform.json`,
    `https://${REGISTRY}/v1/providers/${namespace}/${type}/${version}/download/${platform.replace('_', '/')}`,
    archive.replace(/[^/]*$/, `terraform-provider-${type}_${version}_SHA256SUMS`),
    archive,
  ];
}

export function moduleVersionsPath({ namespace, name, system }: PublishedModule): string {
  return `/registry/${REGISTRY}/v1/modules/${namespace}/${name}/${system}/versions`;
}

export function modulePackagePath({ namespace, name, system, version }: PublishedModule): string {
  const module = `/registry/${REGISTRY}/v1/modules/${namespace}/${name}/${system}`;
  return `${module}/${version}/${namespace}-${name}-${system}-${version}.tar.gz`;
}

/** The same package in Larder's data directory. */
export function storedModulePath({ namespace, name, system, version }: PublishedModule): string {
  return `/modules/${REGISTRY}/${namespace}/${name}/${system}/${version}.tar.gz`;
}

/** Where the upstream has what the package is made of. */
export function moduleArchiveUrl({ namespace, name, system, version }: PublishedModule): string {
  return `https://${ARCHIVE_HOST}/modules/${namespace}-${name}-${system}-${version}.tar.gz`;
}

function filename({ type, version }: ProviderOptions, platform: string): string {
  return `terraform-provider-${type}_${version}_${platform}.zip`;
}
