import { vi } from 'vitest';
import {
  all,
  corrupt,
  cutAfter,
  cutInHeaders,
  editJson,
  firstLinkExpired,
  gzipEncoded,
  html,
  hugeJson,
  mediaType,
  neverAnswer,
  redirect,
  replaceBody,
  reset,
  shortCleanEnd,
  shortWithLength,
  status,
  trickle,
} from '../support/faults.ts';
import type { Fault, Origin } from '../support/origin.ts';
import type { UpstreamRegistry } from '../support/upstream-registry.ts';
import type { Column, Trouble } from './table.ts';

/** Where a column is hit. */
export interface Target {
  readonly column: Column;
  readonly registry: UpstreamRegistry;
  /** The server that the request goes to which is to fail. */
  readonly origin: Pick<Origin, 'on' | 'stop' | 'hangUpOnEverybody'>;
  /** That request. */
  readonly request: RegExp;
}

const MIB = 1024 * 1024;
/** Larger than the answer may be, which is 1 MiB unless told. Lists may be so large that they are packed. */
const HUGE: Partial<Record<Column, Fault>> = {
  index: all(gzipEncoded(), hugeJson(16 * MIB + 1)),
  version: hugeJson(4 * MIB + 1),
  versions: all(gzipEncoded(), hugeJson(16 * MIB + 1)),
  download: hugeJson(4 * MIB + 1),
  moduleVersions: all(gzipEncoded(), hugeJson(16 * MIB + 1)),
};
/** More than upstream is waited for, and more than it is obeyed. */
const LONG_S = 3600;
/** Where in SHA256SUMS the names are. */
const NAME_AT = 70;

/** Makes an upstream fail, until it is healed. */
export const STRIKES: Readonly<Record<Trouble, (target: Target) => unknown>> = {
  'its name is not known to DNS': ({ registry, origin }) =>
    registry.loseName(origin === registry.api ? 'registry' : 'files'),
  'it refuses connections': ({ origin }) => origin.stop(),
  'it breaks connections off before a request': ({ origin }) => origin.hangUpOnEverybody(),
  'it breaks off after the request': by(reset()),
  'it breaks off inside the headers': by(cutInHeaders()),
  // Each time: what is missing is asked for again.
  'it breaks off inside the body': ofSize((bytes) => cutAfter(bytes / 4)),
  'it takes the request and does not answer': by(neverAnswer()),
  'it sends drop by drop': ({ column, ...target }) => by(trickle(SPEED[column] ?? 4))({ column, ...target }),
  'the body is too short, as its Content-Length says': ofSize((bytes) => shortWithLength(bytes)),
  'the body is too short, and has no Content-Length': ofSize((bytes) => shortCleanEnd(bytes)),
  'a bit of the body is wrong': (target) => by(corrupt(target.column === 'checksums' ? NAME_AT : 0))(target),
  'it answers 401': by(status(401)),
  'it answers 403': by(status(403)),
  'it answers 404': by(status(404)),
  'it answers 410': by(status(410)),
  'it answers 429': by(status(429, { retryAfter: LONG_S })),
  'it answers 500': by(status(500)),
  'it answers 503': by(status(503)),
  'it answers 200 with a page of HTML': by(html()),
  'the media type is wrong': by(mediaType('text/plain')),
  'the hash is wrong': (target) => (WRONG_HASH[target.column] ?? by(replaceBody(zeros)))(target),
  'the signature is wrong': ({ registry }) => registry.releases.on(/SHA256SUMS\.sig/, replaceBody(turned)),
  'the link has expired': by(firstLinkExpired(() => vi.setSystemTime(Date.now() + 1_000))),
  'it redirects in a circle': by(redirect((path) => path)),
  'it answers with JSON without end': (target) => by(HUGE[target.column] ?? hugeJson(MIB + 1))(target),
};

/** Bytes a second, of files: slower than anything that anybody waits for, and over in a second or two. */
const SPEED: Partial<Record<Column, number>> = { archive: 200_000, package: 4_000 };

const wrongDigest = 'ab'.repeat(32);

const moduleChecksum = ({ registry }: Target) =>
  registry.on(
    /\/download$/,
    editJson((answer) => {
      const location = String(answer['location']);
      return { ...answer, location: `${location}${location.includes('?') ? '&' : '?'}checksum=sha256:${wrongDigest}` };
    }),
  );

const WRONG_HASH: Partial<Record<Column, (target: Target) => unknown>> = {
  version: by(editJson((document) => ({ ...document, shasum: wrongDigest }))),
  download: by(editJson((document) => ({ ...document, shasum: wrongDigest }))),
  checksums: by(replaceBody((sums) => sums.toString().replace(/^[0-9a-f]{64}/, wrongDigest))),
  moduleDownload: moduleChecksum,
  package: moduleChecksum,
};

function by(fault: Fault): (target: Target) => unknown {
  return ({ origin, request }) => origin.on(request, fault);
}

/** Some of the body: of an archive enough for a client to get a part of it. */
function ofSize(fault: (bytes: number) => Fault): (target: Target) => unknown {
  return (target) => by(fault(target.column === 'archive' ? 100_000 : 24))(target);
}

function zeros(original: Buffer): Buffer {
  return Buffer.alloc(original.length);
}

/** A signature of something else. */
function turned(original: Buffer): Buffer {
  const bytes = Buffer.from(original);
  const last = bytes.length - 1;
  bytes.writeUInt8(bytes.readUInt8(last) ^ 1, last);
  return bytes;
}
