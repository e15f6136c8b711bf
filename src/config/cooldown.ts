import { z } from 'zod';
import { ProviderPattern } from '../address/provider-pattern.ts';
import { Version } from '../address/version.ts';

export const ALLOWED_PROBLEM =
  'must be HOST/NAMESPACE/TYPE@VERSION, with * for a whole part of the address, such as ' +
  '"registry.corp.example/platform/*@1.2.3"';

/** A version that is there at any age. */
export interface AllowedVersion {
  readonly address: ProviderPattern;
  readonly version: Version;
}

/** `undefined` when there is no address or no version. @throws InvalidAddress */
export function parseAllowed(text: string): AllowedVersion | undefined {
  const at = text.lastIndexOf('@');
  const address = at < 0 ? undefined : ProviderPattern.parse(text.slice(0, at));
  return address && { address, version: Version.parse(text.slice(at + 1)) };
}

/** The section `cooldown`, given how the other sections read durations, addresses and versions. */
export function cooldownSchema<
  Age extends z.ZodType<number>,
  Address extends z.ZodType<ProviderPattern>,
  Allowed extends z.ZodType<AllowedVersion>,
>({ age, address, allowed }: { age: Age; address: Address; allowed: Allowed }) {
  return z.strictObject({
    default: age.nullable(),
    patterns: z.array(z.strictObject({ address, age: age.nullable() })),
    allow: z.array(allowed),
  });
}
