import { Agent, request } from 'undici';
import type { Random } from './random.ts';
import { sha256, type Wares } from './wares.ts';

/** Nothing may take longer, upstream's troubles included. Milliseconds. */
const ANSWER_LIMIT_MS = 90_000;

export interface Answer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
  readonly body: Buffer;
}

/** One kind of request, and what its answer has to be. */
interface Wish {
  readonly kind: string;
  readonly path: string;
  readonly method?: 'HEAD';
  readonly headers?: Readonly<Record<string, string>>;
  readonly expected: readonly number[];
  /** @returns what is wrong with it */
  readonly problem: (answer: Answer) => string | undefined;
}

export type Outcome =
  | { readonly kind: string; readonly result: string }
  | { readonly kind: string; readonly result: 'wrong'; readonly why: string }
  | { readonly kind: string; readonly result: 'failed'; readonly why: string };

/** What clients of all kinds ask for, with what each answer has to be known beforehand or from the first of its kind. */
export class Clients {
  readonly #agent: Agent;
  readonly #origin: string;
  readonly #host: string;
  readonly #wares: Wares;
  readonly #random: Random;
  /** SHA-256 of what must always be the same, by path. */
  readonly #seen = new Map<string, string>();
  readonly #etags = new Map<string, string>();

  constructor(deps: { ca: string; clients: number; origin: string; host: string; wares: Wares; random: Random }) {
    this.#agent = new Agent({
      connect: { ca: deps.ca },
      connections: deps.clients,
      headersTimeout: ANSWER_LIMIT_MS,
      bodyTimeout: ANSWER_LIMIT_MS,
      keepAliveTimeout: 10_000,
    });
    this.#origin = deps.origin;
    this.#host = deps.host;
    this.#wares = deps.wares;
    this.#random = deps.random;
  }

  /** Asks for something. Never rejects. */
  async once(): Promise<Outcome> {
    const { kind, path, method = 'GET', headers, expected, problem } = this.#wish();
    try {
      const given = await request(`${this.#origin}${path}`, {
        dispatcher: this.#agent,
        method,
        ...(headers && { headers: { ...headers } }),
        signal: AbortSignal.timeout(ANSWER_LIMIT_MS),
      });
      const body = Buffer.from(await given.body.arrayBuffer());
      const answer = { status: given.statusCode, headers: given.headers, body };
      if (answer.status >= 500)
        return { kind, result: 'failed', why: `${answer.status} ${body.toString().slice(0, 300)}` };
      if (!expected.includes(answer.status))
        return { kind, result: 'wrong', why: `${path}: ${answer.status} ${body.toString().slice(0, 300)}` };
      const why = problem(answer);
      return why === undefined
        ? { kind, result: String(answer.status) }
        : { kind, result: 'wrong', why: `${path}: ${why}` };
    } catch (error) {
      // Half an answer that is broken off, as it has to be when upstream breaks off.
      return { kind, result: 'failed', why: `${path}: ${String((error as { code?: string }).code ?? error)}` };
    }
  }

  close(): Promise<void> {
    return this.#agent.destroy();
  }

  #wish(): Wish {
    const { published, file, bytes } = this.#random.of(this.#wares.archives);
    const { namespace, type, version } = published;
    const mirror = `/providers/${this.#host}/${namespace}/${type}`;
    const registry = `/registry/${this.#host}/v1/providers/${namespace}/${type}`;
    const [os, arch] = file.platform.split('_');
    const archive = this.#random.of([`${mirror}/${file.filename}`, `${registry}/${version}/${file.filename}`]);
    const module = this.#random.of(this.#wares.modules);
    const modules = `/registry/${this.#host}/v1/modules/${module}`;
    const whole = (answer: Answer) => differs(answer.body, bytes);
    const start = this.#random.between(0, bytes.length - 1);
    const end = this.#random.between(start, Math.min(bytes.length - 1, start + 100_000));

    const wishes: readonly (() => Wish)[] = [
      () => this.#document('index.json', `${mirror}/index.json`, true),
      () =>
        this.#document('VERSION.json', `${mirror}/${version}.json`, false, ({ body }) =>
          String(body).includes(file.zh) ? undefined : `lacks ${file.zh}`,
        ),
      () => ({ kind: 'archive', path: archive, expected: [200], problem: whole }),
      () => ({ kind: 'archive', path: archive, expected: [200], problem: whole }),
      () => ({
        kind: 'archive, range',
        path: archive,
        headers: { range: `bytes=${start}-${end}` },
        // While it arrives its size may not be known.
        expected: [206, 200],
        problem: (answer) =>
          answer.status === 200 ? whole(answer) : differs(answer.body, bytes.subarray(start, end + 1)),
      }),
      () => ({
        kind: 'archive, HEAD',
        path: archive,
        method: 'HEAD',
        expected: [200],
        problem: ({ headers }) => {
          const length = headers['content-length'];
          return length === undefined || Number(length) === bytes.length ? undefined : `a length of ${length}`;
        },
      }),
      () => ({
        kind: 'archive, conditional',
        path: archive,
        headers: { 'if-none-match': `"${file.sha256}"` },
        expected: [304],
        problem: () => undefined,
      }),
      () => this.#document('registry versions', `${registry}/versions`, true),
      () =>
        this.#document('registry download', `${registry}/${version}/download/${os}/${arch}`, false, ({ body }) =>
          (JSON.parse(String(body)) as { shasum?: string }).shasum === file.sha256 ? undefined : 'another shasum',
        ),
      () => ({
        kind: 'SHA256SUMS',
        path: `${registry}/${version}/SHA256SUMS`,
        expected: [200],
        problem: ({ body }) => differs(body, published.shasums),
      }),
      () => this.#document('module versions', `${modules}/versions`, true),
      () => ({
        kind: 'module download',
        path: `${modules}/1.0.0/download`,
        expected: [204],
        problem: ({ headers }) =>
          this.#same(`${modules} checksum`, /sha256:([0-9a-f]+)/.exec(String(headers['x-terraform-get']))?.[1]),
      }),
      () => ({
        kind: 'module package',
        path: `${modules}/1.0.0/${module.replaceAll('/', '-')}-1.0.0.tar.gz`,
        expected: [200],
        problem: ({ body }) => this.#same(`${modules} checksum`, sha256(body)),
      }),
    ];
    return this.#random.of(wishes)();
  }

  /** A list or document: unconditional, or asking whether it is still the one that it was. */
  #document(kind: string, path: string, isFixed: boolean, problem: Wish['problem'] = () => undefined): Wish {
    const etag = this.#random.next() < 0.3 ? this.#etags.get(path) : undefined;
    return {
      kind: etag === undefined ? kind : `${kind}, conditional`,
      path,
      ...(etag !== undefined && { headers: { 'if-none-match': etag } }),
      expected: etag === undefined ? [200] : [200, 304],
      problem: (answer) => {
        if (answer.status === 304) return undefined;
        if (typeof answer.headers['etag'] === 'string') this.#etags.set(path, answer.headers['etag']);
        return problem(answer) ?? (isFixed ? this.#same(path, sha256(answer.body)) : undefined);
      },
    };
  }

  #same(what: string, digest: string | undefined): string | undefined {
    // Not every answer names it.
    if (digest === undefined) return undefined;
    const first = this.#seen.get(what) ?? digest;
    this.#seen.set(what, first);
    return first === digest ? undefined : `other bytes than before: ${digest}, not ${first}`;
  }
}

function differs(given: Buffer, expected: Buffer): string | undefined {
  const [is, ought] = [sha256(given), sha256(expected)];
  return is === ought ? undefined : `${given.length} bytes with ${is}, not ${expected.length} with ${ought}`;
}
