import { burst } from './clients.ts';
import type { ServerProcess } from './processes.ts';
import type { Contender, Measurement } from './rounds.ts';
import type { WarmPair } from './warm-pair.ts';

export const REQUESTS = { name: 'requests', unit: '1/s', better: 'more' } as const;
export const REQUEST_COST = { name: 'server CPU per request', unit: 'µs', better: 'less' } as const;
export const BYTES = { name: 'bytes', unit: 'MB/s', better: 'more' } as const;
export const BYTE_COST = { name: 'server CPU per GB', unit: 'ms', better: 'less' } as const;

/** Both under the same load, each asked for the same thing where it has it. All of the metrics above are measured. */
export function underLoad(
  { larder, nginx }: WarmPair,
  paths: { readonly larder: string; readonly nginx: string },
  load: { readonly connections: number; readonly seconds: number },
): { larder: Contender; reference: Contender } {
  const contender = (name: string, { url, server }: { url: string; server: ServerProcess }, path: string) => ({
    name,
    measure: async (): Promise<Measurement> => {
      const before = server.cpuSeconds();
      const { requests, bytes, requestsPerSecond, bytesPerSecond } = await burst(url + path, load);
      const cpuSeconds = server.cpuSeconds() - before;
      return {
        [REQUESTS.name]: requestsPerSecond,
        [REQUEST_COST.name]: (cpuSeconds / requests) * 1e6,
        [BYTES.name]: bytesPerSecond / 1e6,
        [BYTE_COST.name]: (cpuSeconds / bytes) * 1e12,
      };
    },
  });
  return { larder: contender('Larder', larder, paths.larder), reference: contender('nginx', nginx, paths.nginx) };
}
