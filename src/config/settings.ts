import type { z } from 'zod';
import type { Hostname } from '../address/hostname.ts';
import type { ProviderPattern } from '../address/provider-pattern.ts';
import type { SecretOrigin } from '../secret-source.ts';
import type { AllowedVersion } from './cooldown.ts';
import type { GitHostConfig } from './modules.ts';
import type { RedisConfig } from './redis.ts';
import type { S3Config } from './s3.ts';
import type { schema } from './schema.ts';
import type { WarmSchedule } from './warm.ts';

/** What the schema makes of the files: not yet with absolute paths and defaults from the environment. */
export type Values = z.output<typeof schema>;

/** Variables by name. */
export type Environment = Readonly<Record<string, string | undefined>>;

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
  readonly listen: {
    readonly host: string;
    readonly port: number;
    /** How long everything is still served while `/readyz` says already that it will not be. */
    readonly drainDelay: number | undefined;
  };
  /** Processes that serve on the same port. */
  readonly workers: number;
  readonly tls:
    | { readonly mode: 'selfsigned' | 'off' }
    | { readonly mode: 'files'; readonly cert: string; readonly key: string };
  readonly publicUrl: string | undefined;
  readonly data: string;
  /** Where metadata rests, instead of in the data directory. */
  readonly redis: RedisConfig | undefined;
  /** Where archives and packages rest, instead of in the data directory. */
  readonly s3: S3Config | undefined;
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
  readonly tracing: {
    /** Base URL of a collector; `undefined`: nothing is traced. */
    readonly endpoint: string | undefined;
    /** Of requests that do not say themselves whether they are traced, from 0 to 1. */
    readonly sample: number;
    /** Whether upstreams are told where they belong in a trace. */
    readonly propagate: boolean;
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
