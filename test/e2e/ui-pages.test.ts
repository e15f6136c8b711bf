import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import type { Browser, Page } from 'playwright-core';
import { afterAll, beforeAll, expect, it, vi } from 'vitest';
import { Pin } from '../../src/mirror/pins.ts';
import { OPS, startDashboard, storedArchive } from '../http/ui/dashboard-scene.ts';
import { publishNet } from '../mirror/module-scene.ts';
import { startWarmScene } from '../mirror/warm-scene.ts';
import { expectAccessible, startBrowser, visitor } from '../support/browser.ts';
import { describeWith } from '../support/requirements.ts';

const THEMES = ['light', 'dark'] as const;
const WIDTHS = [1280, 400] as const;
/** Pictures of all pages are put there, for whoever wants to look at them. */
const SHOTS = process.env['LARDER_SHOTS'];

// Every page is looked at four times, on a machine that may be busy with other things.
vi.setConfig({ testTimeout: 240_000 });

describeWith(['chromium'], 'every page, in light and dark, wide and narrow', () => {
  let browser: Browser;
  beforeAll(async () => {
    browser = await startBrowser();
  });
  afterAll(() => browser?.close());

  async function signIn(page: Page, url: string) {
    await page.goto(`${url}/ui/`);
    await page.getByLabel('Token of an operator').fill(OPS);
    await page.getByRole('button', { name: 'Sign in' }).click();
    await page.getByRole('heading', { level: 1, name: 'Overview' }).waitFor();
  }

  /** Looks at a page in both themes and widths. */
  async function lookAt(page: Page, name: string) {
    for (const theme of THEMES) {
      for (const width of WIDTHS) {
        await page.emulateMedia({ colorScheme: theme, reducedMotion: 'reduce' });
        await page.setViewportSize({ width, height: 900 });
        const where = `${name}-${theme}-${width}`;
        // Each theme and each width once: the two have nothing to do with each other.
        if ((theme === 'light') === (width === 1280)) await expectAccessible(page, where);
        const overflow = Number(await page.evaluate('document.documentElement.scrollWidth - innerWidth'));
        expect(overflow, `${where} has to be scrolled sideways`).toBeLessThanOrEqual(0);
        if (SHOTS === undefined) continue;
        await mkdir(SHOTS, { recursive: true });
        await page.screenshot({ path: join(SHOTS, `${where}.png`), fullPage: true });
      }
    }
  }

  it('is accessible and fits, with everything in it', async () => {
    const scene = await startWarmScene({
      providers: [
        {},
        { version: '1.1.0', platforms: ['linux_amd64', 'darwin_arm64'] },
        { type: 'gadget', sizeBytes: 3_000_000 },
      ],
    });
    const { registry, larder } = scene;
    registry.services = { 'providers.v1': '/v1/providers/', 'modules.v1': '/v1/modules/' };
    publishNet(registry);
    const host = registry.hostname;
    const id = await scene.warm({
      providers: [`${host}/acme/widget`, `${host}/acme/gadget`, `${host}/acme/missing`],
      modules: [`${host}/acme/net/aws`],
      platforms: ['linux_amd64', 'darwin_arm64'],
    });
    await scene.ended(id);
    await scene.get(`/providers/registry.elsewhere.example/acme/widget/index.json`);
    await scene.admin('GET', 'inventory', 'a guess');

    const { page, problems } = await visitor(browser);
    await page.goto(`${larder.url}/ui/sign-in`);
    await lookAt(page, 'sign-in');
    await signIn(page, larder.url);
    await lookAt(page, 'overview-real');
    for (const [name, path] of [
      ['stored', 'stored'],
      ['stored-nothing', 'stored?q=nothing'],
      ['jobs', 'jobs'],
      ['job', `jobs/${id}`],
      ['gaps', 'gaps'],
      ['trouble', 'trouble'],
      ['seal', 'seal'],
      ['not-found', 'nowhere'],
    ] as const) {
      await page.goto(`${larder.url}/ui/${path}`);
      await lookAt(page, name);
    }
    await page.goto(`${larder.url}/ui/stored`);
    await page
      .getByRole('link', { name: `${host}/acme/widget` })
      .first()
      .click();
    await page.getByText('Hashes for lock files').waitFor();
    await lookAt(page, 'item');
    await page.goto(`${larder.url}/ui/gaps`);
    await page.getByText('Or write a list').click();
    await page.getByLabel('One address per line').fill(`${host}/acme/widget@1.0.0\n${host}/acme/other\nhashicorp`);
    await page.getByRole('button', { name: 'Look for gaps' }).click();
    await page.getByRole('heading', { name: 'Report' }).waitFor();
    await lookAt(page, 'gaps-report');
    // A page that is not there is an answer like any other; the console calls it an error.
    expect(problems.filter((problem) => !problem.includes('404'))).toEqual([]);
  });

  it('is accessible and fits where there is much to tell', async () => {
    const stored = Array.from({ length: 300 }, (_, index) =>
      storedArchive(
        `registry.opentofu.org/team-${index % 7}/a-provider-of-a-long-name-${index % 30}`,
        `1.${index}.0`,
        'linux_amd64',
        {
          size: 1_000 * (index + 1) ** 2,
        },
      ),
    );
    const scene = await startDashboard({
      stored,
      admin: {
        pins: {
          list: async () => [
            Pin.parse('registry.opentofu.org/team-1/*'),
            Pin.parse(`registry.opentofu.org/team-0/a-provider-of-a-long-name-0@1.0.0`),
          ],
        } as never,
        seal: {
          state: () => ({ sealed: true, configured: false, changedAt: new Date().toISOString(), by: 'ops' }),
          isSealed: true,
        } as never,
      },
      isSealed: () => true,
      dashboard: {
        traffic: { points: async (range) => traffic(range) },
        upstreamHealth: { report: () => UPSTREAMS },
        disk: () => ({ used: 412e9, limit: 500e9, evictions: 12_345 }),
      },
    });
    const { page, problems } = await visitor(browser);
    await signIn(page, scene.origin);
    await lookAt(page, 'overview-busy');
    await page.goto(`${scene.origin}/ui/?range=week`);
    await page.getByText('The same as a table').click();
    await lookAt(page, 'overview-week');
    await page.goto(`${scene.origin}/ui/stored?sort=size&dir=desc`);
    await lookAt(page, 'stored-busy');
    await page.goto(`${scene.origin}/ui/seal`);
    await lookAt(page, 'seal-open');
    expect(problems).toEqual([]);
  });

  it('is accessible and fits where nobody can sign in', async () => {
    const scene = await startDashboard({ tokens: () => [] });
    const { page } = await visitor(browser);
    await page.goto(`${scene.origin}/ui/`);
    await page.getByText('Nobody can sign in yet').waitFor();
    await lookAt(page, 'sign-in-nobody');
  });
});

const UPSTREAMS = [
  { hostname: 'registry.opentofu.org', state: 'ok' as const, lastSuccessAt: new Date(Date.now() - 12_000) },
  {
    hostname: 'registry.terraform.io',
    state: 'left alone' as const,
    lastSuccessAt: new Date(Date.now() - 3_600_000),
    lastFailure: {
      at: new Date(Date.now() - 4_000),
      reason: 'timeout',
      message: 'releases.hashicorp.com did not answer within 8 s',
    },
  },
  {
    hostname: 'registry.corp.example:8443',
    state: 'failing' as const,
    lastFailure: {
      at: new Date(Date.now() - 90_000),
      reason: 'refused',
      message: 'registry.corp.example:8443 answered 401 to the token that is configured for it',
    },
  },
  { hostname: 'registry.quiet.example', state: 'not asked yet' as const },
];

/** A day that looks like one. */
function traffic(range: 'hour' | 'day' | 'week') {
  const [count, stepMs] = { hour: [60, 60_000], day: [96, 900_000], week: [672, 900_000] }[range] as [number, number];
  const now = Date.now();
  return Array.from({ length: count }, (_, index) => {
    const at = new Date(Math.floor(now / stepMs) * stepMs - (count - 1 - index) * stepMs);
    const hour = at.getUTCHours() + at.getUTCMinutes() / 60;
    const busy = Math.round(
      400 * Math.max(0.03, Math.sin(((hour - 5) / 14) * Math.PI)) * (1 + 0.25 * Math.sin(index * 2.1)),
    );
    const misses = Math.round(busy * (0.04 + 0.05 * Math.abs(Math.sin(index / 5)) + (index % 40 === 7 ? 0.4 : 0)));
    return {
      at,
      requests: busy * 3,
      hits: busy * 2 - misses,
      misses,
      stale: index % 30 === 5 ? 9 : 0,
      failures: index % 45 === 11 ? 4 : 0,
      bytesServed: busy * 41_000_000,
      bytesFetched: misses * 38_000_000,
    };
  });
}
