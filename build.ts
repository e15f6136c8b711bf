/*
 * Builds Larder into dist/, or into a new directory that is named: few files instead of the thousand modules that it and its packages consist of, since finding,
 * reading and linking each of them was most of a start. Types are not looked at here: `npm run typecheck` does.
 */
import { mkdir, rm, writeFile } from 'node:fs/promises';
import { resolve } from 'node:path';
import { build } from 'esbuild';

/** Threads are started from files of their own, beside the program: see src/worker-file.ts. */
const PROGRAMS = [
  'src/main.ts',
  'src/configuration/hcl-converter-worker.ts',
  'src/store/package-hash-worker.ts',
  'src/upstream/module-package/pack-worker.ts',
];

const REMAIN_PACKAGES = [
  // Native; a process of its own loads it by name.
  'lmdb',
  // LGPL: whoever runs Larder must be able to put another build of it in its place.
  'openpgp',
  // Optional: absent on some machines, loaded where they are configured.
  '@aws-sdk/*',
  '@cdktn/hcl2json',
  '@opentelemetry/*',
  // Loaded when a certificate is to be made.
  'selfsigned',
  // No package of ours: `debug` does without it, and what the tests bring along has no place in the result.
  'supports-color',
];

const [directory = 'dist'] = process.argv.slice(2);
const { metafile, outputFiles } = await build({
  absWorkingDir: import.meta.dirname,
  entryPoints: PROGRAMS,
  outdir: directory,
  // Below: a build that fails leaves what was built before.
  write: false,
  // Flat: what is found relative to a file directly in src/ is found from every file of the result as well.
  entryNames: '[name]',
  bundle: true,
  splitting: true,
  format: 'esm',
  platform: 'node',
  target: 'node20.19',
  external: REMAIN_PACKAGES,
  // Names stay: stack traces are read by people.
  minify: false,
  sourcemap: 'linked',
  sourcesContent: false,
  // Packages written as CommonJS ask for Node's own modules by it.
  banner: {
    js: "import { createRequire as __createRequire } from 'node:module'; const require = __createRequire(import.meta.url);",
  },
  logLevel: 'warning',
  metafile: true,
});

// The bundler leaves out the names of what a CommonJS package exports when it is imported while the program runs.
for (const [file, { imports }] of Object.entries(metafile.inputs)) {
  for (const { kind, path, external } of imports) {
    if (kind !== 'dynamic-import' || external || file.includes('node_modules') || !path.includes('node_modules'))
      continue;
    throw new Error(`${file} imports ${path} while it runs: name the package in REMAIN_PACKAGES`);
  }
}

const target = resolve(import.meta.dirname, directory);
// Nothing else is ever in it. Of what somebody names, nothing is removed.
if (directory === 'dist') await rm(target, { recursive: true, force: true });
await mkdir(target, { recursive: true });
// The program can be started by its name.
const modeOf = (text: string) => (text.startsWith('#!') ? 0o755 : 0o644);
await Promise.all(outputFiles.map(({ path, contents, text }) => writeFile(path, contents, { mode: modeOf(text) })));
