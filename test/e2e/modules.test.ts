import { createHash } from 'node:crypto';
import { readdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { eventually, stoppedClock } from '../mirror/scene.ts';
import { afterTest } from '../support/after-test.ts';
import { type ClientResult, configuration, hostCliConfig, runClient } from '../support/client.ts';
import { ClosedDoor } from '../support/closed-door.ts';
import { runLarder } from '../support/command.ts';
import { EgressProxy } from '../support/egress-proxy.ts';
import { status } from '../support/faults.ts';
import { HttpClient } from '../support/http.ts';
import { type Larder, startLarder } from '../support/larder.ts';
import { type LarderSetup, merged } from '../support/larder-setup.ts';
import { moduleTarGz } from '../support/module-archive.ts';
import { describeWith } from '../support/requirements.ts';
import {
  calling,
  clientAt,
  GIT_TOKEN,
  type ModuleWorld,
  PRIVATE,
  REGISTRY,
  SHAPES,
  saying,
  startModuleWorld,
  TOKEN,
  using,
  worldConfig,
} from './module-shapes.ts';

const NET = { namespace: 'acme', name: 'net', system: 'aws' } as const;
const SOURCE = `${REGISTRY}/acme/net/aws`;
const LARDER_TOKEN = 'a-token-of-larder-5d20';

const credentials = (host: string, token: string) => `credentials "${host}" {\n  token = "${token}"\n}\n`;

/** When it did not, what the client said is the first thing one wants to know. */
function expectSuccess(result: ClientResult): void {
  expect(result.code, result.output).toBe(0);
}

/** The files of packages in a Larder's data directory. */
async function packageFiles({ setup }: Larder): Promise<string[]> {
  const names = await readdir(join(setup.dataDirectory, 'modules'), { recursive: true });
  return names.filter((name) => name.endsWith('.tar.gz')).toSorted();
}

/** Names and digests of all packages in a Larder's data directory. */
async function digestsOf(larder: Larder): Promise<string[]> {
  const digests: string[] = [];
  for (const name of await packageFiles(larder)) {
    const bytes = await readFile(join(larder.setup.dataDirectory, 'modules', name));
    digests.push(`${name} ${createHash('sha256').update(bytes).digest('hex')}`);
  }
  return digests;
}

/** What Larder logged of requests that failed. */
function failures({ log }: Larder): string {
  const failed = log.filter(({ message }) => message === 'request failed');
  return failed.map(({ fields }) => String(fields['error'])).join('\n');
}

/** What the client said, without its boxes and line breaks. */
function said({ output }: ClientResult): string {
  return output.replace(/[\s│╷╵]+/g, ' ');
}

/** Many processes, one after the other: on a busy machine each takes a second. */
const PATIENCE = { timeout: 120_000 };

for (const program of ['terraform', 'tofu'] as const) {
  describeWith([program, 'git'], `${program} and modules, through a host block`, () => suite(program));
}

function suite(program: 'terraform' | 'tofu'): void {
  let world: ModuleWorld;
  beforeAll(async () => {
    world = await startModuleWorld();
    for (const shape of SHAPES) await shape.publish(world);
  });
  afterAll(() => world.remove());

  /** A Larder on a data directory of its own, or that of an earlier one. */
  async function start(
    config: Record<string, unknown> = {},
    options: { setup?: LarderSetup; credentials?: object; names?: readonly string[] } = {},
  ): Promise<Larder> {
    const { credentials, ...rest } = options;
    return startLarder({
      registries: world.registries,
      config: merged(worldConfig(world, credentials), config),
      env: { PATH: process.env['PATH'] },
      ...rest,
    });
  }

  /** Publishes a version of acme/net of a test's own, which says this. */
  function publish(version: string, text: string, names: { namespace?: string; name?: string } = {}): void {
    const module = { ...NET, ...names };
    const path = `/own/${module.namespace}-${module.name}-${version}.tar.gz`;
    const { url } = world.registry.addModuleArchive(path, moduleTarGz({ 'main.tf': saying(text) }));
    world.registry.addModule({ ...module, version, location: url });
    afterTest(async () => world.registry.removeModule(module));
  }

  /** Installs a module with the client in a new workspace, and applies what it says. */
  async function install(larder: Larder, source: string, version?: string, more = '') {
    const workspace = await using(source, version);
    const run = clientAt(program, larder, more);
    const init = await run(workspace, 'init');
    return { workspace, init, run: (...args: string[]) => run(workspace, ...args) };
  }

  /** Installs it only: what it says is what it said before, if the package is. */
  async function expectInit(larder: Larder, source: string, version?: string) {
    expectSuccess((await install(larder, source, version)).init);
  }

  async function expectInstalled(larder: Larder, source: string, says: string, version?: string, more = '') {
    const { init, run } = await install(larder, source, version, more);
    expectSuccess(init);
    const applied = await run('apply', '-auto-approve');
    expectSuccess(applied);
    expect(applied.output).toContain(`it = "${says}"`);
  }

  describe('every shape of module, cold, warm, and with the world gone', () => {
    it.each(SHAPES.map((shape) => [shape.title, shape] as const))(
      'R12: %s',
      PATIENCE,
      async (_title, { source, version, says }) => {
        const larder = await start();
        await expectInstalled(larder, source, says, version);
        const asked = world.requests();
        expect(asked.length).toBeGreaterThan(0);

        await expectInit(larder, source, version);
        expect(world.requests()).toEqual(asked);
        await world.stop();
        try {
          await expectInit(larder, source, version);
          await larder.close();
          await expectInstalled(await start({}, { setup: larder.setup }), source, says, version);
        } finally {
          await world.restart();
        }
        expect(world.requests()).toEqual(asked);
      },
    );

    it(
      'R12: all of them in one configuration, which validates; two Larders make the same packages of them',
      PATIENCE,
      async () => {
        const calls = SHAPES.map(({ source, version }, index) =>
          calling(source, version)
            .replace('"other"', `"m${index}"`)
            .replace(/output .*\n/, ''),
        );
        const outputs = SHAPES.map((_shape, index) => `output "m${index}" { value = module.m${index}.it }\n`);
        const text = [...calls, ...outputs].join('\n');
        const digests = await Promise.all(
          [await start(), await start()].map(async (larder) => {
            const workspace = await configuration({ 'main.tf': text });
            const run = clientAt(program, larder);
            expectSuccess(await run(workspace, 'init'));
            expectSuccess(await run(workspace, 'validate'));
            return digestsOf(larder);
          }),
        );
        expect(digests[0]?.length).toBeGreaterThanOrEqual(SHAPES.length);
        expect(digests[1]).toEqual(digests[0]);
        // Credentials went where they belong, and nowhere else.
        for (const { releases } of world.registries) expect(releases.requests.withCredentials()).toEqual([]);
        expect(world.registry.requests.withCredentials()).toEqual([]);
      },
    );
  });

  describe('versions', () => {
    it('are chosen by constraint among what was published, however it was spelled', async () => {
      for (const version of ['v1.9.0', '1.10.0', '2.0.0-rc.1', '4.0', 'v10.0']) publish(version, version);
      world.registry.addModuleGarbage(NET, 'latest', '');
      afterTest(async () => world.registry.addModuleGarbage(NET));
      const larder = await start();
      for (const [constraint, says] of [
        ['~> 1.9', '1.10.0'],
        ['1.9.0', 'v1.9.0'],
        ['>= 2.0.0, < 5.0', '4.0'],
        ['2.0.0-rc.1', '2.0.0-rc.1'],
        ['~> 4.0', '4.0'],
        [undefined, 'v10.0'],
      ] as const) {
        await expectInstalled(larder, SOURCE, says, constraint);
      }
      const { init } = await install(larder, SOURCE);
      // The client warns of what is no version.
      expect(init.output).not.toContain('Warning');
    });

    it('M10: of a module that is written in upper case', async () => {
      publish('1.0.0', 'shouted', { namespace: 'ACME', name: 'Loud_Net' });
      const larder = await start();
      await expectInstalled(larder, `${REGISTRY}/ACME/Loud_Net/aws`, 'shouted');
      expect(world.registry.requests.count(/\/v1\/modules\/ACME\/Loud_Net\/aws\/1\.0\.0\/download/)).toBe(1);
      await expectInstalled(larder, `${REGISTRY}/acme/loud_net/aws`, 'shouted');
    });
  });

  describe('what cannot be had', () => {
    it('is a module that nobody knows: not found, in the client’s own words', async () => {
      const { init } = await install(await start(), `${REGISTRY}/acme/unknown/aws`);
      expect(init.code).toBe(1);
      expect(said(init)).toContain('Module not found');
      expect(said(init)).toContain(`cannot be found in the module registry at ${REGISTRY}`);
    });

    it('is a module that is not stored while the world is gone: a failure that names the registry, not "not found"', async () => {
      const larder = await start();
      await world.stop();
      try {
        const { init } = await install(larder, `${REGISTRY}/acme/zipped/aws`);
        expect(init.code).toBe(1);
        expect(said(init)).toContain(REGISTRY);
        expect(said(init)).toContain('502');
        expect(said(init)).not.toMatch(/not found/i);
      } finally {
        await world.restart();
      }
    });

    it('is a package whose host fails: the client names the registry, and Larder the host', async () => {
      publish('1.0.0', 'out of reach');
      const fault = world.registry.releases.on(/own/, status(500));
      const larder = await start();
      const { init } = await install(larder, SOURCE);
      fault.remove();
      expect(init.code).toBe(1);
      expect(said(init)).toContain(`${SOURCE} 1.0.0 from ${REGISTRY}`);
      expect(failures(larder)).toContain(world.registry.releases.hostname);
    });

    it.each(['pass', 'refuse'] as const)(
      'is one in a bucket of S3, with modules.unsupported: %s',
      async (unsupported) => {
        const location = 's3::https://s3.eu-central-1.amazonaws.com/modules/net.zip';
        world.registry.addModule({ ...NET, version: '1.0.0', location });
        afterTest(async () => world.registry.removeModule(NET));
        const larder = await start({ modules: { unsupported } });
        const proxy = await EgressProxy.start({});
        afterTest(() => proxy.stop());
        const workspace = await using(SOURCE);
        const init = await runClient({
          program,
          args: ['init', '-no-color'],
          directory: workspace.directory,
          cliConfig: hostCliConfig(larder.url, REGISTRY),
          ca: larder.ca,
          env: { HTTPS_PROXY: proxy.url, AWS_ACCESS_KEY_ID: 'x', AWS_SECRET_ACCESS_KEY: 'x', AWS_MAX_ATTEMPTS: '1' },
        });
        expect(init.code).toBe(1);
        if (unsupported === 'pass') {
          expect(proxy.tunnels).toContain('s3.eu-central-1.amazonaws.com:443');
        } else {
          expect(proxy.tunnels).toEqual([]);
          expect(said(init)).toContain('where a mirror cannot fetch it (s3)');
        }
      },
    );
  });

  describe('packages', () => {
    it('that are tampered with on Larder’s disk reach nobody', async () => {
      publish('1.0.0', 'untouched');
      const larder = await start();
      await expectInstalled(larder, SOURCE, 'untouched');
      await larder.close();
      const [name = ''] = await packageFiles(larder);
      const file = join(larder.setup.dataDirectory, 'modules', name);
      const bytes = await readFile(file);
      bytes.writeUInt8(bytes.readUInt8(bytes.length - 20) ^ 1, bytes.length - 20);
      await writeFile(file, bytes);
      await world.stop();
      try {
        const { init } = await install(await start({}, { setup: larder.setup }), SOURCE);
        expect(init.code).toBe(1);
        // Larder itself has seen that the file was written to, and there is nobody to have another one from.
        expect(said(init)).toContain('Failed to retrieve a download URL');
      } finally {
        await world.restart();
      }
    });

    it('of a git host that is slower than clients are patient: they are waited for by those who fetch them', async () => {
      const door = await ClosedDoor.before(world.git.port);
      await world.git.addRepository('acme/slow.git', { 'main.tf': saying('late') }, { tags: ['v1'] });
      const location = `git::https://${door.hostname}/acme/slow.git?ref=v1`;
      world.registry.addModule({ ...NET, version: '1.0.0', location });
      afterTest(async () => world.registry.removeModule(NET));
      const git = { [door.hostname]: { token: GIT_TOKEN } };
      const larder = await start({ limits: { metadataDeadline: '1s' }, modules: { git } });
      const http = new HttpClient({ ca: larder.ca });
      afterTest(() => http.close());

      const installing = install(larder, SOURCE);
      await door.reached;
      const { headers } = await http.get(
        `${larder.url}/registry/${SOURCE.replace('/', '/v1/modules/')}/1.0.0/download`,
      );
      expect(headers['x-terraform-get']).toBe('./acme-net-aws-1.0.0.tar.gz');
      // The client has the same answer by now, and waits for the package itself.
      const answered = () => larder.log.filter(({ fields }) => String(fields['path']).endsWith('/download')).length;
      await eventually(answered).toBe(2);
      door.open();
      expectSuccess((await installing).init);
      await expectInstalled(larder, SOURCE, 'late');
    });

    it('of a tag that moved stay what they were; it is reported, and an operator can accept it', PATIENCE, async () => {
      const clock = stoppedClock();
      const { git, registry } = world;
      const repository = await git.addRepository(
        'acme/moving.git',
        { 'main.tf': saying('at first') },
        { tags: ['v1.0.0'] },
      );
      const location = `git::${git.url}/acme/moving.git?ref=v1.0.0`;
      registry.addModule({ ...NET, version: '1.0.0', location });
      afterTest(async () => registry.removeModule(NET));
      const access = { tokens: [{ name: 'ops', token: LARDER_TOKEN, roles: ['admin', 'read'] }] };
      const larder = await start({ access });
      const http = new HttpClient({ ca: larder.ca });
      afterTest(() => http.close());
      await expectInstalled(larder, SOURCE, 'at first');

      await repository.commit({ 'main.tf': saying('later on') }, { tags: ['v1.0.0'] });
      clock.advance(25 * 3_600_000);
      await expectInstalled(larder, SOURCE, 'at first');
      const drift = async () =>
        /^larder_drift(?:\{.*\})? (\d+)$/m.exec((await http.get(`${larder.url}/metrics`)).text())?.[1];
      await eventually(drift).toBe('1');
      const warned = larder.log.filter(({ level, message }) => level === 'warn' && message.includes('upstream'));
      expect(JSON.stringify(warned)).toContain(SOURCE);
      await expectInstalled(larder, SOURCE, 'at first');

      const there = ['--server', larder.url, '--ca', larder.setup.caFile, '--token', LARDER_TOKEN];
      const listed = await runLarder(['ls', SOURCE, ...there]);
      expect(listed.code, listed.stderr).toBe(0);
      expect(listed.stdout).toMatch(new RegExp(`${SOURCE} +1\\.0\\.0 .*differs upstream`));
      const purged = await http.send(`${larder.url}/admin/purge`, {
        method: 'POST',
        headers: { authorization: `Bearer ${LARDER_TOKEN}`, 'content-type': 'application/json' },
        body: JSON.stringify({ address: SOURCE, version: '1.0.0' }),
      });
      expect(purged.status, purged.text()).toBe(200);
      await expectInstalled(larder, SOURCE, 'later on');
      expect(await drift()).toBe('0');
    });
  });

  describe('access', () => {
    it('R63: where Larder wants a token it is the one for the registry’s host; none is sent for packages', async () => {
      publish('1.0.0', 'for members');
      const tokens = [{ name: 'ci', token: LARDER_TOKEN, roles: ['read'] }];
      const larder = await start({ access: { anonymous: 'none', tokens } });
      for (const round of ['cold', 'warm']) {
        await expectInstalled(larder, SOURCE, 'for members', undefined, credentials(REGISTRY, LARDER_TOKEN));
        const { init } = await install(larder, SOURCE, undefined, credentials(REGISTRY, 'wrong'));
        expect(init.code, round).toBe(1);
        expect(said(init), round).toMatch(/401|unauthorized|authentication|credentials/i);
        expect((await install(larder, SOURCE)).init.code, round).toBe(1);
      }
      const paths = larder.log.map(({ fields }) => String(fields['path'] ?? ''));
      expect(paths.filter((path) => path.endsWith('.tar.gz')).every((path) => path.startsWith('/get/…/'))).toBe(true);
      expect(paths.some((path) => path.startsWith('/get/…/'))).toBe(true);
      expect(JSON.stringify(larder.log)).not.toContain(LARDER_TOKEN);
    });

    it('R63: of an upstream that is asked with clients’ tokens, one client’s private module is not another’s', async () => {
      const { guarded } = world;
      const others = guarded.on(({ headers }) => headers.authorization === 'Bearer bob', status(403));
      const larder = await start({}, { credentials: { forward: true } });
      const source = `${PRIVATE}/acme/secret/aws`;
      for (const round of ['cold', 'warm']) {
        for (const more of ['', credentials(PRIVATE, 'bob'), credentials(PRIVATE, 'mallory')]) {
          const { init } = await install(larder, source, undefined, more);
          expect(init.code, `${round} ${more}`).toBe(1);
        }
        await expectInstalled(larder, source, 'for those who may', undefined, credentials(PRIVATE, TOKEN));
      }
      others.remove();
      expect(guarded.requests.count(/\/archives\//)).toBeGreaterThan(0);
      expect(guarded.releases.requests.withCredentials()).toEqual([]);
    });

    it('a module by Larder’s own name, which discovery finds', async () => {
      publish('1.0.0', 'by my own name');
      const name = 'larder.example.test';
      const larder = await start({}, { names: [name] });
      const proxy = await EgressProxy.start({ [`${name}:443`]: larder.port });
      afterTest(() => proxy.stop());
      const workspace = await using(`${name}/acme/net/aws`, '1.0.0');
      const run = (...args: string[]) =>
        runClient({
          program,
          args: [...args, '-no-color'],
          directory: workspace.directory,
          cliConfig: 'disable_checkpoint = true\n',
          ca: larder.ca,
          env: { HTTPS_PROXY: proxy.url },
        });
      expectSuccess(await run('init'));
      expect((await run('apply', '-auto-approve')).output).toContain('it = "by my own name"');
      expect(new Set(proxy.tunnels)).toEqual(new Set([`${name}:443`]));
    });
  });
}
