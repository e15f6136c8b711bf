import { type Hash, zipHash } from '../address/hash.ts';
import type { ModuleAddress } from '../address/module.ts';
import type { ProviderAddress } from '../address/provider.ts';
import { Version } from '../address/version.ts';
import type { ReleaseFiles } from '../store/archive-store.ts';
import { paths } from '../store/keys.ts';
import type { ReleaseStatement } from '../upstream/registry-answers.ts';
import { listedFile } from './archive-intake.ts';
import type { CarriedArchive, CarriedPackage } from './carried.ts';
import { parseStatementFile } from './release-statement.ts';

/** Content by path, relative to the root of what is served. */
export type StaticDocuments = ReadonlyMap<string, string>;

/** From where a package document of a provider lies to the root: `registry/HOST/v1/providers/NS/TYPE/VERSION/download/OS/`. */
const PROVIDER_TO_ROOT = '../'.repeat(9);
/** From where the download answer of a module lies: `registry/HOST/v1/modules/NS/NAME/SYSTEM/VERSION/`. */
const MODULE_TO_ROOT = '../'.repeat(8);
/** From one provider to the directory of all hosts. */
const PROVIDER_TO_HOSTS = '../'.repeat(3);

/**
 * What a web server needs besides the archives to be a network mirror of a provider (also under the ASCII form of an
 * international hostname, which is what clients ask for), and a provider registry of the versions whose signature is here.
 * @param archives of this provider, all that are in the directory
 * @param releases by version
 */
export function providerDocuments(
  provider: ProviderAddress,
  archives: readonly CarriedArchive[],
  releases: ReadonlyMap<string, ReleaseFiles>,
): StaticDocuments {
  const documents = new Map<string, string>();
  const versions = byVersion(archives, ({ archive }) => archive.version);
  const index = json({ versions: Object.fromEntries([...versions].map(([version]) => [version.toString(), {}])) });
  documents.set(paths.index(provider), index);
  const ascii = asciiDirectory(provider);
  if (ascii !== undefined) documents.set(`${ascii}/index.json`, index);
  for (const [version, ofVersion] of versions) {
    documents.set(paths.version(provider, version), versionDocument(ofVersion, ''));
    if (ascii === undefined) continue;
    const display = `${PROVIDER_TO_HOSTS}${encodeURI(paths.provider(provider).slice(`${paths.providers}/`.length))}/`;
    documents.set(`${ascii}/${version}.json`, versionDocument(ofVersion, display));
  }
  for (const [path, content] of registryDocuments(provider, versions, releases)) documents.set(path, content);
  return documents;
}

/** What a web server needs besides the packages to be the registry of a module. */
export function moduleDocuments(module: ModuleAddress, packages: readonly CarriedPackage[]): StaticDocuments {
  const base = moduleBase(module);
  const versions = packages.map(({ release }) => release.version).sort((a, b) => Version.compare(b, a));
  const documents = new Map([
    [
      `${base}/versions`,
      json({ modules: [{ versions: versions.map((version) => ({ version: version.toString() })) }] }),
    ],
  ]);
  for (const carried of packages) {
    documents.set(downloadPath(carried), json({ location: downloadLocation(carried) }));
    const { sha256, size, subdir, source, fingerprint } = carried;
    const record = { sha256, size, subdir, source, ...(fingerprint !== undefined && { fingerprint }) };
    documents.set(paths.moduleRecord(carried.release), json(record));
  }
  return documents;
}

/** Where the answer to "download" of a module version lies. */
export function downloadPath({ release }: Pick<CarriedPackage, 'release'>): string {
  return `${moduleBase(release.module)}/${release.version}/download`;
}

/** Where the module is, relative to there: what Terraform wants in a header and OpenTofu takes from the document. */
export function downloadLocation({ release, subdir, sha256 }: CarriedPackage): string {
  const inside = subdir === '' ? '' : `//${subdir}`;
  return `${MODULE_TO_ROOT}${encodeURI(paths.modulePackage(release))}${inside}?checksum=sha256:${sha256}`;
}

/** The directory of a module's documents, in lower case. */
function moduleBase({ hostname, written }: ModuleAddress): string {
  return `registry/${hostname}/v1/modules/${written.toLowerCase()}`;
}

/** `undefined` where the display form is ASCII itself. */
function asciiDirectory({ hostname, namespace, type }: ProviderAddress): string | undefined {
  return hostname.display === hostname.toString() ? undefined : `${paths.providers}/${hostname}/${namespace}/${type}`;
}

function versionDocument(archives: readonly CarriedArchive[], directory: string): string {
  const entries = archives.map(({ archive, size, sha256, h1 }) => {
    const hashes: Hash[] = h1 ? [h1, zipHash(sha256)] : [zipHash(sha256)];
    const url = directory + (directory === '' ? archive.filename : encodeURI(archive.filename));
    return [archive.platform.toString(), { hashes, ...(directory === '' && { size }), url }] as const;
  });
  return json({ archives: Object.fromEntries(entries.sort(([a], [b]) => (a < b ? -1 : 1))) });
}

function* registryDocuments(
  provider: ProviderAddress,
  versions: ReadonlyMap<Version, readonly CarriedArchive[]>,
  releases: ReadonlyMap<string, ReleaseFiles>,
): Generator<readonly [string, string]> {
  const { hostname, namespace, type } = provider;
  const base = `registry/${hostname}/v1/providers/${namespace}/${type}`;
  const listed: unknown[] = [];
  for (const [version, archives] of [...versions].reverse()) {
    const files = releases.get(version.toString());
    const statement = files?.statement && parseStatementFile(files.statement);
    // Clients verify what they get from a registry: a version that they could not verify is left out.
    if (!files?.signature || !statement || statement.signing_keys.gpg_public_keys.length === 0) continue;
    const described = archives.flatMap((carried) => packageDocument(carried, files, statement) ?? []);
    for (const { carried, document } of described) {
      const { os, arch } = carried.archive.platform;
      yield [`${base}/${version}/download/${os}/${arch}`, json(document)];
    }
    if (described.length === 0) continue;
    listed.push({
      version: version.toString(),
      ...(statement.protocols.length > 0 && { protocols: statement.protocols }),
      platforms: described.map(({ carried: { archive } }) => ({
        os: archive.platform.os,
        arch: archive.platform.arch,
      })),
    });
  }
  if (listed.length > 0) yield [`${base}/versions`, json({ versions: listed })];
}

/** `undefined` when SHA256SUMS does not speak of it. */
function packageDocument(carried: CarriedArchive, files: ReleaseFiles, statement: ReleaseStatement) {
  const { archive, sha256 } = carried;
  const { provider, version, platform } = archive;
  const listed = listedFile(files.shasums, archive);
  if (listed?.sha256 !== sha256) return undefined;
  const { protocols, signing_keys } = statement;
  const url = (path: string) => PROVIDER_TO_ROOT + encodeURI(path);
  const document = {
    ...(protocols.length > 0 && { protocols }),
    os: platform.os,
    arch: platform.arch,
    filename: listed.name,
    download_url: url(paths.archive(archive)),
    shasums_url: url(paths.shasums(provider, version)),
    shasums_signature_url: url(paths.signature(provider, version)),
    shasum: sha256,
    signing_keys,
  };
  return { carried, document };
}

/** Oldest first. */
function byVersion<T>(items: readonly T[], versionOf: (item: T) => Version): ReadonlyMap<Version, readonly T[]> {
  const sorted = [...items].sort((a, b) => Version.compare(versionOf(a), versionOf(b)));
  const groups = new Map<string, { version: Version; items: T[] }>();
  for (const item of sorted) {
    const version = versionOf(item);
    const group = groups.get(version.toString()) ?? { version, items: [] };
    groups.set(version.toString(), group);
    group.items.push(item);
  }
  return new Map([...groups.values()].map((group) => [group.version, group.items]));
}

function json(document: unknown): string {
  return `${JSON.stringify(document, null, 2)}\n`;
}
