import { UpstreamInvalid } from '../errors.ts';
import type { FetchedBody } from './http-client.ts';

/** @throws UpstreamInvalid saying what came instead of a JSON object: often the page of a proxy or a captive portal */
export function parseJsonObject({ body, headers, url }: FetchedBody, what: string): Record<string, unknown> {
  let value: unknown;
  try {
    value = JSON.parse(body.toString('utf8'));
  } catch {
    value = undefined;
  }
  if (isObject(value)) return value;
  const type = (headers['content-type'] ?? 'no content type').slice(0, 100);
  throw new UpstreamInvalid(url.host, `answered ${what} with something that is no JSON object (${type})`);
}

export function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** The strings of a list; anything else, and anything that is no list, is left out. */
export function stringsOf(value: unknown): string[] {
  return Array.isArray(value) ? value.filter((item) => typeof item === 'string') : [];
}
