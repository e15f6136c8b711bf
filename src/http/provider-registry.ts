import { type Request, type RequestHandler, Router } from 'express';
import { ProviderArchive } from '../address/archive.ts';
import { Platform } from '../address/platform.ts';
import { ReleaseFile } from '../address/release-file.ts';
import { Version } from '../address/version.ts';
import type { ProviderMirror } from '../mirror/provider-mirror.ts';
import type { PackageDescription, ProviderReleases, ReleaseCatalogue } from '../mirror/provider-releases.ts';
import { sendArchive } from './archive-response.ts';
import { type ProviderParams, parseArchive, parseProvider } from './provider-params.ts';
import { publicAddress } from './public-address.ts';
import { ReadAccess, type ReadAccessDeps } from './read-access.ts';
import { sendReleaseFile } from './release-file-response.ts';
import { RequestError } from './request-error.ts';
import { allowOnly } from './request-guards.ts';
import { jsonBody, RenderedBodies, sendJson } from './respond.ts';
import { tokenHint } from './token-hint.ts';

/** What this door asks of the use cases behind it. */
export interface ProviderRegistrySource {
  readonly mirror: Pick<ProviderMirror, 'openArchive' | 'describeArchive'>;
  readonly releases: Pick<ProviderReleases, 'list' | 'describe' | 'checksums'>;
}

/** Where this door's paths of one provider begin. */
const PROVIDER = '/:hostname/v1/providers/:namespace/:type';

/**
 * The provider registry protocol, as OpenTofu and Terraform speak it to a service `providers.v1`:
 *
 * - `GET /HOST/v1/providers/NAMESPACE/TYPE/versions`
 * - `GET /HOST/v1/providers/NAMESPACE/TYPE/VERSION/download/OS/ARCH`: where an archive is, and all it takes to verify it
 * - `GET /HOST/v1/providers/NAMESPACE/TYPE/VERSION/SHA256SUMS` and `SHA256SUMS.sig`: upstream's own bytes
 * - `GET`, `HEAD /HOST/v1/providers/NAMESPACE/TYPE/VERSION/terraform-provider-TYPE_VERSION_OS_ARCH.zip`
 *
 * Only URLs are other than upstream's. They are relative; where clients need a token, which they send for none of the
 * files, they are links that need none.
 */
export function providerRegistry(
  deps: ReadAccessDeps & ProviderRegistrySource & { readonly publicUrl?: string | undefined },
): Router {
  const { mirror, releases } = deps;
  const access = new ReadAccess({ ...deps, hint: tokenHint });
  const router = Router({ caseSensitive: true, strict: true });
  const catalogues = new RenderedBodies(versionsDocument);
  const get = <P>(path: string, answer: RequestHandler<P>) =>
    router
      .route(path)
      .all(allowOnly('GET', 'HEAD'), access.authenticate)
      .get(answer as RequestHandler);

  const answerVersions: RequestHandler<ProviderParams> = async (req, res) => {
    const provider = parseProvider(req.params);
    const client = access.admit(res, { provider });
    const list = await releases.list(provider, client);
    sendJson(req, res, catalogues.bodyOf(list.catalogue), list);
  };

  const answerPackage: RequestHandler<ProviderParams & { version: string; os: string; arch: string }> = async (
    req,
    res,
  ) => {
    const { version, os, arch } = req.params;
    const archive = new ProviderArchive(parseProvider(req.params), Version.parse(version), new Platform(os, arch));
    const { provider, platform } = archive;
    const client = access.admit(res, { provider, version: archive.version, platform, what: 'package' });
    const described = await releases.describe(archive, client);
    const links = access.linksFor(client, described.isPrivate);
    const urlOf: UrlMaker = links ? (file) => `${TO_ROOT}${links.pathFor(file)}` : besideVersion;
    sendJson(req, res, jsonBody(packageDocument(described, urlOf)), described);
  };

  const answerReleaseFile =
    (kind: ReleaseFile['kind']): RequestHandler<ProviderParams & { version: string }> =>
    async (req, res) => {
      const file = new ReleaseFile(parseProvider(req.params), Version.parse(req.params.version), kind);
      const { provider, version } = file;
      const client = access.admit(res, { provider, version, what: kind });
      await sendReleaseFile(req, res, file, () => releases.checksums(provider, version, client));
    };

  const answerArchive: RequestHandler<ProviderParams & { version: string; filename: string }> = async (req, res) => {
    const archive = parseArchive(req.params);
    if (archive.version.toString() !== req.params.version) {
      throw new RequestError(404, 'NOT_FOUND', `${archive.filename} is no file of version ${req.params.version}`);
    }
    const client = access.admit(res, archive);
    await sendArchive(req, res, {
      describe: () => mirror.describeArchive(archive, client),
      open: () => mirror.openArchive(archive, client),
    });
  };

  get(`${PROVIDER}/versions`, answerVersions);
  get(`${PROVIDER}/:version/download/:os/:arch`, answerPackage);
  get(`${PROVIDER}/:version/SHA256SUMS`, answerReleaseFile('SHA256SUMS'));
  get(`${PROVIDER}/:version/SHA256SUMS.sig`, answerReleaseFile('SHA256SUMS.sig'));
  get(`${PROVIDER}/:version/:filename`, answerArchive);
  router.use(access.authenticate, (req, _res, next) => {
    const hint = hintFor(req, publicAddress(req, deps.publicUrl));
    if (hint === undefined) return next();
    throw new RequestError(404, 'NOT_FOUND', 'nothing is served under this path', { hint });
  });
  return router;
}

function versionsDocument({ releases, warnings }: ReleaseCatalogue): unknown {
  return {
    versions: releases.map(({ version, protocols, platforms }) => ({
      version: version.toString(),
      ...(protocols?.length && { protocols }),
      platforms: platforms.map(({ os, arch }) => ({ os, arch })),
    })),
    ...(warnings.length > 0 && { warnings }),
  };
}

/** The URL of a file, as it stands in a package document. */
type UrlMaker = (file: ProviderArchive | ReleaseFile) => string;

/** From where a package document lies to where all paths begin. */
const TO_ROOT = '../'.repeat(9);

/** From `VERSION/download/OS/ARCH` to what is in `VERSION/`. */
const besideVersion: UrlMaker = (file) => `../../${file instanceof ReleaseFile ? file.kind : encodeURI(file.filename)}`;

function packageDocument({ archive, listedAs, sha256, statement }: PackageDescription, urlOf: UrlMaker): unknown {
  const { provider, version, platform } = archive;
  const { protocols, signing_keys, packages } = statement;
  return {
    ...(protocols.length > 0 && { protocols }),
    os: platform.os,
    arch: platform.arch,
    filename: listedAs,
    download_url: urlOf(archive),
    shasums_url: urlOf(new ReleaseFile(provider, version, 'SHA256SUMS')),
    shasums_signature_url: urlOf(new ReleaseFile(provider, version, 'SHA256SUMS.sig')),
    shasum: sha256,
    signing_keys,
    ...(packages && { packages }),
  };
}

/** Without the slash at the end of a service's URL, the clients drop its last part. */
const SHIFTED = /^\/([^/]+)\/v1\/([^/]+\/[^/]+\/(?:versions|[^/]+\/download\/[^/]+\/[^/]+))$/;

/** For paths that can only be a mistake. Those of modules look alike and are longer by one part. */
function hintFor({ path }: Request, origin = ''): string | undefined {
  const [, host] = SHIFTED.exec(path) ?? [];
  if (host === undefined) return undefined;
  return `the URL of the service must end in a slash: "providers.v1" = "${origin}/registry/${host}/v1/providers/"`;
}
