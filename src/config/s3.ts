import { z } from 'zod';
import type { SecretOrigin } from '../secret-source.ts';
import type { KeyPath } from './layers.ts';

/** Letters, digits, dots and dashes; what AWS allows, and older servers besides. */
const BUCKET = /^[A-Za-z0-9][A-Za-z0-9._-]{1,61}[A-Za-z0-9]$/;
/** What keys can hold without being written in another way in a URL, and no part that is `.` or `..`. */
const PREFIX = /^(?!(?:.*\/)?\.{1,2}(?:\/|$))[\w.!'()*-]+(?:\/[\w.!'()*-]+)*$/;
const ACCESS_KEY_ID = /^[\x21-\x7e]+$/;

/** A bucket instead of `providers/` and `modules/` in the data directory. */
export interface S3Config {
  readonly bucket: string;
  /** Empty, or with `/` at its end. */
  readonly prefix: string;
  readonly region: string | undefined;
  readonly endpoint: string | undefined;
  readonly pathStyle: boolean;
  /** `undefined`: where the SDK looks for them by itself. */
  readonly credentials: { readonly accessKeyId: string; readonly secret: SecretOrigin } | undefined;
  /** Clients are sent to the bucket for what is stored. */
  readonly redirect: boolean;
}

/** @param schemas those of single values that other sections have, too */
export function s3Schema({ text, secret, flag }: { text: z.ZodString; secret: z.ZodString; flag: z.ZodType<boolean> }) {
  return z
    .strictObject({
      bucket: z.string().regex(BUCKET, 'must be the name of a bucket').nullable(),
      prefix: z
        .string()
        .transform((given) => given.replace(/^\/+|\/+$/g, ''))
        .refine((given) => given === '' || PREFIX.test(given), {
          error:
            'must be a path such as "mirrors/larder": letters, digits, dots, dashes and underscores between slashes',
        }),
      region: text.nullable(),
      endpoint: z
        .string()
        .refine(isEndpoint, 'must be a http:// or https:// URL without user, path and query')
        .nullable(),
      pathStyle: flag,
      accessKeyId: z.string().regex(ACCESS_KEY_ID, 'must not hold spaces').nullable(),
      secretAccessKey: secret.nullable(),
      secretAccessKeyFile: text.nullable(),
      redirect: flag,
    })
    .superRefine(({ bucket, accessKeyId, secretAccessKey, secretAccessKeyFile }, context) => {
      const issue = (path: string, message: string) => context.addIssue({ code: 'custom', path: [path], message });
      const secrets = [secretAccessKey, secretAccessKeyFile].filter((given) => given !== null).length;
      if (secrets > 1) issue('secretAccessKey', 'cannot go with secretAccessKeyFile: only one of them');
      else if (accessKeyId !== null && secrets === 0) {
        issue('accessKeyId', 'needs secretAccessKey or secretAccessKeyFile beside it');
      } else if (accessKeyId === null && secrets === 1) issue('accessKeyId', 'is missing beside the secret key');
      if (bucket === null && (accessKeyId !== null || secrets > 0)) issue('bucket', 'is missing beside its keys');
    });
}

/** `undefined` without a bucket. */
export function s3ConfigOf(
  {
    bucket,
    prefix,
    region,
    endpoint,
    accessKeyId,
    secretAccessKey,
    secretAccessKeyFile,
    ...flags
  }: z.output<ReturnType<typeof s3Schema>>,
  absolute: (file: string, ...at: KeyPath) => string,
): S3Config | undefined {
  if (bucket === null) return undefined;
  const secret =
    secretAccessKey !== null
      ? { token: secretAccessKey }
      : { tokenFile: absolute(secretAccessKeyFile ?? '', 's3', 'secretAccessKeyFile') };
  return {
    ...flags,
    bucket,
    prefix: prefix === '' ? '' : `${prefix}/`,
    region: region ?? undefined,
    endpoint: endpoint ?? undefined,
    credentials: accessKeyId === null ? undefined : { accessKeyId, secret },
  };
}

function isEndpoint(given: string): boolean {
  if (!URL.canParse(given)) return false;
  const { protocol, username, password, pathname, search, hash } = new URL(given);
  return /^https?:$/.test(protocol) && !username && !password && pathname === '/' && !search && !hash;
}
