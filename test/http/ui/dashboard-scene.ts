import { createHash } from 'node:crypto';
import { ProviderArchive } from '../../../src/address/archive.ts';
import { parseSha256 } from '../../../src/address/hash.ts';
import { Platform } from '../../../src/address/platform.ts';
import { ProviderAddress } from '../../../src/address/provider.ts';
import { Version } from '../../../src/address/version.ts';
import type { AdminDeps } from '../../../src/http/admin.ts';
import { Authenticator, type KnownToken } from '../../../src/http/authenticate.ts';
import { Assets } from '../../../src/http/ui/assets.ts';
import { Refusals } from '../../../src/http/ui/refusals.ts';
import { Sessions } from '../../../src/http/ui/sessions.ts';
import type { DashboardDeps } from '../../../src/http/ui.ts';
import type { Drift } from '../../../src/mirror/drift.ts';
import { Inventory } from '../../../src/mirror/inventory.ts';
import { SignatureStates } from '../../../src/mirror/signature-states.ts';
import { StoredIndex } from '../../../src/mirror/stored-index.ts';
import type { StoredArchive } from '../../../src/store/archive-store.ts';
import type { MetadataEntry, MetadataStore } from '../../../src/store/metadata-store.ts';
import { LogRecorder, start } from '../harness.ts';

export const OPS = 'token-of-the-operators';
export const READER = 'token-of-a-pipeline';
export const NARROW = 'token-of-one-team';

/** A metadata store in a map, which can be told to fail. */
export class MapStore implements MetadataStore {
  readonly entries = new Map<string, MetadataEntry>();
  isAway = false;

  async get(key: string): Promise<MetadataEntry | undefined> {
    this.#demand();
    return this.entries.get(key);
  }
  async put(key: string, entry: MetadataEntry): Promise<void> {
    this.#demand();
    this.entries.set(key, entry);
  }
  async delete(key: string): Promise<void> {
    this.#demand();
    this.entries.delete(key);
  }
  async check(): Promise<void> {
    this.#demand();
  }
  async close(): Promise<void> {}

  #demand(): void {
    if (this.isAway) throw new Error('the store is away');
  }
}

export function storedArchive(
  address: string,
  version: string,
  platform = 'linux_amd64',
  more: Partial<StoredArchive> = {},
): StoredArchive {
  const archive = new ProviderArchive(ProviderAddress.parse(address), Version.parse(version), Platform.parse(platform));
  const sha256 = parseSha256(createHash('sha256').update(String(archive)).digest('hex'));
  return { archive, size: 1_000, sha256, h1: undefined, storedAt: new Date('2026-01-02T03:04:05Z'), ...more };
}

/** A store that holds these, and nothing beside them. */
export function archivesOf(all: readonly StoredArchive[]) {
  const lists = new Map<string, StoredArchive[]>();
  for (const one of all) {
    const key = String(one.archive.provider);
    lists.set(key, [...(lists.get(key) ?? []), one]);
  }
  return {
    async *providers() {
      for (const key of lists.keys()) yield ProviderAddress.parse(key);
    },
    list: async (provider: ProviderAddress) => lists.get(String(provider)) ?? [],
    lastUse: async ({ storedAt }: StoredArchive) => storedAt,
    getRelease: async () => undefined,
  };
}

export const NO_PACKAGES = {
  async *modules() {},
  list: async () => [],
  lastUse: async () => new Date(0),
};

export interface DashboardOptions {
  readonly stored?: readonly StoredArchive[];
  readonly admin?: Partial<AdminDeps>;
  readonly dashboard?: Partial<DashboardDeps>;
  readonly tokens?: () => readonly KnownToken[];
  readonly store?: MapStore;
  readonly now?: () => number;
  readonly isSealed?: () => boolean;
  readonly drift?: readonly Drift[];
}

export function token(name: string, secret: string, more: Partial<KnownToken> = {}): KnownToken {
  return {
    name,
    digest: createHash('sha256').update(secret).digest(),
    roles: ['admin'],
    addresses: undefined,
    ...more,
  };
}

/** The dashboard over plain HTTP, with stand-ins for everything behind it. */
export async function startDashboard(options: DashboardOptions = {}) {
  const store = options.store ?? new MapStore();
  const log = new LogRecorder();
  const archives = archivesOf(options.stored ?? []);
  const audited: Record<string, unknown>[] = [];
  const tokens = options.tokens ?? (() => [token('ops', OPS), token('ci', READER, { roles: ['read'] })]);
  const inventory = new Inventory({ store: archives, modules: NO_PACKAGES, drift: { all: options.drift ?? [] } });
  const running = await start(
    {},
    {
      authenticator: new Authenticator({ anonymous: 'read', tokens: async () => tokens() }),
      audit: { record: (event, fields) => void audited.push({ event, ...fields }) },
      admin: { inventory, ...options.admin } as AdminDeps,
      dashboard: {
        assets: await Assets.load(),
        sessions: new Sessions({ store, logger: log, ...(options.now && { now: options.now }) }),
        index: new StoredIndex({ archives, packages: NO_PACKAGES, logger: log }),
        signatures: new SignatureStates({ store: archives }),
        refusals: new Refusals(),
        ...options.dashboard,
      },
      ...(options.isSealed && { isSealed: options.isSealed }),
    },
  );
  const base = `${running.origin}/ui`;
  const send = (path: string, init: RequestInit = {}) => fetch(`${base}${path}`, { redirect: 'manual', ...init });
  const post = (path: string, fields: Record<string, string>, headers: Record<string, string> = {}) =>
    send(path, { method: 'POST', body: new URLSearchParams(fields), headers });

  /** @returns what a browser sends along from then on */
  const signIn = async (secret = OPS): Promise<Visitor> => {
    const answer = await post('/sign-in', { token: secret });
    const cookie = answer.headers.get('set-cookie')?.split(';')[0] ?? '';
    const get = (path: string) => send(path, { headers: { cookie } });
    const text = async (path: string) => (await get(path)).text();
    const formToken = /name="form" value="([^"]+)"/.exec(await text('/trouble'))?.[1] ?? '';
    return {
      answer,
      cookie,
      formToken,
      get,
      text,
      post: (path, fields, headers = {}) => post(path, { form: formToken, ...fields }, { cookie, ...headers }),
    };
  };
  return { ...running, base, send, post, signIn, audited, store };
}

export interface Visitor {
  readonly answer: Response;
  readonly cookie: string;
  readonly formToken: string;
  get(path: string): Promise<Response>;
  text(path: string): Promise<string>;
  post(path: string, fields: Record<string, string>, headers?: Record<string, string>): Promise<Response>;
}
