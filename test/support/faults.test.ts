import { once } from 'node:events';
import { connect } from 'node:tls';
import { gunzipSync } from 'node:zlib';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { fileReply } from './archive-reply.ts';
import { MemoryBytes } from './byte-source.ts';
import { CertificateAuthority } from './certificates.ts';
import * as faults from './faults.ts';
import { HttpClient, rawRequest } from './http.ts';
import { type Fault, Origin } from './origin.ts';

const BODY = Buffer.from('0123456789'.repeat(10_000));
const BODY_URL = '/file.zip';
let origin: Origin;
let client: HttpClient;

beforeEach(async () => {
  origin = await Origin.start((call) => fileReply(call, new MemoryBytes(BODY), '"one"'));
  client = new HttpClient({ ca: origin.ca });
});
afterEach(async () => {
  await client.close();
  await origin.stop();
});

function get(options?: Parameters<HttpClient['get']>[1]) {
  return client.get(origin.url + BODY_URL, options);
}

describe('files', () => {
  test('are sent whole, with an ETag and the offer of ranges', async () => {
    const { status, headers, body } = await get();
    expect(status).toBe(200);
    expect(headers).toMatchObject({ etag: '"one"', 'accept-ranges': 'bytes', 'content-length': String(BODY.length) });
    expect(body.equals(BODY)).toBe(true);
  });

  test('answer HEAD without a body', async () => {
    const { status, headers, body } = await get({ method: 'HEAD' });
    expect({ status, length: headers['content-length'], body: body.length }).toEqual({
      status: 200,
      length: String(BODY.length),
      body: 0,
    });
    expect(origin.requests.all[0]).toMatchObject({ status: 200, bytesSent: 0, aborted: false });
  });

  test('can be resumed while they are the same', async () => {
    const resumed = await get({ headers: { range: 'bytes=99990-', 'if-range': '"one"' } });
    expect(resumed.status).toBe(206);
    expect(resumed.headers['content-range']).toBe('bytes 99990-99999/100000');
    expect(resumed.text()).toBe('0123456789');
    expect((await get({ headers: { range: 'bytes=99990-', 'if-range': '"other"' } })).status).toBe(200);
    expect((await get({ headers: { range: 'bytes=100000-' } })).status).toBe(416);
    expect((await get({ headers: { 'if-none-match': '"one"' } })).status).toBe(304);
  });
});

describe('faults', () => {
  const on = (fault: Fault, options?: { times?: number }) => origin.on(/^GET /, fault, options);

  test('a status, with the time to come back', async () => {
    on(faults.status(503, { retryAfter: 7 }));
    expect(await get()).toMatchObject({ status: 503, headers: { 'retry-after': '7' } });
  });

  test('apply the first N times and can be removed', async () => {
    const rule = on(faults.status(500), { times: 2 });
    expect([(await get()).status, (await get()).status, (await get()).status]).toEqual([500, 500, 200]);
    expect(rule.applied).toBe(2);
    const other = on(faults.html());
    expect((await get()).headers['content-type']).toContain('text/html');
    other.remove();
    expect((await get()).status).toBe(200);
  });

  test('a reset gives no answer at all', async () => {
    on(faults.reset());
    await expect(get()).rejects.toThrow();
    expect(origin.requests.all[0]).toMatchObject({ status: 0, aborted: true });
  });

  test('headers can be cut, after which there is nothing', async () => {
    on(faults.cutInHeaders());
    await expect(get()).rejects.toThrow();
    const { text } = await rawRequest(origin.port, `GET ${BODY_URL} HTTP/1.1\r\nHost: x\r\n\r\n`, { ca: origin.ca });
    expect(text).toMatch(/^HTTP\/1\.1 200 OK\r\nContent-Type: \S+$/);
  });

  test('everybody can be hung up on, before a word is said, until it heals', async () => {
    expect((await get()).status).toBe(200);
    origin.hangUpOnEverybody();
    await expect(get()).rejects.toThrow();
    expect(origin.requests.all).toHaveLength(1);
    origin.heal();
    expect((await get()).status).toBe(200);
  });

  test('the first link to a file can have run out for good, while later ones are good', async () => {
    let refusals = 0;
    on(faults.firstLinkExpired(() => refusals++));
    const statusOf = async (query: string) => (await client.get(`${origin.url}${BODY_URL}?${query}`)).status;
    expect([await statusOf('one'), await statusOf('one'), await statusOf('two'), await statusOf('one')]).toEqual([
      403, 403, 200, 403,
    ]);
    expect(refusals).toBe(3);
  });

  test('a cut body promises more than it sends', async () => {
    on(faults.cutAfter(1234));
    await expect(get()).rejects.toThrow();
    await origin.requests.all[0]?.finished;
    expect(origin.requests.all[0]).toMatchObject({ status: 200, bytesSent: 1234, aborted: true });
  });

  test('a cut body does leave before the cut', async () => {
    on(faults.cutAfter(1234));
    const { text } = await rawRequest(origin.port, `GET ${BODY_URL} HTTP/1.1\r\nHost: x\r\n\r\n`, { ca: origin.ca });
    const [head = '', body] = text.split('\r\n\r\n');
    expect(head).toContain(`content-length: ${BODY.length}`);
    expect(body).toHaveLength(1234);
  });

  test('a short body can end as if nothing were wrong, in two ways', async () => {
    const chunked = on(faults.shortCleanEnd(1000));
    expect(await get()).toMatchObject({ body: BODY.subarray(0, 1000), headers: { 'transfer-encoding': 'chunked' } });
    chunked.remove();
    on(faults.shortWithLength(1000));
    expect(await get()).toMatchObject({ body: BODY.subarray(0, 1000), headers: { 'content-length': '1000' } });
  });

  test('a held body stops where it should, and goes on when it is released', async () => {
    const hold = faults.holdAfter(500);
    on(hold.fault);
    const answer = get();
    await hold.reached;
    expect(origin.requests.all[0]).toMatchObject({ status: 200, bytesSent: 500 });
    hold.release();
    expect((await answer).body.equals(BODY)).toBe(true);
  });

  test('a held body can be cut', async () => {
    const hold = faults.holdAfter(0);
    on(hold.fault);
    const answer = expect(get()).rejects.toThrow();
    await hold.reached;
    hold.cut();
    await answer;
  });

  test('a client may leave a held body', async () => {
    const hold = faults.holdAfter(10);
    on(hold.fault);
    const leaving = new AbortController();
    const left = expect(get({ signal: leaving.signal })).rejects.toThrow();
    await hold.reached;
    leaving.abort();
    await left;
    await origin.requests.all[0]?.finished;
    expect(origin.requests.all[0]).toMatchObject({ bytesSent: 10, aborted: true });
  });

  test('an answer that never comes ends with the client', async () => {
    on(faults.neverAnswer());
    const leaving = new AbortController();
    const left = get({ signal: leaving.signal });
    const request = await origin.requests.arrival(/^GET/);
    leaving.abort();
    await expect(left).rejects.toThrow();
    await request.finished;
    expect(request).toMatchObject({ status: 0, aborted: true });
  });

  test('a corrupt body differs in one byte', async () => {
    on(faults.corrupt(50_000));
    const { body } = await get();
    expect(body.length).toBe(BODY.length);
    expect([...body.entries()].filter(([at, byte]) => byte !== BODY[at]).map(([at]) => at)).toEqual([50_000]);
  });

  test('no length, no ranges, gzip, other media types, redirects, edited and enormous JSON', async () => {
    const under = async (fault: Fault, options?: Parameters<HttpClient['get']>[1]) => {
      const rule = on(fault);
      const answer = await get(options);
      rule.remove();
      return answer;
    };
    expect((await under(faults.noContentLength())).headers['content-length']).toBeUndefined();
    const whole = await under(faults.noRange(), { headers: { range: 'bytes=5-' } });
    expect(whole).toMatchObject({ status: 200, headers: { 'content-length': String(BODY.length) } });
    expect(whole.headers['accept-ranges']).toBeUndefined();
    const zipped = await under(faults.gzipEncoded());
    expect(zipped.headers['content-encoding']).toBe('gzip');
    expect(gunzipSync(zipped.body).equals(BODY)).toBe(true);
    expect((await under(faults.mediaType(undefined))).headers['content-type']).toBeUndefined();
    expect(await under(faults.redirect((path) => `/moved${path}`, 307))).toMatchObject({
      status: 307,
      headers: { location: '/moved/file.zip' },
    });
    const edited = faults.all(
      faults.editJson((document) => ({ ...document, b: 2 })),
      faults.replaceBody('{"a":1}'),
    );
    expect((await under(edited)).json()).toEqual({ a: 1, b: 2 });
    const huge = await under(faults.hugeJson(1_000_000));
    expect(huge.body.length).toBeGreaterThan(1_000_000);
    expect(huge.json()).toEqual({ versions: [] });
  });

  test('a trickle takes its time', async () => {
    on(faults.all(faults.trickle(10_000), faults.shortWithLength(1000)));
    const started = performance.now();
    expect((await get()).body).toHaveLength(1000);
    expect(performance.now() - started).toBeGreaterThan(70);
  });
});

describe('an origin', () => {
  test('refuses connections while stopped and comes back on its port', async () => {
    const before = origin.port;
    await origin.stop();
    await expect(get()).rejects.toMatchObject({ code: 'ECONNREFUSED' });
    await origin.restart();
    expect(origin.port).toBe(before);
    expect((await get()).status).toBe(200);
  });

  test('lets downloads finish when it only stops accepting', async () => {
    const hold = faults.holdAfter(10);
    origin.on(/^GET /, hold.fault);
    const answer = get();
    await hold.reached;
    const stopped = origin.stopAccepting();
    await expect(client.get(origin.url)).rejects.toMatchObject({ code: 'ECONNREFUSED' });
    hold.release();
    expect((await answer).body.equals(BODY)).toBe(true);
    await client.close();
    await stopped;
  });

  test('breaks what is under way when it stops, and leaves no connection behind', async () => {
    const idle = connect({ port: origin.port, host: '127.0.0.1', ca: origin.ca, servername: 'localhost' });
    idle.on('error', () => {});
    await once(idle, 'secureConnect');
    origin.on(/^GET /, faults.neverAnswer());
    const answer = expect(get()).rejects.toThrow();
    await origin.requests.arrival(/^GET/);
    const closed = once(idle, 'close');
    await origin.stop();
    await Promise.all([answer, closed]);
  });

  test('logs what it was asked, also what came before one waited for it', async () => {
    await get({ headers: { authorization: 'Bearer secret' } });
    await get();
    expect(origin.requests.count('GET', /\.zip$/)).toBe(2);
    expect(origin.requests.count(/^GET \/file/)).toBe(2);
    expect(origin.requests.withCredentials()).toHaveLength(1);
    expect(await origin.requests.arrival(/^GET/, 2)).toBe(origin.requests.all[1]);
    origin.requests.clear();
    expect(origin.requests.all).toEqual([]);
  });

  test('can ask for client certificates, and have a certificate that is out of date', async () => {
    const authority = await CertificateAuthority.shared();
    const closed = await Origin.start(() => faults.reply(200, 'in'), { clientAuthority: authority.pem });
    const known = new HttpClient({ ca: authority.pem, certificate: await authority.issue(['client']) });
    const expired = await Origin.start(() => faults.reply(200, 'in'), {
      certificate: await authority.issue([], { notAfter: new Date(Date.now() - 60_000) }),
    });
    try {
      await expect(client.get(closed.url)).rejects.toThrow();
      expect((await known.get(closed.url)).text()).toBe('in');
      await expect(client.get(expired.url)).rejects.toMatchObject({ code: 'CERT_HAS_EXPIRED' });
    } finally {
      await known.close();
      await Promise.all([closed.stop(), expired.stop()]);
    }
  });
});
