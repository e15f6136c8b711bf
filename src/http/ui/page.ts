import type { Response } from 'express';
import { html, type Markup } from '../html.ts';
import type { Assets } from './assets.ts';

/** Nothing but what is ours, nothing inline, and in nobody's frame. */
const POLICY =
  "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; " +
  "base-uri 'none'; frame-ancestors 'none'";

export const PAGE_HEADERS: Readonly<Record<string, string>> = {
  'Content-Security-Policy': POLICY,
  'X-Content-Type-Options': 'nosniff',
  'X-Frame-Options': 'DENY',
  // Not `no-referrer`: then browsers do not say where forms come from.
  'Referrer-Policy': 'same-origin',
  'Cross-Origin-Opener-Policy': 'same-origin',
  'Cross-Origin-Resource-Policy': 'same-origin',
  'Cache-Control': 'no-store',
};

const SECTIONS = [
  ['', 'Overview'],
  ['stored', 'Stored'],
  ['jobs', 'Jobs'],
  ['gaps', 'Gaps'],
  ['trouble', 'Trouble'],
] as const;

export type Section = (typeof SECTIONS)[number][0] | 'seal' | 'sign-in' | 'none';

/** What surrounds the content of a page. */
export interface Surroundings {
  readonly assets: Assets;
  /** From the page to the dashboard's own place: empty, or `../` once or more. Everything is linked to relatively. */
  readonly up: string;
  readonly isSealed: boolean;
  /** Whoever is signed in. */
  readonly signedIn?: { readonly name: string; readonly formToken: string } | undefined;
}

export interface Page {
  /** Of the document and of the page: one line. */
  readonly title: string;
  readonly section: Section;
  readonly content: Markup;
  /** What was just done, for whoever did it. */
  readonly notice?: string | undefined;
}

export function renderPage({ title, section, content, notice }: Page, around: Surroundings): Markup {
  const { assets, up, isSealed, signedIn } = around;
  return html`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>${title} · Larder</title>
<link rel="icon" href="${up}${assets.urlOf('icon.svg')}" type="image/svg+xml">
<link rel="stylesheet" href="${up}${assets.urlOf('dashboard.css')}">
<script type="module" src="${up}${assets.urlOf('dashboard.js')}"></script>
</head>
<body>
<a class="skip" href="#content">Skip to the content</a>
<header class="top">
<div class="wrap">
<p class="brand"><a href="${up}../">Larder</a>${isSealed && html` <span class="tag warn">Sealed</span>`}</p>
${
  signedIn &&
  html`<nav aria-label="Dashboard"><ul>${SECTIONS.map(
    ([path, name]) =>
      html`<li><a href="${up === '' && path === '' ? './' : `${up}${path}`}"${section === path && html` aria-current="page"`}>${name}</a></li>`,
  )}</ul></nav>
<form method="post" action="${up}sign-out" class="who">${hidden('form', signedIn.formToken)}<span title="Signed in with this token">${signedIn.name}</span><button type="submit" class="quiet">Sign out</button></form>`
}
</div>
</header>
<main id="content" class="wrap" tabindex="-1">
<h1>${title}</h1>
<div id="news" role="status">${notice !== undefined && html`<p class="notice">${notice}</p>`}</div>
${content}
</main>
</body>
</html>
`;
}

export function hidden(name: string, value: string): Markup {
  return html`<input type="hidden" name="${name}" value="${value}">`;
}

export function sendPage(res: Response, page: Markup, status = 200): void {
  const body = Buffer.from(page.text);
  res
    .writeHead(status, { ...PAGE_HEADERS, 'Content-Type': 'text/html; charset=utf-8', 'Content-Length': body.length })
    .end(res.req.method === 'HEAD' ? undefined : body);
}

/** To another page after something was done: reloading that one does nothing again. */
export function sendSeeOther(res: Response, location: string): void {
  res.writeHead(303, { ...PAGE_HEADERS, Location: location, 'Content-Length': 0 }).end();
}
