import { createRequire } from 'node:module';
import { pathToFileURL } from 'node:url';
import { Worker, type WorkerOptions } from 'node:worker_threads';

/**
 * Starts a thread with the program `name` that lies beside the file that asks for it, be that file built or source.
 * @param from `import.meta.url` of whoever asks
 * @param name of the program's file, without its ending
 */
export function startWorker(from: string, name: string, options: WorkerOptions = {}): Worker {
  if (!from.endsWith('.ts')) return new Worker(new URL(`./${name}.js`, from), options);
  // Run from the sources (tests, development), the thread has to learn to read TypeScript first.
  const tsxPackage = pathToFileURL(createRequire(import.meta.url).resolve('tsx/package.json'));
  const tsx = new URL('./dist/esm/api/index.mjs', tsxPackage).href;
  const program = new URL(`./${name}.ts`, from).href;
  const bootstrap = `import { register } from '${tsx}'; register(); await import('${program}');`;
  return new Worker(new URL(`data:text/javascript,${encodeURIComponent(bootstrap)}`), { ...options, execArgv: [] });
}
