import { existsSync } from 'node:fs';
import { readFile, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { connect } from 'node:tls';
import { parse, stringify } from 'yaml';
import type { LarderSetup } from '../test/support/larder-setup.ts';
import type { ProviderOptions } from '../test/support/published-provider.ts';
import { downloadAll } from './clients.ts';
import { type BuiltLarder, startBuiltLarder, startOn } from './larder.ts';
import { type StaticServer, startNginx } from './nginx.ts';
import { archivePath, OWN_PLATFORM, versionPath } from './published.ts';
import type { Upstream } from './upstream.ts';

const SETTLING_LIMIT_MS = 60_000;
/** For this long after a change Larder looks at the directory more closely. */
const QUIET_MS = 2_500;

/** A Larder that has everything asked for, and nginx on the same files. */
export interface WarmPair {
  readonly larder: BuiltLarder;
  readonly nginx: StaticServer;
  stop(): Promise<void>;
}

/** With all archives of these providers, and their hashes. @throws as `startFilledPair` does */
export function startWarmPair(upstream: Upstream, providers: readonly ProviderOptions[]): Promise<WarmPair> {
  return startFilledPair(upstream, async (larder) => {
    const paths = providers.flatMap((provider) =>
      (provider.platforms ?? [OWN_PLATFORM]).map((platform) => archivePath(provider, platform)),
    );
    await fetchAll(larder, paths);
    await packageHashesKnown(larder, providers);
  });
}

/** Has a Larder fetch what is at these paths of it. */
export function fetchAll({ url, setup }: BuiltLarder, paths: readonly string[]): Promise<void> {
  const urls = paths.map((path) => url + path);
  return downloadAll(urls, { caFile: setup.caFile }, 4);
}

/**
 * @param fill has Larder fetch everything that is asked for later
 * @throws if the two do not speak the same TLS version and cipher: then nothing could be compared
 */
export async function startFilledPair(
  upstream: Upstream,
  fill: (larder: BuiltLarder) => Promise<void>,
): Promise<WarmPair> {
  const larder = await startBuiltLarder(upstream);
  await fill(larder);
  await delay(QUIET_MS);
  const nginx = await startNginx(larder.setup);
  const [ours, theirs] = await Promise.all([cipherOf(larder.url, larder), cipherOf(nginx.url, larder)]);
  if (ours !== theirs) throw new Error(`Larder speaks ${ours} and nginx ${theirs}`);
  return {
    larder,
    nginx,
    stop: async () => {
      await nginx.stop();
      await larder.stop();
    },
  };
}

/**
 * The same files, served by both anew, with TLS or without it (what is left without the cost of the transport). Ends the
 * pair that was there.
 */
export async function restartPair(
  { larder, nginx: former }: WarmPair,
  upstream: Upstream,
  { isPlain }: { isPlain: boolean },
): Promise<WarmPair> {
  await former.stop();
  await larder.server.stop();
  const setup = isPlain ? await withoutTls(larder.setup) : larder.setup;
  const { url, server } = await startOn(setup, upstream);
  const nginx = await startNginx(setup, { isPlain }).catch(async (error: unknown) => {
    await server.stop();
    throw error;
  });
  const stop = async () => {
    await nginx.stop();
    await server.stop();
    await setup.remove();
  };
  return { larder: { url, server, setup, stop }, nginx, stop };
}

async function withoutTls(setup: LarderSetup): Promise<LarderSetup> {
  const configFile = join(dirname(setup.configFile), 'plain.yaml');
  const configuration = parse(await readFile(setup.configFile, 'utf8')) as Record<string, unknown>;
  await writeFile(configFile, stringify({ ...configuration, tls: { mode: 'off' } }));
  return { ...setup, configFile };
}

/** They are computed in the background once an archive is there, and are part of the documents. */
async function packageHashesKnown({ setup }: BuiltLarder, providers: readonly ProviderOptions[]): Promise<void> {
  const deadline = performance.now() + SETTLING_LIMIT_MS;
  for (const provider of providers) {
    const document = join(setup.dataDirectory, versionPath(provider));
    const platforms = provider.platforms?.length ?? 1;
    while (!existsSync(document) || count(await readFile(document, 'utf8'), '"h1:') < platforms) {
      if (performance.now() > deadline) throw new Error(`${document} is not complete`);
      await delay(50);
    }
  }
}

function count(text: string, part: string): number {
  return text.split(part).length - 1;
}

/** As negotiated with wrk and curl, which have OpenSSL's preferences like Node. */
async function cipherOf(url: string, { setup }: BuiltLarder): Promise<string> {
  const { hostname, port } = new URL(url);
  const ca = await readFile(join(dirname(setup.configFile), 'ca.pem'));
  return new Promise((resolve, reject) => {
    const socket = connect({ host: hostname, port: Number(port), servername: hostname, ca }, () => {
      resolve(`${socket.getProtocol()} ${socket.getCipher().name}`);
      socket.destroy();
    });
    socket.once('error', reject);
  });
}
