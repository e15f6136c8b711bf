import { mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { beforeAll, expect, it } from 'vitest';
import { parse, parseAllDocuments, stringify } from 'yaml';
import { loadConfig } from '../../src/config.ts';
import { afterTest } from '../support/after-test.ts';
import { CertificateAuthority } from '../support/certificates.ts';
import { checkWorkload, type Manifest } from './manifests.ts';

const DIRECTORY = join(import.meta.dirname, '../../deploy/kubernetes');

let names: readonly string[];
let manifests: readonly Manifest[];

beforeAll(async () => {
  const { resources } = parse(await readFile(join(DIRECTORY, 'kustomization.yaml'), 'utf8')) as { resources: string[] };
  names = resources;
  const texts = await Promise.all(names.map((name) => readFile(join(DIRECTORY, name), 'utf8')));
  manifests = texts.flatMap((text) =>
    parseAllDocuments(text).map((document) => {
      expect(document.errors).toEqual([]);
      return document.toJS() as Manifest;
    }),
  );
});

const of = (kind: string) => manifests.filter((manifest) => manifest.kind === kind);
const named = (kind: string, name: string) => of(kind).find(({ metadata }) => metadata.name === name);

it('every manifest is applied, but for the example of a secret', async () => {
  const files = (await readdir(DIRECTORY)).filter((name) => name !== 'kustomization.yaml');
  expect([...names, 'secret.example.yaml'].sort()).toEqual(files.sort());
});

it('pods run as nobody in particular, on a file system that is read-only, and get the time that they need to end', () => {
  expect(of('Deployment')).toHaveLength(2);
  for (const deployment of of('Deployment')) checkWorkload(deployment);
  const spec = named('Deployment', 'larder')?.spec.template?.spec;
  expect(spec?.terminationGracePeriodSeconds).toBeGreaterThan(25 + 5);
  const [container] = spec?.containers ?? [];
  expect(container?.readinessProbe?.httpGet).toMatchObject({ path: '/readyz', scheme: 'HTTPS' });
  expect(container?.livenessProbe?.httpGet).toMatchObject({ path: '/healthz', scheme: 'HTTPS' });
});

it('services, budgets and policies are about pods that there are', () => {
  const labels = of('Deployment').map(({ spec }) => spec.template?.metadata.labels ?? {});
  const selectors = [
    ...of('Service').map(({ spec }) => spec.selector),
    ...of('PodDisruptionBudget').map(({ spec }) => (spec.selector as { matchLabels: object }).matchLabels),
    ...of('NetworkPolicy').map(({ spec }) => spec.podSelector?.matchLabels),
  ];
  expect(selectors.length).toBeGreaterThanOrEqual(5);
  for (const selector of selectors) expect(labels).toContainEqual(expect.objectContaining(selector as object));
});

it('volumes, configuration and secrets that are mounted are there, or told of', async () => {
  const volumes = named('Deployment', 'larder')?.spec.template?.spec.volumes ?? [];
  for (const { persistentVolumeClaim, configMap } of volumes) {
    if (persistentVolumeClaim) expect(named('PersistentVolumeClaim', persistentVolumeClaim.claimName)).toBeDefined();
    if (configMap) expect(named('ConfigMap', configMap.name)).toBeDefined();
  }
  const example = parse(await readFile(join(DIRECTORY, 'secret.example.yaml'), 'utf8')) as Manifest;
  expect(example.metadata.name).toBe('larder');
});

it('the configuration in it can be used', async () => {
  const config = parse(named('ConfigMap', 'larder')?.data?.['larder.yaml'] ?? '') as { tls: object };
  const directory = await mkdtemp(join(tmpdir(), 'larder-manifests-'));
  afterTest(() => rm(directory, { recursive: true, force: true }));
  const { cert, key } = await (await CertificateAuthority.shared()).issue();
  const files = { cert: join(directory, 'tls.crt'), key: join(directory, 'tls.key') };
  await Promise.all([writeFile(files.cert, cert), writeFile(files.key, key)]);
  const file = join(directory, 'larder.yaml');
  await writeFile(file, stringify({ ...config, tls: { ...config.tls, ...files } }));
  const example = parse(await readFile(join(DIRECTORY, 'secret.example.yaml'), 'utf8')) as Manifest;
  // A token has no spaces; the example is not meant to be one.
  const env = Object.fromEntries(Object.keys(example.stringData ?? {}).map((name) => [name, 'a-token']));
  const loaded = await loadConfig({ file, env, cwd: directory });
  const redis = new URL(JSON.parse(JSON.stringify(config)).redis.url as string);
  expect(named('Service', redis.hostname)?.spec.ports).toContainEqual(
    expect.objectContaining({ port: Number(redis.port) }),
  );
  expect(loaded.access.tokens.map(({ name }) => name)).toEqual(['ops']);
});
