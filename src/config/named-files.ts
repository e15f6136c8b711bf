import { access, constants, stat } from 'node:fs/promises';
import type { KeyPath, Origins } from './layers.ts';
import { gitHostFiles } from './modules.ts';
import type { Problems } from './problems.ts';
import { redisFiles } from './redis.ts';
import type { Config } from './settings.ts';

/** A missing certificate is told now with its line, not at the first request that needs it. */
export async function checkFiles(config: Config, origins: Origins, problems: Problems): Promise<void> {
  const files: [KeyPath, string | undefined][] = [];
  if (config.tls.mode === 'files') files.push([['tls', 'cert'], config.tls.cert], [['tls', 'key'], config.tls.key]);
  files.push([['upstreams', 'cliConfig'], config.upstreams.cliConfig]);
  for (const { hostname, ca, credentials, clientCertificate } of config.upstreams.hosts) {
    const at = ['upstreams', 'hosts', hostname.toString()];
    files.push([[...at, 'ca'], ca], [[...at, 'clientCertificate', 'cert'], clientCertificate?.cert]);
    files.push([[...at, 'clientCertificate', 'key'], clientCertificate?.key]);
    if (credentials && 'tokenFile' in credentials)
      files.push([[...at, 'credentials', 'tokenFile'], credentials.tokenFile]);
  }
  files.push(...redisFiles(config.redis));
  const s3Secret = config.s3?.credentials?.secret;
  if (s3Secret && 'tokenFile' in s3Secret) files.push([['s3', 'secretAccessKeyFile'], s3Secret.tokenFile]);
  for (const [index, token] of config.access.tokens.entries()) {
    if ('tokenFile' in token) files.push([['access', 'tokens', index, 'tokenFile'], token.tokenFile]);
  }
  for (const [index, { file }] of config.warm.schedules.entries())
    files.push([['warm', 'schedules', index, 'file'], file]);
  files.push(...gitHostFiles(config.modules.git));
  for (const [at, file] of files) {
    if (file === undefined) continue;
    const why = await whyUnreadable(file);
    if (why) problems.add(at, why, origins);
  }
}

async function whyUnreadable(file: string): Promise<string | undefined> {
  try {
    await access(file, constants.R_OK);
    return (await stat(file)).isDirectory() ? `${file} is a directory` : undefined;
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    return code === 'ENOENT' ? `there is no file ${file}` : `${file} cannot be read (${code})`;
  }
}
