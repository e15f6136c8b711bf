import { type RequestHandler, Router } from 'express';
import { ProviderArchive } from '../address/archive.ts';
import { Hostname } from '../address/hostname.ts';
import { ProviderAddress } from '../address/provider.ts';
import { Version } from '../address/version.ts';
import type { PackageList, ProviderMirror, VersionList } from '../mirror/provider-mirror.ts';
import { sendArchive } from './archive-response.ts';
import { RequestError } from './request-error.ts';
import { allowOnly } from './request-guards.ts';
import { RenderedBodies, sendJson } from './respond.ts';

/** What this door asks of the use case behind it. */
export type NetworkMirrorSource = Pick<
  ProviderMirror,
  'listVersions' | 'listPackages' | 'openArchive' | 'describeArchive'
>;

/**
 * The provider network mirror protocol, as OpenTofu and Terraform speak it to a `network_mirror`:
 *
 * - `GET /HOST/NAMESPACE/TYPE/index.json`: `{"versions":{"1.0.0":{}}}`
 * - `GET /HOST/NAMESPACE/TYPE/VERSION.json`: `{"archives":{"linux_amd64":{"hashes":["h1:…","zh:…"],"url":"….zip"}}}`
 * - `GET`, `HEAD /HOST/NAMESPACE/TYPE/terraform-provider-TYPE_VERSION_OS_ARCH.zip`
 *
 * Links are bare file names, so they work under any prefix. No value is ever null: the clients crash on it.
 */
export function networkMirror({ mirror }: { mirror: NetworkMirrorSource }): Router {
  const router = Router({ caseSensitive: true, strict: true });
  const indexes = new RenderedBodies(indexDocument);
  const packageLists = new RenderedBodies(versionDocument);
  router.use(allowOnly('GET', 'HEAD'));

  const answerIndex: RequestHandler<ProviderParams> = async (req, res) => {
    const { versions, stale } = await mirror.listVersions(parseProvider(req.params));
    sendJson(req, res, indexes.bodyOf(versions), stale);
  };

  const answerVersion: RequestHandler<ProviderParams & { version: string }> = async (req, res) => {
    const version = Version.parse(req.params.version);
    const { archives, stale } = await mirror.listPackages(parseProvider(req.params), version);
    sendJson(req, res, packageLists.bodyOf(archives), stale);
  };

  const answerArchive: RequestHandler<ProviderParams & { filename: string }> = async (req, res) => {
    const { filename } = req.params;
    const provider = parseProvider(req.params);
    if (!filename.endsWith('.zip')) throw notAnArchive(filename);
    const archive = ProviderArchive.parseFilename(provider, filename);
    await sendArchive(req, res, {
      describe: () => mirror.describeArchive(archive),
      open: () => mirror.openArchive(archive),
    });
  };

  // Before the versions: "index" would be read as one.
  router.get('/:hostname/:namespace/:type/index.json', answerIndex);
  router.get('/:hostname/:namespace/:type/:version.json', answerVersion);
  router.get('/:hostname/:namespace/:type/:filename', answerArchive);
  return router;
}

function indexDocument(versions: VersionList['versions']): unknown {
  return { versions: Object.fromEntries(versions.map((version) => [version.toString(), {}])) };
}

function versionDocument(archives: PackageList['archives']): unknown {
  const entries = archives.map(({ archive, hashes }) => {
    const url = encodeURI(archive.filename);
    // No hashes at all means "unverified" to the clients, and they take an absent key for that.
    const entry = hashes.length === 0 ? { url } : { hashes: [...hashes].sort(), url };
    return [archive.platform.toString(), entry] as const;
  });
  return { archives: Object.fromEntries(entries.sort(([a], [b]) => (a < b ? -1 : 1))) };
}

interface ProviderParams {
  readonly hostname: string;
  readonly namespace: string;
  readonly type: string;
  readonly [name: string]: string;
}

function parseProvider({ hostname, namespace, type }: ProviderParams): ProviderAddress {
  if (hostname !== hostname.trim()) {
    throw new RequestError(404, 'NOT_FOUND', 'the hostname has a space before or behind it', {
      hint: 'take the stray space out of the mirror URL in the CLI configuration',
    });
  }
  return new ProviderAddress(Hostname.parse(hostname), namespace, type);
}

function notAnArchive(filename: string): RequestError {
  const escapedQuery = filename.includes('.zip?');
  return new RequestError(404, 'NOT_FOUND', 'there is no such file', {
    hint: escapedQuery
      ? 'the "?" of a query was percent-encoded into the file name: ask without it, archives here need no query'
      : 'a provider has index.json, VERSION.json and the archives that VERSION.json names',
  });
}
