import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { parse } from 'yaml';
import { programDirectory } from './support/built-program.ts';

const ROOT = join(import.meta.dirname, '..');
const text = (name: string) => readFileSync(join(ROOT, name), 'utf8');

interface Service {
  readonly [key: string]: unknown;
  readonly build?: string;
  readonly profiles?: readonly string[];
  readonly image?: string;
  readonly ports?: readonly string[];
  readonly environment?: Readonly<Record<string, string>>;
  readonly volumes?: readonly string[];
  readonly depends_on?: Readonly<Record<string, { condition: string }>>;
  readonly healthcheck?: Readonly<Record<string, unknown>>;
}

const compose = parse(text('docker-compose.yml')) as {
  services: Record<string, Service>;
  volumes: Record<string, unknown>;
};
const services = Object.entries(compose.services);
const sources = new Map(
  readdirSync(join(ROOT, 'src'), { recursive: true, encoding: 'utf8' })
    .filter((file) => file.endsWith('.ts'))
    .map((file) => [file, text(join('src', file))]),
);
const instructions = dockerfile(text('Dockerfile'));
const settings = parse(text('config/default.yaml')) as { listen: { port: number } };
const configuration = ['config.ts', 'config/schema.ts'].map((name) => text(`src/${name}`)).join('\n');

// The keys of the compose specification that we use; a misspelt one is an error there.
const TOP_LEVEL = ['services', 'volumes', 'networks'];
const OF_SERVICES = [
  ...['build', 'image', 'command', 'ports', 'environment', 'volumes', 'read_only', 'tmpfs', 'depends_on'],
  ...['healthcheck', 'restart', 'stop_grace_period', 'user', 'cap_drop', 'security_opt', 'profiles'],
];
const OF_HEALTH_CHECKS = ['test', 'interval', 'timeout', 'retries', 'start_period'];

it('docker-compose.yml holds known keys only, and each service is built or pulled', () => {
  expect(TOP_LEVEL).toEqual(expect.arrayContaining(Object.keys(compose)));
  for (const [name, service] of services) {
    expect(OF_SERVICES, name).toEqual(expect.arrayContaining(Object.keys(service)));
    expect(OF_HEALTH_CHECKS, name).toEqual(expect.arrayContaining(Object.keys(service.healthcheck ?? {})));
    expect(
      [service.build, service.image].filter((source) => source !== undefined),
      name,
    ).toHaveLength(1);
    if (service.build !== undefined) expect(existsSync(join(ROOT, service.build, 'Dockerfile')), name).toBe(true);
  }
});

it('services depend on services that exist, and wait only for health that is checked', () => {
  for (const [name, { depends_on = {} }] of services) {
    for (const [other, { condition }] of Object.entries(depends_on)) {
      expect(compose.services, name).toHaveProperty([other]);
      if (condition !== 'service_healthy') continue;
      const isBuilt = compose.services[other]?.build !== undefined;
      // What we build says itself how its health is seen.
      if (isBuilt) expect(instructions.map(({ name: instruction }) => instruction)).toContain('HEALTHCHECK');
      else expect(compose.services[other], other).toHaveProperty('healthcheck');
    }
  }
});

it('named volumes are declared, and all that are declared are used', () => {
  const used = services.flatMap(([, { volumes = [] }]) => volumes.map((volume) => volume.split(':')[0] ?? ''));
  const named = used.filter((volume) => !/^[./]/.test(volume));
  expect(Object.keys(compose.volumes).sort()).toEqual([...new Set(named)].sort());
});

it('what compose tells Larder is what Larder listens to', () => {
  const larder = compose.services['larder'];
  for (const variable of Object.keys(larder?.environment ?? {})) expect(configuration).toContain(`'${variable}'`);
  expect(new URL(larder?.environment?.['REDIS_URL'] ?? '').hostname).toSatisfy((host: string) =>
    Object.hasOwn(compose.services, host),
  );
  // Nobody has to set it: an empty one is none.
  expect(larder?.environment?.['LARDER_ADMIN_TOKEN']).toBe('${LARDER_ADMIN_TOKEN:-}');
  const inside = (larder?.ports ?? []).map((port) => Number(port.split(':').at(-1)));
  expect(inside).toEqual([settings.listen.port]);
  expect(exposed()).toEqual([settings.listen.port]);
  // Its root file system is read-only: what it keeps has to lie on the volume.
  const mounted = (larder?.volumes ?? []).map((volume) => volume.split(':')[1]);
  expect(mounted).toContain(environment()['LARDER_DATA']);
});

it('the image is made of files that exist, and the program needs no others', () => {
  const copied = instructions
    .filter(({ name, words }) => name === 'COPY' && !words.some((word) => word.startsWith('--from=')))
    .flatMap(({ words }) => words.slice(0, -1));
  for (const source of copied) expect(existsSync(join(ROOT, source)), source).toBe(true);
  const last = instructions.findLastIndex(({ name }) => name === 'FROM');
  const inImage = instructions
    .slice(last)
    .filter(({ name }) => name === 'COPY')
    .flatMap(({ words }) => words.slice(0, -1).map((word) => word.replace(/^\/larder\//, '')));
  expect(inImage).toEqual(expect.arrayContaining(['dist', 'node_modules', 'config', 'assets', 'package.json']));
  const manifest = JSON.parse(text('package.json')) as { bin: Record<string, string> };
  expect(instructions.find(({ name }) => name === 'ENTRYPOINT')?.words).toEqual([
    'tini',
    '--',
    'node',
    expect.stringContaining('--'),
    manifest.bin['larder'],
  ]);
});

it('what the image is made of is sent to whoever builds it', () => {
  const kept = text('.dockerignore')
    .split('\n')
    .filter((line) => line.startsWith('!'));
  const copied = instructions
    .filter(({ name, words }) => name === 'COPY' && !words.some((word) => word.startsWith('--from=')))
    .flatMap(({ words }) => words.slice(0, -1).map((word) => word.replace(/^\.\//, '')));
  expect(text('.dockerignore').split('\n')[0]).toBe('*');
  for (const source of copied) {
    expect(
      kept.some((line) => source === line.slice(1) || source.startsWith(`${line.slice(1)}/`)),
      source,
    ).toBe(true);
  }
});

it('what the program reads beside its code is in the image', () => {
  const read = [...sources.values()].flatMap((source) =>
    [...source.matchAll(/\binstalled\('([^']+)'\)/g)].map(([, path = '']) => path.split('/')[0]),
  );
  expect(read.sort()).toEqual(['assets', 'config', 'package.json']);
  const last = instructions.slice(instructions.findLastIndex(({ name }) => name === 'FROM'));
  const present = last.filter(({ name }) => name === 'COPY').flatMap(({ words }) => words);
  expect(present).toEqual(expect.arrayContaining(read));
});

it('no other file is looked for beside a source: built, there is another one in its place', () => {
  const looking = [...sources].filter(([, source]) => /new URL\(\s*['`]\.\.?\//.test(source));
  // Which know where they will be.
  expect(looking.map(([file]) => file).sort()).toEqual(['installation.ts', 'worker-file.ts']);
});

it('every thread that the sources start has its program beside the built one', async () => {
  const threads = [...sources.values()].flatMap((source) =>
    [...source.matchAll(/startWorker\(import\.meta\.url, '([^']+)'/g)].map(([, name]) => name),
  );
  expect(threads.length).toBeGreaterThan(0);
  const built = readdirSync(join(await programDirectory(), 'dist'));
  expect(built).toEqual(expect.arrayContaining(threads.map((name) => `${name}.js`)));
});

it('what is built holds no package that development alone needs: it would come without its licence', async () => {
  const dist = join(await programDirectory(), 'dist');
  const maps = readdirSync(dist).filter((file) => file.endsWith('.map'));
  const files = maps.flatMap(
    (file) => (JSON.parse(readFileSync(join(dist, file), 'utf8')) as { sources: string[] }).sources,
  );
  const held = new Set(
    files.flatMap((file) => /node_modules\/(?:.*node_modules\/)?(?:@[^/]+\/)?[^/]+/.exec(file) ?? []),
  );
  expect(held).toContain('node_modules/express');
  const { packages } = JSON.parse(text('package-lock.json')) as { packages: Record<string, { dev?: true }> };
  expect([...held].filter((name) => packages[name]?.dev !== undefined)).toEqual([]);
});

it('the image has the optional packages', () => {
  const install = instructions.find(({ name, words }) => name === 'RUN' && words.includes('ci'));
  expect(install?.words).toContain('--include=optional');
  expect(install?.words.join(' ')).not.toMatch(/--omit[= ]optional/);
});

it('files that services are given exist', () => {
  for (const [name, { volumes = [] }] of services) {
    for (const volume of volumes.filter((one) => one.startsWith('./'))) {
      expect(existsSync(join(ROOT, volume.split(':')[0] ?? '')), `${name}: ${volume}`).toBe(true);
    }
  }
});

it('the image runs a Node that the program is made for, and not as root', () => {
  const { engines } = JSON.parse(text('package.json')) as { engines: { node: string } };
  const [, least] = /^>=(\d+)/.exec(engines.node) ?? [];
  for (const { words } of instructions.filter(({ name }) => name === 'FROM')) {
    const [, major] = /^node:(\d+)/.exec(words[0] ?? '') ?? [];
    expect(Number(major)).toBeGreaterThanOrEqual(Number(least));
  }
  expect(instructions.findLast(({ name }) => name === 'USER')?.words).not.toContain('root');
});

it('the image brings what it takes to fetch modules from repositories', () => {
  const installed = instructions.filter(({ name }) => name === 'RUN').flatMap(({ words }) => words);
  expect(installed).toEqual(expect.arrayContaining(['git', 'openssh-client', 'ca-certificates', 'tini']));
});

it('compose gives Larder longer to stop than Larder takes', () => {
  const [, answersSeconds] = /DRAIN_MS = (\d+)_000/.exec(text('src/app.ts')) ?? [];
  const [, delaySeconds] = /drainDelay: (\d+)s/.exec(text('config/default.yaml')) ?? [];
  const drainSeconds = Number(answersSeconds) + Number(delaySeconds);
  const [, graceSeconds] = /^(\d+)s$/.exec(String(compose.services['larder']?.['stop_grace_period'])) ?? [];
  expect(Number(graceSeconds)).toBeGreaterThan(drainSeconds);
});

function exposed(): number[] {
  return instructions.filter(({ name }) => name === 'EXPOSE').flatMap(({ words }) => words.map(Number));
}

function environment(): Record<string, string> {
  const pairs = instructions.filter(({ name }) => name === 'ENV').flatMap(({ words }) => words);
  return Object.fromEntries(pairs.map((pair) => pair.split('=') as [string, string]));
}

/** Instructions in order; the exec form's JSON and the plain form's words come out alike. */
function dockerfile(source: string): { name: string; words: string[] }[] {
  const lines = source.replace(/\\\n/g, ' ').split('\n');
  return lines
    .filter((line) => line.trim() !== '' && !line.startsWith('#'))
    .map((line) => {
      const [, name = '', rest = ''] = /^([A-Z]+)\s+(.*)$/.exec(line) ?? [];
      const words = rest.startsWith('[') ? (JSON.parse(rest) as string[]) : rest.split(/\s+/);
      return { name, words };
    });
}
