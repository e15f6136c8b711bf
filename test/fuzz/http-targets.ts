import { createHash } from 'node:crypto';
import fc from 'fast-check';
import { Hostname } from '../../src/address/hostname.ts';
import { ModuleAddress, ModuleRelease } from '../../src/address/module.ts';
import { Version } from '../../src/address/version.ts';
import { NotFound } from '../../src/errors.ts';
import type { AdminDeps } from '../../src/http/admin.ts';
import { createHttpApplication, type HttpApplicationDeps } from '../../src/http/application.ts';
import { Authenticator } from '../../src/http/authenticate.ts';
import { Health } from '../../src/http/health.ts';
import { Links } from '../../src/http/links.ts';
import { Assets } from '../../src/http/ui/assets.ts';
import { Refusals } from '../../src/http/ui/refusals.ts';
import { formTokenOf, Sessions } from '../../src/http/ui/sessions.ts';
import { Inventory } from '../../src/mirror/inventory.ts';
import { SignatureStates } from '../../src/mirror/signature-states.ts';
import { StoredIndex } from '../../src/mirror/stored-index.ts';
import { archive, CONTENT, packages, readable, SHA256, STORED_AT, WIDGET } from '../http/harness.ts';
import { archivesOf, MapStore, NO_PACKAGES, OPS, READER, storedArchive, token } from '../http/ui/dashboard-scene.ts';
import { askInside, type InsideAnswer, type InsideRequest } from './inside.ts';
import { type FuzzTarget, target } from './target.ts';

const KEY = { id: 'k1', secret: Buffer.alloc(32, 7) };
const LIFETIME_MS = 10 * 365 * 86_400_000;
const RELEASE = new ModuleRelease(ModuleAddress.parse('registry.example.com/acme/net/aws'), Version.parse('1.0.0'));

/** Log lines that tell of a defect. */
class Defects {
  found: string[] = [];
  readonly logger = {
    debug: () => {},
    info: () => {},
    warn: () => {},
    error: (message: string, fields: Record<string, unknown> = {}) =>
      void this.found.push(`${message}: ${String(fields['stack'] ?? fields['error'])}`),
  };
}

const described = { size: CONTENT.length, sha256: SHA256, storedAt: STORED_AT };
const known = <T>(there: boolean, answer: T): T => {
  if (there) return answer;
  throw new NotFound('not here');
};

/** Everything that has no more than one widget and one net behind it. */
async function application(more: Partial<HttpApplicationDeps> = {}) {
  const defects = new Defects();
  const { logger } = defects;
  const isWidget = (provider: { toString(): string }) => String(provider) === String(WIDGET);
  const links = new Links({
    keys: { signing: () => KEY, find: async (id) => (id === KEY.id ? KEY : undefined) },
    lifetimeMs: LIFETIME_MS,
  });
  const handler = createHttpApplication({
    mirror: {
      listVersions: async (provider) => known(isWidget(provider), { versions: [Version.parse('1.0.0')] }),
      listPackages: async (provider) => known(isWidget(provider), packages(['linux_amd64', [`zh:${SHA256}`]])),
      openArchive: async (wanted) => known(isWidget(wanted.provider), readable()),
      describeArchive: async (wanted) => known(isWidget(wanted.provider), described),
    },
    releases: {
      list: async () => ({ catalogue: { releases: [], warnings: [] } }),
      describe: async () => known(false, undefined as never),
      checksums: async () => ({ files: { shasums: Buffer.from('x'), signature: undefined } }),
    },
    modules: {
      list: async (module) => known(String(module) === String(RELEASE.module), { versions: [RELEASE.version] }),
      locate: async () => ({ kind: 'package', state: 'stored', subdir: 'ü', sha256: SHA256, isPrivate: false }),
      describePackage: async () => described,
      openPackage: async () => readable(),
    },
    health: new Health({ checks: [], isDraining: () => false, logger }),
    logger,
    upstreams: [Hostname.parse('registry.example.com')],
    defaultUpstream: Hostname.parse('registry.example.com'),
    isSealed: () => false,
    authenticator: new Authenticator({
      anonymous: 'read',
      tokens: async () => [token('ops', OPS), token('ci', READER, { roles: ['read'] })],
    }),
    links,
    ...more,
  });

  /** @throws for an answer that nobody should ever get */
  const ask = async (request: InsideRequest, mayBeHtml = false): Promise<InsideAnswer> => {
    const answer = await askInside(handler, request);
    const [defect] = defects.found.splice(0);
    if (defect !== undefined) throw new Error(defect);
    if (answer.isBroken) throw new Error('the connection was broken off');
    if (answer.status < 400) return answer;
    if (answer.status >= 500) throw new Error(`${answer.status}: ${answer.body}`);
    if (mayBeHtml && String(answer.headers['content-type']).startsWith('text/html')) return answer;
    if (answer.headers['content-type'] !== 'application/json') {
      throw new Error(`${answer.status} is not in JSON, but ${answer.headers['content-type']}`);
    }
    if (request.method === 'HEAD') return answer;
    const { errors, code } = JSON.parse(String(answer.body)) as { errors?: string[]; code?: string };
    if (code === 'INTERNAL' || !errors?.[0]) throw new Error(String(answer.body));
    return answer;
  };
  return { ask, links };
}

const PIECES = [
  ...['providers', 'registry', 'get', 'admin', 'ui', 'healthz', 'readyz', 'metrics', '.well-known', 'terraform.json'],
  ...['registry.example.com', 'registry.example.com:8443', 'REGISTRY.example.com', 'other.example.com', 'v1'],
  ...['providers', 'modules', 'acme', 'widget', 'net', 'aws', 'versions', '1.0.0', 'download', 'linux', 'amd64'],
  ...['index.json', '1.0.0.json', 'SHA256SUMS', 'SHA256SUMS.sig', 'terraform-provider-widget_1.0.0_linux_amd64.zip'],
  ...['acme-net-aws-1.0.0.tar.gz', '..', '.', '', '%2e%2e', '%2f', '%5c', '%00', '%', '%ff', '%c0%ae', '__proto__'],
  ...[
    'constructor',
    '{}',
    '*',
    ':x',
    '?',
    '#',
    ';',
    '\\',
    '%3F',
    'inventory',
    'jobs',
    'warm',
    'purge',
    'stored',
    'sign-in',
  ],
];
const WHOLE = [
  '/providers/registry.example.com/acme/widget/index.json',
  '/providers/registry.example.com/acme/widget/1.0.0.json',
  '/providers/registry.example.com/acme/widget/terraform-provider-widget_1.0.0_linux_amd64.zip',
  '/registry/registry.example.com/v1/providers/acme/widget/1.0.0/download/linux/amd64',
  '/registry/registry.example.com/v1/providers/acme/widget/1.0.0/SHA256SUMS',
  '/registry/registry.example.com/v1/modules/acme/net/aws/versions',
  '/registry/registry.example.com/v1/modules/acme/net/aws/1.0.0/download',
  '/registry/registry.example.com/v1/modules/acme/net/aws/1.0.0/acme-net-aws-1.0.0.tar.gz',
];
/** What the parser of node:http lets through in a target, and in a value. */
const targetText = fc.stringMatching(/^[!-~]{0,12}$/);
const valueText = fc.stringMatching(/^[ -~\x80-\xff]{0,60}$/);
const method = fc.constantFrom('GET', 'GET', 'GET', 'HEAD', 'POST', 'PUT', 'DELETE', 'OPTIONS', 'PROPFIND', 'TRACE');
const piece = fc.oneof(
  { weight: 8, arbitrary: fc.constantFrom(...PIECES) },
  { weight: 1, arbitrary: fc.string({ unit: 'grapheme', maxLength: 12 }).map(encodeURIComponent) },
  { weight: 1, arbitrary: targetText },
);
const path = fc.oneof(
  { weight: 4, arbitrary: fc.array(piece, { minLength: 1, maxLength: 9 }).map((pieces) => `/${pieces.join('/')}`) },
  { weight: 2, arbitrary: fc.tuple(fc.constantFrom(...WHOLE), fc.nat(100), targetText).map(spliced) },
  {
    weight: 1,
    arbitrary: fc.constantFrom('*', '//', 'http://other.example/', 'http://x', 'ab://x:1?', 'http://?', '/?'),
  },
);

function spliced([text, percent, piece]: [string, number, string]): string {
  const at = Math.floor((percent / 100) * text.length);
  return text.slice(0, at) + piece + text.slice(at + (piece.length % 3));
}

const routes = target({ name: 'routes', short: 600, weight: 10 }, async () => {
  const { ask } = await application();
  return {
    inputs: fc.record({ method, target: path }),
    check: async (request) => void (await ask(request, request.target.startsWith('/ui'))),
  };
});

const HEADERS: readonly (readonly [string, readonly string[]])[] = [
  [
    'Range',
    ['bytes=0-1', 'bytes=-1', 'bytes=999-', 'bytes=1000-', 'bytes=0-0,2-3', 'lines=1', 'bytes=99999999999999999999-'],
  ],
  ['If-Range', [`"${SHA256}"`, 'W/"x"', STORED_AT.toUTCString()]],
  ['If-None-Match', [`"${SHA256}"`, '*', 'W/"x", "y"', ',,,', '"']],
  ['If-Modified-Since', [STORED_AT.toUTCString(), 'never']],
  [
    'Authorization',
    [`Bearer ${OPS}`, `Bearer ${READER}`, 'Bearer x', 'Basic Og==', 'Basic %', 'Bearer', 'Digest a="b"'],
  ],
  ['X-Request-Id', ['an-id', '{jndi:ldap://x}', '']],
  ['X-Forwarded-Host', ['mirror.example.com', 'a, b', '//', 'x:y:z', '[::1']],
  ['X-Forwarded-Proto', ['https', 'gopher', ',']],
  ['X-Forwarded-Prefix', ['/a', '//evil.example', '/../..', 'x']],
  ['Forwarded', ['host="x;y";proto=https', ';;;', 'for="']],
  ['Accept', ['text/html', 'application/json', '*/*;q=', ';']],
  ['Accept-Encoding', ['gzip', 'identity;q=0']],
  ['Content-Type', ['application/json', 'multipart/form-data', 'x']],
  ['Cookie', ['larder_session=x', '=;=;', 'larder_session']],
  ['Expect', ['100-continue', 'x']],
  ['Host', ['other.test', '', '[', 'a b']],
  ['traceparent', ['00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01', '00-0-0-0']],
  ['Origin', ['null', 'http://']],
  ['Sec-Fetch-Site', ['cross-site', 'same-origin']],
];
const header = fc.oneof(
  fc
    .constantFrom(...HEADERS)
    .chain(([name, values]) =>
      fc.tuple(
        fc.constant(name),
        fc.oneof({ weight: 3, arbitrary: fc.constantFrom(...values) }, { weight: 1, arbitrary: valueText }),
      ),
    ),
  fc.tuple(fc.stringMatching(/^[A-Za-z0-9_-]{1,20}$/), valueText),
);

const headers = target({ name: 'headers', short: 400, weight: 7 }, async () => {
  const { ask } = await application();
  return {
    inputs: fc.record({
      method,
      target: fc.constantFrom(...WHOLE, '/', '/readyz', '/admin/inventory', '/.well-known/terraform.json'),
      headers: fc.array(header, { maxLength: 6 }),
    }),
    check: async (request) => {
      const { status, body, headers: answered } = await ask(request);
      if (request.method === 'GET' && status === 206 && body.length !== Number(answered['content-length'])) {
        throw new Error(`${body.length} bytes where ${answered['content-length']} were promised`);
      }
    },
  };
});

const capabilities = target({ name: 'capability paths', short: 400, weight: 6 }, async () => {
  const { ask, links } = await application({
    authenticator: new Authenticator({
      anonymous: 'none',
      tokens: async () => [token('ci', READER, { roles: ['read'] })],
    }),
  });
  const good = [links.pathFor(archive('linux_amd64'), 'token:ci'), links.pathFor(RELEASE, 'token:ci')];
  for (const one of good) {
    const { status } = await ask({ method: 'HEAD', target: `/${one}` });
    if (status !== 200) throw new Error(`a good link is answered with ${status}`);
  }
  const change = fc.tuple(fc.nat(100), targetText);
  return {
    inputs: fc.tuple(
      fc.constantFrom('GET', 'HEAD'),
      fc.oneof(
        fc
          .tuple(fc.constantFrom(...good), fc.array(change, { minLength: 1, maxLength: 3 }))
          .map(([link, changes]) => changes.reduce((text, [at, piece]) => spliced([text, at, piece]), link)),
        fc
          .array(fc.oneof(targetText, fc.constantFrom('1', 'k1', 'a'.repeat(43), '.', '/')), { maxLength: 12 })
          .map(
            (parts) =>
              `get/${parts.join('.')}/registry.example.com/acme/widget/terraform-provider-widget_1.0.0_linux_amd64.zip`,
          ),
        fc
          .tuple(fc.constantFrom(...good), piece)
          .map(([link, file]) => `${link.slice(0, link.lastIndexOf('/'))}/${file}`),
      ),
    ),
    check: async ([how, link]) => {
      const { status } = await ask({ method: how, target: `/${link}` });
      const [path] = link.split(/[?#]/);
      if (status < 300 && link.startsWith('get/') && !good.some((one) => identityOf(one) === identityOf(path ?? ''))) {
        throw new Error(`${link} was let in`);
      }
    },
  };
});

/** Addresses may be spelled in more than one way, which are the same file. The capability may not. */
function identityOf(link: string): string {
  const [get, capability, ...address] = link.split('/');
  let spelled = address.join('/');
  try {
    spelled = decodeURIComponent(spelled);
  } catch {
    // Refused, whatever it is.
  }
  return [get, capability, spelled.toLowerCase().replace(':443/', '/')].join('/');
}

const FORM = 'application/x-www-form-urlencoded';
const PAGES = [
  '/',
  '/trouble',
  '/stored',
  '/item',
  '/jobs',
  '/warm',
  '/gaps',
  '/sign-in',
  '/sign-out',
  '/pins',
  '/seal',
  '/assets/x.js',
];
const FIELDS = [
  'token',
  'to',
  'form',
  'words',
  'page',
  'order',
  'kind',
  'only',
  'address',
  'version',
  'platform',
  'pin',
  'what',
  'back',
  'why',
];
const VALUES = [
  ...[
    'registry.example.com/acme/widget',
    '1.0.0',
    'linux_amd64',
    'size',
    '-size',
    '0',
    '-1',
    '1e9',
    'add',
    'ended',
    OPS,
  ],
  ...['//evil.example', '../..', 'stored?x=1', '<script>', '\0', '%', 'NaN'],
];

const dashboard = target({ name: 'dashboard, cookies and forms', short: 200, weight: 4 }, async () => {
  const store = new MapStore();
  const archives = archivesOf([storedArchive('registry.example.com/acme/widget', '1.0.0')]);
  const { logger } = new Defects();
  const sessions = new Sessions({ store, logger });
  const fingerprint = createHash('sha256').update(OPS).digest();
  const authenticator = new Authenticator({ anonymous: 'read', tokens: async () => [token('ops', OPS)] });
  const client = await authenticator.identify({ headers: { authorization: `Bearer ${OPS}` } });
  const id = await sessions.begin({ subject: client.subject, fingerprint: client.fingerprint ?? String(fingerprint) });
  const { ask } = await application({
    authenticator,
    admin: {
      inventory: new Inventory({ store: archives, modules: NO_PACKAGES, drift: { all: [] } }),
    } as never as AdminDeps,
    dashboard: {
      assets: await Assets.load(),
      sessions,
      index: new StoredIndex({ archives, packages: NO_PACKAGES, logger }),
      signatures: new SignatureStates({ store: archives }),
      refusals: new Refusals(),
    },
  });
  const value = fc.oneof(
    { weight: 4, arbitrary: fc.constantFrom(...VALUES) },
    { weight: 1, arbitrary: fc.string({ unit: 'binary', maxLength: 20 }) },
  );
  const fields = fc.array(fc.tuple(fc.constantFrom(...FIELDS), value), { maxLength: 5 });
  const cookie = fc.oneof(
    { weight: 3, arbitrary: fc.constant(`larder_session=${id}`) },
    { weight: 1, arbitrary: fc.constantFrom('larder_session=', `x=y; larder_session=${'a'.repeat(43)}`, ';;;=') },
    { weight: 1, arbitrary: valueText },
  );
  const type = fc.constantFrom(
    FORM,
    FORM,
    FORM,
    'multipart/form-data; boundary=x',
    'multipart/form-data',
    'text/plain',
    `${FORM}; charset=x`,
  );
  return {
    inputs: fc.record({
      method: fc.constantFrom('GET', 'GET', 'POST', 'HEAD'),
      page: fc.oneof(
        { weight: 5, arbitrary: fc.constantFrom(...PAGES) },
        { weight: 1, arbitrary: targetText.map((text) => `/${text}`) },
      ),
      cookie,
      fields,
      type,
      isOwn: fc.boolean(),
      raw: fc.option(fc.uint8Array({ maxLength: 80 }), { freq: 4 }),
    }),
    check: async ({ method: how, page, cookie: sent, fields: filled, type: contentType, isOwn, raw }) => {
      // Whoever signs out for good would leave the rest of the inputs before the door.
      if (page === '/sign-out' || (page === '/sign-in' && how === 'POST')) sent = 'larder_session=x';
      const form = new URLSearchParams([...(isOwn ? [['form', formTokenOf(id)]] : []), ...filled] as [
        string,
        string,
      ][]);
      const isPost = how === 'POST';
      const answer = await ask(
        {
          method: how,
          target: isPost || page.includes('?') ? `/ui${page}` : `/ui${page}?${form}`,
          headers: [['Cookie', sent], ...(isPost ? [['Content-Type', contentType] as const] : [])],
          ...(isPost ? { body: Buffer.from(raw ?? Buffer.from(String(form))) } : {}),
        },
        true,
      );
      const location = String(answer.headers['location'] ?? '');
      if (/^(?:[a-z]+:|\/\/|\\)/i.test(location)) throw new Error(`sends elsewhere: ${location}`);
      if (String(answer.body).includes('<script>')) throw new Error('what was typed is part of the page');
    },
  };
});

export const HTTP_TARGETS: readonly FuzzTarget[] = [routes, headers, capabilities, dashboard];
