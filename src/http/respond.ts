import { createHash } from 'node:crypto';
import type { IncomingMessage } from 'node:http';
import type { Response } from 'express';
import { LRUCache } from 'lru-cache';
import type { MirroredAddress } from '../address/mirrored-address.ts';
import type { ModuleAddress } from '../address/module.ts';
import type { Platform } from '../address/platform.ts';
import type { ProviderAddress } from '../address/provider.ts';
import type { Version } from '../address/version.ts';
import type { RequestOrigin } from '../request-origin.ts';
import type { Span } from '../tracer.ts';
import type { Client } from './authenticate.ts';

/** A document, JSON mostly, as it goes over the wire, with a strong validator made of its content. */
export interface JsonBody {
  readonly bytes: Buffer;
  readonly etag: string;
}

/** How current an answer is. */
export interface Currency {
  /** Present when upstream could not confirm it. */
  readonly stale?: Staleness | undefined;
  /** Milliseconds since the epoch: until then it stays the same, unless something changes here. */
  readonly freshUntil?: number | undefined;
}

/** What an answer says of itself when upstream could not confirm it. */
export interface Staleness {
  readonly ageSeconds: number;
  /** What it lacks, in words of addresses and versions. */
  readonly missing?: string;
}

/** A provider or a module, one version of it, or one archive. */
export type Asked = ({ readonly provider: ProviderAddress } | { readonly module: ModuleAddress }) & {
  readonly version?: Version;
  readonly platform?: Platform;
  /** Where it is not the archive, the packages or the versions themselves. */
  readonly what?: string;
};

/** Of what something was asked for. */
export function addressOf(asked: Asked): MirroredAddress {
  return 'module' in asked ? asked.module : asked.provider;
}

/** What handlers leave behind for each other and for the logs. */
export interface AnswerNotes {
  requestId: string;
  /** Absent where nothing is traced. */
  span?: Span | undefined;
  /** One word: where the answer came from, or the code of the error that it is. */
  outcome?: string | undefined;
  /** Absent at doors that are open to all. */
  client?: Client | undefined;
  asked?: Asked | undefined;
  /** Why it was refused, in more words than the client is told. */
  reason?: string | undefined;
  /** The answer is for this client alone: caches on the way may not give it to others. */
  isPersonal?: boolean | undefined;
  /** Takes the answer, for those who ask for the same in the next moment. Absent where it is for nobody else. */
  keepReady?: (document: { headers: string[]; body: Buffer }, freshUntil: number) => void;
}

/** The notes of one answer, which live as long as it does. */
export function notesOf(res: Response): AnswerNotes {
  return res.locals as AnswerNotes;
}

/** What goes along with whatever is done for this request. */
export function originOf(res: Response): RequestOrigin {
  const { requestId, span } = notesOf(res);
  return { requestId, trace: span?.context };
}

/** Equal values give equal bytes and equal validators, as long as their keys come in the same order. */
export function jsonBody(value: unknown): JsonBody {
  return contentBody(Buffer.from(JSON.stringify(value)));
}

/** Bytes that are somebody else's, whatever they are. */
export function contentBody(bytes: Buffer): JsonBody {
  return { bytes, etag: `"${createHash('sha256').update(bytes).digest('base64url')}"` };
}

/** What was rendered of objects that never change, for as long as those are in use. */
export class RenderedBodies<T extends object> {
  readonly #bodies = new WeakMap<T, JsonBody>();
  readonly #render: (of: T) => unknown;

  constructor(render: (of: T) => unknown) {
    this.#render = render;
  }

  bodyOf(object: T): JsonBody {
    let body = this.#bodies.get(object);
    if (!body) {
      body = jsonBody(this.#render(object));
      this.#bodies.set(object, body);
    }
    return body;
  }
}

/** Variants of one document that are kept at a time: those for the clients that ask most. */
const MAX_VARIANTS = 16;

/** The same for documents that are not the same for everybody. */
export class RenderedVariants<T extends object> {
  readonly #bodies = new WeakMap<T, LRUCache<string, JsonBody>>();

  /** @param variant what the document depends on besides the object */
  bodyOf(object: T, variant: string, render: () => unknown): JsonBody {
    let variants = this.#bodies.get(object);
    if (!variants) {
      variants = new LRUCache({ max: MAX_VARIANTS });
      this.#bodies.set(object, variants);
    }
    let body = variants.get(variant);
    if (!body) {
      body = jsonBody(render());
      variants.set(variant, body);
    }
    return body;
  }
}

/**
 * Answers GET and HEAD with a JSON document. It may be kept by caches (by those on the way only what is not personal), but
 * must be asked after each time: `If-None-Match` makes that cheap. The media type is the one the clients insist on (anything else is fatal to them).
 */
export function sendJson(req: IncomingMessage, res: Response, body: JsonBody, currency?: Currency): void {
  sendContent(req, res, 'application/json', body, currency);
}

/** The same for content of another media type. */
export function sendContent(
  req: IncomingMessage,
  res: Response,
  mediaType: string,
  { bytes, etag }: JsonBody,
  { stale, freshUntil }: Currency = {},
): void {
  const notes = notesOf(res);
  const headers: Record<string, string | number> = {
    ETag: etag,
    'Cache-Control': notes.isPersonal ? 'private, no-cache' : 'no-cache',
  };
  if (stale) {
    headers['Age'] = Math.max(0, Math.round(stale.ageSeconds));
    headers['Warning'] =
      stale.missing === undefined
        ? '110 - "Response is Stale"'
        : `199 - "${stale.missing.replace(/[^ \w!#-~]/g, '?')}"`;
    notes.outcome = 'stale';
  }
  if (matchesEtag(req.headers['if-none-match'], etag)) {
    res.writeHead(304, headers).end();
    return;
  }
  headers['Content-Type'] = mediaType;
  headers['Content-Length'] = bytes.length;
  // What is stale stays so, and its age is in whole seconds.
  const unchangedUntil = stale ? Number.POSITIVE_INFINITY : freshUntil;
  if (unchangedUntil !== undefined && !notes.isPersonal) {
    notes.keepReady?.({ headers: Object.entries(headers).flat().map(String), body: bytes }, unchangedUntil);
  }
  res.writeHead(200, headers).end(bytes);
}

/** Whether an `If-None-Match` header names this validator (RFC 9110, 13.1.2: weak comparison). */
export function matchesEtag(header: string | undefined, etag: string): boolean {
  if (header === undefined) return false;
  if (header.trim() === '*') return true;
  return header.split(',').some((candidate) => candidate.trim().replace(/^W\//, '') === etag);
}
