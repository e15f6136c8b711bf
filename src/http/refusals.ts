import type { RefusalReason } from '../mirror/carried.ts';

/** How it is told that something brought was not taken. */
export const REFUSALS: Readonly<Record<RefusalReason, readonly [status: number, code: string]>> = {
  unverifiable: [400, 'DIGEST_REQUIRED'],
  digest: [422, 'INTEGRITY_MISMATCH'],
  signature: [422, 'SIGNATURE_MISMATCH'],
  drift: [409, 'DRIFT'],
  invalid: [422, 'INVALID_ARCHIVE'],
  'too large': [413, 'BODY_TOO_LARGE'],
  excluded: [404, 'ADDRESS_EXCLUDED'],
  forbidden: [403, 'FORBIDDEN'],
};

const REASONS: ReadonlyMap<unknown, RefusalReason> = new Map([
  ...Object.entries(REFUSALS).map(([reason, [, code]]) => [code, reason as RefusalReason] as const),
  // Found out before it was looked at.
  ['HOST_NOT_ALLOWED', 'excluded'] as const,
  ['INVALID_ADDRESS', 'invalid'] as const,
  ['INVALID_REQUEST', 'invalid'] as const,
]);

/** What the `code` of an answer says of what was brought; `undefined` when it says something of the server. */
export function refusalReason(code: unknown): RefusalReason | undefined {
  return REASONS.get(code);
}
