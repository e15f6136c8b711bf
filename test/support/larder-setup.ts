import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { stringify } from 'yaml';
import { afterTest } from './after-test.ts';
import { CertificateAuthority } from './certificates.ts';
import type { UpstreamRegistry } from './upstream-registry.ts';

export interface LarderSetupOptions {
  /** Registries it may ask, with their authority and on loopback. The first is the default one. */
  readonly registries?: readonly UpstreamRegistry[];
  /** Keys of the configuration file, laid over those that tests need. Objects are merged, everything else replaced. */
  readonly config?: Readonly<Record<string, unknown>>;
  /** Further names in its certificate. */
  readonly names?: readonly string[];
}

/** What a Larder needs on disk before it starts: configuration, certificates and a data directory, all temporary. */
export interface LarderSetup {
  /** YAML. */
  readonly configFile: string;
  readonly dataDirectory: string;
  /** PEM certificate that its clients have to trust. */
  readonly ca: string;
  /** The same in a file. */
  readonly caFile: string;
  remove(): Promise<void>;
}

const PUBLIC_REGISTRIES = ['registry.opentofu.org', 'registry.terraform.io'];

/**
 * Writes it. The same setup can be started again and again: that is a restart with the data kept. Made inside a test
 * it is removed at the end of it (after what was started later has been stopped).
 */
export async function larderSetup(options: LarderSetupOptions = {}): Promise<LarderSetup> {
  const directory = await mkdtemp(join(tmpdir(), 'larder-'));
  const file = (name: string) => join(directory, name);
  const authority = await CertificateAuthority.shared();
  const { cert, key } = await authority.issue(options.names);
  await Promise.all([
    writeFile(file('cert.pem'), cert),
    writeFile(file('key.pem'), key, { mode: 0o600 }),
    writeFile(file('ca.pem'), authority.pem),
    mkdir(file('data')),
  ]);

  const hosts: Record<string, unknown> = {};
  for (const [index, registry] of (options.registries ?? []).entries()) {
    const caFile = file(`upstream-${index}.pem`);
    await writeFile(caFile, registry.ca);
    hosts[registry.hostname] = { ca: caFile, privateNetwork: true };
  }
  const first = options.registries?.[0]?.hostname;
  // A test's Larder knows the registries of the test and no others: the built-in ones are taken away.
  if (first !== undefined) for (const name of PUBLIC_REGISTRIES) hosts[name] = null;
  const config = merged(
    {
      listen: { host: '127.0.0.1', port: 0 },
      tls: { mode: 'files', cert: file('cert.pem'), key: file('key.pem') },
      data: file('data'),
      upstreams: { ...(first === undefined ? {} : { default: first }), hosts },
      log: { level: 'debug', format: 'json' },
    },
    options.config ?? {},
  );
  await writeFile(file('larder.yaml'), stringify(config));

  const setup: LarderSetup = {
    configFile: file('larder.yaml'),
    dataDirectory: file('data'),
    ca: authority.pem,
    caFile: file('ca.pem'),
    remove: () => rm(directory, { recursive: true, force: true }),
  };
  afterTest(() => setup.remove());
  return setup;
}

/** A configuration laid over another one, as `config` above. */
export function merged(
  base: Record<string, unknown>,
  over: Readonly<Record<string, unknown>>,
): Record<string, unknown> {
  const result = { ...base };
  for (const [key, value] of Object.entries(over)) {
    const below = result[key];
    result[key] = isObject(below) && isObject(value) ? merged(below, value) : value;
  }
  return result;
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
