import { setTimeout as delay } from 'node:timers/promises';
import { assembleAdmission } from './admission.ts';
import { Certificates } from './certificates.ts';
import { Changes } from './changes.ts';
import { Closers } from './closers.ts';
import type { Config } from './config.ts';
import { HclConverter } from './configuration/hcl-converter.ts';
import { assembleDashboard } from './dashboard.ts';
import { assembleHouseKeeping } from './house-keeping.ts';
import { createHttpApplication } from './http/application.ts';
import { Health } from './http/health.ts';
import { HttpServer } from './http/server.ts';
import type { TlsMaterial } from './http/tls.ts';
import type { Logger } from './logger.ts';
import { FirstSeen } from './mirror/first-seen.ts';
import { metadataKinds, privateMetadataKinds } from './mirror/metadata-kinds.ts';
import { sealedOff } from './mirror/not-stored.ts';
import { Passthrough } from './mirror/passthrough.ts';
import { Policy } from './mirror/policy.ts';
import { TooNewVersions } from './mirror/too-new.ts';
import { UpstreamMetadata } from './mirror/upstream-metadata.ts';
import { WishReader } from './mirror/wish-reader.ts';
import { assembleModules } from './modules.ts';
import { assembleOperators } from './operators.ts';
import { assembleProviders } from './providers.ts';
import { openShared } from './shared.ts';
import { openStorage } from './storage.ts';
import type { MetadataVerdict } from './store/metadata-examination.ts';
import { HttpClient } from './upstream/http-client.ts';
import { Relay } from './upstream/relay.ts';
import { ServiceDiscovery } from './upstream/service-discovery.ts';
import { prepareSignatures } from './upstream/signature.ts';
import { loadUpstreamRules } from './upstreams.ts';
import { assembleWarming } from './warming.ts';
import { assembleWatching } from './watching.ts';
import type { WorkerLine, WorkerPlace } from './workers/worker-line.ts';

/** Answers under way when a shutdown begins get this long. Orchestrators usually wait 30 s or longer before they kill. */
const DRAIN_MS = 25_000;

/** How long clients wait for a stored file that was written to, until it has been compared. They wait 10 s in all. */
const PATIENCE_MS = 8_000;

/** A Larder that listens. */
export interface ListeningAddress {
  readonly port: number;
  /** As reached from this machine, without a slash at its end. */
  readonly url: string;
}

/** A running Larder. */
export interface App {
  /** @throws the system's error when the address cannot be had */
  listen(): Promise<ListeningAddress>;
  /** The certificate authority made for `tls.mode: selfsigned`. */
  readonly authority: TlsMaterial['authority'];
  /** Takes up renewed certificate files. What cannot be used is logged, and the old ones stay in use. */
  reloadCertificate(): Promise<void>;
  /** Begins a new audit log, for when the file was moved away. */
  reopenAuditLog(): Promise<void>;
  /** Finishes what is under way, then lets go of everything. */
  close(): Promise<void>;
}

/** What it is put together with besides its configuration. */
export interface AppDeps {
  readonly logger: Logger;
  readonly version: string;
  /** One of several processes of one machine that serve on the same port. */
  readonly worker?: { readonly line: WorkerLine; readonly place: WorkerPlace } | undefined;
  /** What an examination of the metadata file says that was begun before. */
  readonly examined?: Promise<MetadataVerdict> | undefined;
}

/**
 * Puts the parts together: the only place besides `config.ts` that sees the configuration whole. What was opened before
 * a part fails is closed again.
 * @throws InvalidConfiguration, StorageFailed
 */
export async function createApp(config: Config, deps: AppDeps): Promise<App> {
  const opened = new Closers(deps);
  try {
    return await assemble(config, deps, opened);
  } catch (error) {
    await opened.close();
    throw error;
  }
}

async function assemble(config: Config, { logger, version, worker, examined }: AppDeps, opened: Closers): Promise<App> {
  const isSealed = () => seal.isSealed;
  const { metadataDeadline } = config.limits;
  const watching = await assembleWatching(config, { version, outside: () => http, opened, logger });
  const { metrics, observer, tracer, upstreamHealth } = watching;

  // What is outside.
  const http = new HttpClient({
    userAgent: `Larder/${version}`,
    proxy: config.proxy,
    extraCa: config.extraCa,
    logger,
    observer,
    tracer,
    isSealed,
  });
  opened.add('connections', () => http.close());
  const relay = new Relay({
    proxy: config.proxy,
    extraCa: config.extraCa,
    limits: { headersMs: metadataDeadline },
    observer,
    tracer,
    isSealed,
  });

  // What rests.
  const changes = new Changes();
  const storage = await openStorage(config, { patienceMs: PATIENCE_MS, logger });
  opened.add('storage', () => storage.close());
  const keptHouse = await assembleHouseKeeping(config, { storage, isSealed, changes, opened, logger });
  const { keeping, quota } = keptHouse;
  const { metadataStore, leases, seal, cache, drift } = await openShared(config, {
    measured: (store) => watching.measured(store),
    examined,
    changes,
    worker,
    opened,
    logger,
  });

  const traffic = watching.trafficHistory(metadataStore);

  // What is done with them.
  if (config.ignoredTokens.length > 0) {
    logger.warn('these variables name none of upstreams.hosts and are not used', { variables: config.ignoredTokens });
  }
  const policy = new Policy(await loadUpstreamRules(config, { logger }));
  const upstreams = new UpstreamMetadata({
    cache,
    kinds: metadataKinds(config.freshness),
    privateKinds: privateMetadataKinds(config.freshness),
    discovery: new ServiceDiscovery({ http }),
  });
  const firstSeen = new FirstSeen({ store: metadataStore, logger });
  const tooNew = new TooNewVersions({ rules: config.cooldown, firstSeen });
  const shared = {
    storage,
    http,
    upstreams,
    policy,
    firstSeen,
    drift,
    keeping,
    leases,
    tracer,
    isSealed,
    opened,
    logger,
  };
  const providers = await assembleProviders(config, { ...shared, cache });
  const modules = await assembleModules(config, shared);
  seal.watch({
    sealed: () => {
      changes.note();
      return {
        downloads: providers.archives.breakOff((one) => sealedOff(one.provider, one.version, one.platform)),
        'module packages': modules.breakOff(),
        'what is passed on': Promise.resolve(relay.breakOff()),
        connections: http.breakOff(),
      };
    },
    unsealed: () => {
      changes.note();
      http.forgetCircuits();
      relay.forgetCircuits();
    },
  });
  storage.begin();
  quota.begin({ archives: providers.store, packages: modules.store });
  const converter = new HclConverter();
  opened.add('parser of configuration', () => converter.close());
  const wishReader = new WishReader({ converter, defaultPlatforms: config.warm.platforms });
  metrics.observe({
    downloads: { all: () => providers.archives.downloads, waiting: () => providers.archives.waiting },
    packages: { all: () => modules.packages.makings, waiting: () => modules.packages.waiting },
    hashesWaiting: () => providers.hasher.waiting,
    warmJobs: () => warming.jobs.running,
    drift: () => drift.all.length,
    sealed: isSealed,
    disk: () => quota,
    data: config.data,
    leasesUnshared: () => leases.unshared,
    caches: { metadata: cache.lookUps, archives: providers.archives.counts, packages: modules.packages.counts },
  });

  // Who may have it.
  const { audit, authenticator, links } = await assembleAdmission(config, { policy, opened, logger });

  // What is brought in ahead of them.
  const warming = assembleWarming(config, {
    mirror: providers.mirror,
    releases: providers.releases,
    modules: modules.mirror,
    reader: wishReader,
    tooNew,
    opening: seal.opening,
    isStored: async (wanted) =>
      (wanted.kind === 'archive'
        ? await providers.store.find(wanted.archive)
        : await modules.store.find(wanted.release)) !== undefined,
    authenticator,
    metadataStore,
    metrics,
    audit,
    logger,
  });

  // Who comes.
  const certificates = await Certificates.load(config, { logger });
  const health = new Health({
    checks: [
      { name: 'archives', essential: true, asks: config.s3 && 'bucket', check: () => providers.store.check() },
      { name: 'metadata', essential: false, check: () => metadataStore.check() },
      { name: 'seal', essential: false, check: () => seal.check() },
    ],
    isDraining: () => server.isDraining,
    isSealed,
    logger,
  });
  metrics.observeHealth(health);
  const handler = createHttpApplication({
    mirror: providers.mirror,
    releases: providers.releases,
    modules: modules.mirror,
    passthrough: new Passthrough({ policy, upstreams, relay, isSealed }),
    authenticator,
    links,
    isForwarded: (hostname) => policy.forwards(hostname),
    audit,
    admin: assembleOperators(config, {
      providers,
      modules,
      keptHouse,
      cache,
      policy,
      drift,
      seal,
      warming,
      reader: wishReader,
      tooNew,
      otherWorkers: worker?.line,
      opened,
      logger,
    }),
    dashboard: await assembleDashboard({
      archives: providers.store,
      packages: modules.store,
      metadataStore,
      traffic,
      upstreamHealth,
      disk: () => quota,
      opened,
      logger,
    }),
    health,
    metrics: worker ? { ...worker.line.gathering(metrics), requests: metrics.requests } : metrics,
    tracer,
    logger,
    upstreams: policy.hostnames,
    defaultUpstream: config.upstreams.default,
    publicUrl: config.publicUrl,
    caCertificate: certificates.current?.authority?.certificate,
    isSealed,
    changes,
  });
  const server = new HttpServer({ handler, tls: certificates.current });
  opened.add('server', () => server.drain(DRAIN_MS));
  // Before the server: whoever watches a job would hold up its end.
  opened.add('warming', () => warming.close());

  certificates.watch((renewed) => server.replaceCertificate(renewed));
  opened.add('certificates', () => certificates.close());
  // First of all.
  opened.add('farewell', async () => {
    if (config.listen.drainDelay === undefined || !health.isProbed) return;
    server.leave();
    const milliseconds = config.listen.drainDelay;
    logger.info('still serving, for whoever asks /readyz to send nothing more here; a second signal ends it at once', {
      milliseconds,
    });
    await delay(milliseconds);
  });

  return {
    authority: certificates.current?.authority,
    listen: async () => {
      const port = await server.listen(config.listen);
      warming.start();
      traffic.start();
      void http.prepare(policy.hostnames.map((hostname) => policy.upstream(hostname)));
      void prepareSignatures();
      return { port, url: `${certificates.current ? 'https' : 'http'}://localhost:${port}` };
    },
    reloadCertificate: () => certificates.reload(),
    reopenAuditLog: async () => audit?.reopen(),
    close: () => opened.close(),
  };
}
