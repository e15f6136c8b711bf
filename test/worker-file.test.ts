import { once } from 'node:events';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { expect, it } from 'vitest';
import { startWorker } from '../src/worker-file.ts';
import { afterTest } from './support/after-test.ts';

/** What a program says that lies beside a source, or beside a built file. */
async function saidBeside(asking: string, program: string, text: string): Promise<unknown> {
  const directory = await mkdtemp(join(tmpdir(), 'larder-worker-'));
  afterTest(() => rm(directory, { recursive: true, force: true }));
  await writeFile(join(directory, 'package.json'), '{"type":"module"}');
  await writeFile(join(directory, program), text);
  const from = pathToFileURL(join(directory, asking)).href;
  const worker = startWorker(from, 'echo', { workerData: 'what was given' });
  afterTest(async () => void (await worker.terminate()));
  const [said] = (await once(worker, 'message')) as [unknown];
  return said;
}

const PROGRAM = "import { parentPort, workerData } from 'node:worker_threads';\n";

it('a source starts the source beside it', async () => {
  const said = await saidBeside('asks.ts', 'echo.ts', `${PROGRAM}parentPort?.postMessage(workerData as string);\n`);
  expect(said).toBe('what was given');
});

it('a built file starts the built one beside it', async () => {
  const said = await saidBeside('asks.js', 'echo.js', `${PROGRAM}parentPort.postMessage(workerData);\n`);
  expect(said).toBe('what was given');
});
