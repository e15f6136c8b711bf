import { z } from 'zod';
import { Version } from '../address/version.ts';
import type { MetadataKind } from '../cache/metadata-cache.ts';
import type { LocationAnswer, ModuleVersions } from '../upstream/module-registry.ts';
import type { FreshnessSettings } from './metadata-kinds.ts';

/** A location with a query may be signed and die within minutes: it is remembered for one burst of requests, and never written down. */
const SIGNED_FRESH_MS = 60_000;

/** The kinds of metadata of modules that are cached: how long each is good for, and how each rests in the store. */
export interface ModuleKinds {
  readonly moduleVersions: MetadataKind<ModuleVersions>;
  readonly moduleLocation: MetadataKind<LocationAnswer>;
}

export function moduleKinds({ versions, packages, absent, keep }: FreshnessSettings): ModuleKinds {
  return {
    moduleVersions: {
      ...storedVersions,
      freshness: () => ({ freshForMs: versions, keepForMs: keep, absentForMs: absent }),
    },
    moduleLocation: {
      ...storedLocation,
      freshness: (answer) => {
        const isShortLived = answer !== undefined && holdsSecrets(answer.location);
        return {
          freshForMs: isShortLived ? Math.min(SIGNED_FRESH_MS, packages) : packages,
          keepForMs: isShortLived ? 0 : keep,
          absentForMs: absent,
        };
      },
    },
  };
}

/** Whether it may: a signature in its query, or a user's name and password. A query of git (`?ref=`) is no signature. */
function holdsSecrets(location: string): boolean {
  const isGit = /^(?:git::|git@|github\.com\/|gitlab\.com\/|bitbucket\.org\/)/.test(location);
  return isGit ? /\/\/[^/]*:[^/]*@/.test(location) : /[?@]/.test(location);
}

const versionsShape = z.object({
  versions: z.array(z.object({ version: z.string(), published: z.string() })),
  skipped: z.array(z.string()),
});

const storedVersions: Pick<MetadataKind<ModuleVersions>, 'decode' | 'encode'> = {
  decode: (stored) => {
    const { versions, skipped } = versionsShape.parse(stored);
    return {
      versions: versions.map(({ version, published }) => ({ version: Version.parse(version), published })),
      skipped,
    };
  },
  encode: ({ versions, skipped }) => ({
    versions: versions.map(({ version, published }) => ({ version: version.toString(), published })),
    skipped: [...skipped],
  }),
};

const locationShape = z.object({
  location: z.string(),
  base: z.url(),
  useRegistryCredentials: z.boolean(),
  isDirect: z.boolean(),
});

const storedLocation: Pick<MetadataKind<LocationAnswer>, 'decode' | 'encode'> = {
  decode: (stored) => locationShape.parse(stored),
  encode: (answer) => ({ ...answer }),
};
