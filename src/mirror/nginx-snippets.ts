import type { ModuleAddress } from '../address/module.ts';
import type { CarriedPackage } from './carried.ts';
import { downloadLocation, downloadPath } from './static-documents.ts';

/** To be included on the level of `http`. */
export const NGINX_HTTP_FILE = 'nginx-http.conf';
/** To be included in the `server` whose `root` is the directory. */
export const NGINX_SERVER_FILE = 'nginx-server.conf';

/** Keys of nginx's hashes are limited by this, in bytes; a path of a module can be as long as its parts may be. */
const BUCKET_BYTES = 1024;

const SERVER_TEXT = `# Made by larder export. Include it in a server whose root is this directory (or one above it):
#   include /srv/larder/${NGINX_SERVER_FILE};

# Clients take documents of a network mirror for what they are only as application/json.
location ~ "/providers/.+\\.json$" {
  types { }
  default_type application/json;
}

location ~ "/registry/[^/]+/v1/providers/.+" {
  types { }
  default_type application/json;
}

# Terraform wants to know where a module is from a header; OpenTofu reads it from the document as well. Clients ask for a
# module as it is written in the configuration, in upper or lower case; the files are in lower case.
location ~ "^(?<larder_above>.*)(?<larder_path>/registry/[^/]+/v1/modules/.+)$" {
  types { }
  default_type application/json;
  add_header X-Terraform-Get $larder_module_location;
  try_files $larder_above$larder_module_file =404;
}

location ~ "/modules/.+\\.tar\\.gz$" {
  types { }
  default_type application/gzip;
}
`;

/**
 * What nginx has to be told to serve modules to Terraform, which takes their location from a header alone. Keys of a map
 * are compared without regard to case, which is what addresses of modules need.
 */
export function nginxSnippets(packages: readonly CarriedPackage[]): ReadonlyMap<string, string> {
  const modules = new Map<string, ModuleAddress>(packages.map(({ release: { module } }) => [`${module}`, module]));
  const downloads = packages.map((carried) => ({ path: `/${downloadPath(carried)}`, get: downloadLocation(carried) }));
  const lists = [...modules.values()].map(
    ({ hostname, written }) => `/registry/${hostname}/v1/modules/${written.toLowerCase()}/versions`,
  );
  const files = [...lists, ...downloads.map(({ path }) => path)].sort();
  const http = [
    '# Made by larder export. Include it on the level of http:',
    `#   include /srv/larder/${NGINX_HTTP_FILE};`,
    '',
    `map_hash_bucket_size ${BUCKET_BYTES};`,
    `map_hash_max_size ${hashSize(files.length)};`,
    '',
    'map $larder_path $larder_module_file {',
    '  default $larder_path;',
    ...files.map((path) => `  ${quoted(path)} ${quoted(path)};`),
    '}',
    '',
    'map $larder_path $larder_module_location {',
    '  default "";',
    ...downloads.map(({ path, get }) => `  ${quoted(path)} ${quoted(get)};`).sort(),
    '}',
    '',
  ].join('\n');
  return new Map([
    [NGINX_HTTP_FILE, http],
    [NGINX_SERVER_FILE, SERVER_TEXT],
  ]);
}

/** Twice as many as there are keys, and what nginx has anyway at least. */
function hashSize(keys: number): number {
  return Math.max(2048, 2 ** Math.ceil(Math.log2(keys * 2 + 1)));
}

/** A directory of a module may be called anything: `$` would be a variable, and cannot be escaped. */
function quoted(text: string): string {
  return `"${text.replaceAll('\\', '\\\\').replaceAll('"', '\\"').replaceAll('$', '%24')}"`;
}
