/** For hosts that are none of the configured ones: upstreams name them, and there is no end to names. */
export const OTHER_HOST = 'other';

/** What hosts are called in metrics: configured ones by `HOST[:PORT]`, all others together. */
export class HostLabels {
  readonly #configured: ReadonlySet<string>;

  constructor(configured: readonly string[]) {
    this.#configured = new Set(configured);
  }

  get all(): readonly string[] {
    return [...this.#configured, OTHER_HOST];
  }

  of(host: string): string {
    return this.#configured.has(host) ? host : OTHER_HOST;
  }

  /** Amounts by host, added up by label; every label is there. */
  totals(amounts: Iterable<readonly [host: string, amount: number]>): Map<string, number> {
    const totals = new Map(this.all.map((label) => [label, 0]));
    for (const [host, amount] of amounts) totals.set(this.of(host), (totals.get(this.of(host)) ?? 0) + amount);
    return totals;
  }
}
