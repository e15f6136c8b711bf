import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { createClient } from '@keyv/redis';
import { requirement } from './requirements.ts';

export interface TestRedis {
  readonly url: string;
  readonly port: number;
  /** Runs a command on a connection of its own. */
  command(...parts: string[]): Promise<unknown>;
  /** Freezes the process: connections stay open and nothing is answered. */
  pause(): void;
  resume(): void;
  /** Kills it, until `restart`. */
  kill(): Promise<void>;
  /** Kills it for good. Nothing it held survives. */
  stop(): Promise<void>;
  /** At the same port, empty. */
  restart(): Promise<void>;
}

/**
 * A real Redis on a loopback port, without persistence. `undefined` where there is none; with CI=true that is an error.
 * `started: false` only reserves the port, for a Redis that is down at start and comes later.
 */
export async function startRedis(
  options: { started?: boolean; arguments?: readonly string[]; scheme?: 'redis' | 'rediss'; password?: string } = {},
): Promise<TestRedis | undefined> {
  const program = requirement('redis-server').path;
  if (program === undefined) return undefined;

  const port = await unusedPort();
  const tls = options.scheme === 'rediss';
  const userinfo = options.password === undefined ? '' : `:${options.password}@`;
  const listen = tls
    ? ['--port', '0', '--tls-port', String(port), '--tls-auth-clients', 'no']
    : ['--port', String(port)];
  const authentication = options.password === undefined ? [] : ['--requirepass', options.password];
  const url = `${options.scheme ?? 'redis'}://${userinfo}127.0.0.1:${port}`;
  const directory = await mkdtemp(join(tmpdir(), 'larder-redis-'));
  let running: ChildProcess | undefined;

  const start = async () => {
    const fixed = ['--bind', '127.0.0.1', '--save', '', '--appendonly', 'no', '--dir', directory];
    const args = [...listen, ...fixed, ...authentication, ...(options.arguments ?? [])];
    running = await startServer(program, args, 'Ready to accept connections');
  };
  const kill = async () => {
    const child = running;
    running = undefined;
    if (!child || child.exitCode !== null || child.signalCode !== null) return;
    const gone = once(child, 'exit');
    child.kill('SIGKILL');
    await gone;
  };

  if (options.started !== false) await start();
  return {
    url,
    port,
    async command(...parts) {
      const client = createClient({ url, ...(tls ? { socket: { tls: true, rejectUnauthorized: false } } : {}) });
      client.on('error', () => {});
      await client.connect();
      try {
        return await client.sendCommand(parts);
      } finally {
        client.destroy();
      }
    },
    pause: () => void running?.kill('SIGSTOP'),
    resume: () => void running?.kill('SIGCONT'),
    kill,
    async stop() {
      await kill();
      await rm(directory, { recursive: true, force: true });
    },
    async restart() {
      await kill();
      await start();
    },
  };
}

/** Starts `redis-server`, and resolves once it says that it is ready. */
export async function startServer(program: string, args: readonly string[], ready: string): Promise<ChildProcess> {
  const child = spawn(program, args, { stdio: ['ignore', 'pipe', 'inherit'] });
  // Otherwise a test run that is interrupted leaves it behind.
  const killChild = () => child.kill('SIGKILL');
  process.once('exit', killChild);
  child.once('exit', () => process.off('exit', killChild));
  const said: string[] = [];
  for await (const line of createInterface({ input: child.stdout })) {
    said.push(line);
    if (line.includes(ready)) break;
  }
  child.stdout.resume();
  if (child.exitCode !== null) throw new Error(`redis-server did not start:\n${said.join('\n')}`);
  return child;
}

export async function unusedPort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as { port: number };
  server.close();
  await once(server, 'close');
  return port;
}
