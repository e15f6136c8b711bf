/**
 * What can go wrong, in the words of the domain. Absent, unreachable, refused and corrupt are four different
 * things: only *unreachable* (and nonsense) may be answered with stale data, only *absent* may be remembered.
 *
 * No class here knows of HTTP; `http/error-handler.ts` holds the one table that turns them into answers.
 * Messages are shown to clients: they name hosts and files, never query strings, tokens or paths on this machine.
 */
export abstract class LarderError extends Error {
  /** Stable identifier, safe to compare across module copies and to show in logs and JSON. */
  abstract readonly code: string;
  /** What the reader can do about it, when there is something to say. */
  readonly hint: string | undefined;

  constructor(message: string, options: { hint?: string | undefined; cause?: unknown } = {}) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause });
    this.name = new.target.name;
    this.hint = options.hint;
  }
}

/** A hostname, provider, version, platform, file name or hash that cannot be one. Nothing was looked up. */
export class InvalidAddress extends LarderError {
  readonly code = 'INVALID_ADDRESS';

  constructor(what: string, value: string, why: string, options: { hint?: string } = {}) {
    super(`${JSON.stringify(shortened(value))} is not a valid ${what}: ${why}`, options);
  }
}

/** The authority for it says that it does not exist. May be remembered, briefly. */
export class NotFound extends LarderError {
  readonly code = 'NOT_FOUND';
}

/** The host is not on the allow-list of upstreams: Larder is not an open proxy. */
export class HostNotAllowed extends LarderError {
  readonly code = 'HOST_NOT_ALLOWED';
}

/** It exists, where no mirror can fetch it, and the operator wants nobody sent there. */
export class NotMirrored extends LarderError {
  readonly code = 'NOT_MIRRORED';
}

/** The upstream's `include`/`exclude` patterns leave this address out. */
export class AddressExcluded extends LarderError {
  readonly code = 'ADDRESS_EXCLUDED';
}

/** Why an upstream gave no usable answer. `sealed` means that Larder itself does not let anything out. */
export type UnreachableReason = 'connection' | 'timeout' | 'busy' | 'failing' | 'sealed';

/** No usable answer: DNS, connection, TLS, time-out, reset, truncated body, 429, 5xx, open circuit, sealed. May pass by itself. */
export class UpstreamUnreachable extends LarderError {
  readonly code = 'UPSTREAM_UNREACHABLE';
  readonly host: string;
  readonly reason: UnreachableReason;
  /** What the host did, as it stands in the message behind its name. */
  readonly detail: string;
  /** How long the upstream asked to be left alone, in milliseconds. */
  readonly retryAfterMs: number | undefined;

  constructor(
    host: string,
    reason: UnreachableReason,
    detail: string,
    options: { retryAfterMs?: number | undefined; cause?: unknown; hint?: string | undefined } = {},
  ) {
    super(`${host} ${detail}`, options);
    this.host = host;
    this.reason = reason;
    this.detail = detail;
    this.retryAfterMs = options.retryAfterMs;
  }
}

/** The upstream answered 401 or 403: our credentials are missing, wrong or not enough. Never cached. */
export class UpstreamRefused extends LarderError {
  readonly code = 'UPSTREAM_REFUSED';
  readonly host: string;

  constructor(host: string, detail: string, options: { hint?: string; cause?: unknown } = {}) {
    super(`${host} ${detail}`, options);
    this.host = host;
  }
}

/** The upstream answered, but not in its protocol: HTML, a captive portal, wrong shapes, forbidden redirects. Never cached. */
export class UpstreamInvalid extends LarderError {
  readonly code = 'UPSTREAM_INVALID';
  readonly host: string;

  constructor(host: string, detail: string, options: { hint?: string; cause?: unknown } = {}) {
    super(`${host} ${detail}`, options);
    this.host = host;
  }
}

/** Bytes that are not what was promised: a digest, a size or a signature does not match. Thrown away, never cached. */
export class IntegrityMismatch extends LarderError {
  readonly code = 'INTEGRITY_MISMATCH';
}

/** Whoever asks would have to show a token that is known here, and did not. */
export class Unauthenticated extends LarderError {
  readonly code = 'UNAUTHENTICATED';
}

/** Tokens that are not known here came from this address too often to go on looking at them. */
export class TooManyAttempts extends LarderError {
  readonly code = 'TOO_MANY_ATTEMPTS';
}

/** It is known who asks, and this is not open to them. */
export class Forbidden extends LarderError {
  readonly code = 'FORBIDDEN';
}

/** A download link that was good once. */
export class LinkExpired extends LarderError {
  readonly code = 'LINK_EXPIRED';
}

/** A download link that was never given out for this file, or whose holder has lost the right to it. Nothing tells which. */
export class LinkNotValid extends LarderError {
  readonly code = 'LINK_NOT_VALID';
}

/**
 * Our own disk failed, or what takes its place. `full` when there is no room left, `gone` when what was stored is not there
 * any more, `readable` when it is known that what is stored can be read all the same, `busy` when asking again in a moment
 * will do; `store` names what is in trouble when that is another service.
 */
export class StorageFailed extends LarderError {
  readonly code = 'STORAGE_FAILED';
  readonly full: boolean;
  readonly gone: boolean;
  readonly readable: boolean;
  readonly busy: boolean;
  readonly store: 'redis' | undefined;

  constructor(
    operation: string,
    cause: unknown,
    options: { hint?: string; readable?: boolean; busy?: boolean; store?: 'redis' | undefined } = {},
  ) {
    const reason = (cause as { code?: unknown } | null)?.code;
    super(`${operation} failed${typeof reason === 'string' ? ` (${reason})` : ''}`, { hint: options.hint, cause });
    this.readable = options.readable ?? false;
    this.busy = options.busy ?? false;
    this.store = options.store;
    this.full = reason === 'ENOSPC' || reason === 'EDQUOT';
    this.gone = reason === 'ENOENT';
  }
}

/** Configuration that cannot be used: names the file, the line and the key, and how to mend it. */
export class InvalidConfiguration extends LarderError {
  readonly code = 'INVALID_CONFIGURATION';
}

/** `code` rather than `instanceof`, which breaks when a module is loaded twice (tests, workers). */
export function hasCode<C extends string>(error: unknown, code: C): error is LarderError & { code: C } {
  return error instanceof Error && (error as { code?: unknown }).code === code;
}

export function isUnreachable(error: unknown): error is UpstreamUnreachable {
  return hasCode(error, 'UPSTREAM_UNREACHABLE');
}

/** Absurdly long input is not echoed whole into messages and logs. */
function shortened(value: string): string {
  return value.length > 120 ? `${value.slice(0, 117)}…` : value;
}
