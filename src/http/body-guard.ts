import type { IncomingMessage, ServerResponse } from 'node:http';

/** For a whole body to arrive, unless it may take long; also for what is left of one that was answered meanwhile. */
const BODY_MS = 120_000;
/** For the next byte of any body. Networks recover from less. */
const SILENCE_MS = 60_000;
/** So often is looked, within the shortest of the limits. */
const LOOKS = 8;

/** How long bodies of requests are waited for, in milliseconds. */
export interface BodyLimits {
  readonly bodyMs: number;
  readonly silenceMs: number;
}

/** Set on requests by `letBodyTakeLong`. */
const TAKES_LONG = Symbol('takes long');

type Watched = IncomingMessage & { [TAKES_LONG]?: boolean };

/**
 * For doors that take bodies of any length, once they know who comes: the body of this request is waited for as long as
 * it makes progress.
 */
export function letBodyTakeLong(req: IncomingMessage): void {
  (req as Watched)[TAKES_LONG] = true;
}

/**
 * Ends connections on which the body of a request does not arrive: it makes no progress, or takes longer than small
 * bodies have. Whoever sends much over a slow line is waited for, whoever sends a byte a minute to hold a connection is
 * not.
 */
export class BodyGuard {
  readonly #limits: BodyLimits;
  readonly #onLate: (req: IncomingMessage, res: ServerResponse) => void;

  /** @param deps.onLate ends the connection */
  constructor(deps: {
    limits?: Partial<BodyLimits> | undefined;
    onLate: (req: IncomingMessage, res: ServerResponse) => void;
  }) {
    this.#limits = { bodyMs: BODY_MS, silenceMs: SILENCE_MS, ...deps.limits };
    this.#onLate = deps.onLate;
  }

  /** From its headers until its body is here, also when that is sent on after the answer. */
  watch(req: IncomingMessage, res: ServerResponse): void {
    if (!hasBody(req)) return;
    const { socket } = req;
    const { bodyMs, silenceMs } = this.#limits;
    let bytes = socket.bytesRead;
    let heardAt = performance.now();
    let countedFrom = heardAt;
    const looking = setInterval(
      () => {
        if (req.complete || socket.destroyed) return clearInterval(looking);
        const now = performance.now();
        // What lies here unread is held up by us, and the rest behind it.
        if (socket.bytesRead !== bytes || req.readableLength > 0) {
          bytes = socket.bytesRead;
          heardAt = now;
        }
        if ((req as Watched)[TAKES_LONG] && !res.writableEnded) countedFrom = now;
        if (now - heardAt < silenceMs && now - countedFrom < bodyMs) return;
        clearInterval(looking);
        this.#onLate(req, res);
      },
      Math.max(1, Math.min(bodyMs, silenceMs) / LOOKS),
    ).unref();
    req.once('close', () => clearInterval(looking));
  }
}

/** RFC 9112, section 6: one that has neither of these has none. */
function hasBody({ headers }: IncomingMessage): boolean {
  return headers['transfer-encoding'] !== undefined || Number(headers['content-length'] ?? 0) > 0;
}
