import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { describe, expect, it } from 'vitest';

const source = path.join(import.meta.dirname, '..', 'src');

/** Which parts each part may know of. Whoever is not named here is a root and may see everything. */
const arrows: Record<string, readonly string[]> = {
  'changes.ts': [],
  'errors.ts': [],
  'installation.ts': [],
  'keyed-turns.ts': [],
  'logger.ts': ['request-lines.ts'],
  'request-lines.ts': [],
  'secret-source.ts': ['errors.ts'],
  'request-origin.ts': ['logger.ts', 'tracer.ts'],
  'threads.ts': [],
  'time-limit.ts': [],
  'tracer.ts': ['errors.ts'],
  'units.ts': [],
  'worker-file.ts': [],
  address: ['errors.ts'],
  configuration: ['address', 'errors.ts', 'logger.ts', 'worker-file.ts'],
  store: [
    'address',
    'changes.ts',
    'errors.ts',
    'keyed-turns.ts',
    'logger.ts',
    'threads.ts',
    'time-limit.ts',
    'worker-file.ts',
  ],
  cache: [
    'store',
    'address',
    'changes.ts',
    'errors.ts',
    'logger.ts',
    'request-origin.ts',
    'time-limit.ts',
    'tracer.ts',
  ],
  upstream: [
    'address',
    'errors.ts',
    'logger.ts',
    'request-origin.ts',
    'secret-source.ts',
    'threads.ts',
    'tracer.ts',
    'worker-file.ts',
  ],
  workers: ['store', 'errors.ts', 'logger.ts', 'time-limit.ts'],
  mirror: [
    'cache',
    'store',
    'upstream',
    'configuration',
    'address',
    'errors.ts',
    'keyed-turns.ts',
    'logger.ts',
    'request-origin.ts',
    'time-limit.ts',
    'tracer.ts',
  ],
  http: [
    'mirror',
    'configuration',
    'cache',
    'store',
    'address',
    'changes.ts',
    'errors.ts',
    'installation.ts',
    'logger.ts',
    'request-origin.ts',
    'time-limit.ts',
    'tracer.ts',
    'units.ts',
  ],
};

const files = readdirSync(source, { recursive: true, encoding: 'utf8' }).filter((file) => file.endsWith('.ts'));

function partOf(file: string): string {
  return file.split(path.sep)[0] ?? file;
}

function importsOf(file: string): string[] {
  const text = readFileSync(path.join(source, file), 'utf8');
  return [...text.matchAll(/from '(\.[^']+)'/g)].map(([, target]) =>
    path.relative(source, path.resolve(source, path.dirname(file), target ?? '')),
  );
}

describe('imports point one way', () => {
  it.each(files.filter((file) => arrows[partOf(file)]))('%s knows only what its layer may know', (file) => {
    const allowed = [partOf(file), ...(arrows[partOf(file)] ?? [])];
    expect(importsOf(file).filter((target) => !allowed.includes(partOf(target)))).toEqual([]);
  });

  it('only the configuration reads the environment', () => {
    const readers = files.filter((file) => readFileSync(path.join(source, file), 'utf8').includes('process.env'));
    expect(readers.filter((file) => !file.startsWith('cli') && partOf(file) !== 'config.ts')).toEqual([]);
  });

  it('a cache knows the ports of the stores, never an implementation', () => {
    const ports = ['archive-body.ts', 'archive-store.ts', 'leases.ts', 'metadata-store.ts', 'module-store.ts'];
    // What ports and their readers have in common, without any store behind it.
    const common = ['keys.ts', 'lent-memory.ts'];
    const known = [...ports, ...common].map((file) => path.join('store', file));
    const caches = files.filter((file) => partOf(file) === 'cache');
    const asked = caches.flatMap(importsOf).filter((target) => partOf(target) === 'store');
    expect(asked.filter((target) => !known.includes(target))).toEqual([]);
  });
});
