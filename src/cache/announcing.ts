import type { Logger } from '../logger.ts';

/** Tells somebody of what has come into the store. Whoever is told by it and throws is logged, and fails nobody else. */
export function announcing<T>(deps: {
  tell: ((stored: T) => void) | undefined;
  /** For the log. */
  describe: (stored: T) => Record<string, unknown>;
  logger: Logger;
}): (stored: T) => void {
  const { tell, describe, logger } = deps;
  return (stored) => {
    try {
      tell?.(stored);
    } catch (error) {
      logger.error('nobody could be told of what was stored', { ...describe(stored), error });
    }
  };
}
