import { type RequestHandler, Router } from 'express';
import { Hostname } from '../address/hostname.ts';
import { HostNotAllowed } from '../errors.ts';
import { publicAddress } from './public-address.ts';
import { ReadAccess, type ReadAccessDeps } from './read-access.ts';
import { allowOnly } from './request-guards.ts';
import { jsonBody, sendJson } from './respond.ts';
import { serviceUrls } from './service-urls.ts';
import { tokenHint } from './token-hint.ts';

const PATH = '/.well-known/terraform.json';

/**
 * Remote service discovery of Larder itself: with it, `larder.example.com/NAMESPACE/NAME/SYSTEM` is a module's source
 * and `larder.example.com/NAMESPACE/TYPE` a provider's, both those of one registry.
 *
 * The URLs are paths that begin with a slash. The clients resolve them; tools that only join strings get them right as
 * well, because the document is asked for at the root of a host. Open to all: it holds nothing but Larder's own paths.
 */
export function ownDiscovery(options: {
  readonly defaultUpstream: Hostname;
  readonly publicUrl?: string | undefined;
}): Router {
  const { defaultUpstream, publicUrl } = options;
  // A proxy in front may serve Larder below a path.
  const prefix = publicUrl === undefined ? '' : new URL(publicUrl).pathname;
  const body = jsonBody(serviceUrls(prefix, defaultUpstream));
  const router = Router({ caseSensitive: true, strict: true });
  router
    .route(PATH)
    .all(allowOnly('GET', 'HEAD'))
    .get((req, res) => sendJson(req, res, body));
  return router;
}

/**
 * `/HOST/.well-known/terraform.json`, for tools that take `https://larder.example.com/registry/HOST` as the address of
 * a registry. Some of them join that address and whatever is no complete URL, so these URLs are complete.
 */
export function registryDiscovery(
  deps: ReadAccessDeps & { readonly upstreams: readonly Hostname[]; readonly publicUrl?: string | undefined },
): Router {
  const access = new ReadAccess({ ...deps, hint: tokenHint });
  const known = new Set(deps.upstreams.map(String));
  const router = Router({ caseSensitive: true, strict: true });

  const answer: RequestHandler<{ hostname: string }> = (req, res) => {
    const hostname = Hostname.parse(req.params.hostname);
    if (!known.has(hostname.toString())) {
      throw new HostNotAllowed(`${hostname} is not among the registries mirrored here`, {
        hint: `the operator can add it to upstreams.hosts; mirrored are: ${deps.upstreams.join(', ')}`,
      });
    }
    const { bytes } = jsonBody(serviceUrls(publicAddress(req, deps.publicUrl) ?? '', hostname));
    // Made for the address it was asked on: of no use to anybody else.
    res.writeHead(200, {
      'Content-Type': 'application/json',
      'Content-Length': bytes.length,
      'Cache-Control': 'no-store',
    });
    res.end(bytes);
  };

  router.all(`/:hostname${PATH}`, allowOnly('GET', 'HEAD'), access.authenticate, answer);
  return router;
}
