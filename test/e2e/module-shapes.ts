import { configuration, hostCliConfig, runClient, type Workspace } from '../support/client.ts';
import { GitHost } from '../support/git-host.ts';
import { type ModuleFiles, moduleTarGz, moduleZip } from '../support/module-archive.ts';
import { UpstreamRegistry } from '../support/upstream-registry.ts';

/** Where the registry is, as modules' sources name it. Clients take no module from a host without a dot. */
export const REGISTRY = 'modules.example.test';
/** A registry whose archives are behind links that run out. */
export const SIGNING = 'signing.example.test';
/** A registry that lets in nobody without its token. */
export const PRIVATE = 'private.example.test';
export const TOKEN = 'token-of-the-private-registry-77ab';
export const GIT_TOKEN = 'token-of-the-git-host-0b1e';

/** The registries and the git host that modules of every shape come from. */
export interface ModuleWorld {
  readonly registry: UpstreamRegistry;
  readonly signing: UpstreamRegistry;
  readonly guarded: UpstreamRegistry;
  readonly git: GitHost;
  readonly registries: readonly UpstreamRegistry[];
  /** Everything that anybody was asked outside of Larder so far. */
  requests(): string[];
  stop(): Promise<void>;
  restart(): Promise<void>;
  remove(): Promise<void>;
}

/** A way in which a module is published, and a configuration that depends on what is in it. */
export interface ModuleShape {
  readonly title: string;
  /** As configurations write it. */
  readonly source: string;
  readonly version?: string;
  /** What its output `it` is. */
  readonly says: string;
  publish(world: ModuleWorld): Promise<void>;
}

export async function startModuleWorld(): Promise<ModuleWorld> {
  const [registry, signing, guarded] = [
    await UpstreamRegistry.start({ name: REGISTRY }),
    await UpstreamRegistry.start({ name: SIGNING }),
    await UpstreamRegistry.start({ name: PRIVATE }),
  ];
  signing.signLinks({ lifetimeMs: 60_000 });
  guarded.requireToken(TOKEN);
  const git = await GitHost.start({ token: GIT_TOKEN });
  const registries = [registry, signing, guarded];
  const origins = [...registries, ...registries.map(({ releases }) => releases), git];
  return {
    registry,
    signing,
    guarded,
    git,
    registries,
    requests: () => origins.flatMap(({ requests }) => requests.all.map(({ method, path }) => `${method} ${path}`)),
    stop: async () => void (await Promise.all([...registries, git].map((one) => one.stop()))),
    restart: async () => void (await Promise.all([...registries, git].map((one) => one.restart()))),
    remove: async () => {
      await Promise.all([...registries, git].map((one) => one.stop()));
      await git.repositories.remove();
    },
  };
}

/** Larder's configuration for it, beside the registries themselves. */
export function worldConfig({ git }: ModuleWorld, credentials: object = { token: TOKEN }): Record<string, unknown> {
  return {
    upstreams: { hosts: { [PRIVATE]: { credentials } } },
    modules: { git: { [git.hostname]: { token: GIT_TOKEN } } },
  };
}

/** A module with an output `it`. */
export function saying(text: string): string {
  return `output "it" { value = "${text}" }\n`;
}

/** A module whose output `it` is what stands in a file. */
export function reading(file: string): string {
  return `output "it" { value = trimspace(file("\${path.module}/${file}")) }\n`;
}

/** A module whose output `it` is that of another one. */
export function calling(source: string, version?: string): string {
  const constraint = version === undefined ? '' : `  version = "${version}"\n`;
  return `module "other" {\n  source = "${source}"\n${constraint}}\noutput "it" { value = module.other.it }\n`;
}

/** A configuration that installs a module and shows what its output is. */
export function using(source: string, version?: string): Promise<Workspace> {
  return configuration({ 'main.tf': calling(source, version) });
}

export type Program = 'terraform' | 'tofu';

/** Runs the client in a workspace, through a Larder and nowhere else. */
export function clientAt(program: Program, larder: { readonly url: string; readonly ca: string }, more = '') {
  return (workspace: Workspace, ...args: readonly string[]) =>
    runClient({
      program,
      args: [...args, '-no-color'],
      directory: workspace.directory,
      cliConfig: hostCliConfig(larder.url, REGISTRY, SIGNING, PRIVATE) + more,
      ca: larder.ca,
      // No git of the client's: what it gets has to come from Larder.
      env: { PATH: '/nowhere' },
    });
}

/** Offers these files in an archive, with a directory around them where one is named. */
async function archive(registry: UpstreamRegistry, name: string, files: ModuleFiles, top?: string) {
  const options = top === undefined ? {} : { top };
  const bytes = name.endsWith('.zip') ? await moduleZip(files, options) : moduleTarGz(files, options);
  return registry.addModuleArchive(`/modules/${name}`, bytes);
}

const named = (name: string) => ({ namespace: 'acme', name, system: 'aws' }) as const;

/** Ten of them, and a few variants. */
export const SHAPES: readonly ModuleShape[] = [
  {
    title: 'a git ref with a slash',
    source: `${REGISTRY}/acme/slash/aws`,
    says: 'from the branch',
    publish: async ({ registry, git }) => {
      const repository = await git.addRepository('acme/slash.git', { 'main.tf': saying('from main') });
      await repository.commit({ 'main.tf': saying('from the branch') }, { branch: 'release/1.x' });
      registry.addModule({
        ...named('slash'),
        version: '1.0.0',
        location: `git::${git.url}/acme/slash.git?ref=release/1.x`,
      });
    },
  },
  {
    title: 'a git tag with a v',
    source: `${REGISTRY}/acme/tagged/aws`,
    version: '1.2.0',
    says: 'v1.2.0',
    publish: async ({ registry, git }) => {
      const repository = await git.addRepository(
        'acme/tagged.git',
        { 'main.tf': saying('v1.2.0') },
        { tags: ['v1.2.0'] },
      );
      await repository.commit({ 'main.tf': saying('untagged') });
      registry.addModule({
        ...named('tagged'),
        version: 'v1.2.0',
        location: `git::${git.url}/acme/tagged.git?ref=v1.2.0&depth=1`,
      });
    },
  },
  {
    title: 'a git tag without a v, annotated',
    source: `${REGISTRY}/acme/plain/aws`,
    version: '~> 1.2',
    says: '1.2.0',
    publish: async ({ registry, git }) => {
      await git.addRepository('acme/plain.git', { 'main.tf': saying('1.2.0') }, { annotatedTags: ['1.2.0'] });
      registry.addModule({ ...named('plain'), version: '1.2.0', location: `git::${git.url}/acme/plain.git?ref=1.2.0` });
    },
  },
  {
    title: 'a directory in the location, and one in the source',
    source: `${REGISTRY}/acme/parts/aws//inner/most`,
    says: 'what is shared',
    publish: async ({ registry, git }) => {
      const content = {
        'main.tf': saying('the root'),
        'modules/inner/most/main.tf': calling('../../../shared'),
        'shared/main.tf': saying('what is shared'),
      };
      await git.addRepository('acme/parts.git', content, { tags: ['v1.0.0'] });
      registry.addModule({
        ...named('parts'),
        version: '1.0.0',
        location: `git::${git.url}/acme/parts.git//modules?ref=v1.0.0`,
      });
    },
  },
  {
    title: 'an archive with a directory around everything',
    source: `${REGISTRY}/acme/wrapped/aws//modules/sub`,
    says: 'inside the wrapping',
    publish: async ({ registry }) => {
      const files = { 'main.tf': saying('the root'), 'modules/sub/main.tf': saying('inside the wrapping') };
      const { url } = await archive(registry, 'tarball/v1.0.0', files, 'acme-wrapped-c0ffee');
      registry.addModule({ ...named('wrapped'), version: 'v1.0.0', location: `${url}//*?archive=tar.gz` });
    },
  },
  {
    title: 'a zip',
    source: `${REGISTRY}/acme/zipped/aws`,
    version: '>= 1.0, < 2.0',
    says: 'unzipped',
    publish: async ({ registry }) => {
      const { url, sha256 } = await archive(registry, 'zipped.zip', { 'main.tf': saying('unzipped') });
      registry.addModule({
        ...named('zipped'),
        version: '1.0.0',
        location: `${url}?checksum=sha256:${sha256}`,
        dialect: 'both',
      });
    },
  },
  {
    title: 'an archive behind a link that runs out',
    source: `${SIGNING}/acme/signed/aws`,
    says: 'by a signed link',
    publish: async ({ signing }) => {
      const { link } = await archive(signing, 'signed.tar.gz', { 'main.tf': saying('by a signed link') });
      signing.addModule({ ...named('signed'), version: '1.0.0', location: () => link() });
    },
  },
  {
    title: 'symbolic links to a file and to a directory',
    source: `${REGISTRY}/acme/linked/aws`,
    says: 'behind two links',
    publish: async ({ registry }) => {
      const files = {
        'main.tf': calling('./by-link'),
        'by-link': { link: 'real/directory' },
        'real/directory/main.tf': reading('linked.txt'),
        'real/directory/linked.txt': { link: '../file.txt' },
        'real/file.txt': 'behind two links\n',
      };
      const { url } = await archive(registry, 'linked.tar.gz', files);
      registry.addModule({ ...named('linked'), version: '1.0.0', location: url });
    },
  },
  {
    title: 'a git submodule',
    source: `${REGISTRY}/acme/super/aws`,
    says: 'in the submodule',
    publish: async ({ registry, git }) => {
      const inner = await git.addRepository('acme/inner.git', { 'main.tf': saying('in the submodule') });
      const submodule = await inner.commitOf('main');
      await inner.commit({ 'main.tf': saying('what the submodule became') });
      const content = {
        'main.tf': calling('./vendor/inner'),
        '.gitmodules': '[submodule "inner"]\n\tpath = vendor/inner\n\turl = ../inner.git\n',
        'vendor/inner': { submodule },
      };
      await git.addRepository('acme/super.git', content, { tags: ['v1.0.0'] });
      registry.addModule({
        ...named('super'),
        version: '1.0.0',
        location: `git::${git.url}/acme/super.git?ref=v1.0.0`,
      });
    },
  },
  {
    title: 'a module that calls a sibling, which calls a module of the registry',
    source: `${REGISTRY}/acme/nested/aws//modules/one`,
    says: 'at the bottom',
    publish: async ({ registry }) => {
      const files = {
        'modules/one/main.tf': calling('../two'),
        'modules/two/main.tf': calling(`${REGISTRY}/acme/bottom/aws`, '1.0.0'),
      };
      const nested = await archive(registry, 'nested.tar.gz', files);
      const bottom = await archive(registry, 'bottom.zip', { 'main.tf': saying('at the bottom') });
      registry.addModule({ ...named('nested'), version: '1.0.0', location: nested.url });
      registry.addModule({ ...named('bottom'), version: '1.0.0', location: bottom.url });
    },
  },
  {
    title: 'a private registry, whose token the client does not have',
    source: `${PRIVATE}/acme/secret/aws`,
    says: 'for those who may',
    publish: async ({ guarded }) => {
      await archive(guarded, 'secret.tar.gz', { 'main.tf': saying('for those who may') });
      guarded.addModule({
        ...named('secret'),
        version: '1.0.0',
        location: '/archives/modules/secret.tar.gz',
        dialect: 'both',
        useRegistryCredentials: true,
      });
    },
  },
];
