import { readFile } from 'node:fs/promises';
import type { Hostname } from './address/hostname.ts';
import { CliCredentials } from './cli-credentials.ts';
import type { Config, UpstreamConfig } from './config.ts';
import { hasCode, InvalidConfiguration, UpstreamUnreachable } from './errors.ts';
import type { Logger } from './logger.ts';
import type { UpstreamRule } from './mirror/policy.ts';
import { tokenSource } from './upstream/credentials.ts';

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
  const own = tokenSource(credentials && !('forward' in credentials) ? credentials : undefined);
  await own();
  return {
    upstream: {
      hostname,
      token: credentials || !shared ? usable(hostname, own) : () => shared.token(hostname),
      archiveHosts: new Set(config.archiveHosts),
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
    forward: credentials !== undefined && 'forward' in credentials,
  };
}

/** A token file that is away while a secret is being rotated is trouble that passes: what is remembered can stand in. */
function usable(hostname: Hostname, token: () => Promise<string | undefined>): () => Promise<string | undefined> {
  return async () => {
    try {
      return await token();
    } catch (error) {
      if (!hasCode(error, 'INVALID_CONFIGURATION')) throw error;
      throw new UpstreamUnreachable(String(hostname), 'connection', `is not asked: ${error.message}`, { cause: error });
    }
  };
}

async function readText(key: string, file: string): Promise<string> {
  try {
    return await readFile(file, 'utf8');
  } catch (cause) {
    throw new InvalidConfiguration(`${key}: ${file} cannot be read`, { cause });
  }
}
