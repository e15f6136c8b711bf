import { decoded, type LocationParts, parseSubdir, type Refuse, takeParameters } from './location-parts.ts';
import type { ArchiveFormat, LocationChecksum, ModuleLocation } from './module-location.ts';

/** By file extension and by `archive=`. */
const FORMATS: Readonly<Record<string, ArchiveFormat>> = {
  zip: 'zip',
  'tar.gz': 'tar.gz',
  tgz: 'tar.gz',
  'tar.xz': 'tar.xz',
  txz: 'tar.xz',
  'tar.bz2': 'tar.bz2',
  'tar.tbz2': 'tar.bz2',
  tbz2: 'tar.bz2',
};
/** Compressed single files: no module can be in one. */
const SINGLE_FILES: ReadonlySet<string> = new Set(['gz', 'xz', 'bz2']);
/** What the clients take for a no, as Go does. */
const NO: ReadonlySet<string> = new Set(['0', 'f', 'F', 'false', 'FALSE', 'False']);
/** What clients search for where to go on. */
export const HTTP_PAGE = 'http page';
/** Hex digits of a digest. */
const DIGEST_LENGTHS = { md5: 32, sha1: 40, sha256: 64, sha512: 128 } as const;

/**
 * A location that is fetched over HTTP: an archive, by `archive=` or else by its extension, and otherwise a page that the
 * clients search for where to go on.
 * @throws UpstreamInvalid
 */
export function archiveLocation(url: URL, { subdir: raw, query }: LocationParts, refuse: Refuse): ModuleLocation {
  if (url.username || url.password) {
    throw refuse('with a user name or password in the URL of an archive, which is not supported');
  }
  const subdir = parseSubdir(raw, refuse);
  const { taken, rest } = takeParameters(query, ['archive', 'checksum']);
  const format = formatOf(taken.archive, decoded(url.pathname), refuse);
  if (!format) {
    const text = `${subdir ? `${url.href.replace(/\/$/, '')}//${subdir}` : url.href}${query && `?${query}`}`;
    return { kind: 'unmirrored', scheme: HTTP_PAGE, text };
  }
  const checksum = taken.checksum === undefined ? undefined : parseChecksum(taken.checksum, refuse);
  const fetched = new URL(url);
  fetched.search = rest;
  return { kind: 'archive', url: fetched, format, checksum, subdir };
}

export function isNo(archive: string): boolean {
  return NO.has(archive);
}

function formatOf(archive: string | undefined, path: string, refuse: Refuse): ArchiveFormat | undefined {
  const given = archive ?? extensionOf(path);
  if (given === undefined || isNo(given)) return undefined;
  if (SINGLE_FILES.has(given)) throw refuse(`of a single compressed file (${given}), which no module fits into`);
  return Object.hasOwn(FORMATS, given) ? FORMATS[given] : undefined;
}

/** The longest that is known. */
function extensionOf(path: string): string | undefined {
  return [...Object.keys(FORMATS), ...SINGLE_FILES]
    .filter((extension) => path.endsWith(`.${extension}`))
    .sort((a, b) => b.length - a.length)[0];
}

function parseChecksum(text: string, refuse: Refuse): LocationChecksum {
  const [, type, value = ''] = /^(?:([^:]*):)?(.*)$/s.exec(text) ?? [];
  if (type === 'file') throw refuse('with its checksum in another file (checksum=file:…), which is not supported');
  const algorithm = (Object.keys(DIGEST_LENGTHS) as (keyof typeof DIGEST_LENGTHS)[]).find((name) =>
    type === undefined ? DIGEST_LENGTHS[name] === value.length : name === type.toLowerCase(),
  );
  if (!algorithm || value.length !== DIGEST_LENGTHS[algorithm] || !/^[0-9a-f]+$/i.test(value)) {
    throw refuse('with a checksum that is none');
  }
  return { algorithm, digest: value.toLowerCase() };
}
