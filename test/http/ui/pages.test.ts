import { describe, expect, it, vi } from 'vitest';
import { StorageFailed } from '../../../src/errors.ts';
import type { AdminDeps } from '../../../src/http/admin.ts';
import { Pin } from '../../../src/mirror/pins.ts';
import type { TrafficPoint } from '../../../src/mirror/traffic-history.ts';
import { NARROW, startDashboard, storedArchive, token } from './dashboard-scene.ts';

const HOST = 'registry.example.com';
const HOSTILE = `"><script>alert('1')</script>`;
const QUIET = { requests: 0, hits: 0, misses: 0, stale: 0, failures: 0, bytesServed: 0, bytesFetched: 0 };

/** What is told between the tags. */
function textOf(page: string): string {
  return page
    .replace(/<[^>]*>/g, ' ')
    .replace(/\s+/g, ' ')
    .replaceAll('&#39;', "'");
}

function point(minute: number, more: Partial<TrafficPoint> = {}): TrafficPoint {
  return { at: new Date(Date.UTC(2026, 2, 1, 8, minute)), ...QUIET, ...more };
}

describe('the overview', () => {
  it('tells how much took no upstream, and how much was fetched, in numbers, as plots and as a table', async () => {
    const points = vi.fn(async () => [
      point(0, { requests: 30, hits: 90, misses: 10, bytesServed: 2 ** 30, bytesFetched: 2 ** 20 }),
      point(1),
      point(2, { requests: 5, hits: 4, misses: 2, stale: 2, failures: 1, bytesServed: 2 ** 20 }),
    ]);
    const { signIn } = await startDashboard({ dashboard: { traffic: { points } } });
    const page = await (await signIn()).text('/?range=hour');
    expect(points).toHaveBeenCalledWith('hour');
    const text = textOf(page);
    // 96 of 108.
    expect(text).toContain('Answered from storage 88.9 % 2 of them stale');
    expect(text).toContain('Served to clients 1.0 GiB in 35 requests');
    expect(text).toContain('Failed 1 of 35 requests');
    expect(text).toContain(
      '1.0 GiB served and 1.0 MiB fetched in the last hour. Each step is 1 min, times are in UTC.',
    );
    expect(
      page.match(
        /<svg viewBox="0 0 600 160"[^>]*role="img" aria-labelledby="\w+-title" aria-describedby="\w+-summary"/g,
      ),
    ).toHaveLength(2);
    // Nothing was asked for in the second minute: a ratio of nothing is no line.
    expect(page.match(/class="line first" d="([^"]*)"/)?.[1]?.match(/M/g)).toHaveLength(2);
    expect(text).toContain('2026-03-01 08:02 5 4 2 2 1 1.0 MiB 0 B 2026-03-01 08:00 30 90 10 0 0 1.0 GiB 1.0 MiB');
  });

  it('does not take jobs for none that nobody can tell of, and their page says in its frame who cannot', async () => {
    const cause = Object.assign(new Error('connect'), { code: 'ECONNREFUSED' });
    const away = async () => Promise.reject(new StorageFailed('metadata read', cause, { store: 'redis' }));
    const jobs = { list: away, head: away } as unknown as AdminDeps['jobs'];
    const { signIn } = await startDashboard({ admin: { jobs } });
    const visitor = await signIn();
    const overview = textOf(await visitor.text('/'));
    expect(overview).toContain('Jobs that run Not known What jobs are kept in');
    expect(overview).not.toContain('None. Warm something');
    for (const path of ['/jobs', '/jobs/01234567']) {
      const answer = await visitor.get(path);
      expect(answer.status).toBe(503);
      const page = await answer.text();
      expect(page).toContain('<nav aria-label="Dashboard">');
      expect(textOf(page)).toContain(
        'Redis does not answer as it should (metadata read failed (ECONNREFUSED)); no job',
      );
    }
  });

  it('says that there was nothing rather than drawing it', async () => {
    const { signIn } = await startDashboard({ dashboard: { traffic: { points: async () => [point(0)] } } });
    const page = await (await signIn()).text('/?range=nonsense');
    expect(page).toContain('Nothing was asked for in the last day.');
    expect(textOf(page)).toContain('Answered from storage none yet');
  });

  it('adds up what would be too much to read: a week is drawn by the hour', async () => {
    const quarters = Array.from({ length: 672 }, (_, index) =>
      point(15 * index, { requests: 1, hits: 1, bytesServed: 1024 }),
    );
    const { signIn } = await startDashboard({ dashboard: { traffic: { points: async () => quarters } } });
    const page = await (await signIn()).text('/?range=week');
    expect(textOf(page)).toContain('Each step is 1 h, times are in UTC.');
    expect(page.match(/<tr><th scope="row"><time/g)).toHaveLength(56);
    expect(textOf(page)).toContain('in 672 requests');
  });

  it('tells of each upstream in plain words, whatever it said', async () => {
    const report = () => [
      { hostname: HOST, state: 'ok' as const, lastSuccessAt: new Date(Date.now() - 5_000) },
      {
        hostname: 'broken.example.com',
        state: 'failing' as const,
        lastFailure: {
          at: new Date(Date.now() - 125_000),
          reason: 'invalid',
          message: `broken.example.com said ${HOSTILE}`,
        },
      },
      { hostname: 'tired.example.com', state: 'left alone' as const },
      { hostname: 'new.example.com', state: 'not asked yet' as const },
    ];
    const { signIn } = await startDashboard({ dashboard: { upstreamHealth: { report } } });
    const page = await (await signIn()).text('/');
    const text = textOf(page);
    expect(text).toContain(`${HOST} Answers 5 s ago none`);
    expect(text).toMatch(/broken\.example\.com Failing none yet broken\.example\.com said .* 2 min ago/);
    expect(text).toContain('tired.example.com Left alone for a moment');
    expect(text).toContain('new.example.com Not asked yet none yet none');
    expect(page).not.toContain('<script>alert');
  });

  it('tells how full the disk is, and what is stored', async () => {
    const disk = () => ({ used: 96e9, limit: 100e9, evictions: 1_234 });
    const stored = [storedArchive(`${HOST}/acme/widget`, '1.0.0')];
    const { signIn } = await startDashboard({ stored, dashboard: { disk } });
    const text = textOf(await (await signIn()).text('/'));
    expect(text).toContain('89.4 GiB of 93.1 GiB, 96.0 %');
    expect(text).toContain('1 archive or package ; 1,234 removed to make room since the start');
  });
});

describe('what is stored', () => {
  const stored = Array.from({ length: 120 }, (_, index) =>
    storedArchive(`${HOST}/team-${index % 3}/widget`, `1.${index}.0`, index % 2 ? 'linux_amd64' : 'darwin_arm64', {
      size: (index * 37) % 120,
    }),
  );
  const rows = (page: string) =>
    [...page.matchAll(/<th scope="row"[^>]*><a href="item\?([^"]*)"/g)].map(([, query]) => {
      const item = new URLSearchParams(query?.replaceAll('&amp;', '&'));
      return `${item.get('address')} ${item.get('version')} ${item.get('platform')}`;
    });

  it('comes in pages that are put together on the server', async () => {
    const { signIn } = await startDashboard({ stored });
    const visitor = await signIn();
    const [one, three, four] = [
      await visitor.text('/stored'),
      await visitor.text('/stored?page=3'),
      await visitor.text('/stored?page=4'),
    ];
    expect([rows(one).length, rows(three).length, rows(four).length]).toEqual([50, 20, 0]);
    expect(new Set([...rows(one), ...rows(three)]).size).toBe(70);
    expect(textOf(one)).toContain('120 archives and packages');
    expect(textOf(one)).toContain('Page 1 of 3 Next Last');
    // By address, and the newest version first.
    expect(rows(one)[0]).toBe(`${HOST}/team-0/widget 1.117.0 linux_amd64`);
  });

  it('is searched by words in whatever order, and sorted', async () => {
    const { signIn } = await startDashboard({ stored });
    const visitor = await signIn();
    const page = await visitor.text('/stored?q=DARWIN+team-1&sort=size&dir=desc');
    expect(rows(page)).toHaveLength(20);
    expect(rows(page).every((row) => row.includes('team-1') && row.endsWith('darwin_arm64'))).toBe(true);
    expect(page).toMatch(/aria-sort="descending"><a href="stored\?q=DARWIN\+team-1&amp;sort=size"/);
    const sizes = [...page.matchAll(/class="number brief">(\d+) B/g)].map(([, bytes]) => Number(bytes));
    expect(sizes).toEqual(sizes.toSorted((a, b) => b - a));
    expect(textOf(await visitor.text('/stored?q=nothing-of-it'))).toContain('Nothing that is stored fits.');
    expect((await visitor.get(`/stored?q=${encodeURIComponent(HOSTILE)}&sort=x&page=-1&dir=z`)).status).toBe(200);
    expect(await visitor.text(`/stored?q=${encodeURIComponent(HOSTILE)}`)).not.toContain('<script>alert');
  });

  it('shows one of it with all its hashes, and says when it is gone', async () => {
    const [first] = stored;
    const { signIn } = await startDashboard({ stored });
    const visitor = await signIn();
    const item = await visitor.text(`/item?address=${HOST}/team-0/widget&version=1.0.0&platform=darwin_arm64`);
    expect(item).toContain(`<code>zh:${first?.sha256}</code>`);
    expect(textOf(item)).toContain('SHA256SUMS of this version is not kept here.');
    expect((await visitor.get(`/item?address=${HOST}/team-0/widget&version=9.9.9&platform=linux_amd64`)).status).toBe(
      404,
    );
    const wrong = await visitor.get('/item?address=widget&version=1.0.0');
    expect([wrong.status, textOf(await wrong.text())]).toEqual([400, expect.stringContaining('INVALID_REQUEST')]);
  });

  it('is pinned and unpinned, as far as a token goes', async () => {
    const all: string[] = [];
    const pins = {
      list: async () => all.map(Pin.parse),
      add: async (more: readonly Pin[]) => all.push(...more.map(String)),
      remove: async (less: readonly Pin[]) => all.splice(all.indexOf(String(less[0])), 1),
    } as unknown as NonNullable<AdminDeps['pins']>;
    const tokens = [
      token('ops', 'ops'),
      token('team', NARROW, { addresses: [Pin.parse(`${HOST}/team-1/*`).pattern] as never }),
    ];
    const { signIn, audited } = await startDashboard({ stored, admin: { pins }, tokens: () => tokens });
    const [ops, team] = [await signIn('ops'), await signIn(NARROW)];

    const pin = `${HOST}/team-1/widget@1.1.0`;
    const added = await ops.post('/pins', { pin, what: 'add', back: 'stored?q=team&page=2' });
    expect([added.status, added.headers.get('location')]).toEqual([303, 'stored?q=team&page=2&done=pinned']);
    expect(all).toEqual([pin]);
    expect(rows(await ops.text('/stored?only=pinned'))).toEqual([`${HOST}/team-1/widget 1.1.0 linux_amd64`]);
    expect(textOf(await ops.text('/stored?done=pinned'))).toContain('Pinned.');

    for (const back of ['https://evil.example', '//evil.example', 'jobs']) {
      const again = await ops.post('/pins', { pin, what: 'add', back });
      expect(again.headers.get('location')).toBe('stored?done=pinned');
    }
    expect((await ops.post('/pins', { pin: 'nonsense', what: 'add' })).status).toBe(400);
    expect((await team.post('/pins', { pin, what: 'remove' })).status).toBe(403);
    expect(rows(await team.text('/stored')).every((row) => row.includes('/team-1/'))).toBe(true);
    expect(rows(await team.text('/stored'))).toHaveLength(40);
    expect(await team.text('/stored')).not.toContain('action="pins"');

    await ops.post('/pins', { pin, what: 'remove', back: 'stored' });
    expect(audited.filter(({ event }) => /pinned$/.test(String(event))).at(-1)).toMatchObject({
      event: 'unpinned',
      pins: [pin],
      client: 'ops',
    });
  });
});

describe('the seal', () => {
  function sealOf(configured = false, unshared?: true) {
    let sealed = configured;
    const set = vi.fn(async (wanted: boolean) => {
      sealed = wanted;
      return true;
    });
    return {
      seal: {
        set,
        state: () => ({ sealed, configured, ...(unshared && { unshared }) }),
        get isSealed() {
          return sealed;
        },
      } as unknown as NonNullable<AdminDeps['seal']>,
      set,
    };
  }

  it('is changed by a form only, and not by looking at it', async () => {
    const { seal, set } = sealOf();
    const { signIn, audited } = await startDashboard({ admin: { seal } });
    const visitor = await signIn();
    expect(textOf(await visitor.text('/seal'))).toContain('downloads that are under way are broken off');
    expect((await visitor.get('/seal?sealed=true')).status).toBe(200);
    expect((await visitor.post('/seal', { form: '', sealed: 'true' })).status).toBe(403);
    expect(set).not.toHaveBeenCalled();
    const done = await visitor.post('/seal', { sealed: 'true' });
    expect([done.status, done.headers.get('location')]).toEqual([303, './?done=sealed']);
    expect(set).toHaveBeenCalledWith(true, 'ops');
    expect(audited.find(({ event }) => event === 'sealed')).toMatchObject({ client: 'ops', through: 'dashboard' });
  });

  it('says so wherever it shows when others could not be told', async () => {
    const { seal } = sealOf(false, true);
    const { signIn } = await startDashboard({ admin: { seal } });
    const visitor = await signIn();
    const done = await visitor.post('/seal', { sealed: 'true' });
    expect(done.headers.get('location')).toBe('./?done=sealed-here');
    expect(textOf(await visitor.text('/?done=sealed-here'))).toContain('Others could not be told');
    for (const page of ['/', '/seal']) expect(textOf(await visitor.text(page))).toContain('others may not be');
  });

  it('of the configuration cannot be broken', async () => {
    const { seal, set } = sealOf(true);
    const { signIn } = await startDashboard({ admin: { seal } });
    const visitor = await signIn();
    expect(textOf(await visitor.text('/'))).toContain('By the configuration');
    expect(textOf(await visitor.text('/seal'))).toContain('take sealed: true out of it');
    expect((await visitor.post('/seal', { sealed: 'false' })).status).toBe(409);
    expect(set).not.toHaveBeenCalled();
  });
});

describe('trouble', () => {
  it('tells of drift wherever somebody looks', async () => {
    const [drifted, other] = [
      storedArchive(`${HOST}/acme/widget`, '1.0.0'),
      storedArchive(`${HOST}/acme/widget`, '2.0.0'),
    ];
    const report = {
      archive: drifted.archive,
      first: drifted.sha256,
      published: other.sha256,
      noticedAt: new Date(Date.now() - 3_600_000),
    };
    const { signIn } = await startDashboard({ stored: [drifted, other], drift: [report] });
    const visitor = await signIn();
    expect(textOf(await visitor.text('/'))).toContain('1 version of which upstream now publishes other bytes');
    const trouble = await visitor.text('/trouble');
    expect(textOf(trouble)).toContain(`${HOST}/acme/widget 1.0.0 linux_amd64`);
    expect(trouble).toContain(`title="${other.sha256}"`);
    const list = textOf(await visitor.text('/stored?only=drift'));
    expect(list).toContain('1 archive or package,');
    expect(list).toContain('Drift');
    const item = await visitor.text(`/item?address=${HOST}/acme/widget&version=1.0.0&platform=linux_amd64`);
    expect(textOf(item)).toContain('What was seen first is served.');
  });

  it('tells what was refused, the same thing once, and never as markup', async () => {
    const { signIn, origin } = await startDashboard();
    for (let time = 0; time < 3; time += 1) {
      await fetch(`${origin}/admin/inventory`, { headers: { authorization: 'Bearer a-guess' } });
    }
    await fetch(`${origin}/admin/inventory/${encodeURIComponent('<img src=x>')}`);
    const page = await (await signIn()).text('/trouble');
    expect(textOf(page)).toMatch(/\/admin\/inventory the token is not known here UNAUTHENTICATED anonymous, \S+ 3 /);
    expect(page).not.toContain('<img');
    expect(textOf(await (await signIn()).text('/'))).toContain('4 times');
  });
});
