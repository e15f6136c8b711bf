import type { Logger } from './logger.ts';
import type { TraceContext } from './tracer.ts';

/** The request of a client on whose behalf something is done: it goes along to upstream, to logs and to traces. */
export interface RequestOrigin {
  readonly requestId: string;
  /** Absent where nothing is traced. */
  readonly trace?: TraceContext | undefined;
}

/** Whatever it says tells of the request on whose behalf that was. */
export function loggerFor(origin: RequestOrigin | undefined, logger: Logger): Logger {
  if (!origin) return logger;
  const { requestId } = origin;
  return {
    debug: (message, fields) => logger.debug(message, { requestId, ...fields }),
    info: (message, fields) => logger.info(message, { requestId, ...fields }),
    warn: (message, fields) => logger.warn(message, { requestId, ...fields }),
    error: (message, fields) => logger.error(message, { requestId, ...fields }),
  };
}
