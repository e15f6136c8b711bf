import { REGISTRY } from '../test/support/internet.ts';
import type { ProviderOptions } from '../test/support/published-provider.ts';

const MB = 1_000_000;

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
export const SMALL_ARCHIVE = provider('small', { sizeBytes: 5 * MB });
export const LARGE_ARCHIVE = provider('large', { sizeBytes: 150 * MB });
export const MIDDLING_ARCHIVE = provider('middling', { sizeBytes: 50 * MB });
/** What one `init` installs. */
export const WORKSPACE = Array.from({ length: 5 }, (_, index) => provider(`part${index}`, { sizeBytes: 10 * MB }));

export const EVERYTHING = [...COMMON, BROAD, SMALL_ARCHIVE, LARGE_ARCHIVE, MIDDLING_ARCHIVE, ...WORKSPACE];

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
  return `https://releases.example.test/${release}/${filename(of, platform)}`;
}

function filename({ type, version }: ProviderOptions, platform: string): string {
  return `terraform-provider-${type}_${version}_${platform}.zip`;
}
