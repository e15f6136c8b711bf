import { tmpdir } from 'node:os';
import { gitEnvironment } from './git-environment.ts';
import { runGit } from './git-process.ts';

const TIME_LIMIT_MS = 10_000;
const MAX_OUTPUT_BYTES = 4_096;

/** Older ones do not know `http.curloptResolve`: what a name stands for could change between our look and theirs. */
const OLDEST: GitVersion = { major: 2, minor: 37 };

export interface GitVersion {
  readonly major: number;
  readonly minor: number;
}

/** The version of the git on this search path; `undefined` when there is none that runs. Never fails. */
export async function gitVersion(searchPath: string | undefined): Promise<GitVersion | undefined> {
  const directory = tmpdir();
  try {
    const said = await runGit(
      {
        args: ['--version'],
        cwd: directory,
        env: gitEnvironment({ directory, searchPath }),
        signal: AbortSignal.timeout(TIME_LIMIT_MS),
      },
      MAX_OUTPUT_BYTES,
    );
    const [, major, minor] = /(\d+)\.(\d+)/.exec(said.toString('latin1')) ?? [];
    return major === undefined ? undefined : { major: Number(major), minor: Number(minor) };
  } catch {
    return undefined;
  }
}

/** Why modules cannot be fetched with this git, as the end of a sentence; `undefined` when they can. */
export function gitProblem(version: GitVersion | undefined): string | undefined {
  if (!version) return 'there is no git on the machine of the mirror';
  const { major, minor } = version;
  if (major > OLDEST.major || (major === OLDEST.major && minor >= OLDEST.minor)) return undefined;
  return `the git on the machine of the mirror is ${major}.${minor}, and ${OLDEST.major}.${OLDEST.minor} or later is needed`;
}
