import { type RequestHandler, type Response, Router } from 'express';
import { z } from 'zod';
import type { Platform } from '../address/platform.ts';
import type { Diagnostic } from '../configuration/requirements.ts';
import type { CompletedLock, LockCompletion, LockReport } from '../mirror/lock-completion.ts';
import type { Client } from './authenticate.ts';
import { platformQuery } from './platform-query.ts';
import { allowOnly } from './request-guards.ts';
import { parseRequest } from './request-schema.ts';
import { notesOf } from './respond.ts';
import { readText } from './text-request.ts';

/** Bytes. A lock file of a thousand providers has less. */
const MAX_LOCK = 4 * 1024 * 1024;
const FILE = '.terraform.lock.hcl';
const HINT = 'send the lock file as it is: curl --data-binary @.terraform.lock.hcl …';

/** What the door for lock files works with. */
export interface LockDeps {
  readonly completion: LockCompletion;
  /** For requests that name none. */
  readonly platforms: readonly Platform[];
}

/** What became of one provider of a lock file, as JSON. */
export interface LockReportDocument {
  readonly address: string;
  readonly version: string;
  readonly outcome: 'completed' | 'unchanged' | 'failed';
  /** Hashes that the lock file did not have. */
  readonly added: readonly string[];
  /** Platforms whose `h1:` is not known, and why. */
  readonly missing: readonly { readonly platform: string; readonly reason: string }[];
  /** Platforms that the provider does not exist for. */
  readonly unsupported: readonly string[];
  /** Why it failed, or why there are fewer hashes than there might be. */
  readonly reason?: string;
}

/** A completed lock file and how that went, as JSON. */
export interface LockDocument {
  readonly text: string;
  readonly providers: readonly LockReportDocument[];
  readonly diagnostics: readonly Diagnostic[];
}

const flag = z
  .enum(['true', 'false'])
  .default('false')
  .transform((text) => text === 'true');

const query = z.strictObject({
  platform: platformQuery,
  fetch: flag,
  partial: flag,
});

/**
 * `POST /lock?platform=linux_amd64&fetch=true` with a lock file: the same, completed. With `Accept: application/json`
 * as `{"text":…,"providers":[…],"diagnostics":[…]}`. When a provider cannot be completed it is 422 with that report
 * and without the text, unless `partial=true`.
 */
export function lockRoutes({ completion, platforms }: LockDeps): Router {
  const router = Router({ caseSensitive: true, strict: true });
  const answer: RequestHandler = async (req, res) => {
    const asked = parseRequest(query, req.query);
    const client = notesOf(res).client as Client;
    const text = await readText(req, res, { limit: MAX_LOCK, hint: HINT });
    const completed = await completion.complete(text, {
      platforms: asked.platform.length > 0 ? asked.platform : platforms,
      fetch: asked.fetch,
      file: FILE,
      mayHave: client.mayAdminister.bind(client),
    });
    const failures = failuresOf(completed);
    const document = lockDocument(completed);
    notesOf(res).outcome = failures.length > 0 ? 'incomplete' : 'completed';
    if (failures.length > 0 && !asked.partial) {
      const { providers, diagnostics } = document;
      send(res, 422, 'application/json', JSON.stringify({ errors: failures, ...REFUSED, providers, diagnostics }));
    } else if (req.accepts('text/plain', 'application/json') === 'application/json') {
      send(res, 200, 'application/json', JSON.stringify(document));
    } else {
      send(res, 200, 'text/plain; charset=utf-8', completed.text);
    }
  };
  router.route('/lock').all(allowOnly('POST')).post(answer);
  return router;
}

const REFUSED = {
  code: 'LOCK_INCOMPLETE',
  hint: 'with partial=true the others are completed all the same',
};

/** What stands between a lock file and its being complete, in words. */
export function failuresOf({ providers, diagnostics }: CompletedLock): string[] {
  return [
    ...providers.flatMap(({ address, outcome, reason }) => (outcome === 'failed' ? [`${address}: ${reason}`] : [])),
    ...diagnostics.flatMap(({ severity, at, message }) => (severity === 'error' ? [`line ${at}: ${message}`] : [])),
  ];
}

export function lockDocument({ text, providers, diagnostics }: CompletedLock): LockDocument {
  return { text, providers: providers.map(reportDocument), diagnostics };
}

function reportDocument(report: LockReport): LockReportDocument {
  const { address, version, outcome, added, missing, unsupported, reason } = report;
  return {
    address: address.toString(),
    version: version.toString(),
    outcome,
    added,
    missing: missing.map(({ platform, reason: why }) => ({ platform: platform.toString(), reason: why })),
    unsupported: unsupported.map(String),
    ...(reason !== undefined && { reason }),
  };
}

function send(res: Response, status: number, type: string, text: string): void {
  const body = Buffer.from(text);
  res.writeHead(status, { 'Content-Type': type, 'Content-Length': body.length, 'Cache-Control': 'no-store' }).end(body);
}
