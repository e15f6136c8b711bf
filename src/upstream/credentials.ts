import { hasCode, UpstreamUnreachable } from '../errors.ts';
import { deadlineFailure } from './failures.ts';
import type { Upstream } from './upstream.ts';

/**
 * The token of a running Larder: a token file that is away while a secret is being rotated is trouble that passes, and
 * what is remembered can stand in.
 * @param host `HOST[:PORT]` that the token is for
 */
export function whenUsable(host: string, token: () => Promise<string | undefined>): () => Promise<string | undefined> {
  return async () => {
    try {
      return await token();
    } catch (error) {
      if (!hasCode(error, 'INVALID_CONFIGURATION')) throw error;
      throw new UpstreamUnreachable(host, 'connection', `is not asked: ${error.message}`, { cause: error });
    }
  };
}

/**
 * The upstream's token, as long as there is time: a program that is asked for it may take longer than the request has.
 * @throws UpstreamUnreachable when the signal is aborted first
 */
export async function tokenInTime(upstream: Upstream, signal: AbortSignal): Promise<string | undefined> {
  let giveUp = () => {};
  const impatience = new Promise<never>((_, reject) => {
    giveUp = () => reject(deadlineFailure(String(upstream.hostname), signal.reason));
    signal.addEventListener('abort', giveUp, { once: true });
    if (signal.aborted) giveUp();
  });
  try {
    return await Promise.race([upstream.token(), impatience]);
  } finally {
    signal.removeEventListener('abort', giveUp);
  }
}

/**
 * Whether a file (an archive, SHA256SUMS, a signature) is asked for with the upstream's token: where the operator says
 * so, and over https. Elsewhere never: links to files carry signatures of their own, and may lead anywhere.
 */
export function authenticatesFile({ archiveHosts }: Upstream, url: URL): boolean {
  return url.protocol === 'https:' && archiveHosts.has(url.host);
}
