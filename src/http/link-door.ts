import { type RequestHandler, Router } from 'express';
import type { ProviderArchive } from '../address/archive.ts';
import type { Hostname } from '../address/hostname.ts';
import type { ProviderMirror } from '../mirror/provider-mirror.ts';
import { sendArchive } from './archive-response.ts';
import type { Authenticator, Client } from './authenticate.ts';
import { type Links, linkNotValid } from './links.ts';
import { type ProviderParams, parseArchive } from './provider-params.ts';
import { allowOnly } from './request-guards.ts';
import { notesOf } from './respond.ts';

/**
 * `GET`, `HEAD /get/CAPABILITY/HOSTNAME/NAMESPACE/TYPE/FILENAME`: archives for whoever has a link, with no token. What
 * else the request carries is not looked at.
 */
export function linkDoor(deps: {
  mirror: Pick<ProviderMirror, 'openArchive' | 'describeArchive'>;
  authenticator: Authenticator;
  links: Links;
  isForwarded?: (hostname: Hostname) => boolean;
}): Router {
  const { mirror, authenticator, links, isForwarded = () => false } = deps;
  const router = Router({ caseSensitive: true, strict: true });
  router.use(allowOnly('GET', 'HEAD'));

  /** The client that the link was made out to, with the rights that it has now. */
  const holderOf = async (capability: string, archive: ProviderArchive): Promise<Client> => {
    const client = await authenticator.clientOf(await links.verify(capability, archive));
    // For a token that is passed on, upstream says what it is good for.
    if (client?.bearer !== undefined && isForwarded(archive.provider.hostname)) return client;
    if (!client?.mayRead(archive.provider)) throw linkNotValid('its holder may not have the file any more');
    return client;
  };

  const answer: RequestHandler<ProviderParams & { capability: string; filename: string }> = async (req, res) => {
    const archive = parseArchive(req.params);
    const notes = notesOf(res);
    notes.isPersonal = true;
    notes.asked = archive;
    const client = await holderOf(req.params.capability, archive);
    notes.client = client;
    await sendArchive(req, res, {
      describe: () => mirror.describeArchive(archive, client),
      open: () => mirror.openArchive(archive, client),
    });
  };
  router.get('/:capability/:hostname/:namespace/:type/:filename', answer);
  return router;
}
