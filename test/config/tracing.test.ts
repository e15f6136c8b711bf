import { expect, it } from 'vitest';
import type { Config } from '../../src/config.ts';
import { configDirectory } from '../support/config-directory.ts';

const directory = configDirectory();

async function load(yaml: string, env: Record<string, string> = {}): Promise<Config['tracing']> {
  return (await directory.load(yaml, env)).tracing;
}

it('nothing is traced unless somebody says so', async () => {
  expect(await load('')).toEqual({ endpoint: undefined, sample: 0.1, propagate: false });
});

it('the variable of OpenTelemetry names the collector, and an empty one names none', async () => {
  const env = { OTEL_EXPORTER_OTLP_ENDPOINT: 'http://collector:4318/' };
  expect((await load('', env)).endpoint).toBe('http://collector:4318');
  expect((await load('', { OTEL_EXPORTER_OTLP_ENDPOINT: '' })).endpoint).toBeUndefined();
});

it.each([
  ['0', 0],
  ['1', 1],
  ['0.25', 0.25],
  ['"0.5"', 0.5],
  [`"\${SAMPLE}"`, 0.01],
])('a part of all requests: %s', async (given, sample) => {
  expect((await load(`tracing: { sample: ${given} }`, { SAMPLE: '0.01' })).sample).toBe(sample);
});

it.each([
  ['tracing: { sample: 2 }', 'tracing.sample: must be a number from 0 to 1'],
  ['tracing: { sample: -0.1 }', 'tracing.sample: must be a number from 0 to 1'],
  ['tracing: { sample: all }', 'tracing.sample: must be a number'],
  ['tracing: { endpoint: "collector:4318" }', 'tracing.endpoint: must be a http:// or https:// URL'],
  ['tracing: { endpoint: "http://user:secret@collector:4318" }', 'tracing.endpoint: must be a http:// or https:// URL'],
  ['tracing: { endpiont: null }', 'tracing.endpiont: is not a known key'],
])('%s is refused', async (yaml, problem) => {
  const refusal = load(yaml);
  await expect(refusal).rejects.toThrow(problem);
  await expect(refusal).rejects.not.toThrow('secret');
});
