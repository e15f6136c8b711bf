import net from 'node:net';
import { request } from 'undici';
import { expect, onTestFinished, test, vi } from 'vitest';
import { Connections } from '../../src/upstream/connections.ts';
import { upstreamAt } from './scripted-server.ts';

const asked = vi.hoisted(() => ({ names: [] as string[] }));

// A name server in an attacker's hands: public for whoever checks, loopback for whoever asks again.
vi.mock('node:dns', async (original) => {
  const dns = await original<typeof import('node:dns')>();
  const answers = ['140.82.121.3', '127.0.0.1'];
  const lookup = (name: string, _options: object, callback: (error: null, found: object[]) => void) => {
    asked.names.push(name);
    callback(null, [{ address: answers[asked.names.length - 1] ?? '127.0.0.1', family: 4 }]);
  };
  return { ...dns, lookup, default: { ...dns, lookup } };
});

test('R33: rebinding: the address that was checked is the one that is connected to', async () => {
  const targets: string[] = [];
  // What the socket is told to connect to, after its look-up; no packet leaves.
  const connect = vi.spyOn(net.Socket.prototype, 'connect').mockImplementation(function (this: net.Socket, ...args) {
    const [options] = args.flat() as unknown as [net.TcpNetConnectOpts];
    options.lookup?.(String(options.host), { all: false }, (error, address) => {
      targets.push(error ? error.message : String(address));
      // Also when nobody listens yet.
      this.on('error', () => {}).destroy(new Error('not connected'));
    });
    return this;
  });
  onTestFinished(() => connect.mockRestore());

  const connections = new Connections({ proxy: {}, limits: { connectMs: 2_000, headersMs: 2_000, bodyIdleMs: 2_000 } });
  onTestFinished(() => connections.close());
  const dispatcher = connections.for(await upstreamAt('rebinding.example', { privateNetwork: false }));
  const ask = () => request('https://rebinding.example/', { dispatcher }).catch(() => undefined);
  await ask();
  // Asked once, and that answer is what is used; asked anew for another connection, the loopback address is refused.
  expect(asked.names).toEqual(['rebinding.example']);
  expect(targets).toEqual(['140.82.121.3']);
  await ask();
  expect(targets[1]).toContain('has no public address');
});
