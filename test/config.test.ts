// biome-ignore-all lint/suspicious/noTemplateCurlyInString: it is the syntax under test
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type Config, describeConfig, loadConfig } from '../src/config.ts';
import { hasCode } from '../src/errors.ts';
import { parseDuration, parseSize } from '../src/units.ts';

let directory: string;
beforeAll(async () => {
  directory = await mkdtemp(path.join(tmpdir(), 'larder-config-'));
  await writeFile(path.join(directory, 'some.pem'), 'x');
});
afterAll(() => rm(directory, { recursive: true, force: true }));

const redisProblems: [string, string | RegExp][] = [
  ['redis: { url: "redis://a,b" }', /^larder\.yaml:1: redis\.url: names several hosts: say redis\+sentinel/],
  ['redis: { url: "redis://" }', /redis\.url: names no host/],
  ['redis: { url: "redis://a:0" }', /redis\.url: has a port/],
  ['redis: { url: "redis://a/x" }', /redis\.url: must end in the number of a database, or nothing/],
  ['redis: { url: "redis://a?ssl=true" }', /redis\.url: must be a redis:/],
  ['redis: { url: "redis://u:%zz@a" }', /redis\.url: has a user or password with a %/],
  ['redis: { url: "redis+sentinel://a,b" }', /redis\.url: must end in the name that the Sentinels have/],
  ['redis: { url: "redis+cluster://a,b/1" }', /redis\.url: must end after the hosts/],
  ['redis:\n  url: redis://a\n  ca: some.pem', /^larder\.yaml:3: redis\.ca: is for rediss:/],
  [
    'redis:\n  url: redis://:s3cret@a\n  passwordFile: some.pem',
    /^larder\.yaml:3: redis\.passwordFile: cannot go with/,
  ],
  ['redis:\n  url: redis://a\n  passwordFile: absent', /^larder\.yaml:3: redis\.passwordFile: there is no file/],
  ['redis:\n  passwordFile: some.pem', /redis\.url: is missing beside/],
  ['redis:\n  url: redis://a\n  sentinel: { password: x }', /^larder\.yaml:3: redis\.sentinel: is for redis\+sentinel/],
  [
    'redis:\n  url: redis+sentinel://a/m\n  sentinel: { password: x, passwordFile: some.pem }',
    /^larder\.yaml:3: redis\.sentinel\.password: cannot go with passwordFile/,
  ],
];

type Env = Record<string, string | undefined>;

async function load(yaml?: string, env: Env = {}): Promise<Config> {
  if (yaml === undefined) return loadConfig({ env, cwd: directory });
  await writeFile(path.join(directory, 'larder.yaml'), yaml);
  return loadConfig({ file: 'larder.yaml', env, cwd: directory });
}

/** The problems, one a line, without the heading. */
async function problemsOf(yaml: string | undefined, env: Env = {}): Promise<string[]> {
  const error = await load(yaml, env).catch((thrown: unknown) => thrown);
  if (!hasCode(error, 'INVALID_CONFIGURATION')) throw error instanceof Error ? error : new Error('it was accepted');
  const [heading, ...problems] = error.message.split('\n  ');
  expect(heading).toBe('the configuration cannot be used:');
  return problems;
}

describe('defaults', () => {
  it('are complete, typed and frozen', async () => {
    const config = await load();
    expect(config).toMatchObject({
      listen: { host: '0.0.0.0', port: 8443, drainDelay: 5_000 },
      tls: { mode: 'selfsigned' },
      data: path.join(directory, 'data'),
      redis: undefined,
      publicUrl: undefined,
      sealed: false,
      access: { anonymous: 'read', tokens: [], links: { lifetime: 900_000 } },
      freshness: { versions: 300_000, discovery: 3_600_000, packages: 86_400_000, absent: 60_000, keep: 7_776_000_000 },
      limits: { disk: undefined, downloads: 16, metadataDeadline: 8_000 },
      log: { level: 'info', format: 'auto' },
      proxy: { http: undefined, https: undefined, no: undefined },
    });
    expect(config.upstreams.default.toString()).toBe('registry.opentofu.org');
    expect(config.upstreams.hosts.map(({ hostname }) => hostname.toString())).toEqual([
      'registry.opentofu.org',
      'registry.terraform.io',
    ]);
    expect(config.upstreams.hosts[0]).toMatchObject({
      credentials: undefined,
      privateNetwork: false,
      signatures: 'verify',
      include: [],
    });
    expect(() => Object.assign(config.listen, { port: 1 })).toThrow(TypeError);
    expect(() => (config.upstreams.hosts as unknown[]).push(1)).toThrow(TypeError);
  });

  it('the commented examples of the default file are valid', async () => {
    const text = await readFile(path.join(import.meta.dirname, '..', 'config', 'default.yaml'), 'utf8');
    const example = text.slice(text.indexOf('    # registry.corp'), text.indexOf('\naccess:'));
    const hosts = example.replace(/^ {4}# ?/gm, '    ').replace(/\/(etc|run)\/[\w./-]+/g, 'some.pem');
    const config = await load(`upstreams:\n  hosts:\n${hosts}`, { CORP_TOKEN: 't0ken' });
    const corp = config.upstreams.hosts.at(-1);
    expect(corp).toMatchObject({
      credentials: { token: 't0ken' },
      ca: path.join(directory, 'some.pem'),
      clientCertificate: { cert: path.join(directory, 'some.pem'), key: path.join(directory, 'some.pem') },
      signatures: 'verify',
    });
    expect(corp?.include.map(String)).toEqual(['*/platform/*']);
    expect(corp?.exclude.map(String)).toEqual(['*/platform/legacy']);
  });

  it('an empty file and empty sections change nothing', async () => {
    const defaults = await load();
    expect(await load('')).toEqual(defaults);
    expect(await load('# only a comment\n')).toEqual(defaults);
    expect(await load('redis:\nupstreams:\n  hosts:\nfreshness:\n  # keep: 1d\n')).toEqual(defaults);
  });
});

describe('layers', () => {
  it('maps merge, lists and values replace', async () => {
    const config = await load(`
freshness: { versions: 10m }
upstreams:
  hosts:
    corp.example:8443: { include: ["Platform/*", "*/Tools"], privateNetwork: true }
`);
    expect(config.freshness).toMatchObject({ versions: 600_000, discovery: 3_600_000 });
    expect(config.upstreams.hosts.map(({ hostname }) => hostname.toString())).toEqual([
      'registry.opentofu.org',
      'registry.terraform.io',
      'corp.example:8443',
    ]);
    expect(config.upstreams.hosts[2]).toMatchObject({ privateNetwork: true });
    expect(config.upstreams.hosts[2]?.include.map(String)).toEqual(['*/platform/*', '*/*/tools']);
  });

  it('null removes a default host, in whichever spelling', async () => {
    const config = await load('upstreams: { hosts: { Registry.Terraform.IO:443: null } }');
    expect(config.upstreams.hosts.map(({ hostname }) => hostname.toString())).toEqual(['registry.opentofu.org']);
  });

  it('R29: a host in another spelling is the same host, and its settings merge', async () => {
    const config = await load('upstreams: { hosts: { "REGISTRY.terraform.io:443": { signatures: require } } }');
    expect(config.upstreams.hosts).toHaveLength(2);
    expect(config.upstreams.hosts[1]).toMatchObject({ signatures: 'require' });
  });

  it('--config wins over LARDER_CONFIG, and an empty LARDER_CONFIG is none', async () => {
    await writeFile(path.join(directory, 'other.yaml'), 'log: { level: debug }');
    const env = { LARDER_CONFIG: 'other.yaml' };
    expect((await load(undefined, env)).log.level).toBe('debug');
    expect((await load('log: { level: warn }', env)).log.level).toBe('warn');
    expect((await load(undefined, { LARDER_CONFIG: '' })).log.level).toBe('info');
  });

  it('the shortcuts of the environment win over files; empty ones say nothing', async () => {
    const yaml = 'listen: { port: 1 }\ndata: /var/a\naccess: { tokens: [{ name: ci, token: abc, roles: [read] }] }';
    const env = { PORT: '9000', REDIS_URL: 'rediss://:pw@redis:6379', LARDER_DATA: 'kept', LARDER_ADMIN_TOKEN: 'adm' };
    const config = await load(yaml, env);
    expect(config.listen).toEqual({ host: '0.0.0.0', port: 9000, drainDelay: 5_000 });
    expect(config.redis?.url).toBe('rediss://:pw@redis:6379');
    expect(config.data).toBe(path.join(directory, 'kept'));
    expect(config.access.tokens).toEqual([
      { name: 'ci', token: 'abc', roles: ['read'] },
      { name: 'admin', token: 'adm', roles: ['read', 'admin'] },
    ]);
    expect((await load(yaml, { PORT: '', LARDER_DATA: '' })).data).toBe('/var/a');
  });

  it('relative paths start at the file that names them', async () => {
    const elsewhere = await mkdtemp(path.join(tmpdir(), 'larder-config-'));
    try {
      const file = path.join(elsewhere, 'larder.yaml');
      await writeFile(path.join(elsewhere, 't'), 'token');
      await writeFile(file, 'data: kept\nupstreams: { hosts: { a.example: { credentials: { tokenFile: ./t } } } }');
      const config = await loadConfig({ file, env: {}, cwd: directory });
      expect(config.data).toBe(path.join(elsewhere, 'kept'));
      expect(config.upstreams.hosts.at(-1)?.credentials).toEqual({ tokenFile: path.join(elsewhere, 't') });
    } finally {
      await rm(elsewhere, { recursive: true, force: true });
    }
  });

  it('proxies are taken from the environment, in either case', async () => {
    const upper = await load(undefined, { HTTP_PROXY: 'http://a', HTTPS_PROXY: 'http://b', NO_PROXY: 'c' });
    expect(upper.proxy).toEqual({ http: 'http://a', https: 'http://b', no: 'c' });
    const lower = await load(undefined, { https_proxy: 'http://d', HTTPS_PROXY: 'http://b', no_proxy: '*' });
    expect(lower.proxy).toEqual({ http: undefined, https: 'http://d', no: '*' });
  });
});

describe('interpolation', () => {
  const yaml = (token: string) => `access:\n  tokens:\n    - { name: ci, token: ${token}, roles: [read] }\n`;

  it('takes variables as they are, and $$ is a dollar sign', async () => {
    const config = await load(yaml('"a$$b${X}-$c"'), { X: '${Y}$$#:' });
    expect(config.access.tokens[0]).toMatchObject({ token: 'a$b${Y}$$#:-$c' });
  });

  it('serves numbers and booleans, too', async () => {
    const config = await load('listen:\n  port: ${P}\nsealed: ${S}\n', { P: '8080', S: 'true' });
    expect([config.listen.port, config.sealed]).toEqual([8080, true]);
  });

  it('names the key and the line of a variable that is not set', async () => {
    expect(await problemsOf(yaml('"${CI_TOKEN}"'))).toEqual([
      'larder.yaml:3: access.tokens[0].token: the environment variable CI_TOKEN is not set',
    ]);
    expect(await problemsOf(yaml('"${constructor}"'))).toHaveLength(1);
  });

  it.each(['"${A:-x}"', '"${}"', '"${A"'])('refuses %s', async (token) => {
    expect(await problemsOf(yaml(token), { A: 'a' })).toEqual([
      'larder.yaml:3: access.tokens[0].token: write ${NAME} for a variable and $$ for a dollar sign',
    ]);
  });
});

const hosts = (text: string) => `upstreams:\n  hosts:\n    a.example: ${text}`;
const tokens = (...list: string[]) => `access:\n  tokens:\n${list.map((item) => `    - ${item}`).join('\n')}`;

describe('problems are told with file, line and key', () => {
  it.each([
    // keys
    ['listen:\n  prot: 1', 'larder.yaml:2: listen.prot: is not a known key; did you mean "port"?'],
    ['freshnes: {}', 'larder.yaml:1: freshnes: is not a known key; did you mean "freshness"?'],
    [
      hosts('{ tokne: 1 }'),
      /^larder\.yaml:3: upstreams\.hosts\."a\.example"\.tokne: is not a known key; known here: cred/,
    ],
    [
      hosts('{ credentials: { tokenfile: x } }'),
      /credentials\.tokenfile: is not a known key; did you mean "tokenFile"/,
    ],
    [hosts('{ archiveHosts: [] }'), /archiveHosts: is not a known key/],
    ['log:\n  level: info\n  level: warn', 'larder.yaml:3: this key is given twice; keep one'],
    ['? [a]\n: b', 'larder.yaml:1: a key must be a plain word'],
    // types
    ['listen: 8443', 'larder.yaml:1: listen: must be a map of keys'],
    ['\nlisten:\n  port: high', 'larder.yaml:3: listen.port: must be a number'],
    ['listen: { port: 70000 }', 'larder.yaml:1: listen.port: must be a whole number from 0 to 65535'],
    ['listen: { port: -1 }', /listen\.port: must be a whole number/],
    ['listen: { port: 80.5 }', /listen\.port: must be a whole number/],
    ['sealed: yes', 'larder.yaml:1: sealed: must be true or false'],
    ['data: 5', /data: must be a text/],
    ['data: ""', 'larder.yaml:1: data: is empty'],
    ['log: { level: loud }', 'larder.yaml:1: log.level: must be one of debug, info, warn, error'],
    ['- a\n- b', 'larder.yaml:1: larder.yaml must be a map of keys'],
    ['just words', 'larder.yaml:1: larder.yaml must be a map of keys'],
    // units
    ['freshness: { versions: 300 }', /freshness\.versions: must be a duration with a unit.*60s, 5m/],
    ['freshness: { versions: 5 min }', /must be a duration with a unit/],
    ['freshness: { versions: 0s }', /must be a duration with a unit/],
    ['freshness: { keep: 99999d }', /must be a duration with a unit, at most 3650d/],
    ['limits: { disk: 500 }', /limits\.disk: must be a size with a unit.*10GiB/],
    ['limits: { downloads: 0 }', /limits\.downloads: must be a whole number from 1/],
    // YAML
    ['a: [1', /^larder\.yaml:1: .*bracket before it is not closed/],
    ['listen:\n\tport: 1', /^larder\.yaml:2: .*tab/],
    ['a: 1\n---\nb: 2', 'larder.yaml:2: there is a second document; remove the --- line'],
    ['data: *x', /^larder\.yaml:1: data: there is no such anchor/],
    ['data: !secret x', /this tag is unknown/],
    // addresses
    ['upstreams: { default: "" }', 'larder.yaml:1: upstreams.default: must be a host name, or HOST:PORT'],
    [
      'upstreams:\n  hosts:\n    under_score: {}',
      /^larder\.yaml:3: upstreams\.hosts\.under_score: "under_score" is not a valid hostname/,
    ],
    [
      'upstreams:\n  hosts:\n    Example.com: {}\n    example.com:443: {}',
      'larder.yaml:4: upstreams.hosts."example.com": this is given twice, in two spellings; keep one',
    ],
    [hosts('null'), /^larder\.yaml:3: upstreams\.hosts\."a\.example": is empty: write \{\}/],
    [hosts('{ include: [a] }'), /include\[0\]: must be NAMESPACE\/TYPE/],
    [hosts('{ include: ["a/b*"] }'), /include\[0\]: must be NAMESPACE\/TYPE/],
    [hosts('{ include: a/b }'), /include: must be a list/],
    // combinations
    ['tls: { mode: files, key: some.pem }', 'larder.yaml:1: tls.cert: is missing; mode files needs cert and key'],
    ['tls: { cert: a.pem }', /tls\.cert: has no use in mode selfsigned/],
    ['tls: { mode: "off", key: a.pem }', /tls\.key: has no use in mode off/],
    [hosts('{ credentials: { token: a, forward: true } }'), /credentials: must have exactly one of/],
    [hosts('{ credentials: { token: a, tokenFile: some.pem } }'), /credentials: must have exactly one of/],
    [hosts('{ credentials: {} }'), /credentials: must have exactly one of/],
    [hosts('{ clientCertificate: { cert: some.pem } }'), /clientCertificate\.key: is missing/],
    [
      'upstreams: { default: other.example }',
      'larder.yaml:1: upstreams.default: must be one of upstreams.hosts; add it there, or choose another',
    ],
    ['upstreams: { hosts: { registry.opentofu.org: null } }', /upstreams\.default: must be one of upstreams\.hosts/],
    [tokens('{ name: a, roles: [read] }'), /access\.tokens\[0\]: must have either token or tokenFile/],
    [tokens('{ name: a, token: x, tokenFile: some.pem, roles: [read] }'), /tokens\[0\]: must have either/],
    [
      tokens('{ name: a, token: x, roles: [read] }', '{ name: a, token: y, roles: [read] }'),
      'larder.yaml:4: access.tokens[1].name: is the name of an earlier token, too',
    ],
    [
      tokens('{ name: a, token: x, roles: [read] }', '{ name: b, token: x, roles: [read] }'),
      /\[1\]\.token: is the same/,
    ],
    [
      tokens(
        '{ name: a, token: x, roles: [read] }',
        '{ name: b, sha256: 2D711642B726B04401627CA9FBAC32F5C8530FB1903CC4DB02258717921A4881, roles: [read] }',
      ),
      /access\.tokens\[1\]\.sha256: is the same secret as that of an earlier token/,
    ],
    [tokens('{ name: a, sha256: abc, roles: [read] }'), /access\.tokens\[0\]\.sha256: must be the SHA-256/],
    [tokens('{ name: anonymous, token: x, roles: [read] }'), /access\.tokens\[0\]\.name: is what clients without/],
    [tokens('{ name: a, token: x, roles: [read], addresses: [] }'), /addresses: is empty/],
    [tokens('{ name: a, token: x, roles: [read], addresses: [a/b] }'), /addresses\[0\]: must be HOST\/NAMESPACE\/TYPE/],
    [tokens('{ name: a, token: x, roles: [read], addresses: ["a*/b/c"] }'), /addresses\[0\]: must be HOST/],
    [tokens('{ name: a, token: x, roles: [write] }'), /access\.tokens\[0\]\.roles\[0\]: must be one of read, admin/],
    [tokens('{ name: a, token: x, roles: [] }'), /roles: must hold at least one/],
    [
      tokens('{ token: x, roles: [read] }'),
      'larder.yaml:3: access.tokens[0].name: is missing; it must be a text (in quotes, when it looks like a number)',
    ],
    ['access: { anonymous: none }', /access\.anonymous: is none, but there are no tokens/],
    ['limits: { metadataDeadline: 10s }', /limits\.metadataDeadline: must be at most 9s/],
    ['freshness: { keep: 1m }', /freshness\.keep: must be no less than freshness\.versions/],
    ['redis: { url: "http://x" }', 'larder.yaml:1: redis.url: must be a redis:// or rediss:// URL, or null'],
    ...redisProblems,
    ['redis: { url: localhost:6379 }', /redis\.url: must be a redis/],
    ['publicUrl: ftp://x', /publicUrl: must be a http/],
    ['publicUrl: larder.example', /publicUrl: must be a http/],
    // files
    [
      hosts('{ ca: absent.pem }'),
      /^larder\.yaml:3: upstreams\.hosts\."a\.example"\.ca: there is no file .*absent\.pem$/,
    ],
    [hosts('{ ca: . }'), /ca: .* is a directory$/],
    ['tls: { mode: files, cert: some.pem, key: absent.pem }', /tls\.key: there is no file/],
  ])('%j', async (yaml, expected) => {
    const problems = await problemsOf(yaml);
    expect(problems).toHaveLength(1);
    if (typeof expected === 'string') expect(problems[0]).toBe(expected);
    else expect(problems[0]).toMatch(expected);
  });

  it('all of them at once', async () => {
    const yaml = 'listen:\n  prot: 1\nlog: { level: loud }\ndata: ${NOT_SET}\nupstreams: { hosts: { "a b": {} } }\n';
    expect((await problemsOf(yaml)).map((problem) => problem.split(': ')[0]).sort()).toEqual([
      'larder.yaml:2',
      'larder.yaml:3',
      'larder.yaml:4',
      'larder.yaml:5',
    ]);
  });

  it.each([
    ['quotes', '- "\n'.repeat(32_768)],
    ['keys', Array.from({ length: 2_000 }, (_, i) => `k${i}: 1\n`).join('')],
  ])('a file that is no configuration is told as such at once: %s', async (_, yaml) => {
    const started = performance.now();
    const problems = await problemsOf(yaml);
    // It was minutes, and megabytes of problems.
    expect(performance.now() - started).toBeLessThan(20_000);
    expect(problems).toHaveLength(101);
    expect(problems.at(-1)).toBe('there are more: mend these first, or look whether this is the right file');
    expect(problems[0]).toMatch(/^larder\.yaml:1: /);
  });

  it('those of the environment name the variable', async () => {
    expect(await problemsOf(undefined, { PORT: 'http' })).toEqual(['PORT: listen.port: must be a number']);
    expect(await problemsOf(undefined, { REDIS_URL: 'amqp://x' })).toEqual([
      'REDIS_URL: redis.url: must be a redis:// or rediss:// URL, or null',
    ]);
    expect(await problemsOf(tokens('{ name: admin, token: x, roles: [read] }'), { LARDER_ADMIN_TOKEN: 'y' })).toEqual([
      'LARDER_ADMIN_TOKEN: access.tokens[1].name: is the name of an earlier token, too',
    ]);
  });

  it('a file that is not there, or is a directory', async () => {
    expect(await problemsOf(undefined, { LARDER_CONFIG: 'absent.yaml' })).toEqual([
      'absent.yaml: there is no such file',
    ]);
    expect(await problemsOf(undefined, { LARDER_CONFIG: '.' })).toEqual([expect.stringContaining('EISDIR')]);
  });

  it('nested anchors cannot exhaust the memory', async () => {
    const lines = Array.from({ length: 30 }, (_, i) => `a${i + 1}: &a${i + 1} [${`*a${i},`.repeat(9)}]`);
    expect((await problemsOf(`a0: &a0 [x]\n${lines.join('\n')}`)).join()).toContain('anchors are used too often');
    expect((await problemsOf('data: &a [*a]')).join()).toContain('data');
  });

  it.each([
    tokens('{ name: a, token: "s3cret s3cret", roles: [read] }'),
    tokens('{ name: a, token: [s3cret], roles: [read] }'),
    tokens('{ name: a, token: {s3cret: 1}, roles: s3cret }').replace('{s3cret: 1}', '{ x: s3cret }'),
    tokens('{ name: a, token: *s3cret, roles: [read] }'),
    tokens('{ name: a, token: !s3cret, roles: [read] }'),
    tokens('{ name: a, token: @s3cret, roles: [read] }'),
    tokens('{ name: a, token: "s3cret, roles: [read] }'),
    tokens('{ name: a, token: ${s3cret, roles: [read] }'),
    tokens('{ name: "s3cret!", token: x, roles: [s3cret] }'),
    'redis: { url: "amqp://u:s3cret@x" }',
    'publicUrl: https://u:s3cret@x',
    'freshness: { keep: s3cret }',
    'upstreams: { default: s3cret@x }',
    hosts('{ include: [s3cret] }'),
  ])('no value is ever quoted: %j', async (yaml) => {
    expect((await problemsOf(yaml)).join('\n')).not.toContain('s3cret');
  });
});

it('tokens may be given by their digest and for some addresses only, in any spelling of these', async () => {
  const digest = 'AB'.repeat(32);
  const addresses = '["Registry.Corp.example:443/Platform/*", "*/*/widget"]';
  const config = await load(tokens(`{ name: a, sha256: ${digest}, roles: [read], addresses: ${addresses} }`));
  const [token] = config.access.tokens;
  expect(token).toMatchObject({ name: 'a', sha256: 'ab'.repeat(32) });
  expect(token?.addresses?.map(String)).toEqual(['registry.corp.example/platform/*', '*/*/widget']);
});

it('the audit log lies where its file was named from', async () => {
  expect((await load('log: { audit: logs/audit.jsonl }')).log.audit).toBe(path.join(directory, 'logs', 'audit.jsonl'));
  expect((await load()).log.audit).toBeUndefined();
});

it('the limit of the disk is a size', async () => {
  expect((await load('limits: { disk: 500GB }')).limits.disk).toBe(500e9);
});

it('the description for the log holds no secret', async () => {
  const config = await load(tokens('{ name: ci, token: s3cret, roles: [read] }'), {
    REDIS_URL: 'redis://u:s3cret@r:1/0',
  });
  expect(describeConfig(config)).toMatchObject({ redis: 'redis://r:1', tokens: ['ci'], listen: '0.0.0.0:8443' });
  expect(JSON.stringify(describeConfig(config))).not.toContain('s3cret');
});

describe('redis', () => {
  it('may be a server, what Sentinels watch over, or a cluster, with secrets in files', async () => {
    await writeFile(path.join(directory, 'redis-password'), 'x');
    const config = await load(
      [
        'redis:',
        '  url: rediss+sentinel://larder@one,two:26380/main/2',
        '  ca: some.pem',
        '  passwordFile: redis-password',
        '  sentinel: { username: watcher, password: s3cret }',
      ].join('\n'),
    );
    expect(config.redis).toEqual({
      url: 'rediss+sentinel://larder@one,two:26380/main/2',
      ca: path.join(directory, 'some.pem'),
      passwordFile: path.join(directory, 'redis-password'),
      sentinel: { username: 'watcher', password: { token: 's3cret' } },
    });
    expect(describeConfig(config)).toMatchObject({ redis: 'rediss+sentinel://one:26379,two:26380/main/2' });
  });
});

describe('units', () => {
  it.each([
    ['500ms', 500],
    ['60s', 60_000],
    ['5m', 300_000],
    ['1 h', 3_600_000],
    ['90d', 7_776_000_000],
  ])('%s is %d milliseconds', (text, milliseconds) => {
    expect(parseDuration(text)).toBe(milliseconds);
  });

  it.each([
    ['1B', 1],
    ['500GB', 500_000_000_000],
    ['10GiB', 10_737_418_240],
    ['1.5 TB', 1_500_000_000_000],
  ])('%s is %d bytes', (text, bytes) => {
    expect(parseSize(text)).toBe(bytes);
  });

  it.each(['', '5', 5, '-5m', '5M', '1e3s', '5 m ', 'm', null, {}])('%j is no duration', (given) => {
    expect(parseDuration(given)).toBeUndefined();
  });

  it.each(['', '5', 5, '-5GB', '5G', '0GB', '99999999TB', '5constructor', null])('%j is no size', (given) => {
    expect(parseSize(given)).toBeUndefined();
  });
});
