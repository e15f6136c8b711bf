import { accessSync, constants } from 'node:fs';
import { delimiter, join } from 'node:path';
import { describe } from 'vitest';

export type RequirementName = 'terraform' | 'tofu' | 'redis-server' | 'git' | 'gpg' | 'sshd' | 'nginx' | 'chromium';

export interface Requirement {
  readonly name: RequirementName;
  readonly present: boolean;
  readonly path: string | undefined;
}

/** Programs that tests drive and that npm does not bring along. */
export const REQUIREMENTS: Readonly<
  Record<RequirementName, { readonly optional: boolean; readonly untested: string; readonly howToGet: string }>
> = {
  terraform: {
    optional: false,
    untested: 'Larder with the real Terraform client',
    howToGet: 'install Terraform 1.x from developer.hashicorp.com/terraform/install',
  },
  tofu: {
    optional: true,
    untested: 'Larder with the real OpenTofu client',
    howToGet: 'install OpenTofu 1.6 or later from opentofu.org/docs/intro/install',
  },
  'redis-server': {
    optional: false,
    untested: 'the metadata store on Redis and several Larders sharing it',
    howToGet: 'apt-get install redis-server, or brew install redis',
  },
  git: {
    optional: false,
    untested: 'modules that come from git',
    howToGet: 'apt-get install git, or brew install git',
  },
  gpg: {
    optional: true,
    untested: 'signatures made by GnuPG',
    howToGet: 'apt-get install gnupg, or brew install gnupg',
  },
  sshd: {
    optional: true,
    untested: 'modules that come from git over ssh',
    howToGet: 'apt-get install openssh-server; it may have to be looked for in /usr/sbin',
  },
  nginx: {
    optional: true,
    untested: 'exports that nginx serves',
    howToGet: 'apt-get install nginx-light, or brew install nginx; it may have to be looked for in /usr/sbin',
  },
  chromium: {
    optional: false,
    untested: 'the dashboard in a real browser',
    howToGet: 'apt-get install chromium, or have a Chromium under that name on PATH',
  },
};

/** Looks on PATH. Where CI is set and the part is not optional, a missing one is an error: CI tests everything. */
export function requirement(name: RequirementName): Requirement {
  const path = findProgram(name);
  if (path === undefined && process.env['CI'] === 'true' && !REQUIREMENTS[name].optional) {
    throw new Error(`${name} is missing, and with CI=true nothing is skipped: ${REQUIREMENTS[name].howToGet}`);
  }
  return { name, present: path !== undefined, path };
}

/** Whatever is missing on this machine, for the closing line of a run. */
export function missingRequirements(): RequirementName[] {
  return (Object.keys(REQUIREMENTS) as RequirementName[]).filter((name) => findProgram(name) === undefined);
}

/** A `describe` that is skipped, with the reason in its name, where one of its parts is missing. */
export function describeWith(names: readonly RequirementName[], title: string, suite: () => void): void {
  const missing = names.filter((name) => !requirement(name).present);
  if (missing.length === 0) describe(title, suite);
  else describe.skip(`${title} (skipped: no ${missing.join(', ')} here)`, suite);
}

function findProgram(name: string): string | undefined {
  return (process.env['PATH'] ?? '')
    .split(delimiter)
    .map((directory) => join(directory, name))
    .find((path) => {
      try {
        accessSync(path, constants.X_OK);
        return true;
      } catch {
        return false;
      }
    });
}
