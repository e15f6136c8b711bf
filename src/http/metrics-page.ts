import { type RequestHandler, Router } from 'express';
import type { Authenticator } from './authenticate.ts';
import { allowOnly } from './request-guards.ts';
import { notesOf } from './respond.ts';

/** All metrics in the text format of Prometheus. */
export interface MetricsSource {
  readonly contentType: string;
  text(): Promise<string>;
}

/** `/metrics`: open to all where anonymous clients may read, otherwise to tokens with any role. */
export function metricsPage({
  metrics,
  authenticator,
}: {
  metrics: MetricsSource;
  authenticator: Authenticator;
}): Router {
  const router = Router({ caseSensitive: true, strict: true });
  const answer: RequestHandler = async (req, res) => {
    if (authenticator.isRequired) {
      const client = await authenticator.identify(req);
      if (!client.roles.includes('admin')) {
        // Scrapes are not worth writing down; that one was refused is.
        if (!client.roles.includes('read')) notesOf(res).client = client;
        authenticator.demand(client, 'read', req, "send a token as 'Authorization: Bearer TOKEN'");
      }
    }
    const body = Buffer.from(await metrics.text());
    res
      .writeHead(200, {
        'Content-Type': metrics.contentType,
        'Content-Length': body.length,
        'Cache-Control': 'no-store',
      })
      .end(body);
  };
  router.route('/metrics').all(allowOnly('GET', 'HEAD')).get(answer);
  return router;
}
