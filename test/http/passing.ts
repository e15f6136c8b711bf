import { createHash } from 'node:crypto';
import { ProviderPattern } from '../../src/address/provider-pattern.ts';
import { Authenticator, type KnownToken } from '../../src/http/authenticate.ts';
import { Passthrough } from '../../src/mirror/passthrough.ts';
import { Policy, type UpstreamRule } from '../../src/mirror/policy.ts';
import { observedBy } from '../../src/upstream/observer.ts';
import { Relay } from '../../src/upstream/relay.ts';
import type { Services } from '../../src/upstream/service-discovery.ts';
import type { Upstream } from '../../src/upstream/upstream.ts';
import { type Handler, type ScriptedServer, serve, upstreamAt } from '../upstream/scripted-server.ts';
import { type Running, start } from './harness.ts';

/** Larder's own tokens in these tests, by name. */
export const OWN = { ci: 'larder-token-ci-31f0', acme: 'larder-token-acme-9d12' } as const;

export interface Passing extends Running {
  readonly upstream: ScriptedServer;
  /** `/registry/HOST` */
  readonly base: string;
  /** Failures that were counted: host and message. */
  readonly failures: string[];
}

export interface PassingOptions {
  /** By identifier; paths are on the upstream itself. */
  readonly services?: Services;
  readonly upstream?: Partial<Upstream>;
  readonly rule?: Partial<Pick<UpstreamRule, 'forward'>> & { include?: string[]; exclude?: string[] };
  readonly relay?: Partial<ConstructorParameters<typeof Relay>[0]>;
  readonly anonymous?: 'read' | 'none';
  readonly server?: Parameters<typeof serve>[1];
}

/** Larder in front of one registry that answers as the test says. */
export async function passing(handler: Handler, options: PassingOptions = {}): Promise<Passing> {
  const server = await serve(handler, options.server);
  const upstream = await upstreamAt(server.host, options.upstream);
  const patterns = (texts: readonly string[] = []) =>
    texts.map((text) => ProviderPattern.parse(`*/${text}`)).filter((pattern) => pattern !== undefined);
  const { forward = false, include, exclude } = options.rule ?? {};
  const policy = new Policy([{ upstream, include: patterns(include), exclude: patterns(exclude), forward }]);
  const failures: string[] = [];
  const relay = new Relay({
    proxy: {},
    observer: observedBy({
      ended: ({ host }, error) => {
        if (error !== undefined) failures.push(`${host}: ${error instanceof Error ? error.message : error}`);
      },
    }),
    ...options.relay,
  });
  const given = options.services ?? { 'modules.v1': '/v1/modules/', 'providers.v1': '/v1/providers/' };
  const services = Object.fromEntries(Object.entries(given).map(([id, url]) => [id, new URL(url, server.origin).href]));
  const passthrough = new Passthrough({ policy, upstreams: { services: async () => services }, relay });
  const known = (name: keyof typeof OWN, addresses?: string[]): KnownToken => ({
    name,
    roles: ['read'],
    digest: createHash('sha256').update(OWN[name]).digest(),
    addresses: addresses && patterns(addresses),
  });
  const running = await start(
    {},
    {
      passthrough,
      isForwarded: (hostname) => policy.forwards(hostname),
      upstreams: policy.hostnames,
      authenticator: new Authenticator({
        anonymous: options.anonymous ?? 'read',
        tokens: async () => [known('ci'), known('acme', ['acme/*'])],
      }),
    },
  );
  return { ...running, upstream: server, base: `/registry/${server.host}`, failures };
}
