import rangeParser from 'range-parser';
import type { ByteSource } from './byte-source.ts';
import { reply } from './faults.ts';
import type { Call, Reply } from './origin.ts';

/** Answers with a file as a good archive host does: strong ETag, one byte range, If-Range. */
export function fileReply(call: Call, bytes: ByteSource, etag: string, mediaType = 'application/octet-stream'): Reply {
  const headers = {
    'content-type': mediaType,
    'accept-ranges': 'bytes',
    etag,
    'last-modified': 'Mon, 01 Jan 2024 12:00:00 GMT',
  };
  if (call.headers['if-none-match'] === etag) return { ...reply(304, '', { etag }), length: undefined };

  const range = requestedRange(call, bytes.size, etag);
  if (range === 'unsatisfiable') return reply(416, '', { 'content-range': `bytes */${bytes.size}` });
  if (range === undefined) return { status: 200, headers, body: bytes.read(0, bytes.size), length: bytes.size };
  return {
    status: 206,
    headers: { ...headers, 'content-range': `bytes ${range.start}-${range.end}/${bytes.size}` },
    body: bytes.read(range.start, range.end + 1),
    length: range.end + 1 - range.start,
  };
}

function requestedRange(call: Call, size: number, etag: string): rangeParser.Range | 'unsatisfiable' | undefined {
  const { range: header, 'if-range': ifRange } = call.headers;
  if (header === undefined || (ifRange !== undefined && ifRange !== etag)) return undefined;
  const ranges = rangeParser(size, header);
  if (ranges === -1) return 'unsatisfiable';
  if (ranges === -2 || ranges.length !== 1) return undefined;
  return ranges[0];
}
