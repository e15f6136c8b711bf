import { expect, vi } from 'vitest';
import { afterTest } from '../support/after-test.ts';
import { type HttpAnswer, HttpClient, type HttpOptions } from '../support/http.ts';
import { type Larder, startLarder } from '../support/larder.ts';
import type { LarderSetup } from '../support/larder-setup.ts';
import type { ProviderOptions, PublishedPackage, PublishedVersion } from '../support/published-provider.ts';
import { UpstreamRegistry } from '../support/upstream-registry.ts';

export const WIDGET = { namespace: 'acme', type: 'widget', version: '1.0.0' } as const;

/** Larder between a client and a scripted registry, with the requests that a client makes. */
export interface Scene {
  readonly registry: UpstreamRegistry;
  readonly larder: Larder;
  /** Any path of the server. */
  get(path: string, options?: HttpOptions): Promise<HttpAnswer>;
  /** `index.json` of a provider of the registry; `acme/widget` unless named. */
  index(provider?: string): Promise<HttpAnswer>;
  /** `VERSION.json`. */
  version(version: string, provider?: string): Promise<HttpAnswer>;
  /** An archive, by the name that Larder gives it. */
  archive(version?: string, platform?: string, options?: HttpOptions & { provider?: string }): Promise<HttpAnswer>;
  /** Resolves when an archive rests in the store: clients may have the last of it a little earlier. */
  stored(version?: string): Promise<void>;
  /** Messages of warnings that contain this text. */
  warnings(text: string): readonly string[];
}

export interface SceneOptions {
  readonly config?: Readonly<Record<string, unknown>>;
  readonly registry?: UpstreamRegistry;
  readonly setup?: LarderSetup;
  readonly env?: NodeJS.ProcessEnv;
  /** Published before Larder starts; version 1.0.0 of acme/widget unless given. */
  readonly providers?: readonly Partial<ProviderOptions>[];
}

/** Everything is taken down at the end of the test. */
export async function startScene(options: SceneOptions = {}): Promise<Scene> {
  const registry = options.registry ?? (await startRegistry());
  for (const provider of options.providers ?? (options.registry || options.setup ? [] : [{}])) {
    await registry.addProvider({ ...WIDGET, ...provider });
  }
  const { config, setup, env } = options;
  const larder = await startLarder({
    registries: [registry],
    ...(config && { config }),
    ...(setup && { setup }),
    ...(env && { env }),
  });
  const client = startClient(larder);
  const get = (path: string, more?: HttpOptions) => client.get(`${larder.url}${path}`, more);
  const file = (provider: string, name: string, more?: HttpOptions) =>
    get(`/providers/${registry.hostname}/${provider}/${name}`, more);
  const archive: Scene['archive'] = (
    version = '1.0.0',
    platform = 'linux_amd64',
    { provider = 'acme/widget', ...more } = {},
  ) => file(provider, archiveName(version, platform, provider.split('/')[1]), more);
  return {
    registry,
    larder,
    get,
    archive,
    stored: (version) =>
      eventually(
        async () => (await archive(version, 'linux_amd64', { method: 'HEAD' })).headers['last-modified'],
      ).toBeDefined(),
    index: (provider = 'acme/widget') => file(provider, 'index.json'),
    version: (version, provider = 'acme/widget') => file(provider, `${version}.json`),
    warnings: (text) =>
      larder.log
        .filter(({ level, message }) => level === 'warn' && message.includes(text))
        .map(({ message, fields }) => `${message} ${JSON.stringify(fields)}`),
  };
}

export async function startRegistry(
  options: Parameters<typeof UpstreamRegistry.start>[0] = {},
): Promise<UpstreamRegistry> {
  const registry = await UpstreamRegistry.start(options);
  afterTest(() => registry.stop());
  return registry;
}

export function startClient(larder: Larder): HttpClient {
  const client = new HttpClient({ ca: larder.ca });
  afterTest(() => client.close());
  return client;
}

export function archiveName(version: string, platform: string, type = 'widget'): string {
  return `terraform-provider-${type}_${version}_${platform}.zip`;
}

/** The versions that an index names, in its order. */
export function versionsIn(answer: HttpAnswer): string[] {
  expect(answer.status, answer.text()).toBe(200);
  return Object.keys(answer.json().versions);
}

/** The hashes of one platform in a VERSION.json. */
export function hashesIn(answer: HttpAnswer, platform = 'linux_amd64'): string[] {
  expect(answer.status, answer.text()).toBe(200);
  return answer.json().archives[platform]?.hashes;
}

/** The platforms of a VERSION.json. */
export function platformsIn(answer: HttpAnswer): string[] {
  expect(answer.status, answer.text()).toBe(200);
  return Object.keys(answer.json().archives);
}

export function packageOf(published: PublishedVersion, platform = 'linux_amd64'): PublishedPackage {
  const found = published.packages.get(platform);
  if (!found) throw new Error(`the test publishes no ${platform}`);
  return found;
}

/** Every byte of a published package. */
export function bytesOf({ bytes }: PublishedPackage): Buffer {
  if (!bytes) throw new Error('these bytes exist in name only');
  return Buffer.concat([...bytes.read(0, bytes.size)]);
}

/**
 * The wall clock stands still from now on and moves when told to: freshness, circuits and rests are tested without
 * waiting for them. Timers go on as ever. Call it before Larder starts.
 */
export function stoppedClock(): { advance(ms: number): void } {
  vi.useFakeTimers({ toFake: ['Date'], now: Date.now() });
  afterTest(async () => void vi.useRealTimers());
  return { advance: (ms) => void vi.setSystemTime(Date.now() + ms) };
}

/** What came back of a request that may break off. */
export async function outcomeOf(answer: Promise<HttpAnswer>): Promise<HttpAnswer | 'broken off'> {
  return answer.catch(() => 'broken off' as const);
}

/** For what is computed in the background, in a thread that may have to be started on a busy machine. */
export function eventually<T>(read: () => T) {
  return expect.poll(read, { timeout: 20_000, interval: 20 });
}
