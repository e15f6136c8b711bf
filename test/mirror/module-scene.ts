import { expect } from 'vitest';
import type { HttpAnswer, HttpOptions } from '../support/http.ts';
import { type ModuleFiles, moduleTarGz } from '../support/module-archive.ts';
import type { ModuleArchive, ModuleOptions } from '../support/published-module.ts';
import type { UpstreamRegistry } from '../support/upstream-registry.ts';
import { type Scene, type SceneOptions, startRegistry, startScene } from './scene.ts';

export const NET = { namespace: 'acme', name: 'net', system: 'aws' } as const;

/** What a download answer names, taken apart as the clients do. */
export interface PackageLink {
  /** Of the package, with whatever query is meant for the server. */
  readonly path: string;
  /** `sha256:…`; `undefined` while it is not known. */
  readonly checksum: string | undefined;
  /** Behind `//`. */
  readonly subdir: string;
}

/** A scene with the requests that a client makes for modules; `acme/net/aws` unless another one is named. */
export interface ModuleScene extends Scene {
  /** `…/versions` */
  moduleVersions(module?: string, options?: HttpOptions): Promise<HttpAnswer>;
  /** `…/VERSION/download` */
  download(version?: string, module?: string, options?: HttpOptions): Promise<HttpAnswer>;
  /** The answer to `download`, which must be a good one. */
  link(version?: string, module?: string, options?: HttpOptions): Promise<PackageLink>;
  /** The package, by the link of the download answer. */
  package(version?: string, module?: string, options?: HttpOptions): Promise<HttpAnswer>;
  /** Where the package is, whether or not anybody has asked for its link. */
  packagePath(version?: string, module?: string): string;
}

/** Publishes a version of `acme/net/aws` in an archive of its own. */
export function publishNet(
  registry: UpstreamRegistry,
  version = '1.0.0',
  options: Partial<ModuleOptions> & { readonly files?: ModuleFiles } = {},
): ModuleArchive {
  const { files = netFiles(version), ...more } = options;
  const archive = registry.addModuleArchive(`/net/${version}.tar.gz`, moduleTarGz(files));
  registry.addModule({ ...NET, version, location: archive.url, ...more });
  return archive;
}

/** A module of a few kilobytes that do not compress to nothing. */
export function netFiles(version: string): ModuleFiles {
  const noise = Array.from({ length: 400 }, (_, line) => `# ${version} ${Math.sin(line + version.length)}\n`).join('');
  return {
    'main.tf': `output "version" { value = "${version}" }\n${noise}`,
    'modules/sub/main.tf': `output "sub" { value = "${version}" }\n`,
  };
}

export async function startModuleScene(
  options: Omit<SceneOptions, 'providers'> & { readonly versions?: readonly string[] } = {},
): Promise<ModuleScene> {
  const registry = options.registry ?? (await startRegistry());
  for (const version of options.versions ?? (options.registry || options.setup ? [] : ['1.0.0'])) {
    publishNet(registry, version);
  }
  return withModules(await startScene({ ...options, registry, providers: [] }));
}

export function withModules(scene: Scene): ModuleScene {
  const base = (module: string) => `/registry/${scene.registry.hostname}/v1/modules/${module}`;
  const downloadPath = (version: string, module: string) => `${base(module)}/${version}/download`;
  const download: ModuleScene['download'] = (version = '1.0.0', module = 'acme/net/aws', options = {}) =>
    scene.get(downloadPath(version, module), options);
  const link: ModuleScene['link'] = async (version = '1.0.0', module = 'acme/net/aws', options = {}) =>
    linkIn(await download(version, module, options), downloadPath(version, module));
  return {
    ...scene,
    moduleVersions: (module = 'acme/net/aws', options = {}) => scene.get(`${base(module)}/versions`, options),
    download,
    link,
    package: async (version, module, options) => scene.get((await link(version, module)).path, options),
    packagePath: (version = '1.0.0', module = 'acme/net/aws') =>
      `${base(module)}/${version}/${module.toLowerCase().replaceAll('/', '-')}-${version}.tar.gz`,
  };
}

/** @param path of the request that was answered: links are relative to it */
export function linkIn(answer: HttpAnswer, path: string): PackageLink {
  expect(answer.status, answer.text()).toBe(204);
  expect(answer.body).toHaveLength(0);
  const location = answer.headers['x-terraform-get'] ?? '';
  // Anything else is no relative address to the clients.
  expect(location).toMatch(/^\.{0,2}\//);
  const [, file = '', subdir = '', query = ''] = /^(.*?\.tar\.gz)(?:\/\/([^?]*))?(?:\?(.*))?$/.exec(location) ?? [];
  const parameters = new URLSearchParams(query);
  const checksum = parameters.get('checksum') ?? undefined;
  parameters.delete('checksum');
  const rest = parameters.size > 0 ? `?${parameters}` : '';
  const { origin, pathname } = new URL(file, `https://larder.test${path}`);
  expect(origin).toBe('https://larder.test');
  expect(pathname).not.toContain('//');
  return { path: `${pathname}${rest}`, checksum, subdir };
}

/** The versions in an answer, in its order and as it spells them. */
export function moduleVersionsIn(answer: HttpAnswer): string[] {
  expect(answer.status, answer.text()).toBe(200);
  const { modules } = answer.json();
  expect(modules).toHaveLength(1);
  return modules[0].versions.map(({ version }: { version: string }) => version);
}
