import { posix } from 'node:path';
import { Hostname } from '../address/hostname.ts';
import { ModuleAddress } from '../address/module.ts';
import { hasCode } from '../errors.ts';

/** Where a module call finds its module. */
export type ModuleSource =
  | { readonly kind: 'registry'; readonly address: ModuleAddress; readonly subdir: string | undefined }
  /** `path` relative to the directory of the call, with forward slashes. */
  | { readonly kind: 'local'; readonly path: string }
  /** Neither in a registry nor beside the call. `what` says in words what it is, never the address: that may hold secrets. */
  | { readonly kind: 'elsewhere'; readonly what: string }
  | { readonly kind: 'invalid'; readonly why: string };

/** The CLIs go to the repository for these, even though they look like hosts of registries. */
const CODE_HOSTS: ReadonlySet<string> = new Set(['github.com', 'bitbucket.org', 'gitlab.com']);
/** Three or four words between slashes. */
const REGISTRY_LIKE = /^[^/?#@\s]+(\/[^/?#@\s]+){2,3}$/;

/** `[HOSTNAME/]NAMESPACE/NAME/SYSTEM[//SUBDIR]`, `./DIRECTORY`, or something that is no business of a registry. */
export function parseModuleSource(text: string, defaultHostname: Hostname): ModuleSource {
  if (/^\.\.?([/\\]|$)/.test(text)) return { kind: 'local', path: text.replaceAll('\\', '/') };
  const what = elsewhere(text);
  if (what) return { kind: 'elsewhere', what };

  const [address = '', ...rest] = text.split('//');
  if (!REGISTRY_LIKE.test(address)) {
    return {
      kind: 'invalid',
      why: 'write [HOSTNAME/]NAMESPACE/NAME/SYSTEM, or ./DIRECTORY for a module beside this one',
    };
  }
  const subdir = rest.length > 0 ? posix.normalize(rest.join('/')).replace(/^\/|\/$/g, '') : '';
  if (subdir === '..' || subdir.startsWith('../')) {
    return { kind: 'invalid', why: 'the directory behind // leads out of the package' };
  }
  try {
    const isFull = address.split('/').length === 4;
    const [namespace = '', name = '', system = ''] = address.split('/');
    return {
      kind: 'registry',
      address: isFull ? ModuleAddress.parse(address) : new ModuleAddress(defaultHostname, namespace, name, system),
      subdir: subdir === '' || subdir === '.' ? undefined : subdir,
    };
  } catch (error) {
    if (!hasCode(error, 'INVALID_ADDRESS')) throw error;
    return { kind: 'invalid', why: error.message };
  }
}

/** Whether the first part of an address can only be the host of a registry. */
export function looksLikeHost(part: string): boolean {
  if (!/[.:]|^localhost$/i.test(part)) return false;
  try {
    return Hostname.parse(part).name !== '';
  } catch {
    return false;
  }
}

function elsewhere(text: string): string | undefined {
  if (/^git::|^git@|^ssh:|\.git([/?]|$)/.test(text)) return 'a git repository';
  if (/^hg::/.test(text)) return 'a Mercurial repository';
  if (/^s3::|^gcs::|^oci:/.test(text)) return 'a storage service';
  if (CODE_HOSTS.has(text.split('/', 1)[0]?.toLowerCase() ?? '')) return 'a code host';
  if (/^[a-z][a-z0-9+.-]*:\/\/|^[a-z0-9]+::/i.test(text)) return 'a URL';
  if (/^([/\\]|[a-z]:[/\\])/i.test(text)) return 'a directory of one machine';
  return undefined;
}
