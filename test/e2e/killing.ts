import { createHash } from 'node:crypto';
import { readdir, readFile } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';
import { gunzipSync } from 'node:zlib';
import { trickle } from '../support/faults.ts';
import { HttpClient } from '../support/http.ts';
import { type LarderProcess, startLarderProcess } from '../support/larder-process.ts';
import { type LarderSetup, larderSetup } from '../support/larder-setup.ts';
import { moduleTarGz } from '../support/module-archive.ts';
import { UpstreamRegistry } from '../support/upstream-registry.ts';

/** Clients at a time. */
const CLIENTS = 6;
/** Of archives: some fit into what is withheld, some do not. */
const MIN_BYTES = 20_000;
const MAX_BYTES = 400_000;
/** Slow enough for downloads to be under way at any time. */
const BYTES_PER_SECOND = 1_000_000;
/** A process that is busy lives this long at most before it is killed, in milliseconds. */
const MAX_LIFE_MS = 800;
/** So many new providers and modules in every round. */
const NEW_THINGS = 4;
/** Told to whoever comes while it ends. */
const ENDING = 503;
/** On a machine that is too busy for a deadline: right as well, and no answer to look into. */
const TOO_LATE = 504;
const MAX_TRIES = 5;
/** Everything that it was asked for is answered within this, or the drain would not end in time. */
const DRAIN_MS = 25_000;

/** What the killing came to. */
export interface Killing {
  readonly rounds: number;
  /** Whole answers that were looked into. */
  readonly answers: number;
  /** Requests that a kill cut off. */
  readonly cutOff: number;
  /** Partial files that a killed process had left. */
  readonly left: number;
}

/**
 * Kills a busy Larder at random points, by SIGKILL or SIGTERM, and starts it again on what is left, again and again.
 *
 * - Every answer that came whole was right.
 * - What SIGTERM ends, ends well, with its answers.
 * - Whatever lies under a final name afterwards is what it should be, and each document can be read.
 * - At the end everything can be had, and then also without upstream as far as it is stored.
 *
 * @param options.seed the same one gives the same points and the same requests, though not the same timing
 * @throws with the seed and the round when any of that is not so
 */
export async function killAgainAndAgain(options: {
  rounds: number;
  seed: number;
  /** No further round begins after so many milliseconds: a busy machine gets to fewer of them. */
  timeMs?: number;
  onRound?: (round: number) => void;
}): Promise<Killing> {
  const random = randomBy(options.seed);
  const world = await World.begin(random);
  const told = { rounds: 0, answers: 0, cutOff: 0, left: 0 };
  const limit = performance.now() + (options.timeMs ?? Number.POSITIVE_INFINITY);
  try {
    for (let round = 1; round <= options.rounds && performance.now() < limit; round += 1) {
      told.rounds = round;
      try {
        await world.publishMore(round);
        const larder = await startLarderProcess(world.setup);
        await world.expectSound();
        const signal = random() < 0.5 ? 'SIGKILL' : 'SIGTERM';
        const outcome = await world.busyUntil(larder, signal, random() * MAX_LIFE_MS);
        told.answers += outcome.answers;
        told.cutOff += outcome.cutOff;
        await world.expectSound();
        told.left += (await readdir(join(world.setup.dataDirectory, 'partial'))).length;
      } catch (cause) {
        throw new Error(`seed ${options.seed}, round ${round}: ${cause}`, { cause });
      }
      options.onRound?.(round);
    }
    await world.expectEverything();
    return told;
  } finally {
    await world.end();
  }
}

/** Numbers from 0 up to 1, the same for the same seed (mulberry32). */
function randomBy(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

/** Something to ask for, and how to tell a right answer. */
interface Thing {
  readonly path: string;
  readonly status: 200 | 204;
  /** @throws when it is wrong */
  check(body: Buffer): void;
}

class World {
  readonly setup: LarderSetup;
  readonly #random: () => number;
  readonly #registry: UpstreamRegistry;
  readonly #http: HttpClient;
  readonly #things: Thing[] = [];
  /** SHA-256 of archives, by file name. */
  readonly #digests = new Map<string, string>();

  private constructor(random: () => number, { setup, registry }: { setup: LarderSetup; registry: UpstreamRegistry }) {
    this.setup = setup;
    this.#random = random;
    this.#registry = registry;
    this.#http = new HttpClient({ ca: setup.ca });
  }

  static async begin(random: () => number): Promise<World> {
    const registry = await UpstreamRegistry.start();
    registry.releases.on(/GET .*\.(zip|tar\.gz)/, trickle(BYTES_PER_SECOND));
    const setup = await larderSetup({ registries: [registry], config: { log: { level: 'info' } } });
    return new World(random, { setup, registry });
  }

  /** New providers and modules, of which nothing is known yet. */
  async publishMore(round: number): Promise<void> {
    for (let index = 0; index < NEW_THINGS; index += 1) {
      const name = `r${round}n${index}`;
      await this.#publishProvider(name, MIN_BYTES + Math.floor(this.#random() * (MAX_BYTES - MIN_BYTES)));
      this.#publishModule(name);
    }
  }

  /** Clients ask for this and that until the process has ended. @throws when any of them was told something wrong */
  async busyUntil(larder: LarderProcess, signal: 'SIGKILL' | 'SIGTERM', lifeMs: number) {
    const counts = { answers: 0, cutOff: 0 };
    let isOver = false;
    const client = async () => {
      while (!isOver) {
        const thing = this.#anything();
        const answer = await this.#http.get(`${larder.url}${thing.path}`).catch(() => undefined);
        if (answer?.status === TOO_LATE || (isOver && answer?.status === ENDING)) continue;
        if (answer) {
          expectRight(thing, answer);
          counts.answers += 1;
        } else if (isOver) {
          counts.cutOff += 1;
        } else {
          throw new Error(`${thing.path} was cut off while nobody was killed`);
        }
      }
    };
    const clients = Array.from({ length: CLIENTS }, client);
    // A client that has something to tell tells it at once.
    await Promise.race([wait(lifeMs), ...clients]);
    isOver = true;
    larder.signal(signal);
    const end = await Promise.race([larder.ended, wait(DRAIN_MS + 10_000)]);
    if (!end) throw new Error(`${signal} did not end it`);
    await Promise.all(clients);
    if (signal === 'SIGTERM' && end.code !== 0) {
      throw new Error(`SIGTERM ended it with ${end.code ?? end.signal}:\n${larder.lines.slice(-10).join('\n')}`);
    }
    return counts;
  }

  /** @throws when there is anything under a final name that is not what it should be */
  async expectSound(): Promise<void> {
    for (const area of ['providers', 'modules']) {
      const directory = join(this.setup.dataDirectory, area);
      for (const name of await readdir(directory, { recursive: true }).catch(() => [])) {
        const file = join(directory, name);
        if (name.endsWith('.json')) JSON.parse(await readFile(file, 'utf8'));
        else if (name.endsWith('.zip')) expectDigest(name, await readFile(file), this.#digests.get(basename(name)));
        else if (name.endsWith('.tar.gz')) gunzipSync(await readFile(file));
      }
    }
  }

  /** All of it can be had. */
  async expectEverything(): Promise<void> {
    const larder = await startLarderProcess(this.setup);
    try {
      for (const thing of this.#things) expectRight(thing, await this.#inTime(`${larder.url}${thing.path}`));
      await this.#registry.stop();
      for (const thing of this.#things) {
        if (/\.(zip|tar\.gz)$/.test(thing.path)) {
          expectRight(thing, await this.#http.get(`${larder.url}${thing.path}`));
        }
      }
    } finally {
      await larder.stop();
    }
    await this.expectSound();
  }

  async end(): Promise<void> {
    await this.#http.close();
    await this.#registry.stop();
    await this.setup.remove();
  }

  async #inTime(url: string) {
    for (let tries = 1; ; tries += 1) {
      const answer = await this.#http.get(url);
      if (answer.status !== TOO_LATE || tries === MAX_TRIES) return answer;
    }
  }

  /** New things are asked for more often than old ones. */
  #anything(): Thing {
    const back = Math.floor(this.#random() ** 3 * this.#things.length);
    return this.#things[this.#things.length - 1 - back] as Thing;
  }

  async #publishProvider(type: string, sizeBytes: number): Promise<void> {
    const published = await this.#registry.addProvider({ namespace: 'acme', type, version: '1.0.0', sizeBytes });
    const archive = published.packages.get('linux_amd64');
    if (!archive) throw new Error('the test publishes no linux_amd64');
    this.#digests.set(archive.filename, archive.sha256);
    const mirror = `/providers/${this.#registry.hostname}/acme/${type}`;
    const registry = `/registry/${this.#registry.hostname}/v1/providers/acme/${type}`;
    const holds = (text: string) => (body: Buffer) => expectText(body.toString(), text);
    this.#things.push(
      { path: `${mirror}/index.json`, status: 200, check: holds('"1.0.0"') },
      { path: `${mirror}/1.0.0.json`, status: 200, check: holds(archive.zh) },
      {
        path: `${mirror}/${archive.filename}`,
        status: 200,
        check: (body) => expectDigest(archive.filename, body, archive.sha256),
      },
      { path: `${registry}/1.0.0/download/linux/amd64`, status: 200, check: holds(archive.sha256) },
      { path: `${registry}/1.0.0/SHA256SUMS`, status: 200, check: holds(published.shasums.toString()) },
    );
  }

  #publishModule(name: string): void {
    const archive = this.#registry.addModuleArchive(
      `/${name}.tar.gz`,
      moduleTarGz({ 'main.tf': `output "name" { value = "${name}" }\n` }),
    );
    const address = { namespace: 'acme', name, system: 'aws', version: '1.0.0' };
    this.#registry.addModule({ ...address, location: archive.url });
    const module = `/registry/${this.#registry.hostname}/v1/modules/acme/${name}/aws`;
    this.#things.push(
      { path: `${module}/versions`, status: 200, check: (body) => expectText(body.toString(), '"1.0.0"') },
      { path: `${module}/1.0.0/download`, status: 204, check: () => {} },
      {
        path: `${module}/1.0.0/acme-${name}-aws-1.0.0.tar.gz`,
        status: 200,
        check: (body) => expectText(gunzipSync(body).toString(), `output "name" { value = "${name}" }`),
      },
    );
  }
}

function expectRight({ path, status, check }: Thing, answer: { status: number; body: Buffer }): void {
  if (answer.status !== status) throw new Error(`${path} was answered ${answer.status}: ${answer.body}`);
  check(answer.body);
}

function expectText(text: string, part: string): void {
  if (!text.includes(part)) throw new Error(`${part} is not in ${text.slice(0, 500)}`);
}

function expectDigest(name: string, bytes: Buffer, expected: string | undefined): void {
  const actual = createHash('sha256').update(bytes).digest('hex');
  if (actual !== expected)
    throw new Error(`${name} has ${bytes.length} bytes with the SHA-256 ${actual}, not ${expected}`);
}
