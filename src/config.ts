import { readFile } from 'node:fs/promises';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { Hostname } from './address/hostname.ts';
import { RedisAddress } from './address/redis-address.ts';
import { assemble } from './config/assemble.ts';
import { type KeyPath, type Layer, Origins, overlay } from './config/layers.ts';
import { checkFiles } from './config/named-files.ts';
import { Problems } from './config/problems.ts';
import { explain, schema } from './config/schema.ts';
import type { Config, Environment, Values } from './config/settings.ts';
import { readTokenVariables } from './config/token-variables.ts';
import { readYamlLayer } from './config/yaml-layer.ts';
import { installed } from './installation.ts';

export type { ClientToken, Config, UpstreamConfig } from './config/settings.ts';

const DEFAULTS = fileURLToPath(installed('config/default.yaml'));

/**
 * The defaults of `config/default.yaml`, over them the file (`file`, else `LARDER_CONFIG`), over that the shortcuts
 * PORT, REDIS_URL, LARDER_DATA, LARDER_WORKERS and LARDER_ADMIN_TOKEN.
 *
 * @param options.cwd where relative paths of the command line and the environment start
 * @throws InvalidConfiguration naming each problem with its file, line and key; never a value that may be secret
 */
export async function loadConfig(options: { file?: string; env: Environment; cwd: string }): Promise<Config> {
  const { env, cwd } = options;
  const problems = new Problems();
  const read = async (file: string, shown: string, directory: string): Promise<Layer> => {
    const text = await readConfigFile(file, shown, problems);
    return readYamlLayer({ text, file: shown, directory, env, problems, normaliseKey });
  };

  let layers = await read(DEFAULTS, 'config/default.yaml', cwd);
  const given = options.file ?? (env['LARDER_CONFIG'] || undefined);
  if (given !== undefined) {
    const file = path.resolve(cwd, given);
    const user = await read(file, given, path.dirname(file));
    refuseIdleRemovals(layers, user, problems);
    layers = overlay(layers, user, isHosts);
  }
  layers = withShortcuts(layers, env, cwd);

  const result = schema.safeParse(layers.value);
  for (const issue of result.error?.issues ?? []) {
    for (const { path: at, message } of explain(issue)) problems.add(at, message, layers.origins);
  }
  problems.throwIfAny();

  const values = result.data as Values;
  const fromVariables = readTokenVariables(env, new Set(Object.keys(values.upstreams.hosts)), problems);
  problems.throwIfAny();

  const config = {
    ...assemble(values, layers.origins, env, fromVariables.tokens),
    extraCa: await extraCaOf(env),
    ignoredTokens: fromVariables.ignored,
  };
  await checkFiles(config, layers.origins, problems);
  problems.throwIfAny();
  return frozen(config);
}

/** The gist of it for the start-up log, without secrets. */
export function describeConfig(config: Config): Record<string, unknown> {
  return {
    listen: `${config.listen.host}:${config.listen.port}`,
    workers: config.workers,
    tls: config.tls.mode,
    data: config.data,
    redis: config.redis ? String(RedisAddress.parse(config.redis.url)) : 'none',
    storage: config.s3 ? `s3 bucket ${config.s3.bucket}` : 'data directory',
    sealed: config.sealed,
    upstreams: config.upstreams.hosts.map(({ hostname }) => hostname.toString()),
    anonymous: config.access.anonymous,
    tokens: config.access.tokens.map(({ name }) => name),
    proxy: Boolean(config.proxy.http ?? config.proxy.https),
  };
}

async function readConfigFile(file: string, shown: string, problems: Problems): Promise<string> {
  try {
    return await readFile(file, 'utf8');
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    const why = code === 'ENOENT' ? 'there is no such file' : `it cannot be read (${code})`;
    problems.add([], why, { label: shown, directory: '' });
    problems.throwIfAny();
    throw error;
  }
}

/** Maps whose keys are hostnames. */
function isHosts(at: KeyPath): boolean {
  return at.length === 2 && ['upstreams.hosts', 'modules.git'].includes(at.join('.'));
}

function normaliseKey(at: KeyPath, key: string): string {
  return isHosts(at) ? Hostname.parse(key).toString() : key;
}

/** `host:` with nothing behind it is more often meant as "with default settings" than as "away with it". */
function refuseIdleRemovals(below: Layer, above: Layer, problems: Problems): void {
  const hostsOf = ({ value }: Layer) =>
    (value as { upstreams?: { hosts?: Record<string, unknown> | null } | null }).upstreams?.hosts ?? {};
  for (const [host, settings] of Object.entries(hostsOf(above))) {
    if (settings !== null || Object.hasOwn(hostsOf(below), host)) continue;
    const message = 'is empty: write {} for default settings (null removes a host, but this one is no default)';
    problems.add(['upstreams', 'hosts', host], message, above.origins);
  }
}

/** Adds what the shortcut variables say. Empty ones say nothing. */
function withShortcuts(below: Layer, env: Environment, cwd: string): Layer {
  const origins = new Origins();
  const said = <T>(variable: string, at: KeyPath, section: (text: string) => T): T | Record<string, never> => {
    const text = env[variable];
    if (!text) return {};
    origins.add(at, { label: variable, directory: cwd });
    return section(text);
  };
  const above: Layer = {
    value: {
      ...said('PORT', ['listen', 'port'], (port) => ({ listen: { port } })),
      ...said('LARDER_WORKERS', ['workers'], (workers) => ({ workers })),
      ...said('REDIS_URL', ['redis', 'url'], (url) => ({ redis: { url } })),
      ...said('LARDER_DATA', ['data'], (data) => ({ data })),
      ...said('OTEL_EXPORTER_OTLP_ENDPOINT', ['tracing', 'endpoint'], (endpoint) => ({ tracing: { endpoint } })),
    },
    origins,
  };
  const tokens = (below.value as { access?: { tokens?: unknown } })['access']?.tokens;
  const admin = Array.isArray(tokens)
    ? said('LARDER_ADMIN_TOKEN', ['access', 'tokens', tokens.length], (token) => ({
        access: { tokens: [...tokens, { name: 'admin', token, roles: ['read', 'admin'] }] },
      }))
    : {};
  return overlay(below, { ...above, value: { ...above.value, ...admin } }, isHosts);
}

/** Node itself warns of a file that it cannot read, and goes on. */
async function extraCaOf(env: Environment): Promise<string | undefined> {
  const file = env['NODE_EXTRA_CA_CERTS'];
  return file ? readFile(file, 'utf8').catch(() => undefined) : undefined;
}

function frozen<T>(value: T): T {
  if (typeof value !== 'object' || value === null || Object.isFrozen(value)) return value;
  Object.freeze(value);
  for (const inner of Object.values(value)) frozen(inner);
  return value;
}
