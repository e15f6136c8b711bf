import { cpus, loadavg, release, totalmem } from 'node:os';
import { runProgram } from './processes.ts';

/** What the figures were measured on. */
export interface Machine {
  readonly cpu: string;
  readonly cores: number;
  readonly memoryGiB: number;
  readonly kernel: string;
  readonly node: string;
  readonly nginx: string;
  readonly wrk: string;
  readonly curl: string;
  readonly terraform: string;
}

export async function describeMachine(): Promise<Machine> {
  const [nginx, wrk, curl, terraform] = await Promise.all([
    versionOf('nginx', '-v', /nginx\/(\S+)/),
    versionOf('wrk', '-v', /wrk\s+(?:debian\/)?(\S+)/),
    versionOf('curl', '--version', /curl (\S+)/),
    versionOf('terraform', 'version', /Terraform v(\S+)/),
  ]);
  return {
    cpu: cpus()[0]?.model.trim() ?? 'unknown',
    cores: cpus().length,
    memoryGiB: Math.round(totalmem() / 2 ** 30),
    kernel: release(),
    node: process.versions.node,
    nginx,
    wrk,
    curl,
    terraform,
  };
}

/** Programs ready to run, on average over the last minute: the harness itself accounts for about two. */
export function load(): number {
  return loadavg()[0] ?? Number.NaN;
}

async function versionOf(program: string, argument: string, pattern: RegExp): Promise<string> {
  // Some say it on standard error, and some call that a failure.
  const output = await runProgram('sh', ['-c', `${program} ${argument} 2>&1; true`]);
  return pattern.exec(output)?.[1] ?? 'unknown';
}
