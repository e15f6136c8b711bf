import { expect, it } from 'vitest';
import { UpstreamUnreachable } from '../../src/errors.ts';
import { Circuits } from '../../src/upstream/circuit.ts';

const URL_OF_HOST = new URL('https://registry.example.test/v1/');
const OPEN_MS = 5_000;

function openCircuit(clock: { now: number }, error: UpstreamUnreachable): Circuits {
  const circuits = new Circuits({ now: () => clock.now, openMs: OPEN_MS });
  const passage = circuits.enter(URL_OF_HOST);
  passage.failed(error);
  passage.release();
  return circuits;
}

it.each([
  ['could not be reached', new UpstreamUnreachable(URL_OF_HOST.host, 'connection', 'is gone')],
  ['asked for a minute', new UpstreamUnreachable(URL_OF_HOST.host, 'busy', 'is busy', { retryAfterMs: 60_000 })],
])('a host that %s is not left alone for a day because the clock was put back by one', (_what, error) => {
  const clock = { now: 1_000_000_000 };
  const circuits = openCircuit(clock, error);
  expect(() => circuits.enter(URL_OF_HOST)).toThrow('left alone');
  clock.now -= 24 * 3_600_000;
  expect(circuits.states()).toMatchObject([{ state: 'half-open', retryAfterMs: 0 }]);
  expect(() => circuits.enter(URL_OF_HOST)).not.toThrow();
});
