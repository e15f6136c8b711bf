import { randomUUID } from 'node:crypto';
import type { IncomingHttpHeaders } from 'node:http';

/** Letters, digits and what UUIDs, ULIDs, trace ids and Base64 hold besides: nothing that needs quoting anywhere. */
const WELL_FORMED = /^[\w.:+/=@~-]{1,128}$/;

/** The id of a request: the one that it brings in `X-Request-Id`, unless that is ill-formed, or a new one. */
export function requestIdOf({ 'x-request-id': given }: IncomingHttpHeaders): string {
  return typeof given === 'string' && WELL_FORMED.test(given) ? given : randomUUID();
}
