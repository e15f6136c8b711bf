import { type RequestHandler, Router } from 'express';
import { z } from 'zod';
import { ProviderArchive } from '../address/archive.ts';
import type { Examined, Scrub, ScrubProgress } from '../mirror/scrub.ts';
import type { Quarantine, Quarantined } from '../store/quarantine.ts';
import { demandAll } from './admin-pins.ts';
import type { AuditTrail } from './audit-entry.ts';
import { readJson } from './json-request.ts';
import { allowOnly } from './request-guards.ts';
import { parseRequest } from './request-schema.ts';
import { notesOf } from './respond.ts';
import { sendDocument } from './send-document.ts';

/** The other processes of this machine that serve on the same port. */
export interface OtherWorkers {
  /** Never rejects. */
  askOthers(topic: string, about?: unknown): Promise<readonly unknown[]>;
  hear(topic: string, take: (about: unknown) => unknown): void;
}

/** What the doors for scans work with. */
export interface VerifyDeps {
  readonly scrub: Scrub;
  readonly quarantine: Pick<Quarantine, 'list'>;
  readonly otherWorkers?: OtherWorkers | undefined;
}

/** What became of an archive or module package that was read, as JSON. */
export interface ExaminedDocument {
  readonly archive?: string;
  readonly package?: string;
  readonly state: Examined['state'];
  /** Where it lies below `quarantine/`. */
  readonly quarantine?: string;
  readonly reason?: string;
}

/** How far a scan is, as JSON. `idle`: there was none since the start. */
export interface VerifyDocument {
  readonly state: ScrubProgress['state'] | 'idle';
  readonly heal?: boolean;
  readonly startedAt?: string;
  readonly endedAt?: string;
  readonly checked?: number;
  readonly checkedBytes?: number;
  readonly totalBytes?: number;
  readonly healed?: number;
  readonly quarantined?: number;
  readonly findings?: readonly ExaminedDocument[];
  readonly reason?: string;
}

export interface QuarantineDocument {
  readonly quarantined: readonly Quarantined[];
}

const body = z.strictObject({ heal: z.boolean().default(true) });

/** What workers ask each other of scans: how far one is, or to stop it. */
const SCANS = 'scans';

/**
 * Scans of what is stored, for operators whose token is for everything:
 *
 * - `POST /admin/verify`, with `{"heal":false}` to fetch nothing anew: 202 and how far it is; one that runs goes on
 * - `GET /admin/verify`: how far it is; `DELETE /admin/verify` stops it at once
 * - `GET /admin/quarantine`: `{"quarantined":[…]}`
 *
 * A scan runs in one worker, and any of them tells of it.
 */
export function verifyRoutes({
  scrub,
  quarantine,
  otherWorkers,
  audit,
}: VerifyDeps & { audit?: AuditTrail | undefined }): Router {
  const own = () => verifyDocument(scrub.progress);
  /** The scan that runs, or else the last one that began, wherever. */
  const latest = async (wish: 'show' | 'stop') => {
    const others = ((await otherWorkers?.askOthers(SCANS, wish)) ?? []) as VerifyDocument[];
    return [own(), ...others].sort(byImportance)[0] as VerifyDocument;
  };
  otherWorkers?.hear(SCANS, async (wish) => {
    if (wish === 'stop') await scrub.cancel();
    return own();
  });
  const router = Router({ caseSensitive: true, strict: true });

  const begin: RequestHandler = async (req, res) => {
    demandAll(res);
    // `curl -X POST` sends no body at all.
    const hasBody = req.headers['content-length'] !== undefined && req.headers['content-length'] !== '0';
    const { heal } = parseRequest(body, hasBody ? await readJson(req, res) : {});
    const current = await latest('show');
    if (current.state === 'running') {
      sendDocument(res, current, 202);
      return;
    }
    const { progress, isNew } = scrub.start({ heals: heal });
    const { client, requestId } = notesOf(res);
    if (isNew) {
      audit?.record('verify-began', { client: client?.name, remote: req.socket.remoteAddress, heal, requestId });
    }
    sendDocument(res, verifyDocument(progress), 202);
  };

  const show: RequestHandler = async (_req, res) => {
    demandAll(res);
    sendDocument(res, await latest('show'));
  };

  const stop: RequestHandler = async (_req, res) => {
    demandAll(res);
    await scrub.cancel();
    sendDocument(res, await latest('stop'));
  };

  const list: RequestHandler = async (_req, res) => {
    demandAll(res);
    sendDocument(res, { quarantined: await quarantine.list() } satisfies QuarantineDocument);
  };

  router
    .route('/verify')
    .all(allowOnly('GET', 'HEAD', 'POST', 'DELETE'))
    .get(show)
    .post(begin)
    .delete(stop);
  router.route('/quarantine').all(allowOnly('GET', 'HEAD')).get(list);
  return router;
}

function byImportance(one: VerifyDocument, other: VerifyDocument): number {
  const runs = ({ state }: VerifyDocument) => (state === 'running' ? 1 : 0);
  return runs(other) - runs(one) || (other.startedAt ?? '').localeCompare(one.startedAt ?? '');
}

export function examinedDocument({ subject, state, id, reason }: Examined): ExaminedDocument {
  return {
    ...(subject instanceof ProviderArchive ? { archive: subject.toString() } : { package: subject.toString() }),
    state,
    ...(id !== undefined && { quarantine: id }),
    ...(reason !== undefined && { reason }),
  };
}

function verifyDocument(progress: ScrubProgress | undefined): VerifyDocument {
  if (!progress) return { state: 'idle' };
  const { heals, startedAt, endedAt, findings, ...rest } = progress;
  return {
    ...rest,
    heal: heals,
    startedAt: startedAt.toISOString(),
    ...(endedAt && { endedAt: endedAt.toISOString() }),
    findings: findings.map(examinedDocument),
  };
}
