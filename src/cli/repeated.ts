/** Of an option that may be given several times: each comes after those before it. */
export function repeated(one: string, before: readonly string[]): readonly string[] {
  return [...before, one];
}
