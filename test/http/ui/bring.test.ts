import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { Hostname } from '../../../src/address/hostname.ts';
import { ProviderAddress } from '../../../src/address/provider.ts';
import { VersionConstraint } from '../../../src/address/version-constraint.ts';
import type { AdminDeps } from '../../../src/http/admin.ts';
import type { GapReport } from '../../../src/mirror/gap-report.ts';
import type { JobHead, JobItem } from '../../../src/mirror/job.ts';
import type { Wish } from '../../../src/mirror/wanted.ts';
import { JobIsRunning, MirrorIsSealed } from '../../../src/mirror/warm-jobs.ts';
import { OPS, startDashboard, token, type Visitor } from './dashboard-scene.ts';

const LOCK = 'provider "registry.example.com/acme/widget" {\n  version = "1.0.0"\n}\n';

function head(id: string, more: Partial<JobHead> = {}): JobHead {
  return {
    id,
    state: 'finished',
    by: 'token:ops',
    createdAt: '2026-03-01T08:00:00Z',
    endedAt: '2026-03-01T08:01:05Z',
    wish: { files: ['a.tf'], count: 1, platforms: [], client: 'opentofu', pieces: 1 },
    isPlanned: true,
    totals: { items: 3, present: 1, stored: 1, unsupported: 0, failed: 1 },
    bytes: 2048,
    sequence: 3,
    ...more,
  };
}

/** Jobs that remember what they were asked for. */
function jobsOf(known: Record<string, { head: JobHead; items: readonly JobItem[] }> = {}) {
  const wishes: Wish[] = [];
  const asked: string[] = [];
  const find = (id: string) => known[id] ?? { head: head(id), items: [] };
  const jobs = {
    wishes,
    asked,
    running: 0,
    closing: new AbortController().signal,
    list: async () => Object.values(known).map((job) => job.head),
    head: async (id: string) => find(id).head,
    get: async (id: string) => ({ ...find(id), findings: { diagnostics: [], locks: {} } }),
    page: async (id: string, { after, count }: { after: number; count: number }) => ({
      ...find(id),
      items: find(id).items.slice(after, after + count),
      findings: { diagnostics: [], locks: {} },
    }),
    create: async (wish: Wish) => {
      wishes.push(wish);
      return head('job-1', {
        wish: { files: wish.files.map(({ path }) => path), count: 1, platforms: [], client: wish.client, pieces: 1 },
      });
    },
    cancel: async (id: string) => void asked.push(`cancel ${id}`),
    retry: async (id: string) => void asked.push(`retry ${id}`),
  };
  return jobs as typeof jobs & NonNullable<AdminDeps['jobs']>;
}

async function send(
  base: string,
  visitor: Visitor,
  path: string,
  fields: Record<string, string | [name: string, text: string | Uint8Array<ArrayBuffer>][]>,
) {
  const body = new FormData();
  body.set('form', visitor.formToken);
  for (const [name, value] of Object.entries(fields)) {
    if (typeof value === 'string') body.set(name, value);
    else for (const [file, text] of value) body.append(name, new Blob([text]), file);
  }
  return fetch(`${base}${path}`, { method: 'POST', body, headers: { cookie: visitor.cookie }, redirect: 'manual' });
}

type Reader = ReadableStreamDefaultReader<Uint8Array<ArrayBuffer>> | undefined;

async function firstOf(reader: Reader): Promise<string> {
  return new TextDecoder().decode((await reader?.read())?.value);
}

async function until(reader: Reader, text: string): Promise<void> {
  for (let told = ''; !told.includes(text); ) {
    const chunk = await reader?.read();
    if (!chunk || chunk.done) throw new Error(`it ended before ${JSON.stringify(text)} was told`);
    told += new TextDecoder().decode(chunk.value);
  }
}

async function untilDone(reader: Reader): Promise<void> {
  for (;;) {
    if ((await reader?.read())?.done !== false) return;
  }
}

describe('what is brought to be warmed', () => {
  it('is what was chosen, with the way there where a directory was dropped', async () => {
    const jobs = jobsOf();
    const { signIn, base, audited } = await startDashboard({ admin: { jobs } });
    const visitor = await signIn();
    const answer = await send(base, visitor, '/warm', {
      files: [
        ['app/.terraform.lock.hcl', LOCK],
        ['app/main.tf', 'terraform {}'],
        ['app/picture.png', new Uint8Array([0x89, 0xff, 0xfe])],
      ],
      list: '',
      platforms: 'linux_amd64, darwin_arm64',
      client: 'terraform',
    });
    expect([answer.status, answer.headers.get('location')]).toEqual([303, 'jobs/job-1?done=began']);
    expect(jobs.wishes).toEqual([
      {
        files: [
          { path: 'app/.terraform.lock.hcl', text: LOCK },
          { path: 'app/main.tf', text: 'terraform {}' },
          // Told of, and not read.
          { path: 'app/picture.png', text: '' },
        ],
        platforms: [expect.objectContaining({ os: 'linux' }), expect.objectContaining({ os: 'darwin' })],
        client: 'terraform',
      },
    ]);
    expect(audited.find(({ event }) => event === 'warm-began')).toMatchObject({ job: 'job-1', client: 'ops' });
  });

  it('is a list that was typed, named for what is in it', async () => {
    const jobs = jobsOf();
    const { signIn, base } = await startDashboard({ admin: { jobs } });
    const visitor = await signIn();
    await send(base, visitor, '/warm', {
      files: [['', '']],
      list: 'acme/widget@1.0.0\r\nacme/gadget',
      platforms: '',
      client: 'opentofu',
    });
    await send(base, visitor, '/warm', { list: '{"providers":["acme/widget"]}', platforms: '', client: '' });
    await send(base, visitor, '/warm', { list: LOCK, platforms: '', client: '' });
    expect(jobs.wishes.map(({ files }) => files)).toEqual([
      [{ path: 'warm-list.txt', text: 'acme/widget@1.0.0\nacme/gadget' }],
      [{ path: 'warm-list.json', text: '{"providers":["acme/widget"]}' }],
      [{ path: '.terraform.lock.hcl', text: LOCK }],
    ]);
  });

  it('may be two files of the same name: browsers do not say where they are from', async () => {
    const jobs = jobsOf();
    const { signIn, base } = await startDashboard({ admin: { jobs } });
    await send(base, await signIn(), '/warm', {
      files: [
        ['.terraform.lock.hcl', LOCK],
        ['.terraform.lock.hcl', LOCK],
      ],
      platforms: '',
    });
    expect(jobs.wishes[0]?.files.map(({ path }) => path)).toEqual(['.terraform.lock.hcl', '2/.terraform.lock.hcl']);
  });

  it.each([
    ['nothing', { platforms: '' }, 400, 'there is nothing in this'],
    ['a platform that is none', { list: 'acme/widget', platforms: 'beos' }, 400, 'platform'],
    [
      'a file that is no text',
      { files: [['main.tf', new Uint8Array([0xff, 0xfe])]] as [string, Uint8Array<ArrayBuffer>][], platforms: '' },
      400,
      'main.tf is not UTF-8',
    ],
    [
      'far too much',
      { files: [['main.tf', 'x'.repeat(17 * 1024 * 1024)]] as [string, string][], platforms: '' },
      413,
      '16 MiB',
    ],
  ])('is refused in plain words when it is %s', async (_what, fields, status, words) => {
    const jobs = jobsOf();
    const { signIn, base } = await startDashboard({ admin: { jobs } });
    const answer = await send(base, await signIn(), '/warm', fields);
    expect(answer.status).toBe(status);
    expect((await answer.text()).toLowerCase()).toContain(words.toLowerCase());
    expect(jobs.wishes).toEqual([]);
  });

  it('waits for the mirror to be opened', async () => {
    const jobs = Object.assign(jobsOf(), { create: async () => Promise.reject(new MirrorIsSealed()) });
    const { signIn, base } = await startDashboard({ admin: { jobs } });
    const answer = await send(base, await signIn(), '/warm', { list: 'acme/widget', platforms: '' });
    expect(answer.status).toBe(409);
    expect(await answer.text()).toContain('This mirror is sealed: nothing can be brought in.');
  });
});

describe('jobs', () => {
  const items = Array.from(
    { length: 250 },
    (_, index): JobItem => ({
      name: `registry.example.com/acme/widget 1.${index}.0 linux_amd64`,
      kind: 'archive',
      outcome: index % 10 === 0 ? 'failed' : 'stored',
      ...(index % 10 === 0 ? { reason: `upstream said <b>${index}</b>` } : { bytes: 1024 }),
      sequence: index + 1,
    }),
  );
  const totals = { items: 250, present: 0, stored: 225, unsupported: 0, failed: 25 };
  const rows = (page: string) => [...page.matchAll(/data-item="([^"]*)"/g)].map(([, name]) => name);

  it('show their items page by page, and those of one outcome', async () => {
    const jobs = jobsOf({ one: { head: head('one', { totals }), items } });
    const { signIn } = await startDashboard({ admin: { jobs } });
    const visitor = await signIn();
    const first = await visitor.text('/jobs/one');
    expect(rows(first)).toHaveLength(100);
    expect(first).toContain('Page 1 of 3');
    expect(rows(await visitor.text('/jobs/one?page=3'))).toHaveLength(50);
    const failed = await visitor.text('/jobs/one?outcome=failed');
    expect(rows(failed)).toHaveLength(25);
    expect(failed).toContain('upstream said &lt;b&gt;240&lt;/b&gt;');
    expect(failed).toContain('Do again what failed');
    expect(failed).toContain('took 1 min 5 s');
  });

  it('are told of live while they run, from what the page has told already', async () => {
    const running = head('one', { state: 'running', endedAt: undefined, sequence: 7 });
    const { signIn } = await startDashboard({ admin: { jobs: jobsOf({ one: { head: running, items: [] } }) } });
    const page = await (await signIn()).text('/jobs/one');
    expect(page).toContain('data-events="one/events?after=7"');
    expect(page).toContain('action="one/cancel"');
    expect(page).toContain('<progress max="3" value="3"');
  });

  it('come as events to whoever is signed in, and to nobody else', async () => {
    const jobs = jobsOf({ one: { head: head('one'), items: items.slice(0, 3) } });
    const { signIn, send: plain } = await startDashboard({ admin: { jobs } });
    expect((await plain('/jobs/one/events')).status).toBe(303);
    const answer = await (await signIn()).get('/jobs/one/events?after=2');
    expect(answer.headers.get('content-type')).toBe('text/event-stream');
    expect(answer.headers.get('content-security-policy')).toContain("default-src 'none'");
    const told = (await answer.text()).split('\n').filter((line) => line.startsWith('event: '));
    expect(told).toEqual(['event: item', 'event: progress', 'event: end']);
  });

  describe('as events', () => {
    const runningJob = () => {
      const jobs = jobsOf({ one: { head: head('one', { state: 'running', endedAt: undefined }), items: [] } });
      return Object.assign(jobs, { onChange: () => undefined });
    };
    const beat = () => vi.advanceTimersByTime(15_000);

    beforeEach(() => void vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval'] }));
    afterEach(() => void vi.useRealTimers());

    it('end with the next heartbeat after whoever hears them has signed out', async () => {
      const { signIn } = await startDashboard({ admin: { jobs: runningJob() } });
      const visitor = await signIn();
      const reader = (await visitor.get('/jobs/one/events')).body?.getReader();
      expect(await firstOf(reader)).toContain('event: snapshot');
      beat();
      await until(reader, ':\n\n');
      await visitor.post('/sign-out', {});
      beat();
      await untilDone(reader);
    });

    it.each(['/ui', '/admin'])(
      'below %s end with the next heartbeat after their token was taken back',
      async (door) => {
        const tokens = [token('ops', OPS)];
        const { signIn, origin } = await startDashboard({ admin: { jobs: runningJob() }, tokens: () => tokens });
        const { cookie } = await signIn();
        const headers = door === '/ui' ? { cookie } : { authorization: `Bearer ${OPS}` };
        const reader = (await fetch(`${origin}${door}/jobs/one/events`, { headers })).body?.getReader();
        expect(await firstOf(reader)).toContain('event: snapshot');
        beat();
        await until(reader, ':\n\n');
        tokens.splice(0, 1, token('ops', OPS, { roles: ['read'] }));
        beat();
        await untilDone(reader);
      },
    );
  });

  it('are cancelled and done again by forms', async () => {
    const jobs = jobsOf({ one: { head: head('one', { state: 'running' }), items: [] } });
    const { signIn, audited } = await startDashboard({ admin: { jobs } });
    const visitor = await signIn();
    expect((await visitor.post('/jobs/one/cancel', { form: 'none' })).status).toBe(403);
    const cancelled = await visitor.post('/jobs/one/cancel', {});
    expect(cancelled.headers.get('location')).toBe('../one?done=cancelled');
    await visitor.post('/jobs/one/retry', {});
    expect(jobs.asked).toEqual(['cancel one', 'retry one']);
    expect(audited.map(({ event }) => event)).toEqual(expect.arrayContaining(['warm-cancelled', 'warm-retried']));
    Object.assign(jobs, { retry: async () => Promise.reject(new JobIsRunning()) });
    expect((await visitor.post('/jobs/one/retry', {})).status).toBe(409);
  });
});

describe('gaps', () => {
  const gap = {
    kind: 'archive' as const,
    address: ProviderAddress.parse('registry.example.com/acme/widget'),
    version: undefined,
    constraint: VersionConstraint.parse('~> 1.0'),
    platforms: [],
    reason: 'nothing of it is <stored>',
    stored: [],
    lockFile: undefined,
    wantedBy: [{ file: '<main>.tf', at: '3' }],
  };

  it('are told for files, with a way to bring in what is missing', async () => {
    const find = vi.fn(
      async (): Promise<GapReport> => ({
        gaps: [gap],
        diagnostics: [],
        platforms: [],
        client: 'opentofu',
        impliedHostname: Hostname.parse('registry.opentofu.org'),
        present: { archives: 4, packages: 1 },
      }),
    );
    const { signIn, base } = await startDashboard({ admin: { jobs: jobsOf(), gaps: { find } as never } });
    const visitor = await signIn();
    const answer = await send(base, visitor, '/gaps', { files: [['main.tf', 'terraform {}']], platforms: '' });
    const page = await answer.text();
    expect(answer.status).toBe(200);
    expect(page).toContain('nothing of it is &lt;stored&gt;');
    expect(page).toContain('&lt;main&gt;.tf:3');
    expect(page).toContain('4 archives and 1 module package');
    expect(page).toContain('as OpenTofu does: where no registry is named, registry.opentofu.org is meant');
    expect(page).toContain('{&quot;providers&quot;:[&quot;registry.example.com/acme/widget@~&gt; 1.0&quot;]}');
    expect(find).toHaveBeenCalledWith(expect.objectContaining({ client: 'opentofu' }), expect.any(Function));
  });

  it('are none when everything is here, which is not said of files that need nothing', async () => {
    let present = { archives: 1, packages: 0 };
    const find = async (): Promise<GapReport> => ({
      gaps: [],
      diagnostics: [],
      platforms: [],
      client: 'opentofu',
      impliedHostname: undefined,
      present,
    });
    const { signIn, base } = await startDashboard({ admin: { gaps: { find } as never } });
    const visitor = await signIn();
    const ask = async () => (await send(base, visitor, '/gaps', { list: 'acme/widget', platforms: '' })).text();
    const page = await ask();
    expect(page).toContain('No gaps');
    expect(page).not.toContain('Warm what is missing');
    expect(page).not.toContain('The files were read as');
    present = { archives: 0, packages: 0 };
    expect(await ask()).not.toContain('No gaps');
  });
});
