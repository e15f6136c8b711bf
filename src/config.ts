import { access, constants, readFile, stat } from 'node:fs/promises';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import type { z } from 'zod';
import { Hostname } from './address/hostname.ts';
import type { ProviderPattern } from './address/provider-pattern.ts';
import type { AllowedVersion } from './config/cooldown.ts';
import { type KeyPath, type Layer, Origins, overlay } from './config/layers.ts';
import { type GitHostConfig, gitHostFiles, gitHostsOf } from './config/modules.ts';
import { Problems } from './config/problems.ts';
import { explain, schema } from './config/schema.ts';
import { readTokenVariables } from './config/token-variables.ts';
import type { WarmSchedule } from './config/warm.ts';
import { readYamlLayer } from './config/yaml-layer.ts';

type Values = z.output<typeof schema>;

/** A secret itself, or the absolute path of the file that holds it. */
export type SecretOrigin = { readonly token: string } | { readonly tokenFile: string };

/** One registry that may be asked. Paths are absolute. */
export interface UpstreamConfig {
  readonly hostname: Hostname;
  /** Its own, else the token of a TF_TOKEN_ variable. `forward`: the client's own token is passed on. */
  readonly credentials: SecretOrigin | { readonly forward: true } | undefined;
  /** `HOST[:PORT]` in comparison form: who else gets its token, for archives, SHA256SUMS and signatures. */
  readonly archiveHosts: readonly string[];
  readonly ca: string | undefined;
  readonly clientCertificate: { readonly cert: string; readonly key: string } | undefined;
  readonly privateNetwork: boolean;
  readonly signatures: 'require' | 'verify' | 'ignore';
  /** Of whatever host. Empty: everything. */
  readonly include: readonly ProviderPattern[];
  readonly exclude: readonly ProviderPattern[];
}

/** The `sha256` of a token (lower-case hex) is enough to recognise it. */
export type ClientToken = (SecretOrigin | { readonly sha256: string }) & {
  readonly name: string;
  readonly roles: readonly ('read' | 'admin')[];
  /** `undefined`: everything. */
  readonly addresses: readonly ProviderPattern[] | undefined;
};

/** All settings, checked and frozen. Durations in milliseconds, sizes in bytes, paths absolute. */
export interface Config {
  readonly listen: { readonly host: string; readonly port: number };
  readonly tls:
    | { readonly mode: 'selfsigned' | 'off' }
    | { readonly mode: 'files'; readonly cert: string; readonly key: string };
  readonly publicUrl: string | undefined;
  readonly data: string;
  readonly redis: { readonly url: string | undefined };
  readonly sealed: boolean;
  readonly upstreams: {
    readonly default: Hostname;
    readonly hosts: readonly UpstreamConfig[];
    /** A CLI configuration file, whose credentials serve upstreams without any of their own. */
    readonly cliConfig: string | undefined;
  };
  readonly access: {
    readonly anonymous: 'read' | 'none';
    readonly tokens: readonly ClientToken[];
    readonly links: { readonly lifetime: number };
  };
  readonly freshness: Readonly<Values['freshness']>;
  readonly limits: {
    readonly disk: number | undefined;
    readonly downloads: number;
    readonly metadataDeadline: number;
  };
  readonly cooldown: {
    /** `undefined`: no age is asked for. */
    readonly default: number | undefined;
    /** The first that matches counts. */
    readonly patterns: readonly { readonly address: ProviderPattern; readonly age: number | undefined }[];
    /** Versions that are there at any age. */
    readonly allow: readonly AllowedVersion[];
  };
  readonly warm: Readonly<Omit<Values['warm'], 'schedules'>> & { readonly schedules: readonly WarmSchedule[] };
  readonly modules: Readonly<Omit<Values['modules'], 'git'>> & {
    /** Git hosts that take credentials. */
    readonly git: readonly GitHostConfig[];
  };
  readonly log: Readonly<Omit<Values['log'], 'audit'>> & {
    /** The file of the audit log. */
    readonly audit: string | undefined;
  };
  /** HTTP_PROXY, HTTPS_PROXY and NO_PROXY as they stand. */
  readonly proxy: {
    readonly http: string | undefined;
    readonly https: string | undefined;
    readonly no: string | undefined;
  };
  /** Certificates that Node was told to trust beside its own (NODE_EXTRA_CA_CERTS), PEM. */
  readonly extraCa: string | undefined;
  /** Names of TF_TOKEN_ variables that are for none of the upstreams. */
  readonly ignoredTokens: readonly string[];
  /** HOME and PATH: where credentials helpers are looked for, and all they get to see of the environment. */
  readonly programs: { readonly home: string | undefined; readonly path: string | undefined };
}

type Environment = Readonly<Record<string, string | undefined>>;

/** Found from `src/` and from `dist/` alike. */
const DEFAULTS = fileURLToPath(new URL('../config/default.yaml', import.meta.url));

/**
 * The defaults of `config/default.yaml`, over them the file (`file`, else `LARDER_CONFIG`), over that the shortcuts
 * PORT, REDIS_URL, LARDER_DATA and LARDER_ADMIN_TOKEN.
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
  const redis = config.redis.url === undefined ? undefined : new URL(config.redis.url);
  return {
    listen: `${config.listen.host}:${config.listen.port}`,
    tls: config.tls.mode,
    data: config.data,
    redis: redis ? `${redis.protocol}//${redis.host}` : 'none',
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
      ...said('REDIS_URL', ['redis', 'url'], (url) => ({ redis: { url } })),
      ...said('LARDER_DATA', ['data'], (data) => ({ data })),
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

function assemble(
  values: Values,
  origins: Origins,
  env: Environment,
  tokenVariables: ReadonlyMap<string, string>,
): Omit<Config, 'extraCa' | 'ignoredTokens'> {
  const absolute = (file: string, ...at: KeyPath) => path.resolve(origins.of(at)?.directory ?? '', file);
  const secretOf = (given: { token?: string | undefined; tokenFile?: string | undefined }, at: KeyPath) =>
    given.token !== undefined
      ? { token: given.token }
      : { tokenFile: absolute(given.tokenFile ?? '', ...at, 'tokenFile') };

  const upstream = ([host, given]: [string, Values['upstreams']['hosts'][string]]): UpstreamConfig => {
    const at = ['upstreams', 'hosts', host];
    const { credentials, ca, clientCertificate: own } = given;
    const hasSecret = credentials?.token !== undefined || credentials?.tokenFile !== undefined;
    const variable = tokenVariables.get(host);
    return {
      ...given,
      hostname: Hostname.parse(host),
      credentials: hasSecret
        ? secretOf(credentials, [...at, 'credentials'])
        : credentials?.forward
          ? { forward: true }
          : variable !== undefined
            ? { token: variable }
            : undefined,
      archiveHosts: (credentials?.archiveHosts ?? []).map(String),
      ca: ca === undefined ? undefined : absolute(ca, ...at, 'ca'),
      clientCertificate: own && {
        cert: absolute(own.cert, ...at, 'clientCertificate', 'cert'),
        key: absolute(own.key, ...at, 'clientCertificate', 'key'),
      },
    };
  };

  const { mode, cert = '', key = '' } = values.tls;
  return {
    ...values,
    tls: mode === 'files' ? { mode, cert: absolute(cert, 'tls', 'cert'), key: absolute(key, 'tls', 'key') } : { mode },
    publicUrl: values.publicUrl ?? undefined,
    data: absolute(values.data, 'data'),
    redis: { url: values.redis.url ?? undefined },
    upstreams: {
      default: values.upstreams.default,
      hosts: Object.entries(values.upstreams.hosts).map(upstream),
      cliConfig:
        values.upstreams.cliConfig === null
          ? undefined
          : absolute(values.upstreams.cliConfig, 'upstreams', 'cliConfig'),
    },
    access: {
      ...values.access,
      tokens: values.access.tokens.map(({ name, roles, addresses, sha256, ...given }, index) => ({
        name,
        roles,
        addresses,
        ...(sha256 === undefined ? secretOf(given, ['access', 'tokens', index]) : { sha256 }),
      })),
    },
    log: { ...values.log, audit: values.log.audit === null ? undefined : absolute(values.log.audit, 'log', 'audit') },
    limits: { ...values.limits, disk: values.limits.disk ?? undefined },
    cooldown: {
      default: values.cooldown.default ?? undefined,
      patterns: values.cooldown.patterns.map(({ address, age }) => ({ address, age: age ?? undefined })),
      allow: values.cooldown.allow,
    },
    warm: {
      ...values.warm,
      schedules: values.warm.schedules.map(({ file, cron, platforms }, index) => ({
        file: absolute(file, 'warm', 'schedules', index, 'file'),
        cron,
        platforms,
      })),
    },
    modules: { ...values.modules, git: gitHostsOf(values.modules.git, absolute) },
    proxy: {
      http: env['http_proxy'] || env['HTTP_PROXY'] || undefined,
      https: env['https_proxy'] || env['HTTPS_PROXY'] || undefined,
      no: env['no_proxy'] || env['NO_PROXY'] || undefined,
    },
    programs: { home: env['HOME'] || undefined, path: env['PATH'] || undefined },
  };
}

/** Node itself warns of a file that it cannot read, and goes on. */
async function extraCaOf(env: Environment): Promise<string | undefined> {
  const file = env['NODE_EXTRA_CA_CERTS'];
  return file ? readFile(file, 'utf8').catch(() => undefined) : undefined;
}

/** A missing certificate is told now with its line, not at the first request that needs it. */
async function checkFiles(config: Config, origins: Origins, problems: Problems): Promise<void> {
  const files: [KeyPath, string | undefined][] = [];
  if (config.tls.mode === 'files') files.push([['tls', 'cert'], config.tls.cert], [['tls', 'key'], config.tls.key]);
  files.push([['upstreams', 'cliConfig'], config.upstreams.cliConfig]);
  for (const { hostname, ca, credentials, clientCertificate } of config.upstreams.hosts) {
    const at = ['upstreams', 'hosts', hostname.toString()];
    files.push([[...at, 'ca'], ca], [[...at, 'clientCertificate', 'cert'], clientCertificate?.cert]);
    files.push([[...at, 'clientCertificate', 'key'], clientCertificate?.key]);
    if (credentials && 'tokenFile' in credentials)
      files.push([[...at, 'credentials', 'tokenFile'], credentials.tokenFile]);
  }
  for (const [index, token] of config.access.tokens.entries()) {
    if ('tokenFile' in token) files.push([['access', 'tokens', index, 'tokenFile'], token.tokenFile]);
  }
  for (const [index, { file }] of config.warm.schedules.entries())
    files.push([['warm', 'schedules', index, 'file'], file]);
  files.push(...gitHostFiles(config.modules.git));
  for (const [at, file] of files) {
    if (file === undefined) continue;
    const why = await whyUnreadable(file);
    if (why) problems.add(at, why, origins);
  }
}

async function whyUnreadable(file: string): Promise<string | undefined> {
  try {
    await access(file, constants.R_OK);
    return (await stat(file)).isDirectory() ? `${file} is a directory` : undefined;
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    return code === 'ENOENT' ? `there is no file ${file}` : `${file} cannot be read (${code})`;
  }
}

function frozen<T>(value: T): T {
  if (typeof value !== 'object' || value === null || Object.isFrozen(value)) return value;
  Object.freeze(value);
  for (const inner of Object.values(value)) frozen(inner);
  return value;
}
