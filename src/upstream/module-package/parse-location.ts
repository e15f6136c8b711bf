import { UpstreamInvalid } from '../../errors.ts';
import { archiveLocation, HTTP_PAGE } from './archive-location.ts';
import { gitLocation, isGitScpForm, isGitShorthand } from './git-location.ts';
import { type LocationParts, partsOf, type Refuse } from './location-parts.ts';
import type { ModuleLocation } from './module-location.ts';

/** In characters. Signed links have some 2,000. */
const MAX_LENGTH = 8_192;
/** Invisible, or split into several lines; and backslashes, which one reader takes for a slash and the next does not. */
const NEVER_IN_IT = /[\p{C}\p{Zl}\p{Zp}\\]/u;
const FORCED = /^([A-Za-z0-9]+)::(.+)$/s;
const SCHEME = /^([A-Za-z][A-Za-z0-9+.-]*):\/\//;
/** They would have a client read its own files or run commands. */
const LOCAL_GETTERS: ReadonlySet<string> = new Set(['file', 'ext', 'fd']);
/** Schemes that have a client of their own; all others that the clients know are HTTP. */
const OTHER_SCHEMES: ReadonlySet<string> = new Set(['s3', 'gcs', 'hg', 'oci']);
/** What the clients know by its host. */
const BUCKETS = [
  { host: /^[a-z0-9.-]+\.amazonaws\.com\//i, scheme: 's3' },
  { host: /^(?:[a-z0-9-]+\.)*googleapis\.com\//i, scheme: 'gcs' },
] as const;
/** `HOST/…` with a dot in it: neither a path nor a name. */
const HOST_AND_PATH = /^[a-z0-9][a-z0-9.-]*\.[a-z0-9-]+(?::\d{1,5})?\/./i;
/** Ways that lead to another machine. */
const REMOTE_SCHEMES: ReadonlySet<string> = new Set(['http:', 'https:', 'ssh:', 's3:', 'gcs:', 'hg:', 'oci:']);

/**
 * Reads where a registry says that a module's package is, as the clients read it: go-getter's dialect with the liberties
 * that its users know. Relative locations are relative to `base`, the URL that was asked for it.
 *
 * What clients can fetch and Larder cannot is `unmirrored`; what nobody should be sent to (files, commands, other
 * registry addresses, several lines of text) is refused, as is a checksum that is demanded and cannot be checked. Plain
 * http is read: whoever fetches decides about it. https://developer.hashicorp.com/terraform/language/modules/sources
 *
 * `isDirect`: OpenTofu fetches it itself, without go-getter: any relative URL is one, and an archive needs no extension.
 *
 * @throws UpstreamInvalid which names the registry and never the location, for that may hold secrets
 */
export function parseLocation(
  text: string,
  { base, isDirect = false }: { readonly base: URL; readonly isDirect?: boolean },
): ModuleLocation {
  const refuse: Refuse = (why, hint) =>
    new UpstreamInvalid(base.host, `gives a module location ${why}`, hint === undefined ? {} : { hint });
  if (text.trim() === '') throw refuse('that is empty');
  if (text.length > MAX_LENGTH) throw refuse(`of more than ${MAX_LENGTH} characters`);
  if (NEVER_IN_IT.test(text) || text.trim() !== text) throw refuse('with characters that cannot be in one');
  // The clients drop what follows, which is hardly ever what was meant.
  if (text.includes('#')) throw refuse('with a fragment (#…), which means nothing in one');
  const location = isDirect ? readDirect(text, base, refuse) : read(text, base, refuse);
  if (location.kind === 'unmirrored' && !/^[\x21-\x7e]+$/.test(location.text)) {
    throw refuse('with characters that cannot be in one');
  }
  return location;
}

/** What older clients understand, too, is read as they do. */
function readDirect(text: string, base: URL, refuse: Refuse): ModuleLocation {
  const isBare = !FORCED.test(text) && !SCHEME.test(text) && !text.startsWith('/');
  const location = read(isBare && !text.startsWith('.') ? `./${text}` : text, base, refuse);
  if (location.kind !== 'unmirrored' || location.scheme !== HTTP_PAGE) return location;
  return { kind: 'archive', url: new URL(location.text), format: undefined, checksum: undefined, subdir: '' };
}

function read(text: string, base: URL, refuse: Refuse): ModuleLocation {
  if (text.startsWith('//')) return overHttp(partsOf(`${base.protocol}${text}`), undefined, refuse);
  if (/^\.{0,2}\//.test(text)) return overHttp(partsOf(text), base, refuse);

  const [, forced, rest = ''] = FORCED.exec(text) ?? [];
  if (forced !== undefined) return readForced(forced.toLowerCase(), rest, text, refuse);

  const parts = partsOf(text);
  const scheme = SCHEME.exec(text)?.[1]?.toLowerCase();
  if (scheme === 'http' || scheme === 'https') return overHttp(parts, undefined, refuse);
  if (scheme !== undefined) {
    if (OTHER_SCHEMES.has(scheme) && leadsElsewhere(text)) return { kind: 'unmirrored', scheme, text };
    throw refuse('with a scheme that the clients do not know', 'Git over ssh is written git::ssh://…');
  }
  if (isGitShorthand(parts.address) || isGitScpForm(parts.address)) return gitLocation(parts, refuse);
  const bucket = BUCKETS.find(({ host }) => host.test(text));
  if (bucket) return { kind: 'unmirrored', scheme: bucket.scheme, text };
  throw refuse(
    'that is neither a URL nor anything else that clients can fetch',
    'Relative locations begin with /, ./ or ../; addresses of other modules cannot be locations.',
  );
}

function readForced(getter: string, rest: string, text: string, refuse: Refuse): ModuleLocation {
  if (LOCAL_GETTERS.has(getter) || FORCED.test(rest)) throw refuse('that no client must be sent to');
  if (getter === 'git') return gitLocation(partsOf(rest), refuse);
  if (getter === 'http' || getter === 'https') return overHttp(partsOf(rest), undefined, refuse);
  if (!leadsElsewhere(rest)) throw refuse(`for ${getter} that is no address of another host`);
  return { kind: 'unmirrored', scheme: getter, text };
}

function overHttp(parts: LocationParts, base: URL | undefined, refuse: Refuse): ModuleLocation {
  const url = URL.canParse(parts.address, base?.href) ? new URL(parts.address, base?.href) : undefined;
  if (!url || !/^https?:$/.test(url.protocol)) throw refuse('that is no URL');
  return archiveLocation(url, parts, refuse);
}

function leadsElsewhere(text: string): boolean {
  // Programs that clients start would take it for one of their options.
  if (/(?:^|:\/\/|=|@)-/.test(text)) return false;
  if (!SCHEME.test(text)) return HOST_AND_PATH.test(text);
  if (!URL.canParse(text)) return false;
  const { protocol, hostname } = new URL(text);
  return REMOTE_SCHEMES.has(protocol) && hostname !== '';
}
