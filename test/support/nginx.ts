import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { connect, createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { afterTest } from './after-test.ts';
import { CertificateAuthority } from './certificates.ts';
import { requirement } from './requirements.ts';

/** An nginx that serves a directory over TLS. */
export interface Nginx {
  /** `https://localhost:PORT`, without a slash at its end. */
  readonly url: string;
  readonly ca: string;
  stop(): Promise<void>;
}

/** Long enough for a busy machine. */
const START_LIMIT_MS = 20_000;

/**
 * Starts the real nginx. Inside a test it is stopped at its end.
 * @param options.http lines on the level of `http`, `options.server` lines of the server
 */
export async function startNginx(options: { root: string; http?: string; server?: string }): Promise<Nginx> {
  const { path } = requirement('nginx');
  if (path === undefined) throw new Error("nginx is not installed: use describeWith(['nginx'], …)");
  const authority = await CertificateAuthority.shared();
  const { cert, key } = await authority.issue();
  const directory = await mkdtemp(join(tmpdir(), 'larder-nginx-'));
  const file = (name: string) => join(directory, name);
  const port = await unusedPort();
  await Promise.all([
    writeFile(file('cert.pem'), cert),
    writeFile(file('key.pem'), key, { mode: 0o600 }),
    mkdir(file('temporary')),
  ]);
  const temporary = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi'].map(
    (kind) => `  ${kind}_temp_path ${file('temporary')}/${kind};`,
  );
  await writeFile(
    file('nginx.conf'),
    [
      // As whoever runs the tests: nobody else could read what they wrote.
      ...(process.getuid?.() === 0 ? ['user root;'] : []),
      'daemon off;',
      'worker_processes 1;',
      `pid ${file('nginx.pid')};`,
      `error_log ${file('error.log')} info;`,
      'events { worker_connections 64; }',
      'http {',
      '  access_log off;',
      ...temporary,
      options.http ?? '',
      '  server {',
      `    listen 127.0.0.1:${port} ssl;`,
      `    ssl_certificate ${file('cert.pem')};`,
      `    ssl_certificate_key ${file('key.pem')};`,
      `    root ${options.root};`,
      options.server ?? '',
      '  }',
      '}',
    ].join('\n'),
  );
  const said: string[] = [];
  const child = spawn(path, ['-c', file('nginx.conf'), '-e', file('error.log'), '-p', directory], {
    stdio: ['ignore', 'ignore', 'pipe'],
  });
  child.stderr.on('data', (chunk: Buffer) => said.push(chunk.toString()));
  const stop = async () => {
    await ended(child);
    await rm(directory, { recursive: true, force: true });
  };
  afterTest(stop);
  await listening(child, port, said);
  return { url: `https://localhost:${port}`, ca: authority.pem, stop };
}

async function ended(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const gone = once(child, 'exit');
  // Told to stop, not killed: else its worker would go on without it.
  child.kill('SIGTERM');
  await gone;
}

async function listening(child: ChildProcess, port: number, said: readonly string[]): Promise<void> {
  const until = Date.now() + START_LIMIT_MS;
  for (;;) {
    if (child.exitCode !== null || Date.now() > until) throw new Error(`nginx did not start:\n${said.join('')}`);
    const socket = connect(port, '127.0.0.1');
    const isOpen = await Promise.race([
      once(socket, 'connect').then(() => true),
      once(socket, 'error').then(() => false),
    ]).catch(() => false);
    socket.destroy();
    if (isOpen) return;
    await delay(20);
  }
}

async function unusedPort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as { port: number };
  server.close();
  await once(server, 'close');
  return port;
}
