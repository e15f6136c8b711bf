import { readFile } from 'node:fs/promises';
import type { UpstreamConfig } from './config.ts';
import { InvalidConfiguration } from './errors.ts';
import type { UpstreamRule } from './mirror/policy.ts';
import { tokenSource } from './upstream/credentials.ts';

/**
 * The configured upstreams with their files read.
 * @throws InvalidConfiguration naming the key when a certificate or token file cannot be used
 */
export function loadUpstreamRules(hosts: readonly UpstreamConfig[]): Promise<UpstreamRule[]> {
  return Promise.all(hosts.map(loadRule));
}

async function loadRule(config: UpstreamConfig): Promise<UpstreamRule> {
  const { hostname, ca, clientCertificate, credentials } = config;
  const key = `upstreams.hosts."${hostname}"`;
  const token = tokenSource(credentials && !('forward' in credentials) ? credentials : undefined);
  await token();
  return {
    upstream: {
      hostname,
      token,
      ca: ca === undefined ? undefined : await readText(`${key}.ca`, ca),
      clientCertificate:
        clientCertificate === undefined
          ? undefined
          : {
              cert: await readText(`${key}.clientCertificate.cert`, clientCertificate.cert),
              key: await readText(`${key}.clientCertificate.key`, clientCertificate.key),
            },
      privateNetwork: config.privateNetwork,
      signatures: config.signatures,
    },
    include: config.include,
    exclude: config.exclude,
  };
}

async function readText(key: string, file: string): Promise<string> {
  try {
    return await readFile(file, 'utf8');
  } catch (cause) {
    throw new InvalidConfiguration(`${key}: ${file} cannot be read`, { cause });
  }
}
