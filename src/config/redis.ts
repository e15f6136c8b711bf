import { z } from 'zod';
import { RedisAddress } from '../address/redis-address.ts';
import { hasCode } from '../errors.ts';
import type { SecretOrigin } from '../secret-source.ts';
import type { KeyPath } from './layers.ts';

/** Where metadata rests that replicas share. Paths are absolute. */
export interface RedisConfig {
  readonly url: string;
  readonly ca: string | undefined;
  /** Instead of the password in the URL. */
  readonly passwordFile: string | undefined;
  /** What Sentinels themselves are told. */
  readonly sentinel: { readonly username: string | undefined; readonly password: SecretOrigin | undefined };
}

const url = z.unknown().transform((given, context): string => {
  const message = problemOf(given);
  if (message === undefined) return given as string;
  context.addIssue({ code: 'custom', message });
  return z.NEVER;
});

/** @param schemas those of single values that other sections have, too */
export function redisSchema({ text, secret }: { text: z.ZodString; secret: z.ZodString }) {
  return z
    .strictObject({
      url: url.nullable(),
      ca: text.nullable(),
      passwordFile: text.nullable(),
      sentinel: z.strictObject({
        username: text.nullable(),
        password: secret.nullable(),
        passwordFile: text.nullable(),
      }),
    })
    .superRefine(({ url, ca, passwordFile, sentinel }, context) => {
      const issue = (path: string[], message: string) => context.addIssue({ code: 'custom', path, message });
      if (sentinel.password !== null && sentinel.passwordFile !== null) {
        issue(['sentinel', 'password'], 'cannot go with passwordFile: only one of them');
      }
      const isAlone = ca === null && passwordFile === null && Object.values(sentinel).every((value) => value === null);
      if (url === null) {
        if (!isAlone) issue(['url'], 'is missing beside the other keys of redis');
        return;
      }
      const { isSecure, kind, password } = RedisAddress.parse(url);
      if (ca !== null && !isSecure) issue(['ca'], 'is for rediss:// URLs only');
      if (passwordFile !== null && password !== undefined) {
        issue(['passwordFile'], 'cannot go with a password in redis.url: only one of them');
      }
      if (kind !== 'sentinel' && Object.values(sentinel).some((value) => value !== null)) {
        issue(['sentinel'], 'is for redis+sentinel:// and rediss+sentinel:// URLs only');
      }
    });
}

/** `undefined` without a URL. */
export function redisConfigOf(
  { url, ca, passwordFile, sentinel }: z.output<ReturnType<typeof redisSchema>>,
  absolute: (file: string, ...at: KeyPath) => string,
): RedisConfig | undefined {
  if (url === null) return undefined;
  const { username, password, passwordFile: secretFile } = sentinel;
  return {
    url,
    ca: ca === null ? undefined : absolute(ca, 'redis', 'ca'),
    passwordFile: passwordFile === null ? undefined : absolute(passwordFile, 'redis', 'passwordFile'),
    sentinel: {
      username: username ?? undefined,
      password:
        password !== null
          ? { token: password }
          : secretFile === null
            ? undefined
            : { tokenFile: absolute(secretFile, 'redis', 'sentinel', 'passwordFile') },
    },
  };
}

/** Files that have to be there, by key. */
export function redisFiles(redis: RedisConfig | undefined): [KeyPath, string | undefined][] {
  const secret = redis?.sentinel.password;
  return [
    [['redis', 'ca'], redis?.ca],
    [['redis', 'passwordFile'], redis?.passwordFile],
    [['redis', 'sentinel', 'passwordFile'], secret && 'tokenFile' in secret ? secret.tokenFile : undefined],
  ];
}

/** Never quotes what is given: it may be a password. */
function problemOf(given: unknown): string | undefined {
  if (given === undefined) return 'is missing';
  try {
    RedisAddress.parse(String(given));
    return typeof given === 'string' ? undefined : 'must be a redis:// or rediss:// URL, or null';
  } catch (error) {
    if (!hasCode(error, 'INVALID_CONFIGURATION')) throw error;
    return error.message.startsWith('must be') ? `${error.message}, or null` : error.message;
  }
}
