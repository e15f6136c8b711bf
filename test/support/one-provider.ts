import { afterTest } from './after-test.ts';
import type { PublishedPackage } from './published-provider.ts';
import { UpstreamRegistry } from './upstream-registry.ts';

/** An upstream that has acme/widget 1.0.0 for linux_amd64, of that size, and nothing else. It is stopped after the test. */
export async function startWithOneProvider(
  sizeBytes: number,
): Promise<{ registry: UpstreamRegistry; archive: PublishedPackage }> {
  const registry = await UpstreamRegistry.start();
  afterTest(() => registry.stop());
  const published = await registry.addProvider({ namespace: 'acme', type: 'widget', version: '1.0.0', sizeBytes });
  const archive = published.packages.get('linux_amd64');
  if (!archive) throw new Error('not published');
  return { registry, archive };
}
