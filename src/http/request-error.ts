/**
 * A request that is wrong as HTTP, whatever it asks for: an unknown path, a method or a form of request that is not
 * served. Only doors throw it; what is wrong in the domain's own terms is a `LarderError`.
 */
export class RequestError extends Error {
  readonly status: number;
  readonly code: string;
  readonly hint: string | undefined;
  /** Sent with the answer. Values never come from the request. */
  readonly headers: Readonly<Record<string, string>>;

  constructor(
    status: number,
    code: string,
    message: string,
    options: { hint?: string | undefined; headers?: Readonly<Record<string, string>> } = {},
  ) {
    super(message);
    this.name = 'RequestError';
    this.status = status;
    this.code = code;
    this.hint = options.hint;
    this.headers = options.headers ?? {};
  }
}
