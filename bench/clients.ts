import { runPinned } from './processes.ts';

/** What a burst of requests came to. */
export interface Burst {
  readonly requestsPerSecond: number;
  readonly bytesPerSecond: number;
  readonly requests: number;
  readonly bytes: number;
}

/** Keeps `connections` busy with one URL for so many seconds. @throws if any answer was not a good one */
export async function burst(
  url: string,
  { connections, seconds }: { connections: number; seconds: number },
): Promise<Burst> {
  const output = await runPinned('wrk', ['-t1', `-c${connections}`, `-d${seconds}s`, '--timeout', '60s', url]);
  const problem = /Socket errors:.*|Non-2xx.*/.exec(output);
  if (problem) throw new Error(`${url}: ${problem[0]}`);
  const [, requests, duration, unit, amount, prefix] =
    /(\d+) requests in ([\d.]+)(ms|s|m), ([\d.]+)([KMGT]?)B read/.exec(output) ?? [];
  const took = Number(duration) * (DURATION_UNITS[unit ?? ''] ?? Number.NaN);
  const bytes = Number(amount) * 1024 ** ' KMGT'.indexOf(prefix || ' ');
  return {
    requests: Number(requests),
    bytes,
    requestsPerSecond: Number(requests) / took,
    bytesPerSecond: bytes / took,
  };
}

const DURATION_UNITS: Readonly<Record<string, number>> = { ms: 0.001, s: 1, m: 60 };

export interface FetchOptions {
  /** PEM file of the authority to trust. */
  readonly caFile: string;
  readonly proxy?: string;
}

/**
 * Times a client that asks for one thing after the other over kept connections, up to a download, in milliseconds since
 * it began. The bytes are thrown away.
 * @throws if any of them fails, or the last is not `size` bytes long, where that is told
 */
export async function timeDownload(
  urls: readonly string[],
  { caFile, proxy }: FetchOptions,
  size?: number,
): Promise<{ firstByteMs: number; lastByteMs: number }> {
  const output = await runPinned('curl', [
    ...['--silent', '--show-error', '--fail', '--fail-early', '--cacert', caFile],
    ...['--write-out', '%{time_starttransfer} %{time_total} %{size_download}\\n'],
    ...(proxy ? ['--proxy', proxy] : ['--noproxy', '*']),
    ...urls.flatMap((url) => ['--output', '/dev/null', url]),
  ]);
  const steps = output
    .trim()
    .split('\n')
    .map((line) => line.split(' ').map(Number));
  const before = steps.slice(0, -1).reduce((sum, [, total = Number.NaN]) => sum + total, 0);
  const [firstByte = Number.NaN, lastByte = Number.NaN, received] = steps.at(-1) ?? [];
  if (size !== undefined && received !== size) throw new Error(`${urls.at(-1)}: ${received} bytes instead of ${size}`);
  return { firstByteMs: (before + firstByte) * 1000, lastByteMs: (before + lastByte) * 1000 };
}

/** Downloads all of them, so many at once, to nowhere. @throws if any of them fails */
export async function downloadAll(urls: readonly string[], { caFile }: FetchOptions, atOnce: number): Promise<void> {
  const targets = urls.flatMap((url) => ['--output', '/dev/null', url]);
  await runPinned('curl', [
    ...['--silent', '--show-error', '--fail', '--fail-early', '--cacert', caFile, '--noproxy', '*'],
    ...['--parallel', '--parallel-immediate', '--parallel-max', String(atOnce)],
    ...targets,
  ]);
}
