import { expect, it } from 'vitest';
import { parseSha256 } from '../../src/address/hash.ts';
import { ModuleAddress, ModuleRelease } from '../../src/address/module.ts';
import { Version } from '../../src/address/version.ts';
import { silentLogger } from '../../src/logger.ts';
import { DriftReports } from '../../src/mirror/drift.ts';
import type { ModuleSources } from '../../src/mirror/module-sources.ts';
import { MovedModules } from '../../src/mirror/moved-modules.ts';
import type { ModuleStore, StoredPackage } from '../../src/store/module-store.ts';
import { upstreamAt } from '../upstream/scripted-server.ts';

function stored(version: string): StoredPackage {
  return {
    release: new ModuleRelease(ModuleAddress.parse('registry.example.com/acme/net/aws'), Version.parse(version)),
    storedAt: new Date(0),
    sha256: parseSha256('0'.repeat(64)),
    size: 1,
    subdir: '',
    source: 'https://registry.example.com/net.tar.gz',
    fingerprint: 'first',
  };
}

it('a Larder that stops waits for the look that is under way, and begins none of those that wait', async () => {
  const upstream = await upstreamAt('registry.example.com');
  const looked: string[] = [];
  let begun = () => {};
  const first = new Promise<void>((resolve) => {
    begun = resolve;
  });
  const hasMoved: ModuleSources['hasMoved'] = (_upstream, { release }, signal) => {
    looked.push(release.version.toString());
    begun();
    return new Promise((_resolve, reject) => signal.addEventListener('abort', () => reject(signal.reason)));
  };
  const moved = new MovedModules({
    sources: { hasMoved } as ModuleSources,
    store: {} as ModuleStore,
    drift: new DriftReports({ logger: silentLogger }),
    everyMs: 1,
    timeLimitMs: 60_000,
    isSealed: () => false,
    logger: silentLogger,
  });
  for (const version of ['1.0.0', '1.1.0', '1.2.0']) moved.check(upstream, stored(version));
  await first;
  await moved.close();
  expect(looked).toEqual(['1.0.0']);
});
