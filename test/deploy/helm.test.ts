import { mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { beforeAll, expect, it } from 'vitest';
import { parse, parseDocument, stringify } from 'yaml';
import { loadConfig } from '../../src/config.ts';
import { afterTest } from '../support/after-test.ts';
import { CertificateAuthority } from '../support/certificates.ts';
import { HelmTemplates, type Scope } from '../support/helm-template.ts';
import { merged } from '../support/larder-setup.ts';
import { checkWorkload, type Manifest } from './manifests.ts';

const CHART = join(import.meta.dirname, '../../deploy/helm/larder');

let templates: HelmTemplates;
let names: readonly string[];
let values: Record<string, unknown>;
let chart: { readonly version: string; readonly appVersion: string };

beforeAll(async () => {
  const files = await readdir(join(CHART, 'templates'));
  names = files.filter((name) => name.endsWith('.yaml'));
  const texts = files.map(async (name) => [name, await readFile(join(CHART, 'templates', name), 'utf8')] as const);
  templates = new HelmTemplates(new Map(await Promise.all(texts)));
  values = parse(await readFile(join(CHART, 'values.yaml'), 'utf8')) as Record<string, unknown>;
  chart = parse(await readFile(join(CHART, 'Chart.yaml'), 'utf8')) as typeof chart;
});

function scope(over: Scope): Scope {
  return {
    Values: merged(values, over),
    Release: { Name: 'mirror', Namespace: 'tools', Service: 'Helm' },
    Chart: { Name: 'larder', Version: chart.version, AppVersion: chart.appVersion },
    Template: { BasePath: 'larder/templates' },
  };
}

function rendered(over: Scope = {}): Manifest[] {
  return names.flatMap((name) => {
    const text = templates.render(name, scope(over));
    if (text.trim() === '') return [];
    const document = parseDocument(text);
    expect(document.errors, `${name}:\n${text}`).toEqual([]);
    return [document.toJS() as Manifest];
  });
}

const kinds = (manifests: readonly Manifest[]) => manifests.map(({ kind }) => kind).sort();
const of = (manifests: readonly Manifest[], kind: string) => manifests.find((one) => one.kind === kind) as Manifest;

const SINGLE = {
  replicas: 1,
  redis: { secretName: '' },
  tls: { secretName: '' },
  persistence: { accessMode: 'ReadWriteOnce', storageClass: 'fast' },
};
const IN_A_BUCKET = {
  workers: 2,
  secretName: 'larder-secrets',
  persistence: { enabled: false },
  config: { s3: { bucket: 'mirror', redirect: true }, access: { tokens: [] } },
  serviceMonitor: { enabled: true, labels: { release: 'prometheus' } },
  podAnnotations: { 'example.com/team': 'platform' },
  nodeSelector: { disk: 'fast' },
  tolerations: [{ key: 'mirror', operator: 'Exists' }],
  image: { tag: '1.2.3', pullSecrets: [{ name: 'registry' }] },
};

it.each([
  ['as it is', {}],
  ['for one replica without Redis, behind an ingress', SINGLE],
  ['for a bucket', IN_A_BUCKET],
])('the chart can be rendered %s, and its pods are what they should be', (_name, over) => {
  const manifests = rendered(over);
  const deployment = of(manifests, 'Deployment');
  checkWorkload(deployment);
  const pod = deployment.spec.template?.spec;
  expect(pod?.terminationGracePeriodSeconds).toBeGreaterThan(25 + 5);
  const labels = deployment.spec.template?.metadata.labels;
  expect(of(manifests, 'Service').spec.selector).toEqual(labels);
  for (const { metadata } of manifests) {
    expect(metadata.name).toBe('mirror');
    expect(metadata.labels).toMatchObject({ ...labels, 'app.kubernetes.io/version': chart.appVersion });
  }
});

it('what is switched off is not there, and what is switched on is', () => {
  const usual = ['ConfigMap', 'Deployment', 'NetworkPolicy', 'PersistentVolumeClaim', 'PodDisruptionBudget', 'Service'];
  expect(kinds(rendered())).toEqual(usual);
  expect(kinds(rendered(IN_A_BUCKET))).toEqual([
    ...usual.filter((kind) => kind !== 'PersistentVolumeClaim'),
    'ServiceMonitor',
  ]);
  const less = { podDisruptionBudget: { enabled: false }, networkPolicy: { enabled: false } };
  expect(kinds(rendered(less))).toEqual(['ConfigMap', 'Deployment', 'PersistentVolumeClaim', 'Service']);
});

it('probes speak what Larder speaks', () => {
  const schemes = (over: Scope) => {
    const [container] = of(rendered(over), 'Deployment').spec.template?.spec.containers ?? [];
    return [container?.readinessProbe, container?.livenessProbe, container?.startupProbe].map(
      (probe) => probe?.httpGet?.scheme,
    );
  };
  expect(schemes({})).toEqual(['HTTPS', 'HTTPS', 'HTTPS']);
  expect(schemes(SINGLE)).toEqual(['HTTP', 'HTTP', 'HTTP']);
});

it('several replicas without Redis are refused', () => {
  expect(() => rendered({ redis: { secretName: '' } })).toThrow('several replicas need Redis');
});

it.each([
  ['as it is', {}],
  ['behind an ingress', SINGLE],
  ['for a bucket', IN_A_BUCKET],
])('the configuration that the chart makes can be used: %s', async (_name, over) => {
  const text = of(rendered(over), 'ConfigMap').data?.['larder.yaml'] ?? '';
  const config = parse(text) as { tls: { mode: string } };
  const directory = await mkdtemp(join(tmpdir(), 'larder-chart-'));
  afterTest(() => rm(directory, { recursive: true, force: true }));
  const { cert, key } = await (await CertificateAuthority.shared()).issue();
  const files = { cert: join(directory, 'tls.crt'), key: join(directory, 'tls.key') };
  await Promise.all([writeFile(files.cert, cert), writeFile(files.key, key)]);
  const tls = config.tls.mode === 'files' ? { ...config.tls, ...files } : config.tls;
  const file = join(directory, 'larder.yaml');
  await writeFile(file, stringify({ ...config, tls }));
  const [container] = of(rendered(over), 'Deployment').spec.template?.spec.containers ?? [];
  expect(container?.args).toEqual(['serve', '--config', '/etc/larder/larder.yaml']);
  const loaded = await loadConfig({ file, env: { LARDER_WORKERS: '2', PORT: '8443' }, cwd: directory });
  expect(loaded.workers).toBe(2);
  expect(loaded.tls.mode).toBe(config.tls.mode);
});

it('a value that the chart does not have is an error here', () => {
  const misspelt = new HelmTemplates(new Map([['one.yaml', 'replicas: {{ .Values.replica }}']]));
  expect(() => misspelt.render('one.yaml', scope({}))).toThrow('.Values.replica is not defined');
});
