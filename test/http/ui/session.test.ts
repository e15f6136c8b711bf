import { describe, expect, it } from 'vitest';
import { Sessions } from '../../../src/http/ui/sessions.ts';
import { silentLogger } from '../../../src/logger.ts';
import { MapStore, NARROW, OPS, READER, startDashboard, token } from './dashboard-scene.ts';

const HOUR_MS = 3_600_000;

describe('signing in', () => {
  it('leads whoever is not signed in to the page for it, and from there to the page they wanted', async () => {
    const { send, post } = await startDashboard();
    const sent = await send('/stored?q=aws');
    expect(sent.status).toBe(303);
    expect(sent.headers.get('location')).toBe('sign-in?to=stored%3Fq%3Daws');
    const page = await (await send('/sign-in?to=stored%3Fq%3Daws')).text();
    expect(page).toContain('name="to" value="stored?q=aws"');
    const entered = await post('/sign-in', { token: OPS, to: 'stored?q=aws' });
    expect([entered.status, entered.headers.get('location')]).toEqual([303, './stored?q=aws']);
  });

  it('leads nowhere but to pages of the dashboard', async () => {
    const { post } = await startDashboard();
    const elsewhere = ['https://evil.example', '//evil.example', '/x', 'stored/../../x', 'javascript:alert(1)'];
    for (const to of [...elsewhere, 'stored?q=a\r\nX-Evil: 1', 'stored?q=ä', 'stored?q=a#b']) {
      const entered = await post('/sign-in', { token: OPS, to });
      expect(entered.headers.get('location')).toBe('./');
    }
  });

  it('says how long a form may be', async () => {
    const { post } = await startDashboard();
    const refused = await post('/sign-in', { token: 'x'.repeat(70_000) });
    expect(refused.status).toBe(413);
    expect(await refused.text()).toContain('What was sent is longer than 64 KiB.');
  });

  it('is only for tokens of the role admin, and says which is missing', async () => {
    const { post } = await startDashboard();
    const reader = await post('/sign-in', { token: READER });
    expect([reader.status, reader.headers.get('set-cookie')]).toEqual([403, null]);
    expect(await reader.text()).toContain('does not have the role admin');
    const unknown = await post('/sign-in', { token: 'guessed' });
    expect([unknown.status, unknown.headers.get('set-cookie')]).toEqual([401, null]);
    expect(await unknown.text()).toContain('This token is not known here');
    expect((await post('/sign-in', { token: '' })).status).toBe(401);
  });

  it('counts tokens that are not known like every other door', async () => {
    const { post, audited } = await startDashboard();
    const statuses: number[] = [];
    for (let attempt = 0; attempt < 22; attempt += 1) {
      statuses.push((await post('/sign-in', { token: `guess-${attempt}` })).status);
    }
    expect(statuses.filter((status) => status === 401)).toHaveLength(20);
    expect(statuses.slice(20)).toEqual([429, 429]);
    // Whoever has one is never held up.
    expect((await post('/sign-in', { token: OPS })).status).toBe(303);
    expect(audited.filter(({ event }) => event === 'refused')).toHaveLength(22);
    expect(audited.find(({ event }) => event === 'signed-in')).toMatchObject({ client: 'ops', through: 'dashboard' });
  });

  it('says how to make a token where there is none', async () => {
    const { send } = await startDashboard({ tokens: () => [token('ci', READER, { roles: ['read'] })] });
    const page = await (await send('/sign-in')).text();
    expect(page).toContain('LARDER_ADMIN_TOKEN');
    expect(page).toContain('roles: [read, admin]');
    expect(page).not.toContain('type="password"');
  });

  it('gives a cookie that scripts, other sites and other paths do not get', async () => {
    const { signIn, send } = await startDashboard();
    const { answer } = await signIn();
    expect(answer.headers.get('set-cookie')).toMatch(/^larder_session=[\w-]{43}; HttpOnly; SameSite=Strict$/);
    const overTls = await send('/sign-in', {
      method: 'POST',
      body: new URLSearchParams({ token: OPS }),
      headers: { 'x-forwarded-proto': 'https' },
    });
    expect(overTls.headers.get('set-cookie')).toMatch(/; Secure$/);
  });

  it('is over when somebody signs out, on every replica', async () => {
    const { signIn, store, audited } = await startDashboard();
    const visitor = await signIn();
    expect((await visitor.get('/')).status).toBe(200);
    expect(store.entries.size).toBe(1);
    const left = await visitor.post('/sign-out', {});
    expect(left.headers.get('location')).toBe('sign-in');
    expect(left.headers.get('set-cookie')).toContain('Max-Age=0');
    expect(store.entries.size).toBe(0);
    expect((await visitor.get('/')).status).toBe(303);
    expect(audited.map(({ event }) => event)).toContain('signed-out');
  });

  it('is known on replicas that share the store', async () => {
    const one = await startDashboard();
    const other = await startDashboard({ store: one.store });
    const { cookie } = await one.signIn();
    expect((await other.send('/', { headers: { cookie } })).status).toBe(200);
  });

  it('ends after two hours without a request, and after twelve whatever happens', async () => {
    let now = Date.parse('2026-03-01T08:00:00Z');
    const { signIn } = await startDashboard({ now: () => now });
    const idle = await signIn();
    now += 2 * HOUR_MS + 1;
    const sent = await idle.get('/');
    expect([sent.status, sent.headers.get('location')]).toEqual([303, 'sign-in?why=ended']);

    const busy = await signIn();
    for (let hour = 0; hour < 11; hour += 1) {
      now += HOUR_MS;
      expect((await busy.get('/')).status).toBe(200);
    }
    now += HOUR_MS;
    expect((await busy.get('/')).status).toBe(303);
  });

  it('ends when the token is another one now, or no operator’s any more', async () => {
    let known = [token('ops', OPS), token('team', NARROW)];
    const { signIn } = await startDashboard({ tokens: () => known });
    const [ops, team] = [await signIn(OPS), await signIn(NARROW)];
    known = [token('ops', 'a new secret'), token('team', NARROW, { roles: ['read'] })];
    expect([(await ops.get('/')).status, (await team.get('/')).status]).toEqual([303, 303]);
    // It does not come back with the old secret.
    known = [token('ops', OPS)];
    expect((await ops.get('/')).status).toBe(303);
  });

  it('goes on while the metadata store is away, and is possible then', async () => {
    const { signIn, store } = await startDashboard();
    const before = await signIn();
    expect((await before.get('/trouble')).status).toBe(200);
    store.isAway = true;
    expect((await before.get('/trouble')).status).toBe(200);
    const during = await signIn();
    expect((await during.get('/trouble')).status).toBe(200);
    store.isAway = false;
    expect((await during.get('/trouble')).status).toBe(200);
    expect(store.entries.size).toBe(2);
  });

  it('that ended while the metadata store was away is over on every replica once it is back', async () => {
    const store = new MapStore();
    const replica = () => new Sessions({ store, logger: silentLogger, endAgainMs: 10 });
    const [one, other] = [replica(), replica()];
    const id = await one.begin({ subject: 'token:ops', fingerprint: 'print' });
    expect(await other.find(id)).toBeDefined();
    store.isAway = true;
    await one.end(id);
    expect(await one.find(id)).toBeUndefined();
    store.isAway = false;
    await expect.poll(() => other.find(id)).toBeUndefined();
  });
});

describe('forms', () => {
  it('are refused when another site made the browser send them', async () => {
    const { signIn, post } = await startDashboard();
    const visitor = await signIn();
    for (const headers of [
      { 'sec-fetch-site': 'cross-site' },
      { 'sec-fetch-site': 'same-site' },
      { origin: 'https://evil.example' },
      { origin: 'null' },
    ]) {
      expect((await visitor.post('/sign-out', {}, headers)).status).toBe(403);
      expect((await post('/sign-in', { token: OPS }, headers)).status).toBe(403);
    }
    expect((await visitor.get('/')).status).toBe(200);
  });

  it('are refused without the token of their session, or with that of another one', async () => {
    const { signIn } = await startDashboard();
    const [one, other] = [await signIn(), await signIn()];
    for (const form of ['', 'made up', other.formToken]) {
      const answer = await one.post('/sign-out', { form });
      expect(answer.status).toBe(403);
      expect(await answer.text()).toContain('nothing was done');
    }
    expect((await one.get('/')).status).toBe(200);
  });

  it('are taken from a proxy that has another name, and from our own pages', async () => {
    const { signIn, port } = await startDashboard();
    const behind = await signIn();
    const headers = { origin: 'https://larder.corp.example', 'x-forwarded-host': 'larder.corp.example' };
    expect((await behind.post('/sign-out', {}, headers)).status).toBe(303);
    const direct = await signIn();
    expect((await direct.post('/sign-out', {}, { origin: `http://127.0.0.1:${port}` })).status).toBe(303);
  });
});

describe('every answer', () => {
  it('has a policy that lets nothing in that is not ours, and is kept by nobody', async () => {
    const { signIn } = await startDashboard();
    const visitor = await signIn();
    for (const path of ['/', '/stored', '/trouble', '/sign-in', '/nothing-of-the-kind']) {
      const { headers } = await visitor.get(path);
      expect(headers.get('content-security-policy')).toBe(
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
          "form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
      );
      expect(headers.get('cache-control')).toBe('no-store');
      expect(headers.get('x-content-type-options')).toBe('nosniff');
    }
  });

  it('links relatively, so that a path prefix in front does not matter', async () => {
    const { signIn, origin } = await startDashboard();
    const visitor = await signIn();
    for (const path of ['/', '/stored', '/trouble', '/jobs/none']) {
      const links = [...(await visitor.text(path)).matchAll(/(?:href|src|action)="([^"]*)"/g)].map(([, link]) => link);
      expect(links.length).toBeGreaterThan(5);
      expect(links.filter((link) => /^(\/|https?:)/.test(link ?? ''))).toEqual([]);
    }
    const bare = await fetch(`${origin}/ui?range=week`, { redirect: 'manual' });
    expect([bare.status, bare.headers.get('location')]).toEqual([303, 'ui/?range=week']);
  });

  it('tells of pages that are not there in a page, with its request', async () => {
    const { signIn } = await startDashboard();
    const answer = await (await signIn()).get('/nothing-of-the-kind');
    expect(answer.status).toBe(404);
    expect(await answer.text()).toMatch(/There is no such page\.[\s\S]*NOT_FOUND, request [0-9a-f-]{36}/);
  });

  it('comes with files that may be kept for as long as they are the same', async () => {
    const { signIn, send } = await startDashboard();
    const page = await (await signIn()).text('/');
    const assets = [...page.matchAll(/"(assets\/[^"]+)"/g)].map(([, path]) => path ?? '');
    expect(assets.map((path) => path.split('?')[0])).toEqual([
      'assets/icon.svg',
      'assets/dashboard.css',
      'assets/dashboard.js',
    ]);
    for (const path of assets) {
      expect((await send(`/${path}`)).headers.get('cache-control')).toContain('immutable');
      expect((await send(`/${path.split('?')[0]}`)).headers.get('cache-control')).toBe('no-cache');
    }
  });
});
