import { readFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { type Browser, type BrowserContext, chromium, type Page } from 'playwright-core';
import { expect } from 'vitest';
import { afterTest } from './after-test.ts';
import { requirement } from './requirements.ts';

/** It asks nobody for anything by itself, and runs as root, too. */
const FLAGS = [
  '--no-sandbox',
  '--disable-background-networking',
  '--disable-component-update',
  '--disable-default-apps',
  '--disable-extensions',
  '--disable-sync',
  '--no-first-run',
];

/** A real Chromium, without a window. The caller closes it. */
export async function startBrowser(): Promise<Browser> {
  const { path } = requirement('chromium');
  if (path === undefined) throw new Error('there is no chromium here');
  return chromium.launch({ executablePath: path, args: FLAGS, timeout: 60_000 });
}

/** A person with a browser of their own: nothing is shared with others. Whatever goes wrong in a page is in `problems`. */
export async function visitor(
  browser: Browser,
  options: Parameters<Browser['newContext']>[0] = {},
): Promise<{ context: BrowserContext; page: Page; problems: string[] }> {
  const context = await browser.newContext({ ignoreHTTPSErrors: true, ...options });
  afterTest(() => context.close());
  context.setDefaultTimeout(20_000);
  const page = await context.newPage();
  const problems: string[] = [];
  page.on('pageerror', (error) => problems.push(String(error)));
  page.on('console', (message) => message.type() === 'error' && problems.push(message.text()));
  return { context, page, problems };
}

const AXE = createRequire(import.meta.url).resolve('axe-core/axe.min.js');

/** Fails with what axe finds wrong in the page as it is. */
export async function expectAccessible(page: Page, where: string): Promise<void> {
  // Evaluated, not added to the page: its policy lets no script of others in.
  await page.evaluate(await readFile(AXE, 'utf8'));
  const violations = await page.evaluate(async () => {
    const { axe } = globalThis as unknown as { axe: { run(): Promise<{ violations: Violation[] }> } };
    const found = await axe.run();
    return found.violations.map(({ id, nodes }) => ({
      id,
      at: nodes.map(({ html, failureSummary }) => `${html.slice(0, 200)} ${failureSummary}`).slice(0, 5),
    }));
  });
  expect(violations, where).toEqual([]);
}

interface Violation {
  readonly id: string;
  readonly nodes: readonly { readonly html: string; readonly failureSummary: string }[];
}
