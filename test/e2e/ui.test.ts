import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { createServer, request } from 'node:https';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Browser, Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { NARROW, OPS, startWarmScene, type WarmScene } from '../mirror/warm-scene.ts';
import { afterTest } from '../support/after-test.ts';
import { startBrowser, visitor } from '../support/browser.ts';
import { CertificateAuthority } from '../support/certificates.ts';
import { holdAfter, replaceBody, status } from '../support/faults.ts';
import { describeWith } from '../support/requirements.ts';

// A person takes many steps, and the machine may be busy with other things.
vi.setConfig({ testTimeout: 120_000 });

describeWith(['chromium'], 'the dashboard in a browser', () => {
  let browser: Browser;
  beforeAll(async () => {
    browser = await startBrowser();
  });
  afterAll(() => browser?.close());

  async function begin(options: { token?: string; javaScript?: boolean; config?: Record<string, unknown> } = {}) {
    const { token = OPS, javaScript = true, config = {} } = options;
    const scene = await startWarmScene({
      providers: [{}, { type: 'gadget', sizeBytes: 400_000 }],
      config: { log: { audit: 'data/audit.jsonl' }, ...config },
    });
    const { page, problems } = await visitor(browser, { javaScriptEnabled: javaScript });
    await signIn(page, scene.larder.url, token);
    return { ...scene, page, problems, ui: `${scene.larder.url}/ui`, host: scene.registry.hostname };
  }

  async function signIn(page: Page, url: string, token = OPS) {
    await page.goto(`${url}/ui`);
    await page.getByLabel('Token of an operator').fill(token);
    await page.getByRole('button', { name: 'Sign in' }).click();
    await page.getByRole('heading', { level: 1, name: 'Overview' }).waitFor();
  }

  const lockFile = (host: string) => ({
    name: '.terraform.lock.hcl',
    mimeType: 'text/plain',
    buffer: Buffer.from(['widget', 'gadget'].map((type) => lockOf(host, type)).join('\n')),
  });
  const lockOf = (host: string, type: string) => `provider "${host}/acme/${type}" {\n  version = "1.0.0"\n}\n`;
  const figure = (page: Page, name: string) => page.locator(`[data-job="${name}"]`);

  it('is found from the landing page, by whoever has the token, until they sign out', async () => {
    const { page, larder, problems } = await begin();
    await page.goto(`${larder.url}/ui/trouble`);
    await page.keyboard.press('Tab');
    // The first thing that the keyboard comes to leads past everything that is the same on each page.
    expect(await page.evaluate('document.activeElement.textContent')).toBe('Skip to the content');
    await page.keyboard.press('Enter');
    await expect.poll(() => page.evaluate('document.activeElement.id')).toBe('content');
    await page.goto(larder.url);
    await page.getByRole('link', { name: 'dashboard' }).click();
    await page.getByRole('heading', { level: 1, name: 'Overview' }).waitFor();
    await page.getByRole('button', { name: 'Sign out' }).click();
    await page.getByRole('heading', { level: 1, name: 'Sign in' }).waitFor();
    await page.goto(`${larder.url}/ui/jobs`);
    await page.getByLabel('Token of an operator').fill('a guess');
    await page.getByRole('button', { name: 'Sign in' }).click();
    await page.getByRole('alert').getByText('This token is not known here.').waitFor();
    await page.getByLabel('Token of an operator').fill(OPS);
    await page.getByRole('button', { name: 'Sign in' }).click();
    // Where they wanted to go in the first place.
    await page.getByRole('heading', { level: 1, name: 'Jobs' }).waitFor();
    expect(problems.filter((problem) => !problem.includes('401'))).toEqual([]);
  });

  it('warms a lock file that is chosen, and shows how that goes without a reload', async () => {
    const { page, registry, ui, host, larder, problems } = await begin();
    const hold = holdAfter(100_000);
    registry.releases.on(/gadget.*\.zip/, hold.fault);
    await page.goto(`${ui}/jobs`);
    await page.getByLabel('Lock files, configuration').setInputFiles(lockFile(host));
    await page.getByRole('button', { name: 'Warm', exact: true }).click();
    await page.getByRole('heading', { name: 'Job of .terraform.lock.hcl' }).waitFor();
    await page.getByText('The job has begun.').waitFor();
    await page.evaluate(() => Object.assign(globalThis, { wasHere: true }));
    await hold.reached;
    await page.locator('[data-item*="widget"]').getByText('Stored').waitFor();
    await page.locator('[data-item*="gadget"]').getByText('Waiting').waitFor();
    await expect.poll(() => figure(page, 'done').textContent()).toBe('1 of 2');
    hold.release();
    await page.locator('[data-item*="gadget"]').getByText('Stored').waitFor();
    await page.getByText('The job has ended: Finished. 2 stored, 0 present before, 0 failed.').waitFor();
    expect(await figure(page, 'state').textContent()).toContain('Finished');
    expect(await page.evaluate(() => 'wasHere' in globalThis)).toBe(true);
    expect(problems).toEqual([]);
    const entries = await audit(larder);
    expect(entries.find(({ event }) => event === 'warm-began')).toMatchObject({
      client: 'ops',
      files: ['.terraform.lock.hcl'],
      through: 'dashboard',
    });
  });

  it('cancels a job, and does again what failed', async () => {
    const { page, registry, ui, host } = await begin();
    const hold = holdAfter(1_000);
    const slow = registry.releases.on(/gadget.*\.zip/, hold.fault);
    await page.goto(`${ui}/jobs`);
    await page.getByLabel('Lock files, configuration').setInputFiles(lockFile(host));
    await page.getByRole('button', { name: 'Warm', exact: true }).click();
    await hold.reached;
    await page.getByRole('button', { name: 'Cancel' }).click();
    await expect.poll(() => figure(page, 'state').textContent()).toContain('Cancelled');
    slow.remove();
    hold.release();
    await page.getByRole('button', { name: 'Do again what failed' }).click();
    await expect.poll(() => figure(page, 'state').textContent(), { timeout: 20_000 }).toContain('Finished');
    await page.getByRole('link', { name: /^Failed/ }).click();
    await page.getByText('None.').waitFor();
    await page.getByRole('navigation', { name: 'Dashboard' }).getByRole('link', { name: 'Jobs' }).click();
    await page.getByRole('rowheader', { name: '.terraform.lock.hcl' }).waitFor();
    expect(await page.getByRole('row', { name: /lock\.hcl/ }).textContent()).toContain('2 of 2');
  });

  it('takes files that are dropped on it, tells the gaps, and warms them', async () => {
    const { page, ui, host, problems } = await begin();
    await page.goto(`${ui}/gaps`);
    await page.getByText('Drop files or whole directories').waitFor();
    await drop(page, { '.terraform.lock.hcl': String(lockFile(host).buffer) });
    await page.getByRole('list', { name: 'Chosen files' }).getByText('.terraform.lock.hcl').waitFor();
    await page.getByRole('button', { name: 'Look for gaps' }).click();
    await page.getByText('2 gaps', { exact: true }).waitFor();
    const table = page.getByRole('table', { name: 'What is missing' });
    expect((await table.getByRole('rowheader').allTextContents()).sort()).toEqual([
      `${host}/acme/gadget`,
      `${host}/acme/widget`,
    ]);
    await page.getByRole('button', { name: 'Warm what is missing' }).click();
    await page.getByText('The job has ended: Finished. 2 stored').waitFor();
    await page.goto(`${ui}/gaps`);
    await drop(page, { '.terraform.lock.hcl': String(lockFile(host).buffer) });
    await page.getByRole('button', { name: 'Look for gaps' }).click();
    await page.getByText('No gaps', { exact: true }).waitFor();
    // Nothing was dropped that can be read.
    await drop(page, { 'picture.png': 'PNG' });
    await page.getByRole('button', { name: 'Look for gaps' }).click();
    await page.getByText('files of this kind are not read').waitFor();
    expect(problems).toEqual([]);
  });

  it('warms a file that is dropped on the list of jobs', async () => {
    const { page, ui, host } = await begin();
    await page.goto(`${ui}/jobs`);
    await drop(page, { 'list.txt': `${host}/acme/widget@1.0.0` });
    await page.getByRole('button', { name: 'Warm', exact: true }).click();
    await page
      .getByText(/The job has ended: Finished\. 1 stored|Finished/)
      .first()
      .waitFor();
    await page.getByRole('heading', { name: 'Job of list.txt' }).waitFor();
  });

  it('takes a whole directory that is dropped, with the paths in it and without what nobody wrote', async () => {
    const { page, ui, host, larder } = await begin();
    const directory = await mkdtemp(join(tmpdir(), 'larder-drop-'));
    afterTest(() => rm(directory, { recursive: true, force: true }));
    const put = async (path: string, text: string) => {
      await mkdir(join(directory, path, '..'), { recursive: true });
      await writeFile(join(directory, path), text);
    };
    await put('infra/.terraform.lock.hcl', lockOf(host, 'widget'));
    await put('infra/network/.terraform.lock.hcl', lockOf(host, 'gadget'));
    await put('infra/.terraform/modules/main.tf', 'terraform {}');
    await put('infra/picture.png', 'PNG');
    await page.goto(`${ui}/jobs`);
    const box = await page.locator('form[data-drop]').boundingBox();
    const cdp = await page.context().newCDPSession(page);
    for (const type of ['dragEnter', 'dragOver', 'drop'] as const) {
      const data = { items: [], files: [join(directory, 'infra')], dragOperationsMask: 1 };
      await cdp.send('Input.dispatchDragEvent', { type, x: (box?.x ?? 0) + 50, y: (box?.y ?? 0) + 20, data });
    }
    const chosen = page.getByRole('list', { name: 'Chosen files' }).getByRole('listitem');
    await chosen.first().waitFor();
    expect((await chosen.allTextContents()).sort()).toEqual([
      'infra/.terraform.lock.hcl',
      'infra/network/.terraform.lock.hcl',
    ]);
    await page.getByRole('button', { name: 'Warm', exact: true }).click();
    await page.locator('[data-item*="gadget"]').getByText('Stored').waitFor();
    const began = (await audit(larder)).find(({ event }) => event === 'warm-began');
    expect(began?.['files']).toEqual(expect.arrayContaining(['infra/network/.terraform.lock.hcl']));
  });

  it('finds, sorts and pins what is stored, by keyboard as well', async () => {
    const { page, ui, host, problems, ...scene } = await begin();
    await scene.ended(await scene.warm({ providers: [`${host}/acme/widget`, `${host}/acme/gadget`] }));
    await page.goto(`${ui}/stored`);
    const names = () => page.getByRole('table').getByRole('rowheader').allTextContents();
    await showing(page, [`${host}/acme/gadget`, `${host}/acme/widget`]);
    await page.evaluate(() => Object.assign(globalThis, { wasHere: true }));

    await page.getByRole('link', { name: 'Size' }).focus();
    await page.keyboard.press('Enter');
    await page.locator('th[aria-sort="descending"]').waitFor();
    expect(await page.evaluate('document.activeElement.textContent')).toContain('Size');
    await page.keyboard.press('Enter');
    await page.locator('th[aria-sort="ascending"]').waitFor();
    expect(await names()).toEqual([`${host}/acme/widget`, `${host}/acme/gadget`]);

    await page.getByLabel('Search').pressSequentially('gadg');
    await expect.poll(names).toEqual([`${host}/acme/gadget`]);
    expect(page.url()).toContain('q=gadg');
    expect(page.url()).toContain('sort=size');
    await page.getByRole('status').getByText('1 archive or package').waitFor();
    expect(await page.evaluate(() => 'wasHere' in globalThis)).toBe(true);

    await page.goBack();
    await page.locator('th[aria-sort="descending"]').waitFor();
    await expect.poll(names).toEqual([`${host}/acme/gadget`, `${host}/acme/widget`]);

    await page.getByRole('button', { name: `Pin ${host}/acme/gadget@1.0.0` }).click();
    await page.getByText('Pinned.').waitFor();
    expect((await scene.admin('GET', 'pins')).json()).toEqual({ pins: [`${host}/acme/gadget@1.0.0`] });
    await page.getByLabel('Show').selectOption('Pinned');
    await expect.poll(names).toEqual([`${host}/acme/gadget`]);
    await page.goto(`${ui}/stored`);
    await page
      .getByRole('table')
      .getByRole('button', { name: `Unpin ${host}/acme/gadget@1.0.0` })
      .click();
    await page.getByText('Unpinned.').waitFor();
    await page.getByLabel('Address or pattern').fill(`${host}/acme/*`);
    await page.getByLabel('Address or pattern').press('Enter');
    await page.getByText('Pinned.', { exact: true }).waitFor();
    expect(await page.getByRole('table').getByRole('link', { name: 'a pattern' }).count()).toBe(2);

    await page
      .getByRole('table')
      .getByRole('link', { name: `${host}/acme/widget` })
      .click();
    await page.getByText("One of the registry's keys signed SHA256SUMS, which names this archive.").waitFor();
    expect(await page.getByRole('main').textContent()).toMatch(/zh:[0-9a-f]{64}/);
    expect(problems).toEqual([]);
    expect((await audit(scene.larder)).map(({ event }) => event)).toEqual(
      expect.arrayContaining(['signed-in', 'pinned', 'unpinned']),
    );
  });

  it('seals the mirror and opens it, after asking whether one means it', async () => {
    const { page, ui, host, larder, ...scene } = await begin();
    await page.getByRole('link', { name: 'Seal it…' }).click();
    await page.getByText('Nothing leaves any more, on any replica').waitFor();
    expect((await scene.admin('GET', 'seal')).json()).toMatchObject({ sealed: false });
    await page.getByRole('button', { name: 'Seal this mirror' }).click();
    await page.getByText('This mirror is sealed: nothing leaves any more.').waitFor();
    expect((await scene.admin('GET', 'seal')).json()).toMatchObject({ sealed: true, by: 'ops' });

    await page.goto(`${ui}/jobs`);
    await page.getByLabel('Lock files, configuration').setInputFiles(lockFile(host));
    await page.getByRole('button', { name: 'Warm', exact: true }).click();
    await page.getByText('This mirror is sealed: nothing can be brought in.').waitFor();

    await page.goto(`${ui}/`);
    await page.getByRole('link', { name: 'Open it…' }).click();
    await page.getByRole('button', { name: 'Open this mirror' }).click();
    await page.getByText('This mirror is open').waitFor();
    const entries = (await audit(larder)).filter(({ event }) => /sealed$/.test(String(event)));
    expect(entries.map(({ event, through }) => [event, through])).toEqual([
      ['sealed', 'dashboard'],
      ['unsealed', 'dashboard'],
    ]);
  });

  it('works without script', async () => {
    const { page, ui, host, ...scene } = await begin({ javaScript: false });
    await page.goto(`${ui}/jobs`);
    await page.getByLabel('Lock files, configuration').setInputFiles(lockFile(host));
    await page.getByRole('button', { name: 'Warm', exact: true }).click();
    await page.getByRole('heading', { name: 'Job of .terraform.lock.hcl' }).waitFor();
    const id = new URL(page.url()).pathname.split('/').at(-1) ?? '';
    await scene.ended(id);
    await page.reload();
    expect(await figure(page, 'done').textContent()).toBe('2 of 2');
    await page.getByRole('navigation', { name: 'Dashboard' }).getByRole('link', { name: 'Stored' }).click();
    await page.getByLabel('Search').fill('widget');
    await page.getByRole('button', { name: 'Search' }).click();
    expect(await page.getByRole('table').getByRole('rowheader').allTextContents()).toEqual([`${host}/acme/widget`]);
    await page.getByRole('link', { name: 'Size' }).click();
    await page.getByRole('table').getByRole('button', { name: /^Pin/ }).click();
    await page.getByText('Pinned.', { exact: true }).waitFor();
    await page.getByRole('navigation', { name: 'Dashboard' }).getByRole('link', { name: 'Gaps' }).click();
    await page.getByText('Or write a list').click();
    await page.getByLabel('One address per line').fill(`${host}/acme/widget@1.0.0`);
    await page.getByRole('button', { name: 'Look for gaps' }).click();
    await page.getByText('No gaps', { exact: true }).waitFor();
    await page.getByRole('button', { name: 'Sign out' }).click();
    await page.getByRole('heading', { level: 1, name: 'Sign in' }).waitFor();
  });

  it('works behind a path prefix, and keeps its cookie to itself there', async () => {
    const { larder, host, registry } = await begin();
    const url = await prefixed(larder.port, '/tools/larder');
    const { page, context, problems } = await visitor(browser);
    await signIn(page, url);
    const [cookie] = await context.cookies();
    expect(cookie).toMatchObject({
      name: 'larder_session',
      path: '/tools/larder/ui',
      httpOnly: true,
      secure: true,
      sameSite: 'Strict',
    });
    const hold = holdAfter(1_000);
    registry.releases.on(/gadget.*\.zip/, hold.fault);
    await page.getByRole('navigation', { name: 'Dashboard' }).getByRole('link', { name: 'Jobs' }).click();
    await page.getByLabel('Lock files, configuration').setInputFiles(lockFile(host));
    await page.getByRole('button', { name: 'Warm', exact: true }).click();
    await hold.reached;
    hold.release();
    await page.getByText('The job has ended: Finished.').waitFor();
    await page.getByRole('link', { name: /^Stored \d/ }).click();
    await page.getByRole('navigation', { name: 'Dashboard' }).getByRole('link', { name: 'Overview' }).click();
    await page.getByRole('link', { name: 'Last week' }).click();
    await page.getByRole('link', { name: 'Larder' }).click();
    await page.getByRole('heading', { name: 'Point your CLI here' }).waitFor();
    expect(new URL(page.url()).pathname).toBe('/tools/larder/');
    expect(problems).toEqual([]);
  });

  it('shows whoever may see some addresses only those, their own jobs, and no switches', async () => {
    const { page, ui, host, ...scene } = await begin({ token: NARROW });
    await scene.registry.addProvider({ namespace: 'secret', type: 'vault', version: '1.0.0' });
    await scene.ended(await scene.warm({ providers: [`${host}/acme/widget`, `${host}/secret/vault`] }));
    await page.goto(`${ui}/stored`);
    await showing(page, [`${host}/acme/widget`]);
    expect(await page.getByRole('button', { name: /Pin/ }).count()).toBe(0);
    await page.goto(`${ui}/item?address=${host}/secret/vault&version=1.0.0&platform=linux_amd64`);
    await page.getByText('NOT_FOUND').waitFor();
    await page.goto(`${ui}/jobs`);
    await page.getByText('None yet.').waitFor();
    await page.goto(`${ui}/seal`);
    await page.getByText('yours is for some addresses only').waitFor();
  });

  describe('what others say', () => {
    const HOSTILE = `"><img src=x onerror="document.title='taken'"><script>document.title='taken'</script>`;

    it('is text and nothing else', async () => {
      const { page, registry, ui, host, problems, ...scene } = await begin();
      registry.on(/acme\/missing\/versions/, status(403, { body: HOSTILE }));
      registry.on(/acme\/odd\/versions/, replaceBody(JSON.stringify({ versions: [{ version: HOSTILE }] })));
      await scene.get(`/providers/${host}/acme/missing/index.json`);
      await scene.get(`/providers/${host}/acme/odd/index.json`);
      await scene.get(`/providers/${host}/acme/%3Cimg%20src%3Dx%20onerror%3Dalert(1)%3E/index.json`, {
        headers: { authorization: `Bearer ${HOSTILE}` },
      });
      for (const path of [
        '',
        'trouble',
        `stored?q=${encodeURIComponent(HOSTILE)}`,
        `gaps?x=${HOSTILE}`,
        `jobs/${encodeURIComponent('<b>')}`,
      ]) {
        await page.goto(`${ui}/${path}`);
        expect(await page.title()).toMatch(/ · Larder$/);
        expect(await page.locator('img, main script, main b').count()).toBe(0);
      }
      await page.goto(`${ui}/gaps`);
      await drop(page, { [`${HOSTILE.replaceAll('/', '')}.tf`]: `provider "<b>" {` });
      await page.getByRole('list', { name: 'Chosen files' }).getByText('onerror').waitFor();
      await page.getByRole('button', { name: 'Look for gaps' }).click();
      await page.getByRole('heading', { name: 'Report' }).waitFor();
      expect(await page.title()).toMatch(/ · Larder$/);
      expect(await page.locator('img, main script, main b').count()).toBe(0);
      // Pages that are not there are no problem of theirs.
      expect(problems.filter((problem) => !/404|400/.test(problem))).toEqual([]);
    });
  });

  /** What was stored a moment ago may take another moment to be listed. */
  async function showing(page: Page, names: readonly string[]) {
    await expect
      .poll(
        async () => {
          await page.reload();
          return page.getByRole('table').getByRole('rowheader').allTextContents();
        },
        { timeout: 20_000 },
      )
      .toEqual(names);
  }

  /** As people drop them, as far as a script may do that. */
  async function drop(page: Page, files: Readonly<Record<string, string>>) {
    const transfer = await page.evaluateHandle((entries) => {
      const { DataTransfer } = globalThis as unknown as {
        DataTransfer: new () => { items: { add(file: File): void } };
      };
      const data = new DataTransfer();
      for (const [name, text] of entries) data.items.add(new File([text], name));
      return data;
    }, Object.entries(files));
    await page.locator('form[data-drop]').dispatchEvent('dragover', { dataTransfer: transfer });
    await page.locator('form[data-drop]').dispatchEvent('drop', { dataTransfer: transfer });
  }
});

async function audit(larder: WarmScene['larder']): Promise<Record<string, unknown>[]> {
  await larder.app.reopenAuditLog();
  const text = await readFile(join(larder.setup.dataDirectory, 'audit.jsonl'), 'utf8');
  return text
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line) as Record<string, unknown>);
}

/** A proxy that terminates TLS and takes a prefix off. */
async function prefixed(port: number, prefix: string): Promise<string> {
  const { cert, key } = await (await CertificateAuthority.shared()).issue();
  const server = createServer({ cert, key }, (req, res) => {
    const path = req.url?.startsWith(`${prefix}/`) ? req.url.slice(prefix.length) : undefined;
    if (path === undefined) return void res.writeHead(404).end();
    const headers = { ...req.headers, host: `localhost:${port}`, 'x-forwarded-proto': 'https' };
    const passed = request({ port, path, method: req.method, headers, rejectUnauthorized: false }, (answer) => {
      res.writeHead(answer.statusCode ?? 502, answer.headers);
      answer.pipe(res);
      res.once('close', () => answer.destroy());
    });
    passed.once('error', () => res.destroy());
    req.pipe(passed);
  });
  await new Promise<void>((resolve) => {
    server.listen(0, '127.0.0.1', resolve);
  });
  afterTest(async () => {
    server.closeAllConnections();
    server.close();
  });
  const address = server.address();
  return `https://localhost:${typeof address === 'object' ? address?.port : 0}${prefix}`;
}
