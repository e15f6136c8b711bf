import type { ModuleRelease } from '../address/module.ts';
import { IntegrityMismatch } from '../errors.ts';
import type { PackageRecord } from './module-store.ts';

/** What was first made under a version is never replaced by something else. @throws IntegrityMismatch */
export function demandFirst(
  { module, version }: ModuleRelease,
  first: Pick<PackageRecord, 'sha256'> | undefined,
  { sha256 }: Pick<PackageRecord, 'sha256'>,
): void {
  if (!first || first.sha256 === sha256) return;
  throw new IntegrityMismatch(
    `the package of ${module} ${version} is not what it was: its SHA-256 was ${first.sha256} when first made and is ${sha256} now`,
    { hint: `an operator who knows why can accept it: larder purge ${module} ${version}` },
  );
}
