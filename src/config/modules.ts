import { z } from 'zod';
import { Hostname } from '../address/hostname.ts';
import { SECRET } from './token-variables.ts';

const hostname = z.string().transform((given, context): Hostname => {
  try {
    return Hostname.parse(given);
  } catch {
    context.addIssue({ code: 'custom', message: 'must be a host name, or HOST:PORT' });
    return z.NEVER;
  }
});

/** The keys of one entry of `modules.git`. */
const gitHost = z
  .strictObject({
    username: z
      .string()
      .regex(/^[^\s:]{1,200}$/, 'must not be empty, nor hold spaces or colons')
      .optional(),
    token: z.string().regex(SECRET, 'must not be empty, nor hold spaces, line breaks or non-ASCII letters').optional(),
    tokenFile: z.string().min(1, 'is empty').optional(),
    sshKey: z.string().min(1, 'is empty').optional(),
    knownHosts: z.string().min(1, 'is empty').optional(),
    registries: z.array(hostname).min(1, 'is empty: nothing could be fetched with it; leave it out').optional(),
  })
  .superRefine(({ username, token, tokenFile, sshKey, knownHosts }, context) => {
    const hasSecret = token !== undefined || tokenFile !== undefined;
    if (token !== undefined && tokenFile !== undefined) {
      context.addIssue({ code: 'custom', message: 'must have either token or tokenFile, not both' });
    }
    if (username !== undefined && !hasSecret) {
      context.addIssue({ code: 'custom', path: ['username'], message: 'is of use only with token or tokenFile' });
    }
    if (!hasSecret && sshKey === undefined && knownHosts === undefined) {
      context.addIssue({ code: 'custom', message: 'has no credentials: give token or tokenFile, or sshKey' });
    }
  });

/** The section `modules`, given how the other sections read sizes, durations and numbers. */
export function modulesSchema<
  Size extends z.ZodType<number>,
  Duration extends z.ZodType<number>,
  Count extends z.ZodType<number>,
>(kinds: { size: Size; duration: Duration; count: Count }) {
  const { size, duration, count } = kinds;
  return z.strictObject({
    unsupported: z.enum(['pass', 'refuse']),
    limits: z.strictObject({ download: size, unpacked: size, files: count, time: duration }),
    git: z.record(z.string(), gitHost),
  });
}

/** How one git host is asked. Paths are absolute. */
export interface GitHostConfig {
  /** `HOST[:PORT]` in comparison form. */
  readonly host: string;
  readonly username: string | undefined;
  readonly secret: { readonly token: string } | { readonly tokenFile: string } | undefined;
  readonly sshKey: string | undefined;
  readonly knownHosts: string | undefined;
  /** Registries, in comparison form, for whose modules the credentials are. `undefined`: all but the public ones. */
  readonly registries: readonly string[] | undefined;
}

/** @param absolute a file's path, from where the key that names it stands */
export function gitHostsOf(
  given: Readonly<Record<string, z.output<typeof gitHost>>>,
  absolute: (file: string, ...at: string[]) => string,
): GitHostConfig[] {
  return Object.entries(given).map(([host, { username, token, tokenFile, sshKey, knownHosts, registries }]) => {
    const file = (path: string, key: string) => absolute(path, 'modules', 'git', host, key);
    return {
      host: Hostname.parse(host).toString(),
      username,
      secret:
        token !== undefined
          ? { token }
          : tokenFile === undefined
            ? undefined
            : { tokenFile: file(tokenFile, 'tokenFile') },
      sshKey: sshKey === undefined ? undefined : file(sshKey, 'sshKey'),
      knownHosts: knownHosts === undefined ? undefined : file(knownHosts, 'knownHosts'),
      registries: registries?.map(String),
    };
  });
}

/** The files that git hosts need, with their keys. */
export function gitHostFiles(hosts: readonly GitHostConfig[]): [string[], string | undefined][] {
  return hosts.flatMap(({ host, secret, sshKey, knownHosts }): [string[], string | undefined][] => [
    [['modules', 'git', host, 'tokenFile'], secret && 'tokenFile' in secret ? secret.tokenFile : undefined],
    [['modules', 'git', host, 'sshKey'], sshKey],
    [['modules', 'git', host, 'knownHosts'], knownHosts],
  ]);
}
