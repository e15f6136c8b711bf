import winston from 'winston';
import { type RequestFields, RequestLines } from './request-lines.ts';

/** What the parts of Larder may ask of a logger. Never throws, whatever the fields are. */
export interface Logger {
  debug(message: string, fields?: Record<string, unknown>): void;
  info(message: string, fields?: Record<string, unknown>): void;
  warn(message: string, fields?: Record<string, unknown>): void;
  error(message: string, fields?: Record<string, unknown>): void;
  /** Like `info('request', fields)`, and much faster. Only where the fields are what they have to be. */
  request?(fields: RequestFields): void;
}

export type LogLevel = 'debug' | 'info' | 'warn' | 'error';

/** `auto` is text on a terminal and JSON elsewhere. */
export type LogFormat = 'auto' | 'json' | 'text';

export interface LoggerOptions {
  readonly level: LogLevel;
  readonly format: LogFormat;
  /** Standard error by default: standard output belongs to what commands print. */
  readonly stream?: NodeJS.WritableStream;
}

/** One log line may not swallow the log. Longer strings and lists are cut, deeper objects are named only. */
const MAX_STRING_LENGTH = 8_192;
const MAX_ITEMS = 100;
const MAX_DEPTH = 6;

/** One line an entry: JSON objects, or `TIME LEVEL message key=value …` for people. */
export function createLogger({ level, format, stream = process.stderr }: LoggerOptions): Logger {
  const asText = format === 'text' || (format === 'auto' && (stream as { isTTY?: boolean }).isTTY === true);
  const withStacks = level === 'debug';
  const logger = winston.createLogger({
    level,
    levels: winston.config.npm.levels,
    format: winston.format.printf((entry) => (asText ? textLine : jsonLine)(entry as unknown as Entry)),
    transports: [new winston.transports.Stream({ stream })],
    exitOnError: false,
  });
  const requests = new RequestLines({ stream, asText, clean: (text) => escapeControls(redact(text)) });
  const write = (at: LogLevel) => (message: string, fields?: Record<string, unknown>) => {
    if (!logger.isLevelEnabled(at)) return;
    requests.flush();
    logger.log({ level: at, message, larder: { withStacks, fields: fields ?? {} } });
  };
  // What waits for its turn when the process ends.
  if (stream === process.stderr) process.once('exit', () => requests.flush());
  return {
    debug: write('debug'),
    info: write('info'),
    warn: write('warn'),
    error: write('error'),
    request: (fields) => {
      if (logger.isLevelEnabled('info')) requests.write(fields);
    },
  };
}

/** For tests and for library use: says nothing. */
export const silentLogger: Logger = { debug() {}, info() {}, warn() {}, error() {} };

/** Keys of every JSON line: a field of such a name is renamed, it may not pose as one of these. */
const RESERVED: ReadonlySet<string> = new Set(['time', 'level', 'message']);

interface Entry {
  readonly level: LogLevel;
  readonly message: string;
  readonly larder: { readonly withStacks: boolean; readonly fields: Record<string, unknown> };
}

function jsonLine({ level, message, larder }: Entry): string {
  const fields = Object.entries(printable(larder.fields, larder.withStacks) as Record<string, unknown>);
  return escapeControls(
    JSON.stringify({
      time: new Date().toISOString(),
      level,
      message: redact(message),
      ...Object.fromEntries(fields.map(([key, value]) => [RESERVED.has(key) ? `field.${key}` : key, value])),
    }),
  );
}

function textLine({ level, message, larder }: Entry): string {
  const fields = printable(larder.fields, larder.withStacks) as Record<string, unknown>;
  const pairs = Object.entries(fields)
    .filter(([, value]) => value !== undefined)
    .map(([key, value]) => ` ${escapeControls(key)}=${fieldText(value)}`);
  return `${new Date().toISOString()} ${level.toUpperCase().padEnd(5)} ${escapeControls(redact(message))}${pairs.join('')}`;
}

function fieldText(value: unknown): string {
  if (typeof value === 'string' && /^[^\s"'=\p{C}]+$/u.test(value)) return value;
  return escapeControls(JSON.stringify(value));
}

/** A JSON-safe, redacted copy: no cycles, no BigInt, no getters that throw, errors in a few words. */
function printable(value: unknown, withStacks: boolean, depth = 0): unknown {
  if (typeof value === 'string') return redact(value);
  if (typeof value === 'bigint' || typeof value === 'symbol') return String(value);
  if (typeof value !== 'object' || value === null) return typeof value === 'function' ? '[function]' : value;
  if (depth >= MAX_DEPTH) return '[…]';
  try {
    if (value instanceof Error) return redact(withStacks ? stackOf(value) : describeError(value));
    if (value instanceof Uint8Array) return `[${value.byteLength} bytes]`;
    if (value instanceof Date) return Number.isNaN(value.getTime()) ? 'Invalid Date' : value.toISOString();
    if (value instanceof URL) return redact(value.href);
    if (value instanceof Map) return printable(Object.fromEntries(value), withStacks, depth);
    if (value instanceof Set) return printable([...value], withStacks, depth);
    if (Array.isArray(value)) return value.slice(0, MAX_ITEMS).map((item) => printable(item, withStacks, depth + 1));
    // Hostname, ProviderAddress, Version and the like: values that have a spelling are logged by it.
    if (hasOwnSpelling(value)) return redact(String(value));
    const entries = Object.entries(value).slice(0, MAX_ITEMS);
    return Object.fromEntries(
      entries.map(([key, item]) => [
        redact(key),
        isSecretName(key) ? hidden(item) : printable(item, withStacks, depth + 1),
      ]),
    );
  } catch {
    return '[unprintable]';
  }
}

function hasOwnSpelling(value: object): boolean {
  return typeof value.toString === 'function' && value.toString !== Object.prototype.toString;
}

/** Code, message and the messages of its causes: `UPSTREAM_UNREACHABLE: host …: ECONNREFUSED: connect …`. */
function describeError(error: Error, depth = 0): string {
  const { code } = error as { code?: unknown };
  // An AggregateError (every address of a host refused) often has no message of its own.
  const inner = error instanceof AggregateError && !error.message ? error.errors[0] : error.cause;
  const message = error.message || error.name;
  const own = code === undefined || message.includes(String(code)) ? message : `${String(code)}: ${message}`;
  if (!(inner instanceof Error) || depth >= MAX_DEPTH) return own;
  return `${own}: ${describeError(inner, depth + 1)}`;
}

function stackOf(error: Error, depth = 0): string {
  const own = error.stack ?? describeError(error);
  return error.cause instanceof Error && depth < MAX_DEPTH
    ? `${own}\ncaused by ${stackOf(error.cause, depth + 1)}`
    : own;
}

const HIDDEN = '[hidden]';

function isSecretName(key: string): boolean {
  return /^(authorization|proxy-authorization|cookie|set-cookie|.*(token|password|passwd|secret|privatekey))$/i.test(
    key,
  );
}

function hidden(value: unknown): unknown {
  return value === undefined || value === null || typeof value === 'boolean' ? value : HIDDEN;
}

/**
 * The last line of defence: those who log are to leave secrets out. Takes away credentials of an Authorization
 * header, userinfo and query strings of URLs (signed links live by their query), and private keys.
 */
export function redact(text: string): string {
  // Each of the patterns below needs one of these. Most of what is logged has none: paths, ids, methods.
  if (text.length <= MAX_STRING_LENGTH && !/[\s:=?]/.test(text)) return text;
  // Cut only afterwards, lest half a secret stay behind unrecognised. No pattern reads a stretch of text twice: no slow input.
  const clean = text
    .slice(0, 8 * MAX_STRING_LENGTH)
    .replace(/-----BEGIN [A-Z ]{0,40}PRIVATE KEY[A-Z ]{0,40}-----[\s\S]*?(-----END [A-Z ]{0,40}-----|$)/g, HIDDEN)
    // "a bearer token" and "basic authentication" are words, not secrets.
    .replace(/\b(bearer)([\s:=]{1,4})(?!tokens?\b)[A-Za-z0-9._~+/:=-]{4,}/gi, `$1$2${HIDDEN}`)
    .replace(/\b([Bb]asic)(\s{1,4})(?=[a-z+/]*[A-Z0-9=])[A-Za-z0-9+/_=-]{4,}/g, `$1$2${HIDDEN}`)
    .replace(/\b(authorization["']?\s{0,4}[:=]\s{0,4}["']?)(?!bearer|basic)[^\s"',]+/gi, `$1${HIDDEN}`)
    .replace(/[a-z][a-z0-9+.-]{0,30}:\/\/[^\s"'<>]*/gi, redactUrl)
    .replace(/\?(?!\[)[\w.~%-]{1,128}=[^\s"'<>]*/g, `?${HIDDEN}`);
  return clean.length > MAX_STRING_LENGTH ? `${clean.slice(0, MAX_STRING_LENGTH)}…` : clean;
}

function redactUrl(url: string): string {
  // Several may be strung together, as in a list without spaces.
  const clean = url
    .split('://')
    .map((part, index) => (index === 0 ? part : part.replace(/^[^/?#]*@/, `${HIDDEN}@`)))
    .join('://');
  const query = clean.indexOf('?');
  return query < 0 || query === clean.length - 1 ? clean : `${clean.slice(0, query)}?${HIDDEN}`;
}

/** Line breaks, escape sequences and invisible direction marks would let one entry pose as two, or hide another. */
function escapeControls(text: string): string {
  if (/^[\x20-\x7e]*$/.test(text)) return text;
  return text.replace(/[\p{Cc}\p{Cf}\u2028\u2029]/gu, (character) =>
    // By UTF-16 units, as JSON wants it.
    Array.from({ length: character.length }, (_, unit) => {
      return `\\u${character.charCodeAt(unit).toString(16).padStart(4, '0')}`;
    }).join(''),
  );
}
