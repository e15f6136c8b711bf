import { z } from 'zod';
import { parseHash, parseSha256 } from '../address/hash.ts';
import { Platform } from '../address/platform.ts';
import { Version } from '../address/version.ts';
import type { Freshness } from '../cache/freshness.ts';
import type { MetadataKind } from '../cache/metadata-cache.ts';
import type { PackageDocument, ProviderVersions } from '../upstream/registry-answers.ts';
import type { Services } from '../upstream/service-discovery.ts';
import { type ModuleKinds, moduleKinds } from './module-kinds.ts';
import type { Release } from './release.ts';
import { statementFile, storedStatement } from './release-statement.ts';

/** Configured life spans of metadata, in milliseconds. */
export interface FreshnessSettings {
  readonly versions: number;
  readonly discovery: number;
  readonly packages: number;
  readonly absent: number;
  readonly keep: number;
}

/** A download address may be signed and die within minutes: it is kept for one burst of requests, not for later. */
const DOCUMENT_FRESH_MS = 60_000;

/** The kinds of upstream metadata that are cached: how long each is good for, and how each rests in the store. */
export interface MetadataKinds extends ModuleKinds {
  readonly discovery: MetadataKind<Services>;
  readonly versions: MetadataKind<ProviderVersions>;
  readonly release: MetadataKind<Release>;
  readonly document: MetadataKind<PackageDocument>;
}

export function metadataKinds(settings: FreshnessSettings): MetadataKinds {
  const lasting = (freshForMs: number): Freshness => ({
    freshForMs,
    keepForMs: settings.keep,
    absentForMs: settings.absent,
  });
  return {
    ...moduleKinds(settings),
    discovery: { ...services, freshness: () => lasting(settings.discovery) },
    versions: { ...versions, freshness: () => lasting(settings.versions) },
    release: {
      ...release,
      // A release without all its platforms was probably seen while it was being published.
      freshness: (value) =>
        lasting(value?.complete === false ? Math.min(settings.absent, settings.packages) : settings.packages),
    },
    document: {
      ...document,
      freshness: () => ({ freshForMs: DOCUMENT_FRESH_MS, keepForMs: DOCUMENT_FRESH_MS, absentForMs: settings.absent }),
    },
  };
}

/** What one requester was told is not kept for long after it was last asked for: there may be as many as there are tokens. */
const PRIVATE_KEEP_MS = 24 * 3_600_000;

/**
 * The same for upstreams that are asked on behalf of those who ask here: every answer is also the proof that they may
 * have it, which is to be renewed as often as a list of versions.
 */
export function privateMetadataKinds(settings: FreshnessSettings): MetadataKinds {
  return metadataKinds({
    ...settings,
    packages: Math.min(settings.packages, settings.versions),
    keep: Math.min(settings.keep, PRIVATE_KEEP_MS),
  });
}

/** How values rest: plain JSON. What does not decode (another program's, damaged, an older shape) is a miss. */
type Codec<T> = Pick<MetadataKind<T>, 'decode' | 'encode'>;

const storedVersions = z.object({
  versions: z.array(
    z.object({
      version: z.string(),
      published: z.string(),
      protocols: z.array(z.string()),
      platforms: z.array(z.string()),
    }),
  ),
  skipped: z.array(z.string()),
  warnings: z.array(z.string()),
});

const versions: Codec<ProviderVersions> = {
  decode: (stored) => {
    const list = storedVersions.parse(stored);
    return {
      ...list,
      versions: list.versions.map((entry) => ({
        ...entry,
        version: Version.parse(entry.version),
        platforms: entry.platforms.map((text) => Platform.parse(text)),
      })),
    };
  },
  encode: (list) => ({
    ...list,
    versions: list.versions.map((entry) => ({
      ...entry,
      version: entry.version.toString(),
      platforms: entry.platforms.map(String),
    })),
  }),
};

const storedRelease = z.object({
  packages: z.array(
    z.object({
      platform: z.string(),
      sha256: z.string(),
      h1: z.string().nullable(),
      size: z.number().nullable(),
      drifted: z.string().nullable().default(null),
    }),
  ),
  shasums: z.string().nullable(),
  shasumsSignature: z.string().nullable(),
  statement: storedStatement,
  signature: z.enum(['signed', 'unsigned', 'unchecked']),
  complete: z.boolean(),
});

const release: Codec<Release> = {
  decode: (stored) => {
    const { packages, shasums, shasumsSignature, statement, signature, complete } = storedRelease.parse(stored);
    return {
      packages: new Map(
        packages.map((entry) => [
          entry.platform,
          {
            platform: Platform.parse(entry.platform),
            sha256: parseSha256(entry.sha256),
            h1: entry.h1 === null ? undefined : parseHash(entry.h1),
            size: entry.size ?? undefined,
            drifted: entry.drifted === null ? undefined : parseSha256(entry.drifted),
          },
        ]),
      ),
      files:
        shasums === null
          ? undefined
          : {
              shasums: Buffer.from(shasums, 'base64'),
              signature: shasumsSignature === null ? undefined : Buffer.from(shasumsSignature, 'base64'),
              statement: statementFile(statement),
            },
      statement,
      signature,
      complete,
    };
  },
  encode: ({ packages, files, statement, signature, complete }) => ({
    packages: [...packages.values()].map(({ platform, sha256, h1, size, drifted }) => ({
      platform: platform.toString(),
      sha256,
      h1: h1 ?? null,
      size: size ?? null,
      drifted: drifted ?? null,
    })),
    shasums: files?.shasums.toString('base64') ?? null,
    shasumsSignature: files?.signature?.toString('base64') ?? null,
    statement,
    signature,
    complete,
  }),
};

const storedDocument = z.object({
  platform: z.string(),
  filename: z.string(),
  downloadUrl: z.url(),
  sha256: z.string(),
  shasumsUrl: z.url().nullable(),
  signatureUrl: z.url().nullable(),
  signingKeys: z.array(z.string()),
  statement: storedStatement,
  packages: z.record(z.string(), z.object({ hashes: z.array(z.string()), size: z.number() })),
});

const document: Codec<PackageDocument> = {
  decode: (stored) => {
    const given = storedDocument.parse(stored);
    return {
      ...given,
      platform: Platform.parse(given.platform),
      downloadUrl: new URL(given.downloadUrl),
      sha256: parseSha256(given.sha256),
      shasumsUrl: given.shasumsUrl === null ? undefined : new URL(given.shasumsUrl),
      signatureUrl: given.signatureUrl === null ? undefined : new URL(given.signatureUrl),
      packages: new Map(
        Object.entries(given.packages).map(([name, { hashes, size }]) => [
          name,
          { hashes: hashes.map(parseHash), size },
        ]),
      ),
    };
  },
  encode: (value) => ({
    ...value,
    platform: value.platform.toString(),
    downloadUrl: value.downloadUrl.href,
    shasumsUrl: value.shasumsUrl?.href ?? null,
    signatureUrl: value.signatureUrl?.href ?? null,
    packages: Object.fromEntries(value.packages),
  }),
};

const services: Codec<Services> = {
  decode: (stored) => z.record(z.string(), z.url()).parse(stored),
  encode: (value) => value,
};
