/**
 * What becomes of a request when an upstream fails: for each way to fail and each thing that is asked for, what the
 * client gets, by what Larder knew before. The tests hold Larder to it, and `docs/faults.md` is made of it.
 */

/** What a client gets. */
export const OUTCOMES = {
  fresh: 'the answer, as ever',
  stale: 'the answer that was last known, marked with `Warning: 110` and its `Age`',
  stored:
    'what is stored of it, marked with `Warning: 110`; in `VERSION.json` with every platform that its SHA256SUMS names',
  kept: 'what is stored of it, unmarked: upstream has said that it does not have it any more',
  empty: '`200` with no archives: "try your next source"',
  absent: '`404`, `NOT_FOUND`',
  unreachable: '`502`, `UPSTREAM_UNREACHABLE`',
  late: '`504`, `UPSTREAM_UNREACHABLE`',
  busy: '`503`, `UPSTREAM_UNREACHABLE`, with a `Retry-After` of a few seconds',
  refused: '`502`, `UPSTREAM_REFUSED`',
  nonsense: '`502`, `UPSTREAM_INVALID`',
  mismatch: '`502`, `INTEGRITY_MISMATCH`',
  cut: 'an answer that is broken off before its end: no client takes it for whole',
} as const;

export type Outcome = keyof typeof OUTCOMES;

/** What Larder knows when the trouble begins. */
export const STATES = {
  cold: 'nothing is known and nothing stored',
  warm: 'it was asked for a moment ago',
  stale: 'it was asked for so long ago that upstream is asked again (archives and packages: they are stored)',
  stored: 'all that upstream said is forgotten, and the archive or package is stored',
} as const;

export type State = keyof typeof STATES;

/** What is asked for, and which of the requests to upstream it takes is the one that fails. */
export const COLUMNS = {
  index: ['`index.json`', 'the list of versions'],
  version: ['`VERSION.json`', 'the document of a package'],
  archive: ['archive', 'the archive itself'],
  versions: ['registry: versions', 'the list of versions'],
  download: ['registry: download', 'the document of a package'],
  checksums: ['registry: SHA256SUMS', '`SHA256SUMS`'],
  moduleVersions: ['module versions', 'the list of versions'],
  moduleDownload: ['module download', 'the location of the package'],
  package: ['module package', 'the archive that the package is made of'],
} as const;

export type Column = keyof typeof COLUMNS;

/** A cell that cannot be, and why. */
export interface Never {
  readonly never: string;
}

/** In the order of `STATES`. */
export type Cell = readonly [cold: Outcome, warm: Outcome, stale: Outcome, stored: Outcome] | Never;

export type Row = Readonly<Record<Column, Cell>>;

/** Nothing gets in the way. */
const FINE: Cell = ['fresh', 'fresh', 'fresh', 'fresh'];
const LIST_UNSIGNED: Never = { never: 'a list has no signature' };
const LIST_WITHOUT_HASH: Never = { never: 'a list tells no hash' };
const MODULES_UNSIGNED: Never = { never: 'modules are not signed' };
const LINK_NEVER_OLD: Never = {
  never: 'no link leads there that could expire: addresses are lasting, or asked for anew',
};

/** No usable answer comes: what was known before goes on being said. What is stored asks nobody. */
function silence(cold: Outcome): Row {
  const list: Cell = [cold, 'fresh', 'stale', 'stored'];
  return {
    index: list,
    version: list,
    archive: [cold, 'fresh', 'fresh', 'fresh'],
    versions: list,
    download: list,
    checksums: list,
    moduleVersions: list,
    // A location that was known leads to the package all the same.
    moduleDownload: [cold, 'fresh', 'fresh', 'fresh'],
    package: [cold, 'fresh', 'fresh', 'fresh'],
  };
}

/** An answer that is to be taken seriously: what was known before is not said against it. What is stored stays. */
function answered(cold: Outcome): Row {
  const list: Cell = [cold, 'fresh', cold, 'stored'];
  return {
    ...silence(cold),
    index: list,
    version: list,
    versions: list,
    download: list,
    // The first ones that were seen are stored, with or without an archive.
    checksums: [cold, 'fresh', 'stored', 'stored'],
    moduleVersions: list,
    moduleDownload: [cold, 'fresh', cold, 'fresh'],
  };
}

const GONE: Row = {
  ...answered('absent'),
  index: ['absent', 'fresh', 'absent', 'kept'],
  version: ['empty', 'fresh', 'empty', 'kept'],
  versions: ['absent', 'fresh', 'absent', 'kept'],
  download: ['absent', 'fresh', 'absent', 'kept'],
  // The list names a release, so that its checksums cannot be absent: upstream contradicts itself.
  checksums: silence('nonsense').checksums,
  moduleVersions: ['absent', 'fresh', 'absent', 'kept'],
};

/** By what goes wrong. */
export const TABLE = {
  'its name is not known to DNS': silence('unreachable'),
  'it refuses connections': silence('unreachable'),
  'it breaks connections off before a request': silence('unreachable'),
  'it breaks off after the request': silence('unreachable'),
  'it breaks off inside the headers': silence('unreachable'),
  'it breaks off inside the body': { ...silence('unreachable'), archive: ['cut', 'fresh', 'fresh', 'fresh'] },
  'it takes the request and does not answer': silence('late'),
  // Files may take their time.
  'it sends drop by drop': { ...silence('late'), archive: FINE, package: FINE },
  'the body is too short, as its Content-Length says': {
    ...silence('nonsense'),
    archive: ['cut', 'fresh', 'fresh', 'fresh'],
  },
  'the body is too short, and has no Content-Length': {
    ...silence('nonsense'),
    archive: ['cut', 'fresh', 'fresh', 'fresh'],
  },
  'a bit of the body is wrong': {
    ...silence('nonsense'),
    archive: ['cut', 'fresh', 'fresh', 'fresh'],
    checksums: answered('mismatch').checksums,
  },
  'it answers 401': answered('refused'),
  'it answers 403': answered('refused'),
  'it answers 404': GONE,
  'it answers 410': GONE,
  'it answers 429': silence('busy'),
  'it answers 500': silence('unreachable'),
  'it answers 503': silence('unreachable'),
  'it answers 200 with a page of HTML': { ...silence('nonsense'), archive: ['mismatch', 'fresh', 'fresh', 'fresh'] },
  'the media type is wrong': {
    index: FINE,
    version: FINE,
    archive: FINE,
    versions: FINE,
    download: FINE,
    checksums: FINE,
    moduleVersions: FINE,
    moduleDownload: FINE,
    package: FINE,
  },
  'the hash is wrong': {
    ...answered('mismatch'),
    index: LIST_WITHOUT_HASH,
    archive: ['cut', 'fresh', 'fresh', 'fresh'],
    versions: LIST_WITHOUT_HASH,
    moduleVersions: LIST_WITHOUT_HASH,
  },
  'the signature is wrong': {
    ...answered('mismatch'),
    index: LIST_UNSIGNED,
    versions: LIST_UNSIGNED,
    moduleVersions: MODULES_UNSIGNED,
    moduleDownload: MODULES_UNSIGNED,
    package: MODULES_UNSIGNED,
  },
  'the link has expired': {
    index: LINK_NEVER_OLD,
    version: LINK_NEVER_OLD,
    archive: FINE,
    versions: LINK_NEVER_OLD,
    download: LINK_NEVER_OLD,
    checksums: LINK_NEVER_OLD,
    moduleVersions: LINK_NEVER_OLD,
    moduleDownload: LINK_NEVER_OLD,
    package: FINE,
  },
  'it redirects in a circle': silence('nonsense'),
  'it answers with JSON without end': { ...silence('nonsense'), archive: ['cut', 'fresh', 'fresh', 'fresh'] },
} as const satisfies Readonly<Record<string, Row>>;

export type Trouble = keyof typeof TABLE;

export const TROUBLES = Object.keys(TABLE) as Trouble[];

/** The one outcome of a cell; `undefined` where the cell cannot be. */
export function outcomeOf(trouble: Trouble, column: Column, state: State): Outcome | undefined {
  const cell: Cell = (TABLE[trouble] as Row)[column];
  return 'never' in cell ? undefined : cell[Object.keys(STATES).indexOf(state)];
}
