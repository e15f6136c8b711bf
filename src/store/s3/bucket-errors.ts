import { LarderError, StorageFailed } from '../../errors.ts';

/** What the SDK throws, as far as it is looked at. */
interface SdkError {
  readonly name?: string;
  readonly message?: string;
  readonly code?: unknown;
  readonly $metadata?: { readonly httpStatusCode?: number };
}

/** In the words of the file system, which the rest of Larder speaks. */
const CODES: Readonly<Record<string, string>> = {
  NoSuchKey: 'ENOENT',
  NotFound: 'ENOENT',
  QuotaExceeded: 'ENOSPC',
  XMinioStorageFull: 'ENOSPC',
  AbortError: 'ETIMEDOUT',
  TimeoutError: 'ETIMEDOUT',
};

const NOT_ALLOWED = 'the keys of s3 must be allowed to list, read, write and delete in the bucket';

const HINTS: Readonly<Record<string, string>> = {
  NoSuchBucket: 'make the bucket, or mend s3.bucket',
  AccessDenied: NOT_ALLOWED,
  // The answer to HEAD has no body that could say more.
  'HTTP 403': NOT_ALLOWED,
  InvalidAccessKeyId: 'mend s3.accessKeyId',
  SignatureDoesNotMatch: 'mend s3.secretAccessKey; clocks that differ by minutes do this, too',
  PermanentRedirect: 'mend s3.region or s3.endpoint',
  AuthorizationHeaderMalformed: 'mend s3.region',
  CredentialsProviderError: 'set s3.accessKeyId and s3.secretAccessKey, or give the process credentials of its own',
};

/** Waits for a request to the bucket; what the SDK throws becomes StorageFailed. `operation` is shown to clients. */
export async function ofBucket<T>(operation: string, work: Promise<T>): Promise<T> {
  try {
    return await work;
  } catch (error) {
    throw bucketFailure(operation, error);
  }
}

/** The same, but what is not there is `undefined`. That a bucket is not there is a failure. */
export async function ifInBucket<T>(operation: string, work: Promise<T>): Promise<T | undefined> {
  try {
    return await work;
  } catch (error) {
    if (isNoObject(error)) return undefined;
    throw bucketFailure(operation, error);
  }
}

/** Holds nothing of the request: its headers and its signature are nobody's business. */
export function bucketFailure(operation: string, error: unknown): LarderError {
  if (error instanceof LarderError) return error;
  const { message = String(error) } = error as SdkError;
  const name = nameOf(error);
  const cause = Object.assign(new Error(message), { code: CODES[name] ?? name });
  const hint = HINTS[name];
  return new StorageFailed(operation, cause, hint === undefined ? {} : { hint });
}

/** A write whose condition did not hold: somebody else was first. */
export function isConflict(error: unknown): boolean {
  const status = statusOf(error);
  return status === 412 || (status === 409 && nameOf(error) !== 'BucketAlreadyExists');
}

/** The server knows no conditions. */
export function isNotImplemented(error: unknown): boolean {
  return statusOf(error) === 501 || nameOf(error) === 'NotImplemented';
}

/** What was asked for with the condition that it has changed has not. */
export function isUnchanged(error: unknown): boolean {
  return statusOf(error) === 304;
}

function isNoObject(error: unknown): boolean {
  const name = nameOf(error);
  // To HEAD there is no body that could tell which of the two is not there.
  return name === 'NoSuchKey' || name === 'NotFound' || (statusOf(error) === 404 && name !== 'NoSuchBucket');
}

function statusOf(error: unknown): number | undefined {
  return (error as SdkError | null)?.$metadata?.httpStatusCode;
}

function nameOf(error: unknown): string {
  const { code, name } = (error ?? {}) as SdkError;
  const told = typeof code === 'string' ? code : name;
  if (told !== undefined && told !== 'Error' && /^[A-Za-z][\w.]*$/.test(told)) {
    // The SDK calls what it cannot read by its status alone.
    return told === 'Unknown' || told === 'UnknownError' ? `HTTP ${statusOf(error) ?? '?'}` : told;
  }
  const status = statusOf(error);
  return status === undefined ? 'UNKNOWN' : `HTTP ${status}`;
}
