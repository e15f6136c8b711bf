import { createHash } from 'node:crypto';
import { readFile, stat } from 'node:fs/promises';
import type { ClientToken } from './config.ts';
import { InvalidConfiguration } from './errors.ts';
import type { KnownToken } from './http/authenticate.ts';
import type { Logger } from './logger.ts';

/** Token files are looked at no more often than this, in milliseconds: a new secret is taken up within it. */
const LOOK_MS = 1_000;

/** Characters. What is shorter can be guessed by whoever has time. */
const SHORT = 16;
const TOO_SHORT = `these tokens may administer and have less than ${SHORT} characters: make new ones (openssl rand -hex 32)`;

/** What an Authorization header can hold. */
const TOKEN = /^[\x21-\x7e]+$/;

/**
 * The configured tokens of clients, as their digests. Token files are read again whenever they change; while one holds
 * nothing usable, what it held before stays good, and when it is gone, so is the token.
 * @throws InvalidConfiguration when a token file cannot be used
 */
export async function loadClientTokens(
  configured: readonly ClientToken[],
  { logger, now = () => performance.now() }: { logger: Logger; now?: () => number },
): Promise<() => Promise<readonly KnownToken[]>> {
  const short = configured.filter((token) => 'token' in token && token.token.length < SHORT && isOperator(token));
  if (short.length > 0) logger.warn(TOO_SHORT, { tokens: short.map(({ name }) => name) });
  const sources = configured.map((token) => digestSource(token, logger));
  const read = async () => {
    const digests = await Promise.all(sources.map((source) => source()));
    return configured.flatMap(({ name, roles, addresses }, index): KnownToken[] => {
      const digest = digests[index];
      return digest ? [{ name, roles, addresses, digest }] : [];
    });
  };
  const first = await read();
  const missing = configured.find(({ name }) => !first.some((token) => token.name === name));
  if (missing) {
    throw new InvalidConfiguration(`the file of the token named ${missing.name} cannot be read, or holds no token`);
  }
  if (!configured.some((token) => 'tokenFile' in token)) return async () => first;

  let known = { tokens: Promise.resolve<readonly KnownToken[]>(first), readAt: now() };
  return () => {
    // The clock may have been put back.
    if (Math.abs(now() - known.readAt) >= LOOK_MS) known = { tokens: read(), readAt: now() };
    return known.tokens;
  };
}

/** That of LARDER_ADMIN_TOKEN is called `admin`. */
function isOperator({ roles }: ClientToken): boolean {
  return roles.includes('admin');
}

/** Resolves to the digest of this moment, if there is one. Never rejects. */
function digestSource(token: ClientToken, logger: Logger): () => Promise<Buffer | undefined> {
  if ('sha256' in token) return async () => Buffer.from(token.sha256, 'hex');
  if ('token' in token) return async () => sha256Of(token.token);

  let known: { digest: Buffer | undefined; identity: string } | undefined;
  return async () => {
    try {
      const { mtimeMs, size, ino } = await stat(token.tokenFile);
      const identity = `${mtimeMs} ${size} ${ino}`;
      if (known?.identity === identity) return known.digest;
      const text = (await readFile(token.tokenFile, 'utf8')).trim();
      const isUsable = TOKEN.test(text);
      // Files that are written in place are empty for a moment.
      if (!isUsable) logger.error('the token file of a client holds no token', { client: token.name });
      known = { digest: isUsable ? sha256Of(text) : known?.digest, identity };
    } catch (error) {
      const isGone = (error as NodeJS.ErrnoException).code === 'ENOENT';
      const digest = isGone ? undefined : known?.digest;
      if (known?.identity !== 'unreadable') {
        logger.error('the token file of a client cannot be read', { client: token.name, error });
      }
      known = { digest, identity: 'unreadable' };
    }
    return known.digest;
  };
}

function sha256Of(text: string): Buffer {
  return createHash('sha256').update(text).digest();
}
