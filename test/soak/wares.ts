import { createHash } from 'node:crypto';
import { moduleTarGz } from '../support/module-archive.ts';
import type { PublishedPackage, PublishedVersion } from '../support/published-provider.ts';
import type { UpstreamRegistry } from '../support/upstream-registry.ts';
import type { Random } from './random.ts';

const PROVIDERS = 12;
const VERSIONS = ['1.0.0', '1.1.0', '2.0.0-rc.1'];
const PLATFORMS = ['linux_amd64', 'darwin_arm64'];
const ARCHIVE_BYTES = [60_000, 700_000] as const;
const MODULES = 6;

/** One archive that clients ask for. */
export interface Ware {
  readonly published: PublishedVersion;
  readonly file: PublishedPackage;
  readonly bytes: Buffer;
}

export interface Wares {
  readonly archives: readonly Ware[];
  /** `NAMESPACE/NAME/SYSTEM`. */
  readonly modules: readonly string[];
  /** Of all archives together. */
  readonly bytes: number;
}

/** Publishes what the clients want. */
export async function publishAll(registry: UpstreamRegistry, random: Random): Promise<Wares> {
  const archives: Ware[] = [];
  for (let nth = 0; nth < PROVIDERS; nth += 1) {
    for (const version of VERSIONS) {
      const published = await registry.addProvider({
        namespace: 'acme',
        type: `soak${nth}`,
        version,
        platforms: PLATFORMS,
        sizeBytes: random.between(...ARCHIVE_BYTES),
      });
      for (const file of published.packages.values()) {
        archives.push({ published, file, bytes: Buffer.concat([...(file.bytes?.read(0, file.size) ?? [])]) });
      }
    }
  }
  const modules: string[] = [];
  for (let nth = 0; nth < MODULES; nth += 1) {
    const files = { 'main.tf': `# ${'x'.repeat(random.between(100, 20_000))}\n`, 'modules/a/main.tf': '# a\n' };
    const { url } = registry.addModuleArchive(`/modules/net${nth}.tar.gz`, moduleTarGz(files));
    registry.addModule({ namespace: 'acme', name: `net${nth}`, system: 'aws', version: '1.0.0', location: url });
    modules.push(`acme/net${nth}/aws`);
  }
  return { archives, modules, bytes: archives.reduce((sum, { bytes }) => sum + bytes.length, 0) };
}

export function sha256(bytes: Buffer): string {
  return createHash('sha256').update(bytes).digest('hex');
}
