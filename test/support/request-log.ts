import type { IncomingHttpHeaders } from 'node:http';

/** A condition on requests: a pattern for `METHOD /path?query`, or a predicate. */
export type Matcher = RegExp | ((request: { method: string; path: string; headers: IncomingHttpHeaders }) => boolean);

/** One request an origin received. Fields below `headers` fill in while the answer is being sent. */
export interface LoggedRequest {
  readonly method: string;
  /** With the query. */
  readonly path: string;
  readonly headers: IncomingHttpHeaders;
  /** 0 until an answer begins. */
  status: number;
  /** Of the body. */
  bytesSent: number;
  /** Whether the connection ended before the answer did, whoever ended it. */
  aborted: boolean;
  /** Settles once the answer is out or the connection gone. Never rejects. */
  readonly finished: Promise<void>;
}

/** What an origin was asked, in order of arrival. */
export class RequestLog {
  #entries: LoggedRequest[] = [];
  #waiting: { matches: () => LoggedRequest | undefined; resolve: (request: LoggedRequest) => void }[] = [];

  add(request: LoggedRequest): void {
    this.#entries.push(request);
    this.#waiting = this.#waiting.filter(({ matches, resolve }) => {
      const found = matches();
      if (found) resolve(found);
      return !found;
    });
  }

  get all(): readonly LoggedRequest[] {
    return this.#entries;
  }

  /** `filter(/^GET .*\.zip/)` or `filter('GET', /\.zip/)`. */
  filter(matcher: Matcher): LoggedRequest[];
  filter(method: string, path: RegExp): LoggedRequest[];
  filter(first: Matcher | string, path?: RegExp): LoggedRequest[] {
    if (typeof first !== 'string') return this.#entries.filter((request) => matches(first, request));
    return this.#entries.filter((request) => request.method === first && (path?.test(request.path) ?? true));
  }

  count(matcher: Matcher): number;
  count(method: string, path: RegExp): number;
  count(first: Matcher | string, path?: RegExp): number {
    return (typeof first === 'string' ? this.filter(first, path ?? /^/) : this.filter(first)).length;
  }

  /** Requests that carried credentials. An origin of archives must never see one. */
  withCredentials(): LoggedRequest[] {
    return this.#entries.filter(({ headers }) => headers.authorization !== undefined || headers.cookie !== undefined);
  }

  /** The `nth` matching request, at once if it was here already, otherwise when it arrives. */
  arrival(matcher: Matcher, nth = 1): Promise<LoggedRequest> {
    const find = () => this.filter(matcher)[nth - 1];
    const here = find();
    if (here) return Promise.resolve(here);
    return new Promise((resolve) => this.#waiting.push({ matches: find, resolve }));
  }

  clear(): void {
    this.#entries = [];
  }
}

export function matches(
  matcher: Matcher,
  request: { method: string; path: string; headers: IncomingHttpHeaders },
): boolean {
  return matcher instanceof RegExp ? matcher.test(`${request.method} ${request.path}`) : matcher(request);
}
