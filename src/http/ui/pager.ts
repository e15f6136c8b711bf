import { html, type Markup } from '../html.ts';
import { number } from './words.ts';

/** From one page to its neighbours, the first and the last. Nothing where there is only one. */
export function pager({
  page,
  pages,
  hrefOf,
}: {
  /** Counted from 1. */
  page: number;
  pages: number;
  hrefOf: (page: number) => string;
}): Markup | undefined {
  if (pages <= 1) return undefined;
  const link = (to: number, name: string, isThere: boolean) =>
    isThere
      ? html`<li><a href="${hrefOf(to)}" data-swap>${name}</a></li>`
      : html`<li><span class="off" aria-hidden="true">${name}</span></li>`;
  return html`<nav aria-label="Pages" class="pager"><ul>
${link(1, 'First', page > 1)}${link(Math.min(page - 1, pages), 'Previous', page > 1)}
<li><span aria-current="page">Page ${number(page)} of ${number(pages)}</span></li>
${link(page + 1, 'Next', page < pages)}${link(pages, 'Last', page < pages)}
</ul></nav>`;
}
