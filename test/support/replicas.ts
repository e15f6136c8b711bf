import { afterTest } from './after-test.ts';
import { HttpClient, type HttpOptions } from './http.ts';
import { type LarderProcess, startLarderProcess } from './larder-process.ts';
import { type LarderSetup, type LarderSetupOptions, larderSetup, merged } from './larder-setup.ts';
import { startRedis, type TestRedis } from './redis.ts';
import { UpstreamRegistry } from './upstream-registry.ts';

/** What replicas share in a test: a registry, a Redis, a data directory. */
export interface Neighbourhood {
  readonly registry: UpstreamRegistry;
  readonly redis: TestRedis;
  readonly setup: LarderSetup;
  /** Another replica, with the same configuration and data directory. */
  start(): Promise<LarderProcess>;
  get(replica: LarderProcess, path: string, options?: HttpOptions): ReturnType<HttpClient['get']>;
}

/** Everything is stopped at the end of the test. @throws where there is no redis-server: use describeWith */
export async function neighbourhood(options: Pick<LarderSetupOptions, 'config'> = {}): Promise<Neighbourhood> {
  const [registry, redis] = await Promise.all([UpstreamRegistry.start(), startRedis()]);
  if (!redis) throw new Error('no redis-server');
  afterTest(async () => void (await Promise.all([registry.stop(), redis.stop()])));
  const config = merged({ redis: { url: redis.url } }, options.config ?? {});
  const setup = await larderSetup({ registries: [registry], config });
  const http = new HttpClient({ ca: setup.ca });
  afterTest(() => http.close());
  return {
    registry,
    redis,
    setup,
    start: () => startLarderProcess(setup),
    get: (replica, path, more) => http.get(`${replica.url}${path}`, more),
  };
}
