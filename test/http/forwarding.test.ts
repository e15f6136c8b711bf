import { EventEmitter } from 'node:events';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { ServerResponse } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, it, onTestFinished, vi } from 'vitest';
import { reply } from '../support/faults.ts';
import { HttpClient } from '../support/http.ts';
import { startLarder } from '../support/larder.ts';
import { putName, removeName } from '../support/loopback-network.ts';
import { UpstreamRegistry } from '../support/upstream-registry.ts';

const LARGE_BYTES = 20_000_000;
/** The server's, the access log's, our own, the library's, and the pipe's. */
const MAX_LISTENERS_OF_ANSWER = 5;
/** One more than the listeners that Node takes for a leak. */
const WAYS_OUT = EventEmitter.defaultMaxListeners + 2;

/** The most listeners for its end that any answer of Larder's had at once, by what was asked for. */
function listenersOfAnswers(): ReadonlyMap<string, number> {
  const most = new Map<string, number>();
  const { on } = EventEmitter.prototype;
  const spy = vi.spyOn(EventEmitter.prototype, 'on').mockImplementation(function (this: EventEmitter, event, listener) {
    on.call(this, event, listener);
    // Answers of the test's own servers did not go through Express, which keeps what was asked for.
    const asked = this instanceof ServerResponse && (this.req as { originalUrl?: string }).originalUrl;
    if (event === 'close' && asked) most.set(asked, Math.max(most.get(asked) ?? 0, this.listenerCount('close')));
    return this;
  });
  onTestFinished(() => spy.mockRestore());
  return most;
}

/** The leaks that Node warns of from now on. That the library uses what is deprecated is another matter. */
function warnings(): readonly string[] {
  const seen: string[] = [];
  const note = ({ name, message }: Error) => {
    if (name === 'MaxListenersExceededWarning') seen.push(message);
  };
  process.on('warning', note);
  onTestFinished(() => void process.off('warning', note));
  return seen;
}

describe('what is passed on', () => {
  it('adds the same few listeners to every answer, however much of it there is', async () => {
    const seen = warnings();
    const registry = await UpstreamRegistry.start();
    const large = Buffer.alloc(LARGE_BYTES, 'x');
    registry.on(/\/small$/, () => reply(200, 'x'));
    registry.on(/\/large$/, () => reply(200, large));
    const larder = await startLarder({ registries: [registry], config: { log: { audit: 'data/audit.jsonl' } } });
    const client = new HttpClient(larder);
    onTestFinished(() => client.close());
    const most = listenersOfAnswers();
    const paths = ['small', 'large', 'absent'].map(
      (name) => `/registry/${registry.hostname}/v1/providers/acme/${name}`,
    );
    const answers = await Promise.all(paths.map((path) => client.get(`${larder.url}${path}`)));
    expect(answers.map(({ status }) => status)).toEqual([200, 200, 404]);
    expect(answers.slice(0, 2).map(({ body }) => body.length)).toEqual([1, LARGE_BYTES]);
    expect(paths.map((path) => most.get(path))).toEqual(paths.map(() => MAX_LISTENERS_OF_ANSWER));
    expect(seen).toEqual([]);
  });

  it('has Node warn of no leak where there are many ways out', async () => {
    const seen = warnings();
    const names = Array.from({ length: WAYS_OUT }, (_, index) => `registry-${index}.example.test`);
    const registry = await UpstreamRegistry.start({ hostNames: names });
    const directory = await mkdtemp(join(tmpdir(), 'larder-authorities-'));
    onTestFinished(() => rm(directory, { recursive: true, force: true }));
    const hosts: Record<string, unknown> = {};
    for (const name of names) {
      putName(name, registry.port);
      onTestFinished(() => removeName(name));
      // Whatever is trusted for one registry alone is a way out of its own.
      const ca = join(directory, name);
      await writeFile(ca, `# for ${name}\n${registry.ca}`);
      hosts[name] = { ca, privateNetwork: true };
    }
    const larder = await startLarder({ registries: [registry], config: { upstreams: { hosts } } });
    const client = new HttpClient(larder);
    onTestFinished(() => client.close());
    for (const name of names) {
      const { status } = await client.get(`${larder.url}/registry/${name}/v1/providers/acme/absent`);
      expect(status).toBe(404);
    }
    expect(registry.requests.all.filter(({ path }) => path.endsWith('/absent'))).toHaveLength(WAYS_OUT);
    expect(seen).toEqual([]);
  });
});
