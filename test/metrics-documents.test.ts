import { readFileSync } from 'node:fs';
import path from 'node:path';
import { beforeAll, describe, expect, it } from 'vitest';
import { parse } from 'yaml';
import { startScene } from './mirror/scene.ts';

const docs = (name: string) => readFileSync(path.join(import.meta.dirname, '..', 'docs', name), 'utf8');

/** Type by name, of all that `/metrics` has when nothing is left out for want of a setting. */
const types = new Map<string, string>();

beforeAll(async () => {
  const { get, larder, registry } = await startScene({ config: { limits: { disk: '1GB' } } });
  const text = (await get('/metrics')).text();
  for (const [, name = '', type = ''] of text.matchAll(/^# TYPE (\S+) (\S+)$/gm)) types.set(name, type);
  await larder.close();
  await larder.setup.remove();
  await registry.stop();
}, 60_000);

const ours = () => [...types.keys()].filter((name) => name.startsWith('larder_')).sort();

/** Names of series, without what the types add to them. */
function namesIn(text: string): string[] {
  const found = text.match(/\b(?:larder|process|nodejs)_\w+/g) ?? [];
  return [
    ...new Set(found.map((name) => (types.has(name) ? name : name.replace(/_(?:bucket|sum|count)$/, '')))),
  ].sort();
}

describe('docs/metrics.md', () => {
  const rows = [...docs('metrics.md').matchAll(/^\| `(larder_\w+)` \| (\w+) \|/gm)];

  it('has every metric there is, and no other, each once', () => {
    expect(rows.map(([, name]) => name).sort()).toEqual(ours());
  });

  it('tells of each what it is', () => {
    expect(Object.fromEntries(rows.map(([, name, type]) => [name, type]))).toEqual(
      Object.fromEntries(ours().map((name) => [name, types.get(name)])),
    );
  });

  it('speaks of no metric that there is not', () => {
    // Of the process the page says only how they begin.
    const named = namesIn(docs('metrics.md')).filter((name) => name.startsWith('larder_'));
    expect(named.filter((name) => !types.has(name))).toEqual([]);
  });
});

interface Panel {
  readonly id: number;
  readonly type: string;
  readonly title: string;
  readonly gridPos: { readonly x: number; readonly y: number; readonly w: number; readonly h: number };
  readonly targets?: readonly { readonly expr: string; readonly refId: string }[];
}

describe('docs/grafana/larder.json', () => {
  const dashboard = JSON.parse(docs('grafana/larder.json')) as {
    panels: Panel[];
    templating: { list: { name: string }[] };
  };
  const expressions = dashboard.panels.flatMap(({ targets = [] }) => targets.map(({ expr }) => expr));

  it('asks for metrics that there are', () => {
    const asked = namesIn(expressions.join('\n'));
    expect(asked.filter((name) => !types.has(name))).toEqual([]);
    expect(asked.length).toBeGreaterThan(25);
  });

  it('has expressions with all brackets closed, and variables that are defined', () => {
    const variables = dashboard.templating.list.map(({ name }) => name);
    for (const expression of expressions) {
      expect(expression, expression).toSatisfy(isBalanced);
      const used = [...expression.matchAll(/\$(\w+)/g)].map(([, name]) => name);
      expect(used.filter((name) => name !== '__rate_interval' && !variables.includes(name ?? ''))).toEqual([]);
    }
  });

  it('has panels that neither share an id nor lie on one another', () => {
    const { panels } = dashboard;
    expect(new Set(panels.map(({ id }) => id)).size).toBe(panels.length);
    const cells = panels.flatMap(({ gridPos: { x, y, w, h } }) =>
      Array.from({ length: w * h }, (_, cell) => `${x + (cell % w)},${y + Math.floor(cell / w)}`),
    );
    expect(new Set(cells).size).toBe(cells.length);
    for (const { gridPos } of panels) expect(gridPos.x + gridPos.w).toBeLessThanOrEqual(24);
  });
});

interface Rule {
  readonly alert: string;
  readonly expr: string;
  readonly for?: string;
  readonly labels: { readonly severity: string };
  readonly annotations: { readonly summary: string; readonly description: string };
}

describe('docs/alerts.yaml', () => {
  const { groups } = parse(docs('alerts.yaml')) as { groups: { name: string; rules: Rule[] }[] };
  const rules = groups.flatMap((group) => group.rules);

  it('has rules as Prometheus reads them', () => {
    expect(rules.length).toBeGreaterThan(10);
    expect(new Set(rules.map(({ alert }) => alert)).size).toBe(rules.length);
    for (const rule of rules) {
      const { alert, expr, labels, annotations, ...rest } = rule;
      expect(alert).toMatch(/^Larder[A-Z][A-Za-z]+$/);
      expect(expr, expr).toSatisfy(isBalanced);
      expect(['critical', 'warning', 'info']).toContain(labels.severity);
      expect(annotations).toEqual({ summary: expect.any(String), description: expect.any(String) });
      expect(rest).toEqual(rest.for === undefined ? {} : { for: expect.stringMatching(/^\d+[smh]$/) });
    }
  });

  it('asks for metrics that there are', () => {
    const asked = namesIn(rules.map(({ expr }) => expr).join('\n'));
    expect(asked.length).toBeGreaterThan(10);
    expect(asked.filter((name) => !types.has(name))).toEqual([]);
  });
});

function isBalanced(expression: string): boolean {
  const open: string[] = [];
  const closing: Readonly<Record<string, string>> = { ')': '(', '}': '{', ']': '[' };
  for (const character of expression.replaceAll(/"[^"]*"/g, '')) {
    if ('({['.includes(character)) open.push(character);
    else if (closing[character] && open.pop() !== closing[character]) return false;
  }
  return open.length === 0;
}
