import { createHash } from 'node:crypto';
import { fileReply } from './archive-reply.ts';
import { type ByteSource, MemoryBytes } from './byte-source.ts';
import type { CertificateAuthority } from './certificates.ts';
import { json, reply } from './faults.ts';
import { putName, removeName } from './loopback-network.ts';
import { type Call, type Fault, Origin, type OriginOptions, type Reply, type ScriptedFault } from './origin.ts';
import {
  type ModuleArchive,
  type ModuleArchiveOptions,
  ModuleArchives,
  type ModuleOptions,
  PublishedModules,
} from './published-module.ts';
import { type ProviderOptions, type PublishedPackage, type PublishedVersion, publish } from './published-provider.ts';
import type { Matcher, RequestLog } from './request-log.ts';
import { SignedLinks } from './signed-links.ts';

export interface RegistryOptions {
  /**
   * A name of its own instead of `localhost:PORT`, as port 443 of it: `registry.example.test`. It exists in this process
   * and in those started by the test support. Needed where a real client goes through a network mirror: clients cannot
   * ask a network mirror for hosts with a port.
   */
  readonly name?: string;
  /** The same for the host of the files. */
  readonly filesName?: string;
  /** Further names in the certificates. */
  readonly hostNames?: readonly string[];
  /** Of each answer of the registry itself and of the archive host. */
  readonly latencyMs?: number;
  /** The process's shared throwaway authority unless given. */
  readonly authority?: CertificateAuthority;
  /** PEM of the authority whose client certificates the registry itself asks for. Files stay open to all. */
  readonly clientAuthority?: string;
}

/**
 * A registry of providers and modules as the internet has them, on loopback: discovery, versions, download documents, and a second
 * origin for the files, as GitHub releases are. Real TLS, real zips, real signatures; everything can be made to fail.
 */
export class UpstreamRegistry {
  /** Where the files lie. It must never see credentials: `releases.requests.withCredentials()`. */
  readonly releases: Origin;
  readonly #api: Origin;
  readonly #name: string | undefined;
  readonly #filesName: string | undefined;
  readonly #versions: PublishedVersion[] = [];
  readonly #modules = new PublishedModules();
  readonly #archives = new ModuleArchives();
  /** What discovery answers. */
  services: Record<string, unknown> = { 'providers.v1': '/v1/providers/' };
  /** Added to versions lists. */
  warnings: readonly string[] | null = null;
  #token: string | undefined;
  #links: SignedLinks | undefined;

  private constructor(api: Origin, releases: Origin, { name, filesName }: RegistryOptions) {
    this.#api = api;
    this.releases = releases;
    this.#name = name;
    this.#filesName = filesName;
    this.#putNames();
  }

  static async start(options: RegistryOptions = {}): Promise<UpstreamRegistry> {
    // The two origins and the registry know each other; handlers run only once all three are there.
    const self: { registry?: UpstreamRegistry } = {};
    const origin = (answer: (registry: UpstreamRegistry, call: Call) => Reply, more: OriginOptions = {}) =>
      Origin.start((call) => (self.registry ? answer(self.registry, call) : reply(503, '')), {
        names: [options.name, options.filesName, ...(options.hostNames ?? [])].filter((name) => name !== undefined),
        ...(options.authority ? { authority: options.authority } : {}),
        ...more,
      });
    const { clientAuthority } = options;
    const api = await origin(
      (registry, call) => registry.#answer(call),
      clientAuthority === undefined ? {} : { clientAuthority },
    );
    const releases = await origin((registry, call) => registry.#answerFile(call));
    const registry = new UpstreamRegistry(api, releases, options);
    registry.latencyMs = options.latencyMs ?? 0;
    self.registry = registry;
    return registry;
  }

  /** The registry itself, as a server beside that of the files. */
  get api(): Origin {
    return this.#api;
  }

  /** Its name in provider addresses and in Larder's list of upstreams: `localhost:PORT` or the name it was given. */
  get hostname(): string {
    return this.#name ?? this.#api.hostname;
  }

  /** `https://localhost:PORT`, also when it has a name: for clients that are processes of their own. */
  get url(): string {
    return this.#api.url;
  }

  get port(): number {
    return this.#api.port;
  }

  /** `https://…` of the host of the files, as the registry names it. */
  get filesUrl(): string {
    return this.#filesName === undefined ? this.releases.url : `https://${this.#filesName}`;
  }

  /** PEM certificate of the authority behind both origins. */
  get ca(): string {
    return this.#api.ca;
  }

  /** Requests to the registry itself; those for files are in `releases.requests`. */
  get requests(): RequestLog {
    return this.#api.requests;
  }

  /** Of both origins, milliseconds. */
  set latencyMs(milliseconds: number) {
    this.#api.latencyMs = milliseconds;
    this.releases.latencyMs = milliseconds;
  }

  /** Publishes a version; replaces it if it was there. */
  async addProvider(options: ProviderOptions): Promise<PublishedVersion> {
    const published = await publish(options);
    this.removeVersion(published);
    this.#versions.push(published);
    return published;
  }

  removeVersion({ namespace, type, version }: { namespace: string; type: string; version: string }): void {
    this.#remove((entry) => entry.namespace === namespace && entry.type === type && entry.version === version);
  }

  removeProvider({ namespace, type }: { namespace: string; type: string }): void {
    this.#remove((entry) => entry.namespace === namespace && entry.type === type);
  }

  /** Publishes a version of a module; replaces it if it was there. Discovery names the service from now on. */
  addModule(module: ModuleOptions): void {
    this.services = { 'modules.v1': MODULES, ...this.services };
    this.#modules.add(module);
  }

  /** Without a version: the whole module. */
  removeModule(module: Parameters<PublishedModules['remove']>[0]): void {
    this.#modules.remove(module);
  }

  /** Lists things among a module's versions that are none. */
  addModuleGarbage(...garbage: Parameters<PublishedModules['addGarbage']>): void {
    this.#modules.addGarbage(...garbage);
  }

  /**
   * Puts an archive where modules can point to; replaces the one that was there. The registry itself has it as well, at
   * `/archives` + path, for those who have its token.
   *
   * @param path begins with a slash
   */
  addModuleArchive(path: string, bytes: Buffer, options: ModuleArchiveOptions = {}): ModuleArchive {
    const url = `${this.filesUrl}${path}`;
    const sha256 = this.#archives.add(path, bytes, options);
    return { bytes, sha256, url, link: () => `${url}${this.#links ? this.#links.query(path) : ''}` };
  }

  /** Scripts the registry's behaviour; `releases.on` does so for the files. */
  on(matcher: Matcher, fault: Fault, options: { times?: number } = {}): ScriptedFault {
    return this.#api.on(matcher, fault, options);
  }

  /** Removes every scripted fault, of both origins. */
  heal(): void {
    this.#api.heal();
    this.releases.heal();
  }

  /** The registry answers 401 without this bearer token, discovery included. Files stay open to all. */
  requireToken(token: string | undefined): void {
    this.#token = token;
  }

  /** Download URLs carry a signature in the query from now on and end after `lifetimeMs` by `now`. */
  signLinks(options: { lifetimeMs?: number; now?: () => number } = {}): void {
    this.#links = new SignedLinks(options.lifetimeMs ?? 300_000, options.now ?? Date.now);
  }

  /** Every link handed out so far answers 403; new ones work. */
  expireLinks(): void {
    if (this.#links === undefined) throw new Error('call signLinks() first');
    this.#links.expireAll();
  }

  /** The internet goes away: connections refused, open ones broken, on both origins. */
  async stop(): Promise<void> {
    await Promise.all([this.#api.stop(), this.releases.stop()]);
  }

  /** The internet comes back, on the same ports. */
  async restart(): Promise<void> {
    await Promise.all([this.#api.restart(), this.releases.restart()]);
    this.#putNames();
  }

  /** Nobody can look up the name that its host was given, and whoever was connected is not any more. Until `restart()`. */
  loseName(of: 'registry' | 'files'): void {
    const [name, origin] = of === 'registry' ? [this.#name, this.#api] : [this.#filesName, this.releases];
    if (name !== undefined) removeName(name);
    origin.breakConnections();
  }

  /** New connections are refused, downloads under way go on. */
  async stopAccepting(): Promise<void> {
    await Promise.all([this.#api.stopAccepting(), this.releases.stopAccepting()]);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.stop();
  }

  #putNames(): void {
    if (this.#name !== undefined) putName(this.#name, this.#api.port);
    if (this.#filesName !== undefined) putName(this.#filesName, this.releases.port);
  }

  #remove(unwanted: (entry: PublishedVersion) => boolean): void {
    const kept = this.#versions.filter((entry) => !unwanted(entry));
    this.#versions.splice(0, this.#versions.length, ...kept);
  }

  #answer(call: Call): Reply {
    const path = call.path.replace(/\?.*$/, '');
    // Files of providers with relative URLs. No credentials are asked for: clients send none for files.
    if (path.startsWith('/files/')) return this.#answerFile({ ...call, path: call.path.slice('/files'.length) });
    if (this.#token !== undefined && call.headers.authorization !== `Bearer ${this.#token}`) {
      return { ...json({ errors: ['unauthorized'] }), status: 401 };
    }
    if (path === '/.well-known/terraform.json') return json(this.services);
    if (path.startsWith(MODULES)) return this.#modules.answer(path.slice(MODULES.length), call);
    if (path.startsWith('/archives/')) return this.#archives.answer(call, path.slice('/archives'.length)) ?? notFound();

    const [, namespace, type, rest = ''] = /^\/v1\/providers\/([^/]+)\/([^/]+)\/(.+)$/.exec(path) ?? [];
    const versions = this.#versions.filter((entry) => entry.namespace === namespace && entry.type === type);
    if (versions.length === 0) return notFound();
    if (rest === 'versions') return json(versionsDocument(versions, this.warnings));

    const [, spelling, os, arch] = /^([^/]+)\/download\/([^/]+)\/([^/]+)$/.exec(rest) ?? [];
    const version = versions.find(({ published }) => published === decodeURIComponent(spelling ?? ''));
    const found = version?.packages.get(`${os}_${arch}`);
    return version && found ? json(this.#downloadDocument(version, found)) : notFound();
  }

  #downloadDocument(version: PublishedVersion, { platform, filename, sha256 }: PublishedPackage): unknown {
    const [os, arch] = platform.split('_');
    // From /v1/providers/NS/TYPE/VERSION/download/OS/ARCH up to the root is seven steps.
    const base = version.relativeUrls ? '../../../../../../../files' : this.filesUrl;
    const link = (file: string) => {
      const path = `${releasePath(version)}/${file}`;
      return `${base}${path}${this.#links ? this.#links.query(path) : ''}`;
    };
    return {
      protocols: version.protocols,
      os,
      arch,
      filename,
      download_url: link(filename),
      shasum: sha256,
      ...(version.namesShasums
        ? {
            shasums_url: link(version.shasumsFilename),
            shasums_signature_url: link(`${version.shasumsFilename}.sig`),
          }
        : {}),
      signing_keys: {
        gpg_public_keys: version.keys.map((key) => ({ key_id: key.primaryKeyId, ascii_armor: key.armored })),
      },
      ...(version.withPackages ? { packages: packagesDocument(version) } : {}),
    };
  }

  #answerFile(call: Call): Reply {
    const [path = '', query = ''] = call.path.split('?');
    for (const version of this.#versions) {
      const directory = `${releasePath(version)}/`;
      if (!path.startsWith(directory)) continue;
      const file = this.#file(version, decodeURIComponent(path.slice(directory.length)));
      if (file === undefined) continue;
      if (this.#links && !this.#links.accepts(path, query)) return linkExpired();
      return fileReply(call, file.bytes, `"${file.etag}"`);
    }
    const archive = this.#archives.answer(call, path);
    if (archive && this.#links && !this.#links.accepts(path, query)) return linkExpired();
    return archive ?? notFound();
  }

  #file(version: PublishedVersion, name: string): { bytes: ByteSource; etag: string } | undefined {
    if (name === version.shasumsFilename) return memoryFile(version.shasums);
    if (name === `${version.shasumsFilename}.sig`) return memoryFile(version.signature);
    for (const { filename, bytes, sha256 } of version.packages.values()) {
      if (filename === name && bytes !== undefined) return { bytes, etag: sha256 };
    }
    return undefined;
  }
}

const MODULES = '/v1/modules/';

function memoryFile(bytes: Buffer): { bytes: ByteSource; etag: string } {
  return { bytes: new MemoryBytes(bytes), etag: createHash('sha256').update(bytes).digest('hex') };
}

function releasePath({ namespace, type, published }: PublishedVersion): string {
  return `/${namespace}/terraform-provider-${type}/releases/download/${encodeURIComponent(published)}`;
}

function versionsDocument(versions: readonly PublishedVersion[], warnings: readonly string[] | null): unknown {
  return {
    versions: versions.map(({ published, protocols, packages }) => ({
      version: published,
      protocols,
      platforms: [...packages.keys()].map((platform) => {
        const [os, arch] = platform.split('_');
        return { os, arch };
      }),
    })),
    warnings,
  };
}

function packagesDocument({ packages }: PublishedVersion): unknown {
  return Object.fromEntries(
    [...packages.values()].map(({ platform, zh, h1, size }) => [
      platform,
      { hashes: h1 === undefined ? [zh] : [zh, h1], package_size: size },
    ]),
  );
}

function notFound(): Reply {
  return { ...json({ errors: ['Not Found'] }), status: 404 };
}

function linkExpired(): Reply {
  return reply(
    403,
    '<?xml version="1.0"?><Error><Code>AccessDenied</Code><Message>Request has expired</Message></Error>',
    {
      'content-type': 'application/xml',
    },
  );
}
