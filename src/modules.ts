import type { ModuleAddress } from './address/module.ts';
import { PackageCache } from './cache/package-cache.ts';
import type { Closers } from './closers.ts';
import type { Config } from './config.ts';
import type { Logger } from './logger.ts';
import { Cooldown } from './mirror/cooldown.ts';
import type { DriftReports } from './mirror/drift.ts';
import type { FirstSeen } from './mirror/first-seen.ts';
import { ModuleMetadata } from './mirror/module-metadata.ts';
import { ModuleMirror } from './mirror/module-mirror.ts';
import { ModuleSources } from './mirror/module-sources.ts';
import { MovedModules } from './mirror/moved-modules.ts';
import { sealedOff } from './mirror/not-stored.ts';
import type { Policy } from './mirror/policy.ts';
import { SeasonedModules } from './mirror/seasoned-metadata.ts';
import type { UpstreamMetadata } from './mirror/upstream-metadata.ts';
import { secretSource } from './secret-source.ts';
import type { Storage } from './storage.ts';
import type { Keeping } from './store/keeping.ts';
import type { Leases } from './store/leases.ts';
import type { ModuleStore } from './store/module-store.ts';
import type { Tracer } from './tracer.ts';
import { whenUsable } from './upstream/credentials.ts';
import type { HttpClient } from './upstream/http-client.ts';
import type { GitHostAccess } from './upstream/module-package/git-host-access.ts';
import { GitSource } from './upstream/module-package/git-source.ts';
import { gitProblem, gitVersion } from './upstream/module-package/git-version.ts';
import { ModulePackages } from './upstream/module-package.ts';
import { ModuleRegistry } from './upstream/module-registry.ts';

/** Most of them wait for a host; how many are fetched from one, and how many are packed, is bounded besides. */
const CONCURRENT_PACKAGES = 64;

/** Anybody may publish there: what is private is not for what is found there, unless somebody says so. */
const PUBLIC_REGISTRIES: ReadonlySet<string> = new Set(['registry.opentofu.org', 'registry.terraform.io']);

/** Everything that has to do with modules alone. */
export interface Modules {
  readonly mirror: ModuleMirror;
  readonly store: ModuleStore;
  readonly packages: PackageCache;
  /** For the moment when Larder is sealed: ends what is under way. Resolves when nothing of it is left. */
  breakOff(): Promise<unknown>;
}

/**
 * Puts the parts together that modules need besides those that providers have, too.
 * @throws InvalidConfiguration when a git host's token file cannot be used; StorageFailed
 */
export async function assembleModules(
  config: Config,
  deps: {
    http: HttpClient;
    upstreams: UpstreamMetadata;
    policy: Policy;
    firstSeen: FirstSeen;
    drift: DriftReports;
    storage: Storage;
    keeping: Keeping;
    leases: Leases;
    tracer: Tracer | undefined;
    isSealed: () => boolean;
    opened: Closers;
    logger: Logger;
  },
): Promise<Modules> {
  const { http, upstreams, policy, firstSeen, drift, storage, keeping, leases, isSealed, opened, logger } = deps;
  const { limits, unsupported } = config.modules;
  void warnWithoutGit(config, logger);
  const git = new GitSource({
    http,
    hosts: await gitHosts(config),
    proxy: config.proxy,
    extraCa: config.extraCa,
    limits,
    searchPath: config.programs.path,
    isSealed,
    logger,
  });
  const store = await storage.openModules({ keeping });
  opened.add('the module store', () => store.close());
  const makings = new ModulePackages({ http, git, limits, logger });
  opened.add('making packages', () => makings.close());
  const packages = new PackageCache({
    tracer: deps.tracer,
    store,
    leases,
    logger,
    concurrent: CONCURRENT_PACKAGES,
    timeLimitMs: limits.time,
  });
  opened.add('packages', () => packages.close());
  const metadata = new ModuleMetadata({ upstreams, registry: new ModuleRegistry({ http }), logger });
  const sources = new ModuleSources({ metadata, packages: makings });
  const moved = new MovedModules({
    sources,
    store,
    drift,
    everyMs: config.freshness.packages,
    timeLimitMs: limits.time,
    isSealed,
    logger,
  });
  opened.add('looks at moved modules', () => moved.close());
  const cooldown = new Cooldown<ModuleAddress>({
    rules: config.cooldown,
    firstSeen,
    publishedAt: (...of) => metadata.publishedAt(...of),
    isSealed,
    logger,
  });
  const mirror = new ModuleMirror({
    policy,
    metadata: new SeasonedModules({ metadata, cooldown }),
    sources,
    packages,
    store,
    drift,
    moved,
    unsupported,
    deadlineMs: config.limits.metadataDeadline,
    isSealed,
    logger,
  });
  const breakOff = () =>
    Promise.all([packages.breakOff(({ module, version }) => sealedOff(module, version)), git.breakOff()]);
  return { mirror, store, packages, breakOff };
}

async function gitHosts(config: Config): Promise<Map<string, GitHostAccess>> {
  const hosts = new Map<string, GitHostAccess>();
  const closed = config.upstreams.hosts
    .map(({ hostname }) => String(hostname))
    .filter((name) => !PUBLIC_REGISTRIES.has(name));
  for (const { host, username, secret, sshKey, knownHosts, registries = closed } of config.modules.git) {
    const token = secret && secretSource(secret, 'the token file of a git host');
    // A token file that is no good is told at the start.
    await token?.();
    hosts.set(host, {
      username,
      token: token && whenUsable(host, token),
      sshKey,
      knownHosts,
      registries: new Set(registries),
    });
  }
  return hosts;
}

async function warnWithoutGit({ programs }: Config, logger: Logger): Promise<void> {
  const problem = gitProblem(await gitVersion(programs.path));
  if (problem !== undefined) logger.warn('modules that are kept in git cannot be mirrored', { reason: problem });
}
