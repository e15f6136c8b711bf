import { z } from 'zod';
import type { StoredOrder } from '../../mirror/stored-index.ts';

/** Rows on one page. */
export const PAGE_ROWS = 50;
const MAX_SEARCH = 200;
const MAX_WORDS = 8;

/** What is asked of the list of what is stored. */
export interface StoredAsked {
  readonly search: string;
  readonly words: readonly string[];
  readonly kind: 'all' | 'providers' | 'modules';
  readonly only: 'all' | 'pinned' | 'drift';
  readonly order: StoredOrder;
  readonly isDescending: boolean;
  /** Counted from 1. */
  readonly page: number;
}

const shape = z.object({
  q: z
    .string()
    .catch('')
    .transform((text) => text.trim().slice(0, MAX_SEARCH)),
  kind: z.enum(['all', 'providers', 'modules']).catch('all'),
  only: z.enum(['all', 'pinned', 'drift']).catch('all'),
  sort: z.enum(['address', 'size', 'used', 'stored']).catch('address'),
  dir: z.enum(['asc', 'desc']).catch('asc'),
  page: z.coerce.number().int().min(1).max(1_000_000).catch(1),
});

/** What makes no sense is as if it had not been said: these are bookmarks. */
export function parseStoredQuery(query: unknown): StoredAsked {
  const { q, kind, only, sort, dir, page } = shape.parse(query);
  const words = q.toLowerCase().split(/\s+/).filter(Boolean).slice(0, MAX_WORDS);
  return { search: q, words, kind, only, order: sort, isDescending: dir === 'desc', page };
}

/** Back into a query, with some of it changed. */
export function storedQuery(asked: StoredAsked, change: Partial<StoredAsked> = {}): string {
  const { search, kind, only, order, isDescending, page } = { ...asked, ...change };
  const query = new URLSearchParams();
  if (search !== '') query.set('q', search);
  if (kind !== 'all') query.set('kind', kind);
  if (only !== 'all') query.set('only', only);
  if (order !== 'address') query.set('sort', order);
  if (isDescending) query.set('dir', 'desc');
  if (page > 1) query.set('page', String(page));
  return query.size === 0 ? '' : `?${query}`;
}
