import { setTimeout as wait } from 'node:timers/promises';
import { expect, vi } from 'vitest';
import { archiveName } from '../mirror/scene.ts';
import { type HttpAnswer, HttpClient } from '../support/http.ts';
import { type Larder, startLarder } from '../support/larder.ts';
import { moduleTarGz } from '../support/module-archive.ts';
import type { PublishedVersion } from '../support/published-provider.ts';
import { UpstreamRegistry } from '../support/upstream-registry.ts';
import { ERRORS, SAYS } from './answers.ts';
import type { Column } from './table.ts';
import type { Target } from './troubles.ts';

/** How long JSON may take, as this Larder is set up; there has to be time for a busy machine as well. */
export const DEADLINE_MS = 5_000;
/** How long the making of a package may take. */
const MAKING_MS = 10_000;

/** For what has to succeed, however busy the machine is. */
const PATIENCE_MS = 90_000;
const INTERVAL_MS = 50;

/** Clients give up after 10 s, and an answer is due within 8 s. */
const ANSWER_MS = 8_000;
/** Files have no such limit; what never comes has to end all the same. */
const FILE_MS = 25_000;

/** Enough for a client to get some of it before it is verified. */
const ARCHIVE_BYTES = 200_000;

/** Life spans, so chosen that hours pass from one to the next. */
const FRESHNESS = { versions: '5m', discovery: '1h', packages: '1h', absent: '1m', keep: '12h' };

/** What one column asks for. `of` is the provider's type, or the module's name. */
interface Question {
  readonly isModule: boolean;
  /** Below `/providers/HOST` or `/registry/HOST`. */
  path(of: string): string;
  /** What upstream is asked for, and where. */
  readonly request: RegExp;
  readonly at: 'api' | 'files';
  readonly limitMs: number;
  /** Whether asking once is enough to have it stored. */
  readonly stores: boolean;
}

const provider = (file: string) => (of: string) => `/providers/HOST/acme/${of}/${file}`;
const registry = (rest: string) => (of: string) => `/registry/HOST/v1/providers/acme/${of}/${rest}`;
const module = (rest: (of: string) => string) => (of: string) => `/registry/HOST/v1/modules/acme/${of}/aws/${rest(of)}`;

const document = { isModule: false, at: 'api', limitMs: ANSWER_MS, stores: false } as const;
const VERSIONS = /GET .*\/versions$/;
const PACKAGE = /GET .*\/download\/linux\/amd64$/;

const packageFile = (of: string) => `1.0.0/acme-${of}-aws-1.0.0.tar.gz`;

const QUESTIONS: Readonly<Record<Column, Question>> = {
  index: { ...document, path: provider('index.json'), request: VERSIONS },
  version: { ...document, path: provider('1.0.0.json'), request: PACKAGE },
  archive: {
    isModule: false,
    path: (of) => provider(archiveName('1.0.0', 'linux_amd64', of))(of),
    request: /GET .*\.zip/,
    at: 'files',
    limitMs: FILE_MS,
    stores: true,
  },
  versions: { ...document, path: registry('versions'), request: VERSIONS },
  download: { ...document, path: registry('1.0.0/download/linux/amd64'), request: PACKAGE },
  checksums: { ...document, path: registry('1.0.0/SHA256SUMS'), request: /GET .*_SHA256SUMS$/, at: 'files' },
  moduleVersions: { ...document, isModule: true, path: module(() => 'versions'), request: VERSIONS },
  moduleDownload: {
    ...document,
    isModule: true,
    path: module(() => '1.0.0/download'),
    request: /GET .*\/download$/,
    stores: true,
  },
  package: {
    isModule: true,
    path: module(packageFile),
    request: /GET .*\.tar\.gz/,
    at: 'files',
    limitMs: FILE_MS,
    stores: true,
  },
};

/** What came back, or that it did not come to its end. */
export type Outcome = { readonly answer: HttpAnswer } | { readonly brokenOff: unknown };

/** A column's own Larder, and its own upstream. */
export class World {
  readonly column: Column;
  readonly registry: UpstreamRegistry;
  readonly larder: Larder;
  readonly #client: HttpClient;
  readonly #question: Question;
  readonly #published = new Map<string, PublishedVersion>();

  private constructor(column: Column, deps: { registry: UpstreamRegistry; larder: Larder }) {
    this.column = column;
    this.registry = deps.registry;
    this.larder = deps.larder;
    this.#client = new HttpClient({ ca: deps.larder.ca });
    this.#question = QUESTIONS[column];
  }

  static async start(column: Column): Promise<World> {
    const name = `${column.toLowerCase()}.registry.example.test`;
    const filesName = `${column.toLowerCase()}.files.example.test`;
    const registry = await UpstreamRegistry.start({ name, filesName });
    let tick = 0;
    // Each link is another one. Elsewhere they last, so that there is something to remember.
    if (QUESTIONS[column].limitMs === FILE_MS) {
      registry.signLinks({ lifetimeMs: 1_000_000_000, now: () => 1_000_000 + tick++ });
    }
    const larder = await startLarder({
      registries: [registry],
      config: {
        freshness: FRESHNESS,
        limits: { metadataDeadline: `${DEADLINE_MS}ms` },
        modules: { limits: { time: `${MAKING_MS}ms` } },
        log: { level: 'warn' },
      },
    });
    return new World(column, { registry, larder });
  }

  get target(): Target {
    const { request, at } = this.#question;
    const origin = at === 'api' ? this.registry.api : this.registry.releases;
    return { column: this.column, registry: this.registry, origin, request };
  }

  /** How often upstream was asked for what fails, since that was last forgotten. */
  get asked(): number {
    const { request, at } = this.#question;
    return (at === 'api' ? this.registry : this.registry.releases).requests.count(request);
  }

  forgetRequests(): void {
    this.registry.requests.clear();
    this.registry.releases.requests.clear();
  }

  /** Version 1.0.0 of a provider or module appears upstream. */
  async publish(of: string): Promise<void> {
    if (this.#question.isModule) {
      const archive = this.registry.addModuleArchive(`/${of}.tar.gz`, moduleTarGz({ 'main.tf': noise(of) }));
      const address = { namespace: 'acme', name: of, system: 'aws', version: '1.0.0' };
      this.registry.addModule({ ...address, dialect: 'json', location: () => archive.link() });
      return;
    }
    const isLarge = this.column === 'archive';
    const size = isLarge ? { sizeBytes: ARCHIVE_BYTES } : {};
    const published = await this.registry.addProvider({ namespace: 'acme', type: of, version: '1.0.0', ...size });
    this.#published.set(of, published);
  }

  /** Puts the question of this column. The time it takes is bounded, whatever comes. */
  async ask(of: string): Promise<Outcome> {
    const { path, limitMs } = this.#question;
    return this.#get(path(of), limitMs);
  }

  /** The same, where nothing stands in the way of a right answer but the deadline, which is too short for a machine that is too busy. */
  async askPatiently(of: string): Promise<Outcome> {
    let outcome = await this.ask(of);
    const isFresh = async () => {
      if (this.describe(of, outcome) === 'fresh') return true;
      outcome = await this.ask(of);
      return false;
    };
    await until(isFresh, true).catch(() => {});
    return outcome;
  }

  /** Has upstream's answer remembered, and nothing stored where that can be avoided. */
  async learn(of: string): Promise<void> {
    if (this.column !== 'moduleDownload') return this.expectRight(of);
    // Asks for the location alone.
    const url = this.#url(QUESTIONS.package.path(of));
    await until(async () => (await this.#client.get(url, { method: 'HEAD' })).status, 200);
  }

  /** Has the archive or package stored. */
  async store(of: string): Promise<void> {
    const url = this.#url((this.#question.isModule ? QUESTIONS.package : QUESTIONS.archive).path(of));
    await until(async () => (await this.#client.get(url)).status, 200);
    const isStored = async () => (await this.#client.get(url, { method: 'HEAD' })).headers['last-modified'];
    await until(async () => (await isStored()) !== undefined, true);
  }

  /** The right answer comes, unmarked: as soon as what is still under way from before has ended. */
  async expectRight(of: string): Promise<void> {
    await until<string>(async () => this.describe(of, await this.ask(of)), 'fresh');
  }

  /** An outcome in one word of the table; in more words where there is none for it. */
  describe(of: string, outcome: Outcome): string {
    if ('brokenOff' in outcome) return 'cut';
    const { answer } = outcome;
    return answer.status < 300 ? this.#describeGood(of, answer) : this.#describeError(answer);
  }

  /** Upstream is as it was, and whatever still hangs in it is broken off. */
  async heal(): Promise<void> {
    this.registry.heal();
    await this.registry.restart();
  }

  async close(): Promise<void> {
    await this.#client.close();
    await this.larder.close();
    await this.larder.setup.remove();
    await this.registry.stop();
  }

  #describeGood(of: string, answer: HttpAnswer): string {
    if (this.column === 'version' && answer.text() === '{"archives":{}}') return 'empty';
    const published = this.#published.get(of);
    expect(answer.status).toBe(this.column === 'moduleDownload' ? 204 : 200);
    SAYS[this.column](answer, { of, version: published, file: published?.packages.get('linux_amd64') });
    const { warning, age } = answer.headers;
    if (warning === undefined) return 'fresh';
    expect(warning).toContain('110');
    return Number(age) > 0 ? 'stale' : 'stored';
  }

  #describeError(answer: HttpAnswer): string {
    const { headers, status } = answer;
    expect(headers['content-type']).toBe('application/json');
    expect(headers['cache-control']).toBe('no-store');
    const { code, errors } = answer.json();
    expect(answer.text()).not.toMatch(/\bat .*\.ts:|X-Amz-/);
    const word = Object.entries(ERRORS).find(([, error]) => error[0] === status && error[1] === code)?.[0];
    if (word === undefined) return `${status} ${answer.text()}`;
    // Whoever reads it has to know whom to ask about it.
    if (word !== 'mismatch') expect(errors[0]).toMatch(/\.(registry|files)\.example\.test/);
    const patience = Number(headers['retry-after']);
    if (word === 'busy') expect(patience >= 1 && patience <= 5, headers['retry-after']).toBe(true);
    return word;
  }

  #url(path: string): string {
    return `${this.larder.url}${path.replace('HOST', this.registry.hostname)}`;
  }

  async #get(path: string, limitMs: number): Promise<Outcome> {
    const signal = AbortSignal.timeout(limitMs);
    try {
      return { answer: await this.#client.get(this.#url(path), { signal }) };
    } catch (error) {
      if (signal.aborted) throw new Error(`nothing came of ${path} within ${limitMs / 1000} s`, { cause: error });
      return { brokenOff: error };
    }
  }
}

/** Outside tests as well. Time passes meanwhile, on the clock that stands still otherwise. */
async function until<T>(read: () => Promise<T>, wanted: T): Promise<void> {
  const limit = performance.now() + PATIENCE_MS;
  for (;;) {
    const value = await read();
    if (value === wanted) return;
    if (performance.now() > limit) throw new Error(`it is still ${value}, and should be ${wanted}`);
    await wait(INTERVAL_MS);
    // What rests for a moment by the clock has to come to its end.
    vi.setSystemTime(Date.now() + 10 * INTERVAL_MS);
  }
}

function noise(of: string): string {
  return Array.from({ length: 400 }, (_, line) => `# ${of} ${Math.sin(line + of.length)}\n`).join('');
}
