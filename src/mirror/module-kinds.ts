import { z } from 'zod';
import { Version } from '../address/version.ts';
import type { MetadataKind } from '../cache/metadata-cache.ts';
import type { LocationAnswer, ModuleVersions } from '../upstream/module-registry.ts';
import type { FreshnessSettings } from './metadata-kinds.ts';

/** A location with a query may be signed and die within minutes: it is kept for one burst of requests, not for later. */
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
        const life = answer?.location.includes('?') && !isGit(answer.location) ? SIGNED_FRESH_MS : undefined;
        return { freshForMs: life ?? packages, keepForMs: life ?? keep, absentForMs: absent };
      },
    },
  };
}

/** `?ref=` is no signature. */
function isGit(location: string): boolean {
  return /^(?:git::|git@|github\.com\/|gitlab\.com\/|bitbucket\.org\/)/.test(location);
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
