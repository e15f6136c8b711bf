import {
  hasCode,
  isUnreachable,
  type LarderError,
  NotFound,
  UpstreamInvalid,
  UpstreamRefused,
  UpstreamUnreachable,
} from '../errors.ts';
import { AddressNotAllowed, internalAddress } from './address-guard.ts';

/** An answer's headers by lower-case name; repeated ones joined. */
export type Headers = Readonly<Record<string, string>>;

/**
 * An answer other than the one hoped for, in the words of the domain. Names host and path; the query of a URL may be
 * a signature, and is never shown.
 */
export function statusFailure(url: URL, status: number, retryAfterMs: number | undefined): LarderError {
  if (status === 404 || status === 410) return new NotFound(`${url.host} has no ${url.pathname}`);
  if (status === 401 || status === 403) {
    return new UpstreamRefused(url.host, `refused access to ${url.pathname} (${status})`, {
      hint: 'Check the credentials configured for this upstream.',
    });
  }
  if (status === 429) {
    return new UpstreamUnreachable(url.host, 'busy', 'asks for fewer requests (429)', { retryAfterMs });
  }
  if (status >= 500) return new UpstreamUnreachable(url.host, 'failing', `failed (${status})`, { retryAfterMs });
  return new UpstreamInvalid(url.host, `answered ${status} for ${url.pathname}, which means nothing here`);
}

/** Says what is absent in the words of whoever asked for it, instead of by the path of a URL. */
export function absentAs(message: string): (error: unknown) => never {
  return (error) => {
    throw hasCode(error, 'NOT_FOUND') ? new NotFound(message, { cause: error }) : error;
  };
}

/** Nothing is sent there, whatever is wanted: Larder is sealed. */
export function sealedFailure(host: string): UpstreamUnreachable {
  return new UpstreamUnreachable(host, 'sealed', 'is not asked: Larder is sealed, nothing leaves it');
}

/** The caller's deadline passed, or it lost interest. */
export function deadlineFailure(host: string, cause: unknown): UpstreamUnreachable {
  return new UpstreamUnreachable(host, 'timeout', 'did not answer in time', { cause });
}

/** An error of DNS, TCP, TLS, a proxy or the HTTP parser, in the words of the domain. Errors of the domain pass. */
export function transportFailure(url: URL, error: unknown, signal: AbortSignal): Error {
  if (isLarderError(error)) return error;
  if (signal.aborted) return deadlineFailure(url.host, error);
  const cause = rootOf(error);
  if (cause instanceof AddressNotAllowed) return internalAddress(url.host, error);
  const code = codeOf(cause);
  if (TIMEOUTS[code]) return new UpstreamUnreachable(url.host, 'timeout', TIMEOUTS[code], { cause: error });
  if (NONSENSE.test(code) && !CUT_SHORT.has(code)) {
    return new UpstreamInvalid(url.host, `answered something that is not HTTP (${code})`, { cause: error });
  }
  const certificate = CERTIFICATE.test(code);
  return new UpstreamUnreachable(url.host, 'connection', connectionDetail(code, certificate, cause), {
    cause: error,
    hint: certificate ? 'If its certificate comes from a private CA, set ca for this upstream.' : undefined,
  });
}

/** May be over in a moment. Time-outs are not tried again: that would double a wait that was too long already. */
export function isWorthRetrying(error: unknown): error is UpstreamUnreachable {
  if (!isUnreachable(error) || error.reason === 'timeout' || error.reason === 'sealed') return false;
  if (error.reason === 'failing') return /\((500|502|503|504)\)/.test(error.message);
  const code = codeOf(rootOf(error.cause));
  return ![CERTIFICATE, TLS, STOPPING].some((pattern) => pattern.test(code));
}

/** There was no token for it, so that it was not asked: says nothing of the host. */
export function isForWantOfToken(error: unknown): boolean {
  return isUnreachable(error) && hasCode(error.cause, 'INVALID_CONFIGURATION');
}

/** Of a request to the outside, in one word; `undefined` for what is an answer like any other. */
export function failureReason(error: unknown): string | undefined {
  if (isUnreachable(error)) return error.reason;
  if (hasCode(error, 'UPSTREAM_REFUSED')) return 'refused';
  if (hasCode(error, 'UPSTREAM_INVALID')) return 'invalid';
  return undefined;
}

const TIMEOUTS: Readonly<Record<string, string>> = {
  UND_ERR_CONNECT_TIMEOUT: 'did not accept a connection in time',
  ETIMEDOUT: 'did not accept a connection in time',
  UND_ERR_HEADERS_TIMEOUT: 'accepted the request and did not answer it in time',
  UND_ERR_BODY_TIMEOUT: 'stopped sending in the middle of an answer',
};

const CUT_SHORT: ReadonlySet<string> = new Set([
  'ECONNRESET',
  'EPIPE',
  'UND_ERR_SOCKET',
  'UND_ERR_RES_CONTENT_LENGTH_MISMATCH',
  'HPE_INVALID_EOF_STATE',
  'HPE_CLOSED_CONNECTION',
]);

const NONSENSE = /^(HPE_|UND_ERR_HEADERS_OVERFLOW|UND_ERR_INVALID_ARG)/;

// Neither mends itself between two attempts.
const CERTIFICATE =
  /^(CERT_|SELF_SIGNED|DEPTH_ZERO|UNABLE_TO_|ERR_TLS_CERT|HOSTNAME_MISMATCH|INVALID_CA|UND_ERR_PRX_TLS)/;
const TLS = /^(ERR_SSL_|EPROTO)/;
/** Our own client was closed. */
const STOPPING = /^UND_ERR_(DESTROYED|CLOSED)$/;

function connectionDetail(code: string, certificate: boolean, cause: unknown): string {
  const shown = code ? ` (${code})` : '';
  if (certificate) return `has a certificate that is not trusted here${shown}`;
  if (TLS.test(code)) return `does not agree with us on TLS${shown}`;
  if (code === 'ENOTFOUND') return `is not known to DNS${shown}`;
  if (code === 'EAI_AGAIN') return `could not be looked up: DNS does not answer${shown}`;
  if (code === 'ECONNREFUSED') return `refused the connection${shown}`;
  if (CUT_SHORT.has(code)) return `cut the connection before the answer was complete${shown}`;
  const proxied = /Proxy response \((\d{3})\)/.exec(cause instanceof Error ? cause.message : '');
  if (proxied) return `could not be reached: the proxy answered ${proxied[1]}`;
  return `could not be reached${shown}`;
}

/** Several addresses tried are one AggregateError; a proxy's TLS errors are wrapped. */
function rootOf(error: unknown): unknown {
  if (error instanceof AggregateError && error.errors.length > 0) return rootOf(error.errors[0]);
  const cause = error instanceof Error ? error.cause : undefined;
  return cause instanceof Error && codeOf(error) === '' ? rootOf(cause) : error;
}

function codeOf(error: unknown): string {
  const { code, name, message } = (error ?? {}) as { code?: unknown; name?: unknown; message?: unknown };
  if (typeof code === 'string') return code;
  // The parser in use gives words only.
  if (name !== 'HTTPParserError') return '';
  return /EOF|closed/i.test(String(message)) ? 'HPE_INVALID_EOF_STATE' : 'HPE_NOT_HTTP';
}

function isLarderError(error: unknown): error is LarderError {
  return error instanceof Error && 'hint' in error && 'code' in error;
}
