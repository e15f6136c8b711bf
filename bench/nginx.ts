import { once } from 'node:events';
import { writeFile } from 'node:fs/promises';
import { type AddressInfo, connect, createServer } from 'node:net';
import { dirname, join } from 'node:path';
import type { LarderSetup } from '../test/support/larder-setup.ts';
import { type ServerProcess, startServer } from './processes.ts';

export interface StaticServer {
  readonly url: string;
  readonly server: ServerProcess;
  stop(): Promise<void>;
}

/** nginx in front of the directory that a Larder filled, with that Larder's certificate, or without TLS. */
export async function startNginx(setup: LarderSetup, { isPlain = false } = {}): Promise<StaticServer> {
  const directory = dirname(setup.configFile);
  const configFile = join(directory, 'nginx.conf');
  const port = await freePort();
  await writeFile(configFile, configuration(setup, directory, { port, tls: !isPlain }));
  const { server } = await startServer({
    command: ['nginx', '-p', directory, '-e', join(directory, 'nginx-error.log'), '-c', configFile],
    outputFile: join(directory, 'nginx.log'),
    isReady: async () => ((await accepts(port)) ? true : undefined),
  });
  return { url: `${isPlain ? 'http' : 'https'}://localhost:${port}`, server, stop: () => server.stop() };
}

/**
 * As a distribution ships it: one access log line for each request, no open_file_cache. Only connections live as long
 * as the load wants them to, which spares nginx handshakes.
 */
function configuration(setup: LarderSetup, directory: string, { port, tls }: { port: number; tls: boolean }): string {
  const file = (name: string) => join(directory, name);
  // The worker has to read what was made by us.
  const user = process.getuid?.() === 0 ? 'user root;' : '';
  return `
${user}
worker_processes 1;
daemon off;
pid ${file('nginx.pid')};
events { worker_connections 768; }
http {
  sendfile on;
  tcp_nopush on;
  types { application/json json; application/zip zip; }
  default_type application/octet-stream;
  keepalive_requests 100000000;
  access_log ${file('nginx-access.log')};
  client_body_temp_path ${file('nginx-body')};
  proxy_temp_path ${file('nginx-proxy')};
  fastcgi_temp_path ${file('nginx-fastcgi')};
  uwsgi_temp_path ${file('nginx-uwsgi')};
  scgi_temp_path ${file('nginx-scgi')};
  server {
    listen 127.0.0.1:${port}${tls ? ' ssl' : ''};
    root ${setup.dataDirectory};
    ssl_protocols TLSv1.3;
    ${tls ? `ssl_certificate ${file('cert.pem')}; ssl_certificate_key ${file('key.pem')};` : ''}
  }
}
`;
}

async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  server.close();
  await once(server, 'close');
  return port;
}

function accepts(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(port, '127.0.0.1');
    socket.once('connect', () => resolve(true)).once('error', () => resolve(false));
    socket.once('connect', () => socket.destroy());
  });
}
