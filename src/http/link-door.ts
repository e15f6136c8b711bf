import { type RequestHandler, Router } from 'express';
import type { ProviderArchive } from '../address/archive.ts';
import type { Hostname } from '../address/hostname.ts';
import { ModuleRelease } from '../address/module.ts';
import { ReleaseFile } from '../address/release-file.ts';
import type { ProviderMirror } from '../mirror/provider-mirror.ts';
import type { ProviderReleases } from '../mirror/provider-releases.ts';
import { sendArchive } from './archive-response.ts';
import type { Authenticator, Client } from './authenticate.ts';
import { type LinkedFile, type Links, linkNotValid } from './links.ts';
import { type ModuleParams, parsePackage } from './module-params.ts';
import { type ModuleRegistrySource, sendPackage } from './module-registry.ts';
import { type ProviderParams, parseArchive, parseProvider } from './provider-params.ts';
import { sendReleaseFile } from './release-file-response.ts';
import { allowOnly } from './request-guards.ts';
import { notesOf, originOf } from './respond.ts';

/**
 * Files for whoever has a link to them, with no token. What else the request carries is not looked at.
 *
 * - `GET`, `HEAD /get/CAPABILITY/HOSTNAME/NAMESPACE/TYPE/FILENAME`: archives, SHA256SUMS and signatures of providers
 * - `GET`, `HEAD /get/CAPABILITY/HOSTNAME/NAMESPACE/NAME/SYSTEM/VERSION/FILENAME`: packages of modules
 */
export function linkDoor(deps: {
  mirror: Pick<ProviderMirror, 'openArchive' | 'describeArchive'>;
  releases: Pick<ProviderReleases, 'checksums'>;
  modules: Pick<ModuleRegistrySource, 'openPackage' | 'describePackage'>;
  authenticator: Authenticator;
  links: Links;
  isForwarded?: (hostname: Hostname) => boolean;
}): Router {
  const { mirror, releases, modules, authenticator, links, isForwarded = () => false } = deps;
  const router = Router({ caseSensitive: true, strict: true });
  router.use(allowOnly('GET', 'HEAD'));

  /** The client that the link was made out to, with the rights that it has now. */
  const holderOf = async (capability: string, file: LinkedFile): Promise<Client> => {
    const client = await authenticator.clientOf(await links.verify(capability, file));
    // For a token that is passed on, upstream says what it is good for.
    const address = file instanceof ModuleRelease ? file.module : file.provider;
    if (client?.bearer !== undefined && isForwarded(address.hostname)) return client;
    if (!client?.mayRead(address)) throw linkNotValid('its holder may not have the file any more');
    return client;
  };

  const answer: RequestHandler<ProviderParams & { capability: string; filename: string }> = async (req, res) => {
    const file = parseFile(req.params);
    const notes = notesOf(res);
    notes.isPersonal = true;
    notes.asked = file instanceof ReleaseFile ? { ...file, what: file.kind } : file;
    const client = await holderOf(req.params.capability, file);
    client.origin = originOf(res);
    notes.client = client;
    if (file instanceof ReleaseFile) {
      await sendReleaseFile(req, res, file, () => releases.checksums(file.provider, file.version, client));
    } else {
      await sendArchive(req, res, {
        describe: () => mirror.describeArchive(file, client),
        open: () => mirror.openArchive(file, client),
      });
    }
  };

  const answerPackage: RequestHandler<
    ModuleParams & { capability: string; version: string; filename: string }
  > = async (req, res) => {
    const release = parsePackage(req.params);
    const notes = notesOf(res);
    notes.isPersonal = true;
    notes.asked = { ...release, what: 'module package' };
    const client = await holderOf(req.params.capability, release);
    notes.client = client;
    await sendPackage(req, res, modules, release, client);
  };

  router.get('/:capability/:hostname/:namespace/:type/:filename', answer);
  router.get('/:capability/:hostname/:namespace/:name/:system/:version/:filename', answerPackage);
  return router;
}

function parseFile(params: ProviderParams & { filename: string }): ProviderArchive | ReleaseFile {
  const { filename } = params;
  return /_SHA256SUMS(?:\.sig)?$/.test(filename)
    ? ReleaseFile.parseFilename(parseProvider(params), filename)
    : parseArchive(params);
}
