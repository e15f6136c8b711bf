import { LRUCache } from 'lru-cache';
import { UpstreamInvalid } from '../errors.ts';
import { contentLength, isPage, isPlain } from './bodies.ts';
import type { Headers } from './failures.ts';

/** Files whose download may yet be interrupted: a few more than are ever under way. */
const REMEMBERED_VALIDATORS = 500;

/**
 * ETags of files as first seen, so that the rest of a download is the rest of the same file. Known by URL without the
 * query: signed links differ each time they are handed out.
 */
export class StrongValidators {
  readonly #etags = new LRUCache<string, string>({ max: REMEMBERED_VALIDATORS });

  get(url: URL): string | undefined {
    return this.#etags.get(url.origin + url.pathname);
  }

  remember(url: URL, { etag }: Headers): void {
    // Weak ones (`W/"…"`) say nothing about bytes.
    if (etag && /^"[^"]*"$/.test(etag)) this.#etags.set(url.origin + url.pathname, etag);
    else this.#etags.delete(url.origin + url.pathname);
  }
}

/** Headers that ask for a file from `offset` on, as long as it still is the same file. */
export function openingHeaders(offset: number, etag: string | undefined): Record<string, string> {
  if (offset === 0) return {};
  return { range: `bytes=${offset}-`, ...(etag ? { 'if-range': etag } : {}) };
}

/**
 * Where the body of a 200 or 206 begins, and how large the whole file is.
 * @throws UpstreamInvalid when it is not the part that was asked for, or is compressed
 */
export function openingOf(
  status: 200 | 206,
  headers: Headers,
  url: URL,
  asked: number,
): { offset: number; size: number | undefined } {
  if (!isPlain(headers)) {
    throw new UpstreamInvalid(url.host, `sent ${url.pathname} compressed, though asked for it as it is`);
  }
  // Of a page for people, the length is not that of the file.
  if (status === 200) return { offset: 0, size: isPage(headers) ? undefined : contentLength(headers) };
  const [, start, total] = /^bytes (\d{1,15})-\d{1,15}\/(\d{1,15}|\*)$/.exec(headers['content-range'] ?? '') ?? [];
  if (asked === 0 || start === undefined || Number(start) !== asked) {
    throw new UpstreamInvalid(url.host, `sent another part of ${url.pathname} than the one asked for`);
  }
  return { offset: asked, size: total === undefined || total === '*' ? undefined : Number(total) };
}
