import { createReadStream } from 'node:fs';
import { mkdir, stat, writeFile } from 'node:fs/promises';
import { join, normalize } from 'node:path';
import { reply } from './faults.ts';
import { Origin } from './origin.ts';
import type { PublishedVersion } from './published-provider.ts';

/** Serves a directory over HTTPS and knows nothing of what lies in it: a static network mirror, as nginx would. */
export function serveDirectory(directory: string): Promise<Origin> {
  return Origin.start(async ({ path }) => {
    const file = join(directory, normalize(decodeURIComponent(path.replace(/\?.*/, ''))));
    const found = await stat(file).catch(() => undefined);
    if (!found?.isFile()) return reply(404, 'not here\n');
    const type = file.endsWith('.json') ? 'application/json' : 'application/octet-stream';
    return { status: 200, headers: { 'content-type': type }, body: createReadStream(file), length: found.size };
  });
}

/** Writes a published version into a static network mirror, under the name of a registry. */
export async function writeStaticMirror(directory: string, hostname: string, version: PublishedVersion): Promise<void> {
  const base = join(directory, hostname, version.namespace, version.type);
  const archives: Record<string, unknown> = {};
  await mkdir(base, { recursive: true });
  for (const { platform, filename, bytes, zh, size } of version.packages.values()) {
    if (bytes) await writeFile(join(base, filename), Buffer.concat([...bytes.read(0, size)]));
    archives[platform] = { url: filename, hashes: [zh] };
  }
  await writeFile(join(base, 'index.json'), JSON.stringify({ versions: { [version.version]: {} } }));
  await writeFile(join(base, `${version.version}.json`), JSON.stringify({ archives }));
}
