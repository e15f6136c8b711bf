import { expect, it } from 'vitest';
import { eventually, outcomeOf, startScene } from './mirror/scene.ts';

/** The same numbers each time. */
function numbers(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state * 1_103_515_245 + 12_345) % 2 ** 31;
    return state / 2 ** 31;
  };
}

const ROUNDS = 4;
const REQUESTS = 150;
/** Whoever invents labels of what is asked for has thousands of these. */
const MOST_SERIES = 400;

it('however many hosts, names, paths, methods and ids are made up, the series stay as many as they were', async () => {
  const { get, registry, larder } = await startScene();
  const random = numbers(7);
  const word = () => Math.floor(random() * 1e9).toString(36);
  const methods = ['GET', 'HEAD', 'POST', 'PUT', 'DELETE', 'OPTIONS'];
  const paths: (() => string)[] = [
    () => `/providers/${registry.hostname}/${word()}/${word()}/index.json`,
    () => `/providers/${registry.hostname}/acme/widget/${Math.floor(random() * 99)}.${word()}.json`,
    () =>
      `/providers/${registry.hostname}/acme/widget/terraform-provider-widget_1.0.${Math.floor(random() * 99)}_linux_amd64.zip`,
    () => `/providers/${word()}.example.com/${word()}/${word()}/index.json`,
    () => `/registry/${registry.hostname}/v1/${word()}/${word()}`,
    () => `/registry/${registry.hostname}/v1/modules/${word()}/${word()}/${word()}/versions`,
    () => `/get/${word()}/${registry.hostname}/${word()}/${word()}/${word()}.zip`,
    () => `/admin/${word()}/${word()}`,
    () => `/ui/${word()}?x=${word()}`,
    () => `/${word()}/${word()}`,
    () => `/%${word()}`,
    () => `/${'x'.repeat(500)}${word()}`,
  ];
  const hammer = async () => {
    const asked = Array.from({ length: REQUESTS }, (_, index) =>
      outcomeOf(
        get(paths[index % paths.length]?.() ?? '/', {
          method: methods[Math.floor(random() * methods.length)] ?? 'GET',
          headers: {
            'x-request-id': word(),
            'user-agent': word(),
            authorization: `Bearer ${word()}`,
            'x-forwarded-host': `${word()}.example.com`,
          },
        }),
      ),
    );
    await Promise.all(asked);
  };
  const series = async () => {
    const lines = (await get('/metrics')).text().split('\n');
    return lines.filter((line) => line.startsWith('larder_')).map((line) => line.replace(/ \S+$/, ''));
  };
  const ended = () => larder.log.filter(({ message }) => message === 'request').length;

  await hammer();
  await eventually(ended).toBeGreaterThanOrEqual(REQUESTS);
  // The first of them is a request, too.
  await series();
  const before = await series();
  for (let round = 1; round < ROUNDS; round += 1) await hammer();
  await eventually(ended).toBeGreaterThanOrEqual(ROUNDS * REQUESTS);
  const after = await series();
  // An outcome that only now came to a door, at most: there are few of either.
  expect(after.filter((one) => !before.includes(one)).length).toBeLessThan(10);
  expect(after.length).toBeLessThan(MOST_SERIES);
  expect(after.filter((one) => /example\.com|acme|widget/.test(one))).toEqual([]);
}, 60_000);
