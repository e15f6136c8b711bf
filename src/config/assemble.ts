import path from 'node:path';
import { Hostname } from '../address/hostname.ts';
import type { KeyPath, Origins } from './layers.ts';
import { gitHostsOf } from './modules.ts';
import { redisConfigOf } from './redis.ts';
import { s3ConfigOf } from './s3.ts';
import type { Config, Environment, UpstreamConfig, Values } from './settings.ts';

/** The settings as the program uses them: paths absolute from where they were written, secrets where they come from. */
export function assemble(
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
    listen: { ...values.listen, drainDelay: values.listen.drainDelay ?? undefined },
    publicUrl: values.publicUrl ?? undefined,
    data: absolute(values.data, 'data'),
    redis: redisConfigOf(values.redis, absolute),
    s3: s3ConfigOf(values.s3, absolute),
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
    tracing: { ...values.tracing, endpoint: values.tracing.endpoint ?? undefined },
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
