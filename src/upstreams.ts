import { createPrivateKey, X509Certificate } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { CliCredentials } from './cli-credentials.ts';
import type { Config, UpstreamConfig } from './config.ts';
import { InvalidConfiguration } from './errors.ts';
import type { Logger } from './logger.ts';
import type { UpstreamRule } from './mirror/policy.ts';
import { secretSource } from './secret-source.ts';
import { whenUsable } from './upstream/credentials.ts';

/**
 * The configured upstreams with their files read.
 * @throws InvalidConfiguration when a certificate, a token file or the CLI configuration file cannot be used
 */
export async function loadUpstreamRules(
  { upstreams, programs }: Pick<Config, 'upstreams' | 'programs'>,
  { logger }: { logger: Logger },
): Promise<UpstreamRule[]> {
  const { hosts, cliConfig: file } = upstreams;
  const shared = file === undefined ? undefined : await CliCredentials.open({ file, programs, logger });
  return Promise.all(hosts.map((config) => loadRule(config, shared)));
}

async function loadRule(config: UpstreamConfig, shared: CliCredentials | undefined): Promise<UpstreamRule> {
  const { hostname, ca, clientCertificate, credentials } = config;
  const key = `upstreams.hosts."${hostname}"`;
  const own =
    credentials && !('forward' in credentials)
      ? secretSource(credentials, 'the token file of an upstream')
      : async () => undefined;
  await own();
  return {
    upstream: {
      hostname,
      token: credentials || !shared ? whenUsable(String(hostname), own) : () => shared.token(hostname),
      archiveHosts: new Set(config.archiveHosts),
      ca: ca === undefined ? undefined : await readCertificates(`${key}.ca`, ca),
      clientCertificate: clientCertificate && (await readKeyPair(`${key}.clientCertificate`, clientCertificate)),
      privateNetwork: config.privateNetwork,
      signatures: config.signatures,
    },
    include: config.include,
    exclude: config.exclude,
    forward: credentials !== undefined && 'forward' in credentials,
  };
}

const PEM_CERTIFICATE = /-----BEGIN (X509 |TRUSTED )?CERTIFICATE-----[^-]*-----END \1CERTIFICATE-----/g;

/** Node takes a file without any certificate as it is, and then trusts nothing of it, without a word. */
async function readCertificates(key: string, file: string): Promise<string> {
  const text = await readText(key, file);
  try {
    const [first, ...others] = text.match(PEM_CERTIFICATE) ?? [''];
    for (const certificate of [first, ...others]) new X509Certificate(certificate);
  } catch (cause) {
    throw new InvalidConfiguration(`${key}: ${file} holds no PEM certificate, or a damaged one`, { cause });
  }
  return text;
}

async function readKeyPair(
  key: string,
  files: { readonly cert: string; readonly key: string },
): Promise<{ cert: string; key: string }> {
  const pair = {
    cert: await readCertificates(`${key}.cert`, files.cert),
    key: await readText(`${key}.key`, files.key),
  };
  let belongsTogether: boolean;
  try {
    belongsTogether = new X509Certificate(pair.cert).checkPrivateKey(createPrivateKey(pair.key));
  } catch (cause) {
    throw new InvalidConfiguration(`${key}.key: ${files.key} holds no PEM private key that can be read`, { cause });
  }
  if (belongsTogether) return pair;
  throw new InvalidConfiguration(`${key}.key: ${files.key} is not the key of the first certificate in ${files.cert}`);
}

async function readText(key: string, file: string): Promise<string> {
  try {
    return await readFile(file, 'utf8');
  } catch (cause) {
    throw new InvalidConfiguration(`${key}: ${file} cannot be read`, { cause });
  }
}
