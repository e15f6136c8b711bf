import { hasCode } from '../errors.ts';
import type { FetchedBody } from './http-client.ts';
import { parseJsonObject } from './json-answer.ts';

/** RFC 3339, as registries write it. */
const TIMESTAMP = /^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(?:\.\d+)?(?:Z|[+-]\d{2}:\d{2})$/;

/**
 * `published_at` in what a registry tells of a version. `undefined` where it has no such document, or one without a date.
 * @throws what `answer` is rejected with otherwise; UpstreamInvalid when it is no JSON object
 */
export async function publicationDate(answer: Promise<FetchedBody>): Promise<Date | undefined> {
  let body: FetchedBody;
  try {
    body = await answer;
  } catch (error) {
    if (hasCode(error, 'NOT_FOUND')) return undefined;
    throw error;
  }
  const text = parseJsonObject(body, 'the details of a version')['published_at'];
  if (typeof text !== 'string' || !TIMESTAMP.test(text)) return undefined;
  const date = new Date(text);
  return Number.isNaN(date.getTime()) ? undefined : date;
}
