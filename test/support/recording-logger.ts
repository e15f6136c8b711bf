import type { Logger } from '../../src/logger.ts';

export interface LogLine {
  readonly level: keyof Logger;
  readonly message: string;
  readonly fields: Record<string, unknown> | undefined;
}

/** Keeps what was logged, for tests of what is said and how often. */
export function recordingLogger(): Logger & { readonly lines: LogLine[] } {
  const lines: LogLine[] = [];
  const record = (level: keyof Logger) => (message: string, fields?: Record<string, unknown>) => {
    lines.push({ level, message, fields });
  };
  return { lines, debug: record('debug'), info: record('info'), warn: record('warn'), error: record('error') };
}
