import { once } from 'node:events';
import { connect as connectPlain } from 'node:net';
import { connect } from 'node:tls';
import { expect, it } from 'vitest';
import { afterTest } from '../support/after-test.ts';
import { holdAfter } from '../support/faults.ts';
import { startLarderProcess } from '../support/larder-process.ts';
import { larderSetup } from '../support/larder-setup.ts';
import { UpstreamRegistry } from '../support/upstream-registry.ts';

const SIZE = 2_000_000;
/** Starting a process takes seconds on a busy machine. */
const PATIENCE = { timeout: 60_000 };

it('SIGTERM: what is under way is finished, nothing new is begun, and it ends by itself with 0', PATIENCE, async () => {
  const registry = await UpstreamRegistry.start();
  afterTest(() => registry.stop());
  const about = { namespace: 'acme', type: 'widget', version: '1.0.0', sizeBytes: SIZE };
  const archive = (await registry.addProvider(about)).packages.get('linux_amd64');
  const hold = holdAfter(SIZE / 2);
  registry.releases.on(/^GET .*\.zip$/, hold.fault);
  const setup = await larderSetup({ registries: [registry] });
  const larder = await startLarderProcess(setup);

  // One connection with a download and, behind it, the question that a load balancer asks.
  const socket = connect({ port: larder.port, host: '127.0.0.1', servername: 'localhost', ca: setup.ca });
  afterTest(async () => void socket.destroy());
  await once(socket, 'secureConnect');
  const closed = new Promise((resolve) => socket.once('close', resolve));
  const received: Buffer[] = [];
  socket.on('data', (chunk: Buffer) => received.push(chunk));
  socket.write(
    `GET /providers/${registry.hostname}/acme/widget/${archive?.filename} HTTP/1.1\r\nHost: localhost\r\n\r\n`,
  );
  await Promise.all([hold.reached, once(socket, 'data')]);

  larder.signal('SIGTERM');
  await larder.line(/shutting down/);
  await expect.poll(() => errorOfConnecting(larder.port), { timeout: 10_000 }).toBe('ECONNREFUSED');
  socket.write('GET /readyz HTTP/1.1\r\nHost: localhost\r\n\r\n');

  hold.release();
  await closed;
  const { answers } = parse(Buffer.concat(received));
  expect(answers.map(({ status }) => status)).toEqual([200, 503]);
  expect(answers[0]?.body.length).toBe(SIZE);
  const whole = Buffer.concat([...(archive?.bytes?.read(0, SIZE) ?? [])]);
  expect(answers[0]?.body.equals(whole)).toBe(true);
  expect(JSON.parse(answers[1]?.body.toString() ?? '')).toMatchObject({ status: 'draining' });
  expect(await larder.ended).toEqual({ code: 0, signal: undefined });
  expect(larder.lines.at(-1)).toContain('stopped');
});

it('SIGTERM the moment it listens ends it in good order as well', PATIENCE, async () => {
  const setup = await larderSetup();
  const larder = await startLarderProcess(setup);
  larder.signal('SIGTERM');
  expect(await larder.ended).toEqual({ code: 0, signal: undefined });
});

/** The system's word for it; `undefined` when the connection was taken. */
function errorOfConnecting(port: number): Promise<string | undefined> {
  return new Promise((resolve) => {
    const socket = connectPlain(port, '127.0.0.1', () => {
      socket.destroy();
      resolve(undefined);
    });
    socket.once('error', (error: NodeJS.ErrnoException) => resolve(error.code));
  });
}

/** Answers that follow each other, all with a Content-Length. */
function parse(bytes: Buffer): { answers: { status: number; body: Buffer }[] } {
  const answers = [];
  for (let at = 0; at < bytes.length; ) {
    const end = bytes.indexOf('\r\n\r\n', at);
    const head = bytes.subarray(at, end).toString('latin1');
    const length = Number(/^content-length: (\d+)/im.exec(head)?.[1]);
    const body = bytes.subarray(end + 4, end + 4 + length);
    answers.push({ status: Number(head.slice(9, 12)), body });
    at = end + 4 + length;
  }
  return { answers };
}
