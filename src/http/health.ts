import { type RequestHandler, type Response, Router } from 'express';
import { hasCode, type StorageFailed } from '../errors.ts';
import type { Logger } from '../logger.ts';
import { settledWithin } from '../time-limit.ts';
import { allowOnly } from './request-guards.ts';

/** One thing that Larder needs. */
export interface HealthCheck {
  readonly name: string;
  /** Whether requests fail without it. What only makes them slower is not essential. */
  readonly essential: boolean;
  /** What does not answer when the check takes too long, for the reason: `bucket`. */
  readonly asks?: string | undefined;
  /**
   * Resolves when all is well, rejects with the reason otherwise. Requests do not fail, even if it is essential, when that is
   * a StorageFailed of which what is stored is `readable`.
   */
  check(): Promise<void>;
}

export interface CheckResult {
  readonly status: 'ok' | 'degraded' | 'failing';
  /** Fit for strangers: no addresses or paths. */
  readonly reason?: string;
}

export interface HealthReport {
  readonly status: 'ready' | 'degraded' | 'failing' | 'draining';
  /** What is stored is all there is. */
  readonly sealed?: true;
  readonly checks: Readonly<Record<string, CheckResult>>;
}

/** A check that takes longer has failed, in milliseconds. Orchestrators wait about as long for the whole answer. */
const CHECK_DEADLINE_MS = 2_000;

/** Whoever decides by `/readyz` where requests are sent asks more often than this, in milliseconds. */
const PROBED_EVERY_MS = 60_000;

/** Whether requests should be sent here. Checks that are asked for at the same time run once. */
export class Health {
  readonly #checks: readonly HealthCheck[];
  readonly #isDraining: () => boolean;
  readonly #isSealed: () => boolean;
  readonly #logger: Logger;
  readonly #deadlineMs: number;
  /** Checks that failed when they were last run. */
  readonly #failed = new Set<string>();
  #running: Promise<HealthReport> | undefined;
  /** What the checks that were run last came to. */
  #last: HealthReport['checks'] = {};
  /** By `performance.now()`. */
  #probedAt = Number.NEGATIVE_INFINITY;

  constructor(deps: {
    checks: readonly HealthCheck[];
    isDraining: () => boolean;
    isSealed?: () => boolean;
    logger: Logger;
    deadlineMs?: number;
  }) {
    this.#checks = deps.checks;
    this.#isDraining = deps.isDraining;
    this.#isSealed = deps.isSealed ?? (() => false);
    this.#logger = deps.logger;
    this.#deadlineMs = deps.deadlineMs ?? CHECK_DEADLINE_MS;
  }

  /** Somebody decides by the reports where requests are sent, and should hear of it before they cannot be sent here. */
  get isProbed(): boolean {
    return performance.now() - this.#probedAt < PROBED_EVERY_MS;
  }

  /** Somebody asks from outside. */
  noteProbe(): void {
    this.#probedAt = performance.now();
  }

  /** Never rejects, and takes no longer than a check may take. */
  async report(): Promise<HealthReport> {
    this.#running ??= this.#run().finally(() => {
      this.#running = undefined;
    });
    const found = await this.#running;
    const report: HealthReport = this.#isSealed()
      ? { status: found.status, sealed: true, checks: found.checks }
      : found;
    return this.#isDraining() ? { ...report, status: 'draining' } : report;
  }

  /** What the checks come to now, or, where that takes longer than `ms`, came to when they were last run. Never rejects. */
  async look(ms: number): Promise<HealthReport['checks']> {
    return (await settledWithin(this.report(), ms))?.checks ?? this.#last;
  }

  async #run(): Promise<HealthReport> {
    const results = await Promise.all(this.#checks.map(async (check) => [check.name, await this.#try(check)] as const));
    this.#last = Object.fromEntries(results);
    const has = (status: CheckResult['status']) => results.some(([, result]) => result.status === status);
    return {
      status: has('failing') ? 'failing' : has('degraded') ? 'degraded' : 'ready',
      checks: this.#last,
    };
  }

  async #try(one: HealthCheck): Promise<CheckResult> {
    const { name, essential, asks } = one;
    try {
      const answer = one.check().then(() => true);
      if (!(await settledWithin(answer, this.#deadlineMs))) throw new NoAnswer(asks, this.#deadlineMs);
      if (this.#failed.delete(name)) this.#logger.info('health check succeeds again', { check: name });
      return { status: 'ok' };
    } catch (error) {
      // Asked every few seconds: the change is news, the state is not.
      if (!this.#failed.has(name)) this.#logger.warn('health check failed', { check: name, error });
      this.#failed.add(name);
      return { status: essential && !isReadable(error) ? 'failing' : 'degraded', reason: reasonFor(error) };
    }
  }
}

/**
 * `/healthz`: the process is alive and its event loop turns. `/readyz`: 200 when requests can be served, be it slower
 * than usual, and 503 when something essential is missing or Larder is shutting down; what exactly is in the body.
 */
export function healthRoutes({ health }: { health: Health }): Router {
  const router = Router({ caseSensitive: true, strict: true });
  const readiness: RequestHandler = async (_req, res) => {
    health.noteProbe();
    const report = await health.report();
    const unavailable = report.status === 'failing' || report.status === 'draining';
    sendReport(res, unavailable ? 503 : 200, report);
  };
  router
    .route('/healthz')
    .all(allowOnly('GET', 'HEAD'))
    .get((_req, res) => sendReport(res, 200, { status: 'alive' }));
  router.route('/readyz').all(allowOnly('GET', 'HEAD')).get(readiness);
  return router;
}

function sendReport(res: Response, status: number, report: object): void {
  const body = Buffer.from(JSON.stringify(report));
  res
    .writeHead(status, {
      'Content-Type': 'application/json',
      'Content-Length': body.length,
      'Cache-Control': 'no-store',
    })
    .end(body);
}

class NoAnswer extends Error {
  constructor(who: string | undefined, ms: number) {
    super(`${who === undefined ? '' : `${who} `}did not answer within ${ms / 1000} s`);
  }
}

function isReadable(error: unknown): boolean {
  return hasCode(error, 'STORAGE_FAILED') && (error as StorageFailed).readable;
}

/** Our own words are fit to be shown; those of libraries name hosts, users and paths, so only their code is. */
function reasonFor(error: unknown): string {
  if (hasCode(error, 'STORAGE_FAILED') || error instanceof NoAnswer) return error.message;
  const { code } = (error ?? {}) as { code?: unknown };
  return typeof code === 'string' && /^[A-Z][A-Z0-9_]*$/.test(code) ? `not available (${code})` : 'not available';
}
