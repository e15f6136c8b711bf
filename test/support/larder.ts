import { type App, createApp } from '../../src/app.ts';
import { loadConfig } from '../../src/config.ts';
import type { Logger, LogLevel } from '../../src/logger.ts';
import { afterTest } from './after-test.ts';
import { type LarderSetup, type LarderSetupOptions, larderSetup } from './larder-setup.ts';

export interface LogEntry {
  readonly level: LogLevel;
  readonly message: string;
  readonly fields: Readonly<Record<string, unknown>>;
}

/** A Larder inside the test's own process, as `larder serve` would put it together. */
export interface Larder {
  /** `https://localhost:PORT`, without a slash at its end. */
  readonly url: string;
  readonly port: number;
  /** PEM certificate to trust. */
  readonly ca: string;
  /** For starting another on the same data after `close()`. */
  readonly setup: LarderSetup;
  readonly app: App;
  /** Everything it logged. */
  readonly log: readonly LogEntry[];
  /** Stops it; the second call does nothing. Its setup stays. */
  close(): Promise<void>;
}

/**
 * Starts a Larder on a setup of its own, or on `setup` (which must have been stopped). Inside a test it is closed at
 * the end of it; elsewhere call `close()` and `setup.remove()`.
 */
export async function startLarder(
  options: LarderSetupOptions & { readonly setup?: LarderSetup; readonly env?: NodeJS.ProcessEnv } = {},
): Promise<Larder> {
  const setup = options.setup ?? (await larderSetup(options));
  const config = await loadConfig({ file: setup.configFile, env: options.env ?? {}, cwd: setup.dataDirectory });
  const log: LogEntry[] = [];
  const app = await createApp(config, { logger: recordingLogger(log), version: '0.0.0-test' });
  let closed: Promise<void> | undefined;
  const close = () => {
    closed ??= app.close();
    return closed;
  };
  afterTest(close);
  const { url, port } = await app.listen();
  return { url, port, ca: setup.ca, setup, app, log, close };
}

/** Keeps what is logged, for tests that look into it. */
export function recordingLogger(log: LogEntry[]): Logger {
  const record =
    (level: LogLevel) =>
    (message: string, fields: Record<string, unknown> = {}) =>
      void log.push({ level, message, fields });
  return { debug: record('debug'), info: record('info'), warn: record('warn'), error: record('error') };
}
