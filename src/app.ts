import path from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { loadClientTokens } from './access.ts';
import { AuditLog } from './audit.ts';
import { MetadataCache } from './cache/metadata-cache.ts';
import { Changes } from './changes.ts';
import { Closers } from './closers.ts';
import type { Config } from './config.ts';
import { HclConverter } from './configuration/hcl-converter.ts';
import { assembleDashboard } from './dashboard.ts';
import { assembleHouseKeeping } from './house-keeping.ts';
import { createHttpApplication } from './http/application.ts';
import { Authenticator } from './http/authenticate.ts';
import { Health } from './http/health.ts';
import { Links, longestLife } from './http/links.ts';
import { SealedBearers } from './http/sealed-bearers.ts';
import { HttpServer } from './http/server.ts';
import { certificateNames, loadTls, type TlsMaterial, type TlsSettings } from './http/tls.ts';
import type { Logger } from './logger.ts';
import { DriftReports } from './mirror/drift.ts';
import { FirstSeen } from './mirror/first-seen.ts';
import { metadataKinds, privateMetadataKinds } from './mirror/metadata-kinds.ts';
import { sealedOff } from './mirror/not-stored.ts';
import { Passthrough } from './mirror/passthrough.ts';
import { Policy } from './mirror/policy.ts';
import { Seal } from './mirror/seal.ts';
import { TooNewVersions } from './mirror/too-new.ts';
import { UpstreamMetadata } from './mirror/upstream-metadata.ts';
import { WishReader } from './mirror/wish-reader.ts';
import { assembleModules } from './modules.ts';
import { assembleOperators } from './operators.ts';
import { assembleProviders } from './providers.ts';
import { redisSettings } from './redis.ts';
import { openStorage } from './storage.ts';
import { openEmbeddedMetadata } from './store/embedded-keyv.ts';
import { paths } from './store/keys.ts';
import { LinkKeys } from './store/link-keys.ts';
import { LocalLeases } from './store/local-leases.ts';
import type { MetadataStore } from './store/metadata-store.ts';
import { PartialFiles } from './store/partial-files.ts';
import { openRedisMetadata } from './store/redis-keyv.ts';
import { RedisLeases } from './store/redis-leases.ts';
import { SealFile } from './store/seal-file.ts';
import { HttpClient } from './upstream/http-client.ts';
import { Relay } from './upstream/relay.ts';
import { ServiceDiscovery } from './upstream/service-discovery.ts';
import { loadUpstreamRules } from './upstreams.ts';
import { assembleWarming } from './warming.ts';
import { assembleWatching } from './watching.ts';
import type { WorkerLine, WorkerPlace } from './workers/worker-line.ts';

/** Answers under way when a shutdown begins get this long. Orchestrators usually wait 30 s or longer before they kill. */
const DRAIN_MS = 25_000;

/** Certificates are looked at this often: the self-made one is renewed in time, and replaced files are taken up. */
const CERTIFICATE_CHECK_MS = 24 * 3_600_000;

/** What workers tell each other when it was decided whether anything may leave. */
const SEALING = 'sealing';

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

async function assemble(config: Config, { logger, version, worker }: AppDeps, opened: Closers): Promise<App> {
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
  const storage = await openStorage(config, { logger });
  opened.add('storage', () => storage.close());
  const keptHouse = await assembleHouseKeeping(config, { storage, isSealed, changes, opened, logger });
  const { keeping, quota } = keptHouse;
  const redis = await redisSettings(config);
  const metadataStore = watching.measured(
    redis
      ? await openRedisMetadata({ ...redis, logger })
      : await openEmbeddedMetadata(path.join(config.data, paths.metadata), {
          logger,
          isInUse: worker && !worker.place.isAlone,
        }),
  );
  opened.add('metadata', () => metadataStore.close());
  const leases = redis ? await RedisLeases.open({ ...redis, logger }) : (worker?.line.leases ?? new LocalLeases());
  opened.add('leases', () => leases.close());
  const tellOthers = worker && (async () => void (await worker.line.askOthers(SEALING)));
  const seal = await openSeal(config, { store: metadataStore, tellOthers, logger });
  opened.add('seal', () => seal.close());

  // What is remembered.
  const cache = new MetadataCache({ store: metadataStore, changes, logger, deadlineMs: metadataDeadline });
  opened.add('cache', () => cache.close());

  const traffic = watching.trafficHistory(metadataStore);

  // What is done with them.
  if (config.ignoredTokens.length > 0) {
    logger.warn('these variables name none of upstreams.hosts and are not used', { variables: config.ignoredTokens });
  }
  const policy = new Policy(await loadUpstreamRules(config, { logger }));
  const drift = new DriftReports({ logger });
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
  worker?.line.hear(SEALING, () => seal.look());
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
  const audit = config.log.audit === undefined ? undefined : new AuditLog({ file: config.log.audit, logger });
  opened.add('audit log', () => audit?.close());
  const needsLinks = config.access.anonymous === 'none' || policy.hostnames.some((host) => policy.forwards(host));
  const linkKeys = needsLinks ? await openLinkKeys(config, logger) : undefined;
  opened.add('link keys', () => linkKeys?.close());
  linkKeys?.watch();
  const authenticator = new Authenticator({
    anonymous: config.access.anonymous,
    tokens: await loadClientTokens(config.access.tokens, { logger }),
    publicUrl: config.publicUrl,
    sealed: linkKeys && new SealedBearers({ keys: linkKeys }),
  });
  const links = linkKeys && new Links({ keys: linkKeys, lifetimeMs: config.access.links.lifetime });

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
  const tlsSettings = tlsSettingsOf(config);
  const tls = await loadTls(tlsSettings);
  const health = new Health({
    checks: [
      { name: 'archives', essential: true, check: () => providers.store.check() },
      { name: 'metadata', essential: false, check: () => metadataStore.check() },
      { name: 'seal', essential: false, check: () => seal.check() },
    ],
    isDraining: () => server.isDraining,
    isSealed,
    logger,
  });
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
    caCertificate: tls?.authority?.certificate,
    isSealed,
    changes,
  });
  const server = new HttpServer({ handler, tls });
  opened.add('server', () => server.drain(DRAIN_MS));
  // Before the server: whoever watches a job would hold up its end.
  opened.add('warming', () => warming.close());

  const reloadCertificate = async () => {
    try {
      const renewed = await loadTls(tlsSettings);
      if (renewed) server.replaceCertificate(renewed);
    } catch (error) {
      logger.error('the certificate could not be renewed, the old one stays in use', { error });
    }
  };
  const certificateCheck = setInterval(reloadCertificate, CERTIFICATE_CHECK_MS).unref();
  opened.add('certificate check', () => clearInterval(certificateCheck));
  // First of all.
  opened.add('farewell', async () => {
    if (config.listen.drainDelay === undefined || !health.isProbed) return;
    server.leave();
    await delay(config.listen.drainDelay);
  });

  return {
    authority: tls?.authority,
    listen: async () => {
      const port = await server.listen(config.listen);
      warming.start();
      traffic.start();
      return { port, url: `${tls ? 'https' : 'http'}://localhost:${port}` };
    },
    reloadCertificate,
    reopenAuditLog: async () => audit?.reopen(),
    close: () => opened.close(),
  };
}

async function openSeal(
  { data: directory, sealed: configured }: Config,
  deps: { store: MetadataStore; tellOthers: (() => Promise<void>) | undefined; logger: Logger },
): Promise<Seal> {
  const partials = await PartialFiles.open(path.join(directory, paths.partial), deps.logger);
  return Seal.open({ configured, file: new SealFile({ directory, partials }), ...deps });
}

/** Also for changing them beside a running server. The caller closes them. */
export async function openLinkKeys(config: Config, logger: Logger): Promise<LinkKeys> {
  return LinkKeys.open({
    directory: config.data,
    redis: await redisSettings(config),
    lifetimeMs: longestLife(config.access.links.lifetime),
    logger,
  });
}

function tlsSettingsOf({ tls, data, listen, publicUrl }: Config): TlsSettings {
  if (tls.mode === 'files') return tls;
  if (tls.mode === 'off') return { mode: 'off' };
  const names = certificateNames({ listenHost: listen.host, publicUrl });
  return { mode: 'selfsigned', directory: path.join(data, paths.tls), names };
}
