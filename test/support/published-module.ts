import { createHash } from 'node:crypto';
import { fileReply } from './archive-reply.ts';
import { MemoryBytes } from './byte-source.ts';
import { json, reply } from './faults.ts';
import type { Call, Reply } from './origin.ts';

/**
 * How a registry says where a package is:
 * - `header`: 204 and X-Terraform-Get;
 * - `both`: 200, the header, and `location` in a JSON body;
 * - `json`: 200 and the body alone, which is news to Terraform;
 * - `empty-200-header`: 200, the header, and a body of nothing;
 * - `object-200-header`: 200, the header, and `{}`;
 * - `html-200-header`: 200, the header, and a page.
 */
export type LocationDialect = 'header' | 'both' | 'json' | 'empty-200-header' | 'object-200-header' | 'html-200-header';

export interface ModuleOptions {
  readonly namespace: string;
  readonly name: string;
  readonly system: string;
  /** As published: `1.0.0`, `v1.0.0`, `4.0`. */
  readonly version: string;
  /** Where the package is, in the dialect of go-getter; or a function, for links that are made when they are asked for. */
  readonly location: string | ((call: Call) => string);
  /** `header` unless given. */
  readonly dialect?: LocationDialect;
  /** Put into JSON bodies: OpenTofu then fetches by itself, with the registry's token if it is true. */
  readonly useRegistryCredentials?: boolean;
  /** Answers a download under the published spelling alone; otherwise without its `v` and in canonical form, too. */
  readonly strictSpelling?: boolean;
}

/** The modules of a registry: the two answers of the module registry protocol. */
export class PublishedModules {
  /** What its answers say besides, per module: `latest` and other garbage that registries list. */
  readonly #garbage = new Map<string, readonly string[]>();
  #modules: ModuleOptions[] = [];

  /** Publishes a version; replaces it if it was there. */
  add(module: ModuleOptions): void {
    this.remove(module);
    this.#modules.push(module);
  }

  /** Without a version: all of them. */
  remove({ version, ...address }: Address & { readonly version?: string }): void {
    this.#modules = this.#modules.filter(
      (module) => keyOf(module) !== keyOf(address) || (version !== undefined && module.version !== version),
    );
  }

  /** Listed as versions of this module, without being any. */
  addGarbage(address: Address, ...versions: readonly string[]): void {
    this.#garbage.set(keyOf(address), versions);
  }

  /** `undefined` for what no module's path can be. @param path below the service's root, without the query */
  answer(path: string, call: Call): Reply {
    const [, namespace = '', name = '', system = '', spelling] =
      /^([^/]+)\/([^/]+)\/([^/]+)\/(?:versions|([^/]+)\/download)$/.exec(path) ?? [];
    const address = { namespace, name, system };
    const versions = this.#modules.filter((module) => keyOf(module) === keyOf(address));
    const listed = [...versions.map(({ version }) => version), ...(this.#garbage.get(keyOf(address)) ?? [])];
    if (listed.length === 0) return notFound('module not found');
    if (spelling === undefined) return json({ modules: [{ versions: listed.map((version) => ({ version })) }] });

    const wanted = decodeURIComponent(spelling);
    const found = versions.find((module) => spellings(module).includes(wanted));
    return found ? locationReply(found, call) : notFound('module version not found');
  }
}

export interface ModuleArchiveOptions {
  /** HEAD answers 403: links that are signed for GET alone. */
  readonly headForbidden?: boolean;
}

/** An archive that a registry offers for download. */
export interface ModuleArchive {
  readonly bytes: Buffer;
  /** Lower-case hex. */
  readonly sha256: string;
  /** At `releases`. */
  readonly url: string;
  /** The same, signed at this moment where links are signed. */
  link(): string;
}

/** Archives of modules, by path. */
export class ModuleArchives {
  readonly #archives = new Map<string, ModuleArchiveOptions & { readonly bytes: Buffer; readonly sha256: string }>();

  /** @returns its SHA-256, lower-case hex */
  add(path: string, bytes: Buffer, options: ModuleArchiveOptions): string {
    const sha256 = createHash('sha256').update(bytes).digest('hex');
    this.#archives.set(path, { ...options, bytes, sha256 });
    return sha256;
  }

  /** `undefined` if there is nothing of that path. */
  answer(call: Call, path: string): Reply | undefined {
    const found = this.#archives.get(decodeURIComponent(path));
    if (found === undefined) return undefined;
    if (found.headForbidden && call.method === 'HEAD') return reply(403, '');
    return fileReply(call, new MemoryBytes(found.bytes), `"${found.sha256}"`);
  }
}

type Address = Pick<ModuleOptions, 'namespace' | 'name' | 'system'>;

/** Registries do not tell upper from lower case. */
function keyOf({ namespace, name, system }: Address): string {
  return `${namespace}/${name}/${system}`.toLowerCase();
}

/** What a version may be asked for as: as published, without `v`, and with three numbers. */
function spellings({ version, strictSpelling = false }: ModuleOptions): string[] {
  if (strictSpelling) return [version];
  const bare = version.replace(/^v/, '');
  const [, numbers = '', rest = ''] = /^([\d.]+)(.*)$/.exec(bare) ?? [];
  const canonical = [...numbers.split('.').map(Number), 0, 0].slice(0, Math.max(3, numbers.split('.').length));
  return [version, bare, `${canonical.join('.')}${rest}`];
}

function locationReply(module: ModuleOptions, call: Call): Reply {
  const { location: given, dialect = 'header', useRegistryCredentials } = module;
  const location = typeof given === 'string' ? given : given(call);
  const header = { 'x-terraform-get': location };
  const body = {
    location,
    ...(useRegistryCredentials === undefined ? {} : { use_registry_credentials: useRegistryCredentials }),
  };
  switch (dialect) {
    case 'header':
      return { ...reply(204, '', header), length: undefined };
    case 'both':
      return json(body, header);
    case 'json':
      return json(body);
    case 'empty-200-header':
      return reply(200, '', header);
    case 'object-200-header':
      return json({}, header);
    case 'html-200-header':
      return reply(200, '<!doctype html><title>Here</title>', { ...header, 'content-type': 'text/html' });
  }
}

function notFound(message: string): Reply {
  return { ...json({ errors: [message] }), status: 404 };
}
