import type { IncomingMessage, RequestListener } from 'node:http';
import express from 'express';
import type { Hostname } from '../address/hostname.ts';
import type { Changes } from '../changes.ts';
import type { Logger } from '../logger.ts';
import type { Tracer } from '../tracer.ts';
import { accessLog } from './access-log.ts';
import { type AdminDeps, adminRoutes } from './admin.ts';
import type { AuditTrail } from './audit-entry.ts';
import type { Authenticator } from './authenticate.ts';
import { errorHandler } from './error-handler.ts';
import { type MessageClasses, messageClassesOf } from './express-messages.ts';
import { type Health, healthRoutes } from './health.ts';
import { landingPage } from './landing-page.ts';
import { linkDoor } from './link-door.ts';
import type { Links } from './links.ts';
import { type MetricsSource, metricsPage } from './metrics-page.ts';
import { type ModuleRegistrySource, moduleRegistry } from './module-registry.ts';
import { type NetworkMirrorSource, networkMirror } from './network-mirror.ts';
import { notFound } from './not-found.ts';
import { type PassthroughSource, passthrough } from './passthrough.ts';
import { type ProviderRegistrySource, providerRegistry } from './provider-registry.ts';
import { readyAnswers } from './ready-answers.ts';
import { refuseUnsafeTargets } from './request-guards.ts';
import type { RequestMetrics } from './request-metrics.ts';
import { ownDiscovery, registryDiscovery } from './service-discovery.ts';
import { toAll } from './ui/refusals.ts';
import { type DashboardDeps, dashboard } from './ui.ts';

export interface HttpApplicationDeps {
  readonly mirror: NetworkMirrorSource;
  readonly releases: ProviderRegistrySource['releases'];
  readonly modules: ModuleRegistrySource;
  /** Without it, only what is mirrored is to be had of registries. */
  readonly passthrough?: PassthroughSource | undefined;
  readonly authenticator: Authenticator;
  /** Where clients need a token: archives are linked to without. */
  readonly links?: Links | undefined;
  /** Upstreams that are asked with the tokens of clients. */
  readonly isForwarded?: (hostname: Hostname) => boolean;
  readonly audit?: AuditTrail | undefined;
  /** Without it there are no doors for operators. */
  readonly admin?: AdminDeps | undefined;
  /** Without it operators have no pages. */
  readonly dashboard?: DashboardDeps | undefined;
  readonly health: Health;
  readonly metrics?: (MetricsSource & { readonly requests: RequestMetrics }) | undefined;
  /** Without it nothing is traced. */
  readonly tracer?: Tracer | undefined;
  readonly logger: Logger;
  /** The registries mirrored here. */
  readonly upstreams: readonly Hostname[];
  /** The one that addresses with Larder's own name mean. */
  readonly defaultUpstream?: Hostname | undefined;
  /** Only for text shown to people. */
  readonly publicUrl?: string | undefined;
  /** PEM of the certificate authority that Larder made for itself. */
  readonly caCertificate?: string | undefined;
  readonly isSealed: () => boolean;
  /** Told of everything that changes answers; without it, each is put together anew. */
  readonly changes?: Changes | undefined;
  /** Milliseconds since the epoch; the system's clock unless given. */
  readonly now?: () => number;
}

/** Works with any requests and answers, and fast with those that are of its own classes. */
export type HttpApplication = RequestListener & { readonly messages: MessageClasses };

/**
 * All doors behind one handler, in the order in which a request meets them:
 *
 * 0. answers that were put together a moment ago and would be the same again
 * 1. the access log, which also names the request, so that refusals are logged and can be asked about
 * 2. the guard against targets that are no plain path, so that no route sees one
 * 3. the doors; those that are not open to all begin with asking who comes
 * 4. the end of the road, in JSON, with a hint
 * 5. the error handler, for everything thrown above
 *
 * Deliberately absent: compression (archives must stay byte-identical) and rate limits (a 429 fails somebody's `init`;
 * only those who keep presenting wrong tokens get one).
 */
export function createHttpApplication(deps: HttpApplicationDeps): HttpApplication {
  const application = express();
  const ready = deps.changes && readyAnswers({ ...deps, changes: deps.changes });
  application.disable('x-powered-by');
  application.disable('etag');
  application.set('query parser', 'simple');
  application.set('case sensitive routing', true);
  application.set('strict routing', true);

  // What is refused is shown to operators whether or not it is written down.
  const audit = deps.dashboard ? toAll(deps.audit, deps.dashboard.refusals) : deps.audit;
  application.use(accessLog({ ...deps, audit }));
  if (ready) application.use(ready.offer);
  application.use(refuseUnsafeTargets);
  application.use('/providers', networkMirror(deps));
  application.use('/registry', registryDiscovery(deps));
  application.use('/registry', moduleRegistry(deps));
  application.use('/registry', providerRegistry(deps));
  if (deps.passthrough) application.use('/registry', passthrough({ ...deps, passthrough: deps.passthrough }));
  if (deps.links) application.use('/get', linkDoor({ ...deps, links: deps.links }));
  if (deps.admin) application.use('/admin', adminRoutes({ ...deps, ...deps.admin }));
  if (deps.admin && deps.dashboard) application.use('/ui', dashboard({ ...deps, ...deps.admin, ...deps.dashboard }));
  if (deps.defaultUpstream) application.use(ownDiscovery({ ...deps, defaultUpstream: deps.defaultUpstream }));
  application.use(healthRoutes(deps));
  if (deps.metrics) application.use(metricsPage({ ...deps, metrics: deps.metrics }));
  application.use(landingPage(deps));
  application.use(notFound(deps));
  application.use(errorHandler(deps));
  const handler: RequestListener = (req, res) => {
    if (ready?.answer(req, res)) return;
    if (!ROUTABLE.test(req.url ?? '')) leadToGuard(req);
    application(req, res);
  };
  return Object.assign(handler, { messages: messageClassesOf(application) });
}

/** Targets in which the router finds a path. The guard refuses all others. */
const ROUTABLE = /^\/(?![/\\])/;

/**
 * Of some targets (`x://y?`, `//@#`) the router makes nothing, and passes over all of the above. It is shown another
 * one; the guard looks at the original.
 */
function leadToGuard(req: IncomingMessage): void {
  Object.assign(req, { originalUrl: req.url, url: '/' });
}
