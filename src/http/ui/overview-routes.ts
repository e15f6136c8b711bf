import { type RequestHandler, Router } from 'express';
import { z } from 'zod';
import type { Inventory } from '../../mirror/inventory.ts';
import type { Seal } from '../../mirror/seal.ts';
import type { StoredIndex } from '../../mirror/stored-index.ts';
import type { TrafficHistory } from '../../mirror/traffic-history.ts';
import type { UpstreamHealth } from '../../mirror/upstream-health.ts';
import type { WarmJobs } from '../../mirror/warm-jobs.ts';
import { driftDocument } from '../admin-documents.ts';
import type { Health } from '../health.ts';
import { jobDocument } from '../job-documents.ts';
import { allowOnly } from '../request-guards.ts';
import type { Pages } from './around.ts';
import { type DiskReport, overview } from './overview.ts';
import type { Refusals } from './refusals.ts';
import { RANGES } from './traffic-plots.ts';
import { troublePage } from './trouble.ts';
import { visitOf } from './visit.ts';

export interface OverviewDeps {
  readonly health: Health;
  readonly index: Pick<StoredIndex, 'page'>;
  readonly inventory: Pick<Inventory, 'drift'>;
  readonly refusals: Pick<Refusals, 'all'>;
  readonly jobs?: Pick<WarmJobs, 'list'> | undefined;
  readonly seal?: Pick<Seal, 'state'> | undefined;
  /** Without it nothing is plotted. */
  readonly traffic?: Pick<TrafficHistory, 'points'> | undefined;
  /** Without it nothing is known of upstreams. */
  readonly upstreamHealth?: Pick<UpstreamHealth, 'report'> | undefined;
  readonly disk?: (() => DiskReport) | undefined;
}

/** The overview itself, and `trouble`. */
export function overviewRoutes(deps: OverviewDeps & { readonly pages: Pages }): Router {
  const { traffic, upstreamHealth, disk, health, index, seal, jobs, inventory, refusals, pages } = deps;
  const router = Router({ caseSensitive: true, strict: true });

  const show: RequestHandler = async (req, res) => {
    const { client } = visitOf(res);
    const { range } = overviewAsked.parse(req.query);
    const mayHave = client.mayAdminister.bind(client);
    const [points, report, stored, all] = await Promise.all([
      traffic?.points(range) ?? [],
      health.report(),
      index.page({ where: client.mayAdministerAll ? undefined : ({ address }) => mayHave(address), limit: 0 }),
      // What cannot be read is no reason to show nothing else.
      jobs ? jobs.list().catch(() => undefined) : [],
    ]);
    const content = overview({
      range,
      points,
      upstreams: upstreamHealth?.report() ?? [],
      disk: disk?.(),
      health: report,
      stored,
      seal: seal?.state(),
      jobs: all
        ?.filter(({ state, by }) => state === 'running' && (client.mayAdministerAll || by === client.subject))
        .map(jobDocument),
      drift: inventory.drift({ mayHave }),
      refusals: client.mayAdministerAll ? refusals.all : [],
      client,
    });
    pages.send(req, res, { title: 'Overview', section: '', content });
  };

  const trouble: RequestHandler = (req, res) => {
    const { client } = visitOf(res);
    const drift = inventory.drift({ mayHave: client.mayAdminister.bind(client) }).map(driftDocument);
    const content = troublePage({ drift, refusals: client.mayAdministerAll ? refusals.all : [] });
    pages.send(req, res, { title: 'Trouble', section: 'trouble', content });
  };

  router.route('/').all(allowOnly('GET', 'HEAD')).get(show);
  router.route('/trouble').all(allowOnly('GET', 'HEAD')).get(trouble);
  return router;
}

const overviewAsked = z.object({ range: z.enum(RANGES).catch('day') });
