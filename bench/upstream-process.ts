/*
 * The upstream: a registry, its archive host and the proxy that is the only way to both, in a process of their own.
 * Its one argument is a `UpstreamScript` in JSON. It says where it is in one line of JSON, and lives for as long as
 * its standard input is open.
 */
import { trickle } from '../test/support/faults.ts';
import { Internet } from '../test/support/internet.ts';
import { moduleTarGz } from '../test/support/module-archive.ts';
import { moduleArchiveUrl, type PublishedModule } from './published.ts';
import { sourceFiles } from './source-text.ts';
import type { UpstreamLocation, UpstreamScript } from './upstream.ts';

const script = JSON.parse(process.argv[2] ?? '') as UpstreamScript;
const internet = await Internet.start();
for (const provider of script.providers) await internet.registry.addProvider(provider);
for (const module of script.modules) publishModule(module);
internet.registry.latencyMs = script.latencyMs;
internet.registry.releases.on(/\.zip$/, trickle(script.bytesPerSecond));

const location: UpstreamLocation = { proxy: internet.proxy.url, ca: internet.registry.ca };
console.log(JSON.stringify(location));

process.stdin.resume();
process.stdin.once('end', () => process.exit());

function publishModule(module: PublishedModule): void {
  const url = moduleArchiveUrl(module);
  internet.registry.addModule({ ...module, location: url });
  internet.registry.addModuleArchive(new URL(url).pathname, moduleTarGz(sourceFiles(url, module.files)));
}
