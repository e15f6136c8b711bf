import { fork } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { HttpServer } from '../../src/http/server.ts';
import { askOnce, descriptors, descriptorsDownTo, idleConnections } from '../http/hostile-scene.ts';

const { values } = parseArgs({ options: { count: { type: 'string', default: '10000' }, port: { type: 'string' } } });
const count = Number(values.count);

if (values.port === undefined) await serve();
else await connectAll(Number(values.port));

/** Has a second process open the connections, since each has two ends. Ends with 1 when anything is wrong. */
async function serve(): Promise<void> {
  const server = new HttpServer({ handler: (_req, res) => void res.end('served') });
  const port = await server.listen({ host: '127.0.0.1', port: 0 });
  await askOnce(port);
  const before = { open: await descriptors(), rss: process.memoryUsage.rss() };
  const clients = fork(fileURLToPath(import.meta.url), ['--count', values.count, '--port', String(port)], {
    execArgv: process.execArgv,
  });
  await once(clients, 'message');
  while ((await descriptors()) < before.open + count) await new Promise((resolve) => setTimeout(resolve, 50));
  const during = { open: await descriptors(), rss: process.memoryUsage.rss() };
  const began = performance.now();
  const answer = await askOnce(port);
  const answeredMs = Math.round(performance.now() - began);
  clients.kill('SIGKILL');
  await once(clients, 'exit');
  // The line to the other process goes as well.
  const after = await descriptorsDownTo(before.open, 30_000);
  await server.drain(0);

  const mib = (bytes: number) => (bytes / 1024 / 1024).toFixed(0);
  console.log('| | before | with them | after |\n| --- | ---: | ---: | ---: |');
  console.log(`| descriptors | ${before.open} | ${during.open} | ${after} |`);
  console.log(`| memory, MiB | ${mib(before.rss)} | ${mib(during.rss)} | ${mib(process.memoryUsage.rss())} |`);
  console.log(`\nAnother client was answered within ${answeredMs} ms.`);
  process.exit(answer.includes('served') && after <= before.open ? 0 : 1);
}

async function connectAll(port: number): Promise<void> {
  await idleConnections(port, count);
  process.send?.('open');
  await new Promise(() => setInterval(() => {}, 60_000));
}
