import { Counter, Gauge, Histogram, Registry } from 'prom-client';
import { expect, it } from 'vitest';
import { GatheredMetrics } from '../../src/workers/gathered-metrics.ts';

/** One worker that answered so many requests. */
function worker(id: number, requests: number) {
  const registry = new Registry();
  const registers = [registry];
  const counter = new Counter({ name: 'requests_total', help: 'h', labelNames: ['door'], registers });
  counter.inc({ door: 'mirror' }, requests);
  new Gauge({ name: 'open', help: 'h', registers }).set(requests);
  new Gauge({ name: 'disk_bytes', help: 'h', aggregator: 'max', registers }).set(1_000);
  new Histogram({ name: 'seconds', help: 'h', buckets: [1], registers }).observe(requests);
  return { id, metrics: () => registry.getMetricsAsJSON(), count: () => counter.inc({ door: 'mirror' }) };
}

it('counters and gauges of all workers are added up, and what they share is told once', async () => {
  const text = await new GatheredMetrics().text([worker(1, 2), worker(2, 5)]);
  expect(text).toMatch(/^requests_total\{door="mirror"\} 7$/m);
  expect(text).toMatch(/^open 7$/m);
  expect(text).toMatch(/^disk_bytes 1000$/m);
  expect(text).toMatch(/^seconds_bucket\{le="\+Inf"\} 2$/m);
  expect(text).toMatch(/^seconds_sum 7$/m);
  expect(text).toMatch(/^# TYPE seconds histogram$/m);
});

it('what a dead worker had counted stays in the sums, and what it measured does not', async () => {
  const gathered = new GatheredMetrics();
  const [one, two, three] = [worker(1, 2), worker(2, 5), worker(3, 1)];
  await gathered.text([one, two]);
  await gathered.left(2);
  one.count();
  const text = await gathered.text([one, three]);
  expect(text).toMatch(/^requests_total\{door="mirror"\} 9$/m);
  expect(text).toMatch(/^open 3$/m);
  expect(text).toMatch(/^seconds_count 3$/m);
  await gathered.left(3);
  expect(await gathered.text([one])).toMatch(/^requests_total\{door="mirror"\} 9$/m);
});

it('nothing is lost of workers that die at once, and no sum falls meanwhile', async () => {
  const gathered = new GatheredMetrics();
  await gathered.text([worker(1, 2), worker(2, 5), worker(3, 1)]);
  const leaving = Promise.all([gathered.left(1), gathered.left(2), gathered.left(3)]);
  const meanwhile = [gathered.text([]), gathered.text([])];
  await leaving;
  for (const text of await Promise.all([...meanwhile, gathered.text([])])) {
    expect(text).toMatch(/^requests_total\{door="mirror"\} 8$/m);
  }
});

it('a worker that does not answer counts by what it said last', async () => {
  const gathered = new GatheredMetrics();
  const [one, two] = [worker(1, 2), worker(2, 5)];
  await gathered.text([one, two]);
  const silent = { id: 2, metrics: () => Promise.reject(new Error('late')) };
  expect(await gathered.text([one, silent])).toMatch(/^requests_total\{door="mirror"\} 7$/m);
});
