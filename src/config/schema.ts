import { createHash } from 'node:crypto';
import { z } from 'zod';
import { Hostname } from '../address/hostname.ts';
import { Platform } from '../address/platform.ts';
import { ProviderPattern } from '../address/provider-pattern.ts';
import { parseDuration, parseSize } from '../units.ts';
import { ALLOWED_PROBLEM, cooldownSchema, parseAllowed } from './cooldown.ts';
import type { KeyPath } from './layers.ts';
import { modulesSchema } from './modules.ts';
import { MAX_TOLD, suggestion } from './problems.ts';
import { redisSchema } from './redis.ts';
import { s3Schema } from './s3.ts';
import { SECRET } from './token-variables.ts';
import { tracingSchema } from './tracing.ts';
import { CRON_PROBLEM, parseCron, warmSchema } from './warm.ts';

/** Clients stop waiting at 10 s; the answer has to travel, too. */
const MAX_METADATA_DEADLINE_MS = 9_000;

/** More than any machine has use for, and few enough for a mistyped number not to bring it down. */
const MAX_WORKERS = 64;

// No message here may quote a value: it could be a secret that went into the wrong place.

/** Reads with `parse`; `undefined` or an exception (whose message then counts) is a problem. */
function parsed<T>(parse: (text: string) => T | undefined, otherwise: string) {
  return z.unknown().transform((given, context): T => {
    try {
      const value = typeof given === 'string' ? parse(given) : undefined;
      if (value !== undefined) return value;
    } catch {}
    context.addIssue({ code: 'custom', message: given === undefined ? 'is missing' : otherwise });
    return z.NEVER;
  });
}

const text = z.string().min(1, 'is empty');
const duration = parsed(
  parseDuration,
  'must be a duration with a unit, at most 3650d: write 500ms, 60s, 5m, 1h or 90d',
);
const size = parsed(parseSize, 'must be a size with a unit: write 500GB (decimal) or 10GiB (binary), or null');
const hostname = parsed(Hostname.parse, 'must be a host name, or HOST:PORT');

// `${NAME}` makes texts of numbers and booleans.
const integer = (least: number, most: number) =>
  z.preprocess(
    (given) => (typeof given === 'string' && /^\d{1,9}$/.test(given) ? Number(given) : given),
    z.number().refine((value) => Number.isInteger(value) && value >= least && value <= most, {
      error: `must be a whole number from ${least} to ${most}`,
    }),
  );
const flag = z.preprocess((given) => (given === 'true' ? true : given === 'false' ? false : given), z.boolean());

const secret = z.string().regex(SECRET, 'must not be empty, nor hold spaces, line breaks or non-ASCII letters');

const pattern = parsed(
  (given) => ProviderPattern.parse(`*/${given}`),
  'must be NAMESPACE/TYPE, with * for a whole part, such as "platform/*"',
);

const webUrl = parsed((given) => {
  const { protocol, username, password, search, hash, href } = new URL(given);
  return /^https?:$/.test(protocol) && !username && !password && !search && !hash
    ? href.replace(/\/+$/, '')
    : undefined;
}, 'must be a http:// or https:// URL without user, query and fragment, or null');

const credentials = z
  .strictObject({
    token: secret.optional(),
    tokenFile: text.optional(),
    forward: flag.optional(),
    archiveHosts: z.array(hostname).optional(),
  })
  .superRefine(({ token, tokenFile, forward, archiveHosts }, context) => {
    const given = [token !== undefined, tokenFile !== undefined, forward === true].filter(Boolean).length;
    // Without a token of its own it may have one from the environment or the CLI configuration.
    if (given > 1 || (given === 0 && forward === undefined && archiveHosts === undefined)) {
      context.addIssue({ code: 'custom', message: 'must have exactly one of token, tokenFile and forward' });
    }
    if (forward === true && archiveHosts !== undefined) {
      const message = 'cannot go with forward: tokens of clients are for the registry alone';
      context.addIssue({ code: 'custom', path: ['archiveHosts'], message });
    }
  });

const upstream = z.strictObject({
  credentials: credentials.optional(),
  ca: text.optional(),
  clientCertificate: z.strictObject({ cert: text, key: text }).optional(),
  privateNetwork: flag.default(false),
  signatures: z.enum(['require', 'verify', 'ignore']).default('verify'),
  include: z.array(pattern).default([]),
  exclude: z.array(pattern).default([]),
});

const upstreams = z
  .strictObject({ default: hostname, cliConfig: text.nullable(), hosts: z.record(z.string(), upstream) })
  .superRefine(({ default: chosen, hosts }, context) => {
    if (!Object.hasOwn(hosts, chosen.toString())) {
      const message = 'must be one of upstreams.hosts; add it there, or choose another';
      context.addIssue({ code: 'custom', path: ['default'], message });
    }
  });

const addressPattern = parsed(
  ProviderPattern.parse,
  'must be HOST/NAMESPACE/TYPE, with * for a whole part, such as "registry.corp.example/platform/*"',
);

const clientToken = z
  .strictObject({
    name: z
      .string()
      .regex(/^[\w.-]{1,64}$/, 'must be 1 to 64 letters, digits, dots, dashes or underscores')
      .refine((name) => name !== 'anonymous', 'is what clients without a token are called; choose another'),
    token: secret.optional(),
    tokenFile: text.optional(),
    sha256: z
      .string()
      .regex(/^[0-9a-f]{64}$/i, 'must be the SHA-256 of the token in 64 hexadecimal digits')
      .toLowerCase()
      .optional(),
    roles: z.array(z.enum(['read', 'admin'])).min(1, 'must hold at least one of read and admin'),
    addresses: z
      .array(addressPattern)
      .min(1, 'is empty: nothing could be read; leave it out for everything')
      .optional(),
  })
  .superRefine(({ token, tokenFile, sha256 }, context) => {
    if ([token, tokenFile, sha256].filter((given) => given !== undefined).length !== 1) {
      context.addIssue({
        code: 'custom',
        message: 'must have either token or tokenFile or sha256, and only one of them',
      });
    }
  });

const clientTokens = z.array(clientToken).superRefine((tokens, context) => {
  const digests = tokens.map(({ token, sha256 }) =>
    token === undefined ? sha256 : createHash('sha256').update(token).digest('hex'),
  );
  for (const [index, { name, token }] of tokens.entries()) {
    if (tokens.slice(0, index).some((other) => other.name === name)) {
      context.addIssue({ code: 'custom', path: [index, 'name'], message: 'is the name of an earlier token, too' });
    } else if (digests[index] !== undefined && digests.indexOf(digests[index]) < index) {
      const message = 'is the same secret as that of an earlier token: nobody could tell the two apart';
      context.addIssue({ code: 'custom', path: [index, token === undefined ? 'sha256' : 'token'], message });
    }
  }
});

const access = z
  .strictObject({
    anonymous: z.enum(['read', 'none']),
    tokens: clientTokens,
    links: z.strictObject({ lifetime: duration }),
  })
  .superRefine(({ anonymous, tokens }, context) => {
    if (anonymous === 'none' && tokens.length === 0) {
      const message = 'is none, but there are no tokens: nobody could do anything; add some to access.tokens';
      context.addIssue({ code: 'custom', path: ['anonymous'], message });
    }
  });

const tls = z
  .strictObject({ mode: z.enum(['selfsigned', 'files', 'off']), cert: text.optional(), key: text.optional() })
  .superRefine((value, context) => {
    for (const name of ['cert', 'key'] as const) {
      if (value.mode === 'files' && value[name] === undefined) {
        context.addIssue({ code: 'custom', path: [name], message: 'is missing; mode files needs cert and key' });
      } else if (value.mode !== 'files' && value[name] !== undefined) {
        const message = `has no use in mode ${value.mode}; set tls.mode to files, or remove it`;
        context.addIssue({ code: 'custom', path: [name], message });
      }
    }
  });

const freshness = z
  .strictObject({ versions: duration, discovery: duration, packages: duration, absent: duration, keep: duration })
  .superRefine((value, context) => {
    for (const name of ['versions', 'discovery', 'packages'] as const) {
      if (value.keep >= value[name]) continue;
      context.addIssue({ code: 'custom', path: ['keep'], message: `must be no less than freshness.${name}` });
      return;
    }
  });

const platform = parsed(Platform.parse, 'must be OS_ARCH in lower case, such as linux_amd64');

const limits = z.strictObject({
  disk: size.nullable(),
  downloads: integer(1, 1_000),
  metadataDeadline: duration.refine((value) => value <= MAX_METADATA_DEADLINE_MS, {
    error: 'must be at most 9s: clients give up after 10 s',
  }),
});

export const schema = z
  .strictObject({
    listen: z.strictObject({ host: text, port: integer(0, 65_535), drainDelay: duration.nullable() }),
    workers: integer(1, MAX_WORKERS),
    tls,
    publicUrl: webUrl.nullable(),
    data: text,
    redis: redisSchema({ text, secret }),
    s3: s3Schema({ text, secret, flag }),
    sealed: flag,
    upstreams,
    access,
    freshness,
    limits,
    cooldown: cooldownSchema({
      age: duration,
      address: addressPattern,
      allowed: parsed(parseAllowed, ALLOWED_PROBLEM),
    }),
    warm: warmSchema({ text, platform, count: integer(1, 100), cron: parsed(parseCron, CRON_PROBLEM) }),
    modules: modulesSchema({ size, duration, count: integer(1, 10_000_000) }),
    log: z.strictObject({
      level: z.enum(['debug', 'info', 'warn', 'error']),
      format: z.enum(['auto', 'json', 'text']),
      audit: text.nullable(),
    }),
    tracing: tracingSchema({ endpoint: webUrl, flag }),
  })
  .superRefine(({ limits: { disk }, s3: { bucket } }, context) => {
    if (disk === null || bucket === null) return;
    const message =
      'cannot go with s3.bucket: nothing is evicted from a bucket; remove it, and use a lifecycle rule or `larder purge --unused`';
    context.addIssue({ code: 'custom', path: ['limits', 'disk'], message });
  });

const TYPE_NAMES: Readonly<Record<string, string>> = {
  string: 'a text (in quotes, when it looks like a number)',
  number: 'a number',
  boolean: 'true or false',
  array: 'a list',
  object: 'a map of keys',
  record: 'a map of keys',
};

/** An issue in words that say how to mend it; one for each unknown key. */
export function explain(issue: z.core.$ZodIssue): { path: KeyPath; message: string }[] {
  const path = issue.path as KeyPath;
  switch (issue.code) {
    case 'unrecognized_keys': {
      const known = keysAt(path);
      return issue.keys.slice(0, MAX_TOLD + 1).map((key) => ({
        path: [...path, key],
        message: `is not a known key; ${suggestion(key, known)}`,
      }));
    }
    case 'invalid_type': {
      const isMissing = issue.message.endsWith('received undefined');
      const wanted = TYPE_NAMES[issue.expected] ?? issue.expected;
      return [{ path, message: isMissing ? `is missing; it must be ${wanted}` : `must be ${wanted}` }];
    }
    case 'invalid_value':
      return [{ path, message: `must be one of ${issue.values.join(', ')}` }];
    default:
      return [{ path, message: issue.message }];
  }
}

/** The keys that a map of the configuration may have. */
function keysAt(path: KeyPath): string[] {
  type Shape = z.core.JSONSchema.BaseSchema;
  let shape = z.toJSONSchema(schema, { io: 'input', unrepresentable: 'any' }) as Shape;
  for (const part of path) {
    const inner = shape.properties?.[part] ?? shape.additionalProperties ?? shape.items;
    shape = (typeof inner === 'object' ? inner : {}) as Shape;
  }
  return Object.keys(shape.properties ?? {});
}
