import { missingRequirements, REQUIREMENTS, type RequirementName } from './requirements.ts';

/** Before the run: with CI=true nothing may be skipped, so a missing part ends it here. */
export function setup(): void {
  const fatal = missingRequirements().filter((name) => !REQUIREMENTS[name].optional);
  if (process.env['CI'] === 'true' && fatal.length > 0) {
    throw new Error(`CI=true tests everything, but this is missing here: ${fatal.map(describeMissing).join('; ')}`);
  }
}

/** After the run: one loud line with everything that was not tested, and how to change that. */
export function teardown(): void {
  const line = closingLine(missingRequirements());
  if (line !== undefined) console.warn(`\n${line}\n`);
}

/** `undefined` when nothing is missing. */
export function closingLine(missing: readonly RequirementName[]): string | undefined {
  if (missing.length === 0) return undefined;
  return `!!! NOT EVERYTHING WAS TESTED: ${missing.map(describeMissing).join('; ')}.`;
}

function describeMissing(name: RequirementName): string {
  const { untested, howToGet } = REQUIREMENTS[name];
  return `no ${name} here, so not tested: ${untested} (to get it: ${howToGet})`;
}
