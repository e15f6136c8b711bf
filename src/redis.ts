import { readFile } from 'node:fs/promises';
import type { Config } from './config.ts';
import { InvalidConfiguration } from './errors.ts';
import type { SecretOrigin } from './secret-source.ts';
import type { RedisSettings } from './store/redis-link.ts';

/**
 * How Redis is reached; `undefined` where there is none. Password files are read at each connection, so that a rotated
 * password needs no restart; one that is no good now is told now.
 * @throws InvalidConfiguration when a file cannot be read, or holds no password
 */
export async function redisSettings({ redis }: Pick<Config, 'redis'>): Promise<RedisSettings | undefined> {
  if (!redis) return undefined;
  const { url, ca, passwordFile, sentinel } = redis;
  const passwordOf = async (origin: SecretOrigin | undefined, key: string) => {
    if (!origin) return undefined;
    const read = async () => ('token' in origin ? origin.token : passwordIn(origin.tokenFile, key));
    await read();
    return read;
  };
  return {
    url,
    ca: ca === undefined ? undefined : await textOf(ca, 'redis.ca'),
    password: await passwordOf(
      passwordFile === undefined ? undefined : { tokenFile: passwordFile },
      'redis.passwordFile',
    ),
    sentinel: {
      username: sentinel.username,
      password: await passwordOf(sentinel.password, 'redis.sentinel.passwordFile'),
    },
  };
}

/** Unlike tokens, passwords may hold spaces: only the end of the line is none of it. */
async function passwordIn(file: string, key: string): Promise<string> {
  const password = (await textOf(file, key)).replace(/\r?\n$/, '');
  if (password === '') throw new InvalidConfiguration(`${key} is empty`);
  return password;
}

function textOf(file: string, key: string): Promise<string> {
  return readFile(file, 'utf8').catch((cause: unknown) => {
    throw new InvalidConfiguration(`${key} cannot be read`, { cause });
  });
}
