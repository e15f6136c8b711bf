import { type FileHandle, open, readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, it, onTestFinished, vi } from 'vitest';
import { handMadeZip } from '../store/hand-made-zip.ts';
import {
  corrupt,
  cutAfter,
  gzipEncoded,
  holdAfter,
  holdAnswer,
  noContentLength,
  noRange,
  shortCleanEnd,
  shortWithLength,
  status,
  trickle,
} from '../support/faults.ts';
import type { Fault } from '../support/origin.ts';
import {
  archiveName,
  bytesOf,
  eventually,
  hashesIn,
  outcomeOf,
  packageOf,
  platformsIn,
  type Scene,
  startScene,
  versionsIn,
  WIDGET,
} from './scene.ts';

const ZIP = /GET .*\.zip/;
const KB = 1024;
const LARGE = 512 * KB;

/** Writing to files fails from now on as it does on a full disk. */
async function fullDisk(anyFile: string): Promise<{ makeRoom(): void }> {
  const handle = await open(anyFile);
  await handle.close();
  const noSpace = Object.assign(new Error('ENOSPC: no space left on device, write'), { code: 'ENOSPC' });
  const write = vi.spyOn(Object.getPrototypeOf(handle) as FileHandle, 'write').mockRejectedValue(noSpace);
  onTestFinished(() => write.mockRestore());
  return { makeRoom: () => write.mockRestore() };
}

async function partialFiles({ larder }: Scene): Promise<string[]> {
  return readdir(join(larder.setup.dataDirectory, 'partial')).catch(() => []);
}

describe('archives', () => {
  it('R01: an archive is to be had without credentials at the very address that VERSION.json names', async () => {
    const { registry, get, version, larder } = await startScene({ providers: [] });
    const published = await registry.addProvider(WIDGET);
    const { url } = (await version('1.0.0')).json().archives.linux_amd64;
    const { pathname } = new URL(url, `${larder.url}/providers/${registry.hostname}/acme/widget/1.0.0.json`);
    for (const method of ['HEAD', 'GET']) expect((await get(pathname, { method })).status).toBe(200);
    const answer = await get(`${pathname}?a=query`);
    expect(answer.body.equals(bytesOf(packageOf(published)))).toBe(true);
  });

  it.each<[string, Fault]>([
    ['cut after a little', cutAfter(8 * KB)],
    ['ended cleanly in the middle, in chunks', shortCleanEnd(200 * KB)],
    ['ended in the middle, with a length that agrees', shortWithLength(200 * KB)],
    ['altered in one bit', corrupt(300 * KB)],
    ['altered in its last bit', corrupt(LARGE - 1)],
  ])(
    'R03, R44: an archive that upstream always sends %s is never whole for anybody, and nothing of it stays',
    async (_what, fault) => {
      const scene = await startScene({ providers: [] });
      const { registry, archive, version, index } = scene;
      const published = await registry.addProvider({ ...WIDGET, sizeBytes: LARGE });
      const broken = registry.releases.on(ZIP, fault);
      for (const answer of [await outcomeOf(archive()), await outcomeOf(archive())]) {
        if (answer !== 'broken off') expect(answer.status).toBe(502);
      }
      await eventually(() => partialFiles(scene)).toEqual([]);
      expect((await archive('1.0.0', 'linux_amd64', { method: 'HEAD' })).headers).not.toHaveProperty('last-modified');

      broken.remove();
      // For some seconds wrong bytes are not fetched again.
      await expect.poll(async () => (await archive()).status, { timeout: 20_000, interval: 200 }).toBe(200);
      const whole = await archive();
      expect(whole.body.equals(bytesOf(packageOf(published)))).toBe(true);
      expect(hashesIn(await version('1.0.0'))).toContain(packageOf(published).zh);
      expect(versionsIn(await index())).toEqual(['1.0.0']);
    },
  );

  it.each<[string, Fault]>([
    ['cut in the middle', cutAfter(200 * KB)],
    ['ended cleanly in the middle, in chunks', shortCleanEnd(200 * KB)],
  ])('R03, R44: an archive that is %s once is resumed, and the client notices nothing', async (_what, fault) => {
    const { registry, archive } = await startScene({ providers: [] });
    const published = await registry.addProvider({ ...WIDGET, sizeBytes: LARGE, withPackages: true });
    registry.releases.on(ZIP, fault, { times: 1 });
    const whole = await archive();
    expect(whole.body.equals(bytesOf(packageOf(published)))).toBe(true);
    expect(registry.releases.requests.filter(ZIP).at(-1)?.headers['range']).toMatch(/^bytes=\d+-$/);
  });

  it('R03: an archive that cannot be resumed begins again, and the client notices nothing', async () => {
    const { registry, archive } = await startScene({ providers: [] });
    const published = await registry.addProvider({ ...WIDGET, sizeBytes: LARGE });
    registry.releases.on(ZIP, noRange());
    registry.releases.on(ZIP, cutAfter(200 * KB), { times: 1 });
    expect((await archive()).body.equals(bytesOf(packageOf(published)))).toBe(true);
  });

  it('R03: no client has the end of an archive before all of it has been verified', async () => {
    const { registry, archive } = await startScene({ providers: [] });
    await registry.addProvider({ ...WIDGET, sizeBytes: LARGE });
    registry.releases.on(ZIP, corrupt(0));
    expect(await outcomeOf(archive())).toBe('broken off');
  });

  it('R04: twenty who ask while it arrives slowly share one download, and nobody gets a part', async () => {
    const { registry, archive, version } = await startScene({ providers: [] });
    const published = await registry.addProvider({ ...WIDGET, sizeBytes: LARGE });
    const hold = holdAfter(100 * KB);
    registry.releases.on(ZIP, hold.fault);
    const bodies = Array.from({ length: 10 }, () => archive());
    await hold.reached;
    bodies.push(...Array.from({ length: 10 }, () => archive()));
    for (const answer of await Promise.all(Array.from({ length: 5 }, () => version('1.0.0')))) {
      expect(hashesIn(answer)).toEqual([packageOf(published).zh]);
    }
    hold.release();
    const expected = bytesOf(packageOf(published));
    for (const answer of await Promise.all(bodies)) {
      expect(answer.headers['content-length']).toBe(String(LARGE));
      expect(answer.body.equals(expected)).toBe(true);
    }
    expect(registry.releases.requests.count(ZIP)).toBe(1);
  });

  it('R04: when the download fails, all who wait are told, and the next one begins anew', async () => {
    const { registry, archive } = await startScene({ providers: [] });
    const published = await registry.addProvider({ ...WIDGET, sizeBytes: LARGE });
    const hold = holdAnswer();
    registry.releases.on(ZIP, status(404));
    registry.releases.on(ZIP, hold.fault);
    const answers = Array.from({ length: 10 }, () => archive());
    await hold.reached;
    hold.release();
    for (const answer of await Promise.all(answers)) expect(answer.status).toBe(404);
    registry.heal();
    expect((await archive()).body.equals(bytesOf(packageOf(published)))).toBe(true);
  });

  it('R61: bytes flow to the client while they arrive, and its going away does not stop the download', async () => {
    const scene = await startScene({ providers: [] });
    const { registry, archive } = scene;
    const published = await registry.addProvider({ ...WIDGET, sizeBytes: LARGE });
    const hold = holdAfter(300 * KB);
    registry.releases.on(ZIP, hold.fault);
    const gone = new AbortController();
    const first = outcomeOf(archive('1.0.0', 'linux_amd64', { signal: gone.signal }));
    await hold.reached;
    gone.abort();
    expect(await first).toBe('broken off');
    hold.release();
    // A HEAD pulls nothing: it sees what the download nobody waits for has brought.
    await eventually(
      async () => (await archive('1.0.0', 'linux_amd64', { method: 'HEAD' })).headers['last-modified'],
    ).toBeDefined();
    expect((await archive()).body.equals(bytesOf(packageOf(published)))).toBe(true);
    expect(registry.releases.requests.count(ZIP)).toBe(1);
  });

  it('R61: a trickling archive has no time limit as a whole', async () => {
    const { registry, archive, version } = await startScene({
      providers: [],
      config: { limits: { metadataDeadline: '300ms' } },
    });
    const published = await registry.addProvider({ ...WIDGET, sizeBytes: 64 * KB });
    registry.releases.on(ZIP, trickle(80 * KB));
    // A busy machine may need more than one such deadline for the metadata, which is not what this is about.
    await eventually(async () => (await version('1.0.0')).status).toBe(200);
    const started = performance.now();
    expect((await archive()).body.equals(bytesOf(packageOf(published)))).toBe(true);
    expect(performance.now() - started).toBeGreaterThan(300);
  });

  it('R16: HEAD before anything is stored pulls nothing, and tells the true length or none', async () => {
    const { registry, archive } = await startScene({ providers: [] });
    const { size } = packageOf(await registry.addProvider(WIDGET));
    const head = await archive('1.0.0', 'linux_amd64', { method: 'HEAD' });
    expect(head).toMatchObject({
      status: 200,
      headers: { 'content-length': String(size), 'content-type': 'application/zip' },
    });
    expect(head.body).toHaveLength(0);
    expect(registry.releases.requests.count(ZIP)).toBe(0);

    for (const code of [403, 405, 200]) {
      const refusal = registry.releases.on(/HEAD .*\.zip/, status(code, { body: '' }));
      const unknown = await archive('1.0.0', 'linux_amd64', { method: 'HEAD' });
      expect(unknown.status).toBe(200);
      expect(unknown.headers).not.toHaveProperty('content-length');
      expect(unknown.headers).not.toHaveProperty('accept-ranges');
      refusal.remove();
    }
    expect(registry.releases.requests.count(ZIP)).toBe(0);
  });

  it('R16: HEAD of a stored archive says what GET says', async () => {
    const { registry, archive, stored } = await startScene();
    const got = await archive();
    await stored();
    registry.releases.requests.clear();
    const head = await archive('1.0.0', 'linux_amd64', { method: 'HEAD' });
    const again = await archive();
    expect(head.body).toHaveLength(0);
    for (const name of ['content-length', 'content-type', 'etag', 'accept-ranges', 'last-modified', 'cache-control']) {
      expect(head.headers[name], name).toBe(again.headers[name]);
    }
    expect(again.headers['content-length']).toBe(String(got.body.length));
    expect(registry.releases.requests.all).toEqual([]);
  });

  it('R16, R89: HEAD of an archive that upstream does not have is a 404 like its GET', async () => {
    const { archive } = await startScene();
    for (const method of ['HEAD', 'GET']) {
      expect((await archive('9.9.9', 'linux_amd64', { method })).status).toBe(404);
      expect((await archive('1.0.0', 'plan9_mips', { method })).status).toBe(404);
    }
    const answer = await archive('1.0.0', 'plan9_mips');
    expect(answer.json().hint).toContain('linux_amd64');
  });

  it.each([{ cold: true }, { cold: false }])(
    'R21: is never compressed, has its length, and its ranges are exact (cold: $cold)',
    async ({ cold }) => {
      const { registry, archive } = await startScene({ providers: [] });
      const published = await registry.addProvider({ ...WIDGET, sizeBytes: 100 * KB });
      const expected = bytesOf(packageOf(published));
      if (!cold) await archive();
      const part = await archive('1.0.0', 'linux_amd64', {
        headers: { range: 'bytes=100-199', 'accept-encoding': 'gzip' },
      });
      expect(part.status).toBe(206);
      expect(part.headers['content-range']).toBe(`bytes 100-199/${expected.length}`);
      expect(part.body.equals(expected.subarray(100, 200))).toBe(true);
      const whole = await archive('1.0.0', 'linux_amd64', { headers: { 'accept-encoding': 'gzip, br' } });
      expect(whole).toMatchObject({ status: 200, headers: { 'content-length': String(expected.length) } });
      expect(whole.headers).not.toHaveProperty('content-encoding');
      expect(whole.body.equals(expected)).toBe(true);
    },
  );

  it('R21: an archive that upstream compresses on the way is refused, as its bytes would be others', async () => {
    const { registry, archive } = await startScene();
    registry.releases.on(ZIP, gzipEncoded());
    const answer = await archive();
    expect(answer.status).toBe(502);
    expect(answer.json()).toMatchObject({ code: 'UPSTREAM_INVALID', errors: [expect.stringContaining('compressed')] });
  });

  it('an archive of unknown length comes in chunks the first time and with its length afterwards', async () => {
    const { registry, archive, stored } = await startScene({ providers: [] });
    const published = await registry.addProvider({ ...WIDGET, sizeBytes: LARGE });
    registry.releases.on(ZIP, noContentLength());
    const expected = bytesOf(packageOf(published));
    const first = await archive();
    expect(first.body.equals(expected)).toBe(true);
    await stored();
    expect((await archive()).headers['content-length']).toBe(String(expected.length));
  });

  it('R34: an address that has expired meanwhile is asked for again, once', async () => {
    const { registry, archive, version } = await startScene({ providers: [] });
    registry.signLinks();
    const published = await registry.addProvider(WIDGET);
    await version('1.0.0');
    registry.expireLinks();
    expect((await archive()).body.equals(bytesOf(packageOf(published)))).toBe(true);
    expect(registry.releases.requests.filter(ZIP).map(({ status: code }) => code)).toEqual([403, 200]);
  });

  it.each([401, 403, 410, 404])(
    'R34: a file host that always answers %i is believed after one new address, and not for long',
    async (code) => {
      const { registry, archive, version } = await startScene();
      registry.signLinks();
      const refusing = registry.releases.on(ZIP, status(code));
      await version('1.0.0');
      const answer = await archive();
      // Told 401 or 403, a client would blame the credentials that it has for Larder.
      expect(answer.status).toBe(code === 404 || code === 410 ? 404 : 502);
      expect(answer.json().errors[0]).toContain(registry.releases.hostname);
      expect(registry.releases.requests.count(ZIP)).toBe(2);
      refusing.remove();
      expect((await archive()).status).toBe(200);
    },
  );

  it('R33: signatures in addresses are neither keys nor told to anybody', async () => {
    const { registry, larder, archive, version } = await startScene({ providers: [{}, { version: '2.0.0' }] });
    registry.signLinks();
    await version('1.0.0');
    const signature = /X-Amz-Signature=[0-9a-f]+/.exec(registry.releases.requests.all[0]?.path ?? '')?.[0];
    expect(signature).toBeDefined();
    registry.expireLinks();
    expect((await archive()).status).toBe(200);
    registry.signLinks();
    expect((await archive()).status).toBe(200);
    expect(registry.releases.requests.count(ZIP)).toBe(2);
    registry.releases.on(/2\.0\.0.*\.zip/, status(403));
    const failed = await archive('2.0.0');
    expect(failed.status).toBe(502);
    expect(failed.text()).not.toContain('Amz');
    expect(
      JSON.stringify(larder.log, (_key, value) =>
        value instanceof Error ? [value.message, value.stack, value.cause] : value,
      ),
    ).not.toContain('Amz');
  });

  it('R36: a version whose files are gone fails by itself, naming the host, and leaves the others alone', async () => {
    const { registry, archive, version, index } = await startScene({
      providers: [{ version: '2.0.0' }, { version: '3.0.0' }],
    });
    await archive('2.0.0');
    registry.releases.on(/3\.0\.0/, status(404, { body: '<html>Not Found</html>' }));
    for (const answer of [await version('3.0.0'), await archive('3.0.0')]) {
      expect(answer.status).toBe(502);
      expect(answer.json().errors[0]).toContain(registry.releases.hostname);
      expect(answer.text()).not.toContain(' at ');
    }
    expect(versionsIn(await index())).toEqual(['3.0.0', '2.0.0']);
    expect((await archive('2.0.0')).status).toBe(200);
    expect(platformsIn(await version('2.0.0'))).toEqual(['linux_amd64']);
  });

  it('R36: a version whose archive alone is gone is described all the same, and its archive is a 404', async () => {
    const { registry, archive, version } = await startScene();
    registry.releases.on(ZIP, status(404));
    expect(platformsIn(await version('1.0.0'))).toEqual(['linux_amd64']);
    const answer = await archive();
    expect(answer.status).toBe(404);
    expect(answer.json().errors[0]).toContain(registry.releases.hostname);
  });

  it('R15: relative addresses are relative to the document that holds them', async () => {
    const { registry, archive, version } = await startScene({ providers: [] });
    const published = await registry.addProvider({ ...WIDGET, relativeUrls: true });
    expect(hashesIn(await version('1.0.0'))).toEqual([packageOf(published).zh]);
    expect((await archive()).body.equals(bytesOf(packageOf(published)))).toBe(true);
    expect(registry.requests.count('GET', /^\/files\/acme\/.*\.zip$/)).toBe(1);
  });

  it('R78: a query behind the name changes nothing, and one that was encoded into it is a clear 404', async () => {
    const { registry, archive, get } = await startScene();
    const whole = await archive();
    const path = `/providers/${registry.hostname}/acme/widget/${archiveName('1.0.0', 'linux_amd64')}`;
    expect((await get(`${path}?token=T`)).body.equals(whole.body)).toBe(true);
    const escaped = await get(`${path}%3Ftoken=T`);
    expect(escaped.status).toBe(404);
    expect(escaped.json().hint).toContain('percent-encoded');
    expect(registry.releases.requests.count(ZIP)).toBe(1);
  });

  it('R80: names with backslashes and huge directories do not change a byte', async () => {
    const zip = handMadeZip([
      { name: 'docs\\a.md', content: 'a' },
      ...Array.from({ length: 66_000 }, (_, index) => ({ name: `f/${index}` })),
    ]);
    const { archive, version } = await startScene({ providers: [{ zip }] });
    expect((await archive()).body.equals(zip)).toBe(true);
    await eventually(async () => hashesIn(await version('1.0.0'))).toHaveLength(2);
  });

  it('R83: a full disk is told as such, leaves nothing half-done, and what is stored is served meanwhile', async () => {
    const scene = await startScene({ providers: [{ version: '1.0.0' }, { version: '2.0.0' }] });
    const { archive, index, stored } = scene;
    await archive('1.0.0');
    await stored('1.0.0');
    const disk = await fullDisk(scene.larder.setup.configFile);
    for (let times = 0; times < 2; times += 1) {
      const answer = await archive('2.0.0');
      expect(answer.status).toBe(507);
      expect(answer.json()).toMatchObject({ code: 'STORAGE_FAILED', errors: [expect.stringContaining('ENOSPC')] });
      expect(answer.text()).not.toContain(scene.larder.setup.dataDirectory);
      await eventually(() => partialFiles(scene)).toEqual([]);
    }
    expect((await archive('1.0.0')).status).toBe(200);
    expect(versionsIn(await index())).toEqual(['2.0.0', '1.0.0']);
    disk.makeRoom();
    expect((await archive('2.0.0')).status).toBe(200);
  });

  it('R12: no answer leads a client to another host', async () => {
    const { registry, archive, version, index } = await startScene();
    for (const answer of [
      await index(),
      await version('1.0.0'),
      await archive(),
      await archive('1.0.0', 'linux_amd64', { method: 'HEAD' }),
    ]) {
      expect(answer.status).toBe(200);
      const told =
        JSON.stringify(answer.headers) + (answer.headers['content-type'] === 'application/json' ? answer.text() : '');
      expect(told).not.toContain(registry.releases.hostname);
      expect(told).not.toContain(registry.hostname);
      expect(answer.headers).not.toHaveProperty('location');
    }
  });
});
