import { type RequestHandler, Router } from 'express';
import type { ProviderArchive } from '../address/archive.ts';
import type { Hostname } from '../address/hostname.ts';
import { ReleaseFile } from '../address/release-file.ts';
import type { ProviderMirror } from '../mirror/provider-mirror.ts';
import type { ProviderReleases } from '../mirror/provider-releases.ts';
import { sendArchive } from './archive-response.ts';
import type { Authenticator, Client } from './authenticate.ts';
import { type LinkedFile, type Links, linkNotValid } from './links.ts';
import { type ProviderParams, parseArchive, parseProvider } from './provider-params.ts';
import { sendReleaseFile } from './release-file-response.ts';
import { allowOnly } from './request-guards.ts';
import { notesOf } from './respond.ts';

/**
 * `GET`, `HEAD /get/CAPABILITY/HOSTNAME/NAMESPACE/TYPE/FILENAME`: archives, SHA256SUMS and signatures for whoever has a link, with no token. What
 * else the request carries is not looked at.
 */
export function linkDoor(deps: {
  mirror: Pick<ProviderMirror, 'openArchive' | 'describeArchive'>;
  releases: Pick<ProviderReleases, 'checksums'>;
  authenticator: Authenticator;
  links: Links;
  isForwarded?: (hostname: Hostname) => boolean;
}): Router {
  const { mirror, releases, authenticator, links, isForwarded = () => false } = deps;
  const router = Router({ caseSensitive: true, strict: true });
  router.use(allowOnly('GET', 'HEAD'));

  /** The client that the link was made out to, with the rights that it has now. */
  const holderOf = async (capability: string, file: LinkedFile): Promise<Client> => {
    const client = await authenticator.clientOf(await links.verify(capability, file));
    // For a token that is passed on, upstream says what it is good for.
    if (client?.bearer !== undefined && isForwarded(file.provider.hostname)) return client;
    if (!client?.mayRead(file.provider)) throw linkNotValid('its holder may not have the file any more');
    return client;
  };

  const answer: RequestHandler<ProviderParams & { capability: string; filename: string }> = async (req, res) => {
    const file = parseFile(req.params);
    const notes = notesOf(res);
    notes.isPersonal = true;
    notes.asked = file instanceof ReleaseFile ? { ...file, what: file.kind } : file;
    const client = await holderOf(req.params.capability, file);
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
  router.get('/:capability/:hostname/:namespace/:type/:filename', answer);
  return router;
}

function parseFile(params: ProviderParams & { filename: string }): ProviderArchive | ReleaseFile {
  const { filename } = params;
  return /_SHA256SUMS(?:\.sig)?$/.test(filename)
    ? ReleaseFile.parseFilename(parseProvider(params), filename)
    : parseArchive(params);
}
