import { type Request, type RequestHandler, Router } from 'express';
import type { ModuleRelease } from '../address/module.ts';
import type { LocatedModule, ModuleList, ModuleMirror } from '../mirror/module-mirror.ts';
import { sendArchive } from './archive-response.ts';
import type { Client } from './authenticate.ts';
import { type ModuleParams, parseModule, parsePackage, parseRelease } from './module-params.ts';
import { ReadAccess, type ReadAccessDeps } from './read-access.ts';
import { notesOf, RenderedBodies, sendJson } from './respond.ts';
import { tokenHint } from './token-hint.ts';

/** What this door asks of the use case behind it. */
export type ModuleRegistrySource = Pick<ModuleMirror, 'list' | 'locate' | 'openPackage' | 'describePackage'>;

/** Where this door's paths of one module begin. */
const MODULE = '/:hostname/v1/modules/:namespace/:name/:system';

/** From where the download answer lies to where all paths begin. */
const TO_ROOT = '../'.repeat(8);

/** Packages are tar.gz, whatever upstream has. */
export const PACKAGE_MEDIA_TYPE = 'application/gzip';

/**
 * The module registry protocol, as OpenTofu and Terraform speak it to a service `modules.v1`:
 *
 * - `GET /HOST/v1/modules/NAMESPACE/NAME/SYSTEM/versions`
 * - `GET /HOST/v1/modules/NAMESPACE/NAME/SYSTEM/VERSION/download`: 204, and where the package is in `X-Terraform-Get`,
 *   the one form that every version of both clients understands
 * - `GET`, `HEAD /HOST/v1/modules/NAMESPACE/NAME/SYSTEM/VERSION/NAMESPACE-NAME-SYSTEM-VERSION.tar.gz`: the package
 *
 * Locations are relative; where clients need a token, which they do not send for packages, they are links that need none.
 */
export function moduleRegistry(deps: ReadAccessDeps & { readonly modules: ModuleRegistrySource }): Router {
  const { modules } = deps;
  const access = new ReadAccess({ ...deps, hint: tokenHint });
  const router = Router({ caseSensitive: true, strict: true });
  const lists = new RenderedBodies(versionsDocument);

  const answerVersions: RequestHandler<ModuleParams> = async (req, res) => {
    const module = parseModule(req.params);
    const client = access.admit(res, { module });
    const list = await modules.list(module, client);
    sendJson(req, res, lists.bodyOf(list.versions), list);
  };

  const locationFor = (client: Client, release: ModuleRelease, located: LocatedModule): string => {
    if (located.kind === 'elsewhere') return located.location;
    const links = access.linksFor(client, located.isPrivate);
    const path = links ? `${TO_ROOT}${links.pathFor(release)}` : `./${encodeURI(release.filename)}`;
    // As it is: the clients decode nothing there.
    const subdir = located.subdir === '' ? '' : `//${located.subdir}`;
    // It turns a package that was torn or swapped on its way into an error.
    const checksum = located.sha256 === undefined ? '' : `?checksum=sha256:${located.sha256}`;
    return path + subdir + checksum;
  };

  const answerDownload: RequestHandler<ModuleParams & { version: string }> = async (req, res) => {
    const release = parseRelease(req.params);
    const { module, version } = release;
    const client = access.admit(res, { module, version, what: 'module' });
    const located = await modules.locate(release, client);
    notesOf(res).outcome = located.kind === 'elsewhere' ? 'elsewhere' : located.state;
    res.writeHead(204, {
      'X-Terraform-Get': headerText(locationFor(client, release, located)),
      'Cache-Control': notesOf(res).isPersonal ? 'private, no-cache' : 'no-cache',
    });
    res.end();
  };

  const answerPackage: RequestHandler<ModuleParams & { version: string; filename: string }> = async (
    req,
    res,
    next,
  ) => {
    // Whatever else a registry has there is not ours.
    if (!req.params.filename.endsWith('.tar.gz')) return next();
    const release = parsePackage(req.params);
    const { module, version } = release;
    const client = access.admit(res, { module, version, what: 'module package' });
    await sendPackage(req, res, modules, release, client);
  };

  router.get(`${MODULE}/versions`, access.authenticate, answerVersions);
  router.get(`${MODULE}/:version/download`, access.authenticate, answerDownload);
  router.get(`${MODULE}/:version/:filename`, access.authenticate, answerPackage);
  return router;
}

/** Answers GET and HEAD for a package. */
export function sendPackage(
  req: Request,
  res: Parameters<RequestHandler>[1],
  modules: Pick<ModuleRegistrySource, 'openPackage' | 'describePackage'>,
  release: ModuleRelease,
  client: Client,
): Promise<void> {
  return sendArchive(req, res, {
    mediaType: PACKAGE_MEDIA_TYPE,
    describe: () => modules.describePackage(release, client),
    open: () => modules.openPackage(release, client),
  });
}

/** The clients read headers as UTF-8; Node writes one byte for each character. */
function headerText(text: string): string {
  return Buffer.from(text).toString('latin1');
}

function versionsDocument(versions: ModuleList['versions']): unknown {
  return { modules: [{ versions: versions.map((version) => ({ version: version.toString() })) }] };
}
