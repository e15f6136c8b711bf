import { chmod, mkdir, readdir, readFile, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { describe, expect, it } from 'vitest';
import { redirect, status } from '../support/faults.ts';
import { startLarder } from '../support/larder.ts';
import { larderSetup } from '../support/larder-setup.ts';
import type { Call } from '../support/origin.ts';
import { startRedis } from '../support/redis.ts';
import { describeWith } from '../support/requirements.ts';
import type { UpstreamRegistry } from '../support/upstream-registry.ts';
import { archiveName, hashesIn, startClient, startRegistry, versionsIn, WIDGET } from './scene.ts';

const NAME = 'up.credentials.example.test';
const FILES = /\.zip|SHA256SUMS/;

/** A host that does not stand for credentials: as S3 does when a link is signed already. */
const refusingCredentials = async (call: Call, next: (call: Call) => unknown) =>
  call.headers.authorization === undefined ? (next(call) as never) : status(400)(call, next as never);

async function startPrivateRegistry(token: string | undefined, options: Parameters<typeof startRegistry>[0] = {}) {
  const registry = await startRegistry(options);
  await registry.addProvider(WIDGET);
  registry.requireToken(token);
  registry.releases.on(/./, refusingCredentials);
  return registry;
}

/** Larder in front of these, each under the host that clients know it by. Files are named from its own directory. */
async function startMirror(
  registries: readonly { host: string; registry: UpstreamRegistry; settings?: Record<string, unknown> }[],
  options: {
    upstreams?: Record<string, unknown>;
    config?: Record<string, unknown>;
    files?: Record<string, string>;
    env?: Record<string, string>;
  } = {},
) {
  const hosts = registries.map(({ host, settings }) => [host, { ca: 'ca.pem', privateNetwork: true, ...settings }]);
  const [first] = registries;
  const setup = await larderSetup({
    registries: first ? [first.registry] : [],
    config: {
      ...options.config,
      upstreams: { ...options.upstreams, default: first?.host, hosts: Object.fromEntries(hosts) },
    },
  });
  const directory = path.dirname(setup.configFile);
  for (const [name, text] of Object.entries(options.files ?? {})) await writeFile(path.join(directory, name), text);
  const larder = await startLarder({ setup, env: options.env ?? {} });
  const client = startClient(larder);
  const get = (host: string, file: string, more = {}) =>
    client.get(`${larder.url}/providers/${host}/acme/widget/${file}`, more);
  return {
    larder,
    directory,
    get,
    list: async (host: string) => versionsIn(await get(host, 'index.json')),
    /** All that a client asks for, and a range. */
    install: async (host: string) => {
      expect(versionsIn(await get(host, 'index.json'))).toEqual(['1.0.0']);
      expect(hashesIn(await get(host, '1.0.0.json'))).not.toEqual([]);
      const archive = archiveName('1.0.0', 'linux_amd64');
      expect((await get(host, archive, { method: 'HEAD' })).status).toBe(200);
      expect((await get(host, archive)).status).toBe(200);
      expect((await get(host, archive, { headers: { range: 'bytes=0-9' } })).status).toBe(206);
    },
  };
}

/** `HOST AUTHORIZATION` of all that came to the registry itself, each once. */
function seenBy({ requests }: UpstreamRegistry): string[] {
  const seen = requests.all.map(({ headers }) => `${headers.host} ${headers.authorization}`);
  return [...new Set(seen)].sort();
}

function expectFilesWithoutCredentials(...registries: UpstreamRegistry[]): void {
  for (const { releases } of registries) {
    expect(releases.requests.all.length).toBeGreaterThan(0);
    expect(releases.requests.withCredentials()).toEqual([]);
  }
}

/** Every file below, with its name. */
async function everythingIn(directory: string): Promise<string> {
  const entries = await readdir(directory, { recursive: true, withFileTypes: true });
  const files = entries.filter((entry) => entry.isFile()).map((entry) => path.join(entry.parentPath, entry.name));
  const texts = await Promise.all(files.map(async (file) => `${file}\n${await readFile(file, 'latin1')}`));
  return texts.join('\n');
}

const block = (host: string, token: string) => `credentials "${host}" {\n  token = "${token}"\n}\n`;

describe('where the token of an upstream comes from', () => {
  it('R28: each source serves discovery and API, and no host of files', async () => {
    const tokens = { own: 'tok-own', variable: 'tok-variable', cli: 'tok-cli-config', helper: 'tok-helper' };
    const own = await startPrivateRegistry(tokens.own);
    const variable = await startPrivateRegistry(tokens.variable);
    const cli = await startPrivateRegistry(tokens.cli);
    const helped = await startPrivateRegistry(tokens.helper);
    const all = [own, variable, cli, helped];
    const mirror = await startMirror(
      [
        { host: own.hostname, registry: own, settings: { credentials: { token: tokens.own } } },
        ...[variable, cli, helped].map((registry) => ({ host: registry.hostname, registry })),
      ],
      {
        upstreams: { cliConfig: 'cli.tfrc' },
        env: { [`TF_TOKEN_localhost:${variable.port}`]: tokens.variable, TF_TOKEN_localhost: 'of-nobody' },
        files: {
          // The first two are hidden by what takes precedence.
          'cli.tfrc': [
            block(own.hostname, 'hidden-by-own'),
            block(variable.hostname, 'hidden-by-variable'),
            block(cli.hostname, tokens.cli),
            'credentials_helper "corp" {}\n',
          ].join(''),
        },
      },
    );
    await mirror.larder.close();
    const plugins = path.join(mirror.directory, '.terraform.d', 'plugins');
    await mkdir(plugins, { recursive: true });
    const program = path.join(plugins, 'terraform-credentials-corp');
    await writeFile(
      program,
      `#!/bin/sh\n[ "$*" = "get ${helped.hostname}" ] && echo '{"token":"${tokens.helper}"}' || echo '{}'\n`,
    );
    await chmod(program, 0o755);
    const larder = await startLarder({
      setup: mirror.larder.setup,
      env: { HOME: mirror.directory, PATH: '/usr/bin:/bin', [`TF_TOKEN_localhost:${variable.port}`]: tokens.variable },
    });
    const client = startClient(larder);
    for (const { hostname } of all) {
      for (const file of ['index.json', '1.0.0.json', archiveName('1.0.0', 'linux_amd64')]) {
        expect((await client.get(`${larder.url}/providers/${hostname}/acme/widget/${file}`)).status).toBe(200);
      }
    }
    expect(all.map(seenBy)).toEqual(
      [tokens.own, tokens.variable, tokens.cli, tokens.helper].map((token, index) => [
        `${all[index]?.hostname} Bearer ${token}`,
      ]),
    );
    expectFilesWithoutCredentials(...all);

    const warned = mirror.larder.log.filter(({ level, fields }) => level === 'warn' && 'variables' in fields);
    expect(warned).toMatchObject([{ fields: { variables: ['TF_TOKEN_localhost'] } }]);
    const told = JSON.stringify([mirror.larder.log, larder.log]);
    for (const secret of [...Object.values(tokens), 'of-nobody', 'hidden-by']) expect(told).not.toContain(secret);
  });

  it('R29, R30: by host and port exactly, in both directions and in any spelling', async () => {
    const portless = await startPrivateRegistry('tok-portless', { name: NAME });
    const ported = await startPrivateRegistry('tok-ported', { hostNames: [NAME] });
    const other = await startPrivateRegistry(undefined, { name: `other.${NAME}` });
    const bare = await startPrivateRegistry(undefined, { hostNames: [`bare.${NAME}`] });
    const idn = await startPrivateRegistry('tok-idn', { name: 'xn--bcher-kva.credentials.example.test' });
    const mirror = await startMirror(
      [
        { host: NAME, registry: portless },
        { host: `${NAME}:${ported.port}`, registry: ported },
        { host: `other.${NAME}`, registry: other },
        { host: `localhost:${bare.port}`, registry: bare },
        { host: 'bücher.credentials.example.test', registry: idn },
      ],
      {
        upstreams: { cliConfig: 'credentials.tfrc.json' },
        files: {
          'credentials.tfrc.json': JSON.stringify({
            credentials: {
              [`${NAME.toUpperCase()}:443`]: { token: 'tok-portless' },
              [`Up.Credentials.Example.Test:${ported.port}`]: { token: 'tok-ported' },
              'BÜCHER.credentials.example.test': { token: 'tok-idn' },
              // Of hosts that are near, but not the same.
              [`other.${NAME}:8443`]: { token: 'tok-other-port' },
              localhost: { token: 'tok-localhost' },
            },
          }),
        },
      },
    );
    for (const host of [
      NAME,
      `${NAME.toUpperCase()}:443`,
      `${NAME}%3A443`,
      `${NAME}:${ported.port}`,
      `${NAME}%3a${ported.port}`,
    ]) {
      await mirror.install(host);
    }
    await mirror.install(encodeURIComponent('Bücher.credentials.example.test'));
    await mirror.install('xn--bcher-kva.credentials.example.test:443');
    for (const host of [`other.${NAME}`, `localhost:${bare.port}`]) await mirror.install(host);
    expect(seenBy(portless)).toEqual([`${NAME} Bearer tok-portless`]);
    expect(seenBy(ported)).toEqual([`${NAME}:${ported.port} Bearer tok-ported`]);
    expect(seenBy(idn)).toEqual(['xn--bcher-kva.credentials.example.test Bearer tok-idn']);
    expect(seenBy(other)).toEqual([`other.${NAME} undefined`]);
    expect(seenBy(bare)).toEqual([`localhost:${bare.port} undefined`]);
    expectFilesWithoutCredentials(portless, ported, other, bare, idn);
  });

  it('a token that is rotated is used at once, wherever it lies', async () => {
    const file = await startPrivateRegistry('first-file');
    const cli = await startPrivateRegistry('first-cli');
    const mirror = await startMirror(
      [
        { host: file.hostname, registry: file, settings: { credentials: { tokenFile: 'token' } } },
        { host: cli.hostname, registry: cli },
      ],
      {
        upstreams: { cliConfig: 'cli.tfrc' },
        files: { token: 'first-file\n', 'cli.tfrc': block(cli.hostname, 'first-cli') },
      },
    );
    for (const { hostname } of [file, cli]) expect(await mirror.list(hostname)).toEqual(['1.0.0']);
    file.requireToken('newer-file');
    cli.requireToken('newer-cli');
    await writeFile(path.join(mirror.directory, 'token'), 'newer-file\n');
    await writeFile(path.join(mirror.directory, 'cli.tfrc'), block(cli.hostname, 'newer-cli'));
    for (const registry of [file, cli]) {
      registry.requests.clear();
      // The list is known by now; these documents are not.
      expect(hashesIn(await mirror.get(registry.hostname, '1.0.0.json'))).not.toEqual([]);
      expect(seenBy(registry)).toEqual([expect.stringMatching(/ Bearer newer-/)]);
    }
  });

  it('a helper that fails takes away only the registries that need it', async () => {
    const own = await startPrivateRegistry('tok-own');
    const helped = await startPrivateRegistry('tok-helper');
    const mirror = await startMirror(
      [
        { host: own.hostname, registry: own, settings: { credentials: { token: 'tok-own' } } },
        { host: helped.hostname, registry: helped },
      ],
      { upstreams: { cliConfig: 'cli.tfrc' }, files: { 'cli.tfrc': 'credentials_helper "absent" {}\n' } },
    );
    expect(await mirror.list(own.hostname)).toEqual(['1.0.0']);
    const answer = await mirror.get(helped.hostname, 'index.json');
    expect(answer.status).toBe(502);
    expect(answer.json()).toMatchObject({ code: 'UPSTREAM_REFUSED' });
    expect(answer.json().errors[0]).toContain('credentials helper "absent"');
    expect(helped.requests.all).toEqual([]);
  });
});

describe('where it goes', () => {
  it('R28: to the API on another host, and to none of three hosts of files', async () => {
    const home = await startPrivateRegistry('tok-home');
    const api = await startPrivateRegistry('tok-home');
    api.signLinks();
    home.services = { 'providers.v1': `https://127.0.0.1:${api.port}/v1/providers/` };
    // Archives are sent on to a third host by a signed link.
    const bucket = await startPrivateRegistry(undefined);
    api.releases.on(
      /\.zip/,
      redirect((asked) => `${bucket.releases.url}${asked}`),
    );
    const mirror = await startMirror([
      { host: home.hostname, registry: home, settings: { credentials: { token: 'tok-home' } } },
    ]);
    await mirror.install(home.hostname);
    expect(seenBy(home)).toEqual([`${home.hostname} Bearer tok-home`]);
    expect(seenBy(api)).toEqual([`127.0.0.1:${api.port} Bearer tok-home`]);
    expectFilesWithoutCredentials(api, bucket);
    expect(home.releases.requests.all).toEqual([]);
  });

  const elsewhere: [string, (target: UpstreamRegistry) => string, boolean][] = [
    ['another port', ({ port }) => `https://localhost:${port}`, true],
    ['another name of the same server', ({ port }) => `https://127.0.0.1:${port}`, true],
    ['plain http', ({ port }) => `http://localhost:${port}`, false],
  ];
  it.each(elsewhere)(
    'R27: stays behind when the list or a document is sent on to %s',
    async (_what, urlOf, isFollowed) => {
      for (const matcher of [/versions$/, /\/download\//]) {
        const registry = await startPrivateRegistry('tok-first');
        const target = await startPrivateRegistry(undefined);
        registry.on(
          matcher,
          redirect((asked) => `${urlOf(target)}${asked}`),
        );
        const mirror = await startMirror([
          { host: registry.hostname, registry, settings: { credentials: { token: 'tok-first' } } },
        ]);
        const answer = await mirror.get(registry.hostname, '1.0.0.json');
        expect(answer.status).toBe(isFollowed ? 200 : 502);
        expect(target.requests.all.length > 0).toBe(isFollowed);
        expect(target.requests.withCredentials()).toEqual([]);
        expect(target.releases.requests.withCredentials()).toEqual([]);
      }
    },
  );

  it('R28: to the archive hosts that are listed, by exact port, and not along their redirects', async () => {
    const registry = await startRegistry();
    await registry.addProvider(WIDGET);
    registry.requireToken('tok-files');
    const files = registry.releases;
    const refused = async (call: Call, next: (call: Call) => unknown) =>
      call.headers.authorization === 'Bearer tok-files' ? (next(call) as never) : status(401)(call, next as never);
    files.on(/./, refused);
    const listing = (archiveHosts: string[]) =>
      startMirror([
        { host: registry.hostname, registry, settings: { credentials: { token: 'tok-files', archiveHosts } } },
      ]);

    for (const near of [[], ['localhost'], [`localhost:${registry.port}`], [`127.0.0.1:${files.port}`]]) {
      files.requests.clear();
      const unlisted = await listing(near);
      expect((await unlisted.get(registry.hostname, archiveName('1.0.0', 'linux_amd64'))).status).toBe(502);
      expect(files.requests.all.length).toBeGreaterThan(0);
      expect(files.requests.withCredentials()).toEqual([]);
    }

    files.requests.clear();
    const listed = await listing([`LOCALHOST:${files.port}`]);
    await listed.install(registry.hostname);
    expect(files.requests.filter(FILES).length).toBeGreaterThanOrEqual(3);
    // One that was refused may be a late one of those above.
    const admitted = files.requests.all.filter((request) => request.status !== 401);
    expect(files.requests.withCredentials()).toEqual(admitted);

    // Sent on to a bucket, it has what the link says and no more.
    const bucket = await startPrivateRegistry(undefined);
    files.on(
      /\.zip/,
      redirect((asked) => `${bucket.releases.url}${asked}`),
    );
    const again = await listing([`localhost:${files.port}`, `localhost:${bucket.releases.port}`]);
    await again.install(registry.hostname);
    expect(bucket.releases.requests.all.length).toBeGreaterThan(0);
    expect(bucket.releases.requests.withCredentials()).toEqual([]);
  });
});

describe('where it never is', () => {
  const SECRETS = ['s3cret-own-9d1', 's3cret-env-9d2', 's3cret-cli-9d3'] as const;

  async function useAll(config: Record<string, unknown>) {
    const [own, variable, cli] = [
      await startPrivateRegistry(SECRETS[0]),
      await startPrivateRegistry(SECRETS[1]),
      await startPrivateRegistry(SECRETS[2]),
    ];
    const mirror = await startMirror(
      [
        { host: own.hostname, registry: own, settings: { credentials: { token: SECRETS[0] } } },
        { host: variable.hostname, registry: variable },
        { host: cli.hostname, registry: cli },
      ],
      {
        config,
        env: { [`TF_TOKEN_localhost:${variable.port}`]: SECRETS[1] },
        upstreams: { cliConfig: 'cli.tfrc' },
        files: { 'cli.tfrc': block(cli.hostname, SECRETS[2]) },
      },
    );
    const all = [own, variable, cli];
    for (const { hostname } of all) await mirror.install(hostname);
    const answers: string[] = [];
    for (const registry of all) {
      // What is refused, absent, failing or nonsense is told and logged at length.
      registry.requireToken('another');
      answers.push((await mirror.get(registry.hostname, '../gadget/index.json')).text());
      for (const fault of [status(500), status(429), status(404), redirect('http://localhost:9/')]) {
        registry.on(/./, fault, { times: 3 });
        const answer = await mirror.get(registry.hostname, '9.9.9.json');
        answers.push(answer.text(), JSON.stringify(answer.headers));
      }
      await registry.stop();
      answers.push((await mirror.get(registry.hostname, '9.9.8.json')).text());
    }
    const metrics = await startClient(mirror.larder).get(`${mirror.larder.url}/metrics`);
    expect(metrics.text()).toContain('larder_upstream_failures_total');
    answers.push(metrics.text());
    return { mirror, answers, all };
  }

  it('in answers, metrics, logs or the data directory', async () => {
    const { mirror, answers, all } = await useAll({});
    await mirror.larder.close();
    const told = {
      answers: answers.join('\n'),
      log: JSON.stringify(mirror.larder.log),
      data: await everythingIn(mirror.larder.setup.dataDirectory),
    };
    expect(told.data).toContain('terraform-provider-widget');
    expect(told.log).toContain(all[0]?.hostname);
    for (const [where, text] of Object.entries(told)) {
      for (const secret of SECRETS) {
        for (const form of [secret, Buffer.from(secret).toString('base64').slice(0, -3)]) {
          expect(text.includes(form), `${form} in ${where}`).toBe(false);
        }
      }
    }
  });

  describeWith(['redis-server'], 'with Redis', () => {
    it('in Redis', async () => {
      const redis = await startRedis();
      if (!redis) throw new Error('redis-server was there a moment ago');
      try {
        await useAll({ redis: { url: redis.url } });
        const keys = (await redis.command('KEYS', '*')) as string[];
        expect(keys.length).toBeGreaterThan(5);
        for (const key of keys) {
          const kind = String(await redis.command('TYPE', key));
          const value = kind === 'string' ? await redis.command('GET', key) : await redis.command('DUMP', key);
          const text = `${key}\n${String(value)}`;
          expect(SECRETS.filter((secret) => text.includes(secret))).toEqual([]);
          expect(text).not.toMatch(/authorization|bearer/i);
        }
      } finally {
        await redis.stop();
      }
    });
  });
});
