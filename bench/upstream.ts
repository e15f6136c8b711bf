import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import type { ProviderOptions } from '../test/support/published-provider.ts';
import type { PublishedModule } from './published.ts';

const PROCESS = fileURLToPath(new URL('./upstream-process.ts', import.meta.url));

/** What the upstream is to publish, and how far away it is to seem. */
export interface UpstreamScript {
  /** Before each of its answers, milliseconds. */
  readonly latencyMs: number;
  /** Each archive comes at this speed. */
  readonly bytesPerSecond: number;
  readonly providers: readonly ProviderOptions[];
  readonly modules: readonly PublishedModule[];
}

export interface UpstreamLocation {
  /** The way to it, for HTTPS_PROXY. */
  readonly proxy: string;
  /** PEM certificate to trust. */
  readonly ca: string;
}

export interface Upstream extends UpstreamLocation {
  stop(): Promise<void>;
}

/** Starts it in a process of its own, on no core in particular: it is the rest of the world. */
export async function startUpstream(script: UpstreamScript): Promise<Upstream> {
  const child = spawn(process.execPath, ['--import', 'tsx', PROCESS, JSON.stringify(script)], {
    stdio: ['pipe', 'pipe', 'inherit'],
  });
  const ended = once(child, 'close');
  const lines = createInterface({ input: child.stdout });
  const [line] = (await Promise.race([once(lines, 'line'), ended])) as [unknown];
  if (typeof line !== 'string') throw new Error('the upstream did not start');
  return {
    ...(JSON.parse(line) as UpstreamLocation),
    stop: async () => {
      child.stdin.end();
      await ended;
    },
  };
}
