import { type RequestHandler, Router } from 'express';
import type { ProviderArchive } from '../address/archive.ts';
import { Version } from '../address/version.ts';
import type { PackageList, ProviderMirror, VersionList } from '../mirror/provider-mirror.ts';
import { sendArchive } from './archive-response.ts';
import type { Client } from './authenticate.ts';
import { type ProviderParams, parseArchive, parseProvider } from './provider-params.ts';
import { ReadAccess, type ReadAccessDeps } from './read-access.ts';
import { allowOnly } from './request-guards.ts';
import { type JsonBody, RenderedBodies, RenderedVariants, sendJson } from './respond.ts';

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
 * Links are relative, so they work under any prefix: bare file names, or, where clients need a token (which they do not
 * send for archives), links that need none. No value is ever null: the clients crash on it.
 */
export function networkMirror(deps: ReadAccessDeps & { mirror: NetworkMirrorSource }): Router {
  const { mirror } = deps;
  const access = new ReadAccess(deps);
  const router = Router({ caseSensitive: true, strict: true });
  const indexes = new RenderedBodies(indexDocument);
  const packageLists = new RenderedBodies((archives: PackageList['archives']) => versionDocument(archives, bareName));
  const linkedLists = new RenderedVariants<PackageList['archives']>();
  router.use(allowOnly('GET', 'HEAD'), access.authenticate);

  /** With bare file names, unless this client needs links: those are made out to it. */
  const packageListFor = (client: Client, { archives, isPrivate = false }: PackageList): JsonBody => {
    const links = access.linksFor(client, isPrivate);
    if (!links) return packageLists.bodyOf(archives);
    const linkFor: LinkMaker = (archive) => `${TO_ROOT}${links.pathFor(archive)}`;
    return linkedLists.bodyOf(archives, links.stamp, () => versionDocument(archives, linkFor));
  };

  const answerIndex: RequestHandler<ProviderParams> = async (req, res) => {
    const provider = parseProvider(req.params);
    const client = access.admit(res, { provider });
    const list = await mirror.listVersions(provider, client);
    sendJson(req, res, indexes.bodyOf(list.versions), list);
  };

  const answerVersion: RequestHandler<ProviderParams & { version: string }> = async (req, res) => {
    const version = Version.parse(req.params.version);
    const provider = parseProvider(req.params);
    const client = access.admit(res, { provider, version });
    const list = await mirror.listPackages(provider, version, client);
    sendJson(req, res, packageListFor(client, list), list);
  };

  const answerArchive: RequestHandler<ProviderParams & { filename: string }> = async (req, res) => {
    const archive = parseArchive(req.params);
    const client = access.admit(res, archive);
    await sendArchive(req, res, {
      describe: () => mirror.describeArchive(archive, client),
      open: () => mirror.openArchive(archive, client),
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

/** The link to an archive, as it stands in a list of packages. */
type LinkMaker = (archive: ProviderArchive) => string;

/** From where a list of packages lies to where all paths begin. */
const TO_ROOT = '../../../../';

const bareName: LinkMaker = ({ filename }) => encodeURI(filename);

function versionDocument(archives: PackageList['archives'], linkFor: LinkMaker): unknown {
  const entries = archives.map(({ archive, hashes }) => {
    const url = linkFor(archive);
    // No hashes at all means "unverified" to the clients, and they take an absent key for that.
    const entry = hashes.length === 0 ? { url } : { hashes: [...hashes].sort(), url };
    return [archive.platform.toString(), entry] as const;
  });
  return { archives: Object.fromEntries(entries.sort(([a], [b]) => (a < b ? -1 : 1))) };
}
