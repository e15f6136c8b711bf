import { createHash } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { type RequestHandler, Router } from 'express';
import { installed } from '../../installation.ts';
import { allowOnly } from '../request-guards.ts';

const DIRECTORY = fileURLToPath(installed('assets/ui'));

const MEDIA_TYPES = {
  'dashboard.css': 'text/css; charset=utf-8',
  'dashboard.js': 'text/javascript; charset=utf-8',
  'icon.svg': 'image/svg+xml',
} as const;

export type AssetName = keyof typeof MEDIA_TYPES;

interface Asset {
  readonly bytes: Buffer;
  readonly version: string;
}

/** What the pages of the dashboard need besides themselves: read once, served from memory. */
export class Assets {
  readonly #assets: ReadonlyMap<string, Asset>;

  private constructor(assets: ReadonlyMap<string, Asset>) {
    this.#assets = assets;
  }

  /** @throws the system's error when a file is missing: then the installation is not whole */
  static async load(): Promise<Assets> {
    const names = Object.keys(MEDIA_TYPES);
    return new Assets(
      new Map(
        await Promise.all(
          names.map(async (name) => {
            const bytes = await readFile(join(DIRECTORY, name));
            const version = createHash('sha256').update(bytes).digest('hex').slice(0, 12);
            return [name, { bytes, version }] as const;
          }),
        ),
      ),
    );
  }

  /** Relative to the dashboard; another one for each content, so that it can be kept. */
  urlOf(name: AssetName): string {
    return `assets/${name}?${this.#assets.get(name)?.version}`;
  }

  /** Open to all: it is the same for everybody. */
  routes(): Router {
    const router = Router({ caseSensitive: true, strict: true });
    for (const [name, { bytes, version }] of this.#assets) {
      const send: RequestHandler = (req, res) => {
        const isThisVersion = req.originalUrl.endsWith(`?${version}`);
        res
          .writeHead(200, {
            'Content-Type': MEDIA_TYPES[name as AssetName],
            'Content-Length': bytes.length,
            'X-Content-Type-Options': 'nosniff',
            'Cache-Control': isThisVersion ? 'public, max-age=31536000, immutable' : 'no-cache',
          })
          .end(req.method === 'HEAD' ? undefined : bytes);
      };
      router.route(`/${name}`).all(allowOnly('GET', 'HEAD')).get(send);
    }
    return router;
  }
}
