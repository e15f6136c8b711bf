import { expect, it } from 'vitest';
import { eventually } from '../mirror/scene.ts';
import { afterTest } from '../support/after-test.ts';
import { runLarder } from '../support/command.ts';
import { SilentHost, watchDepartures } from '../support/departures.ts';
import { holdAfter, holdAnswer } from '../support/faults.ts';
import { GitHost } from '../support/git-host.ts';
import { type HttpAnswer, HttpClient, type HttpOptions } from '../support/http.ts';
import { Internet, REGISTRY } from '../support/internet.ts';
import { type Larder, startLarder } from '../support/larder.ts';
import type { LarderSetup } from '../support/larder-setup.ts';
import { moduleTarGz } from '../support/module-archive.ts';
import { describeWith } from '../support/requirements.ts';
import { UpstreamRegistry } from '../support/upstream-registry.ts';

const OPS = 'token-of-the-operators';
/** Longer than it takes until anything that is done in the background would be done. */
const QUIET_MS = 3_000;
const MODULE = { namespace: 'acme', system: 'aws' } as const;

const config = {
  access: { tokens: [{ name: 'ops', token: OPS, roles: ['admin'] }] },
  // Stored modules are looked at whenever they are asked for.
  freshness: { packages: '1s', versions: '1s' },
};

/** A registry that is asked directly, one behind an egress proxy, and git hosts over https and ssh. */
async function startWorld() {
  const internet = await Internet.start();
  const direct = await UpstreamRegistry.start();
  afterTest(() => direct.stop());
  direct.services = { ...direct.services, 'search.v1': '/v1/search/' };
  const git = await GitHost.start();
  const ssh = await SilentHost.start();
  for (const registry of [internet.registry, direct]) {
    for (const version of ['1.0.0', '2.0.0']) {
      await registry.addProvider({ namespace: 'acme', type: 'widget', version, sizeBytes: 200_000 });
    }
    // Nothing but SHA256SUMS of it will be stored.
    await registry.addProvider({ namespace: 'acme', type: 'widget', version: '3.0.0' });
  }
  for (const version of ['1.0.0', '2.0.0']) {
    const { url } = direct.addModuleArchive(`/net/${version}.tar.gz`, moduleTarGz({ 'main.tf': `# ${version}\n` }));
    direct.addModule({ ...MODULE, name: 'net', version, location: url });
    await git.addRepository(`vpc-${version}.git`, { 'main.tf': `# ${version}\n` }, { tags: [`v${version}`] });
    const location = `git::${git.url}/vpc-${version}.git?ref=v${version}`;
    direct.addModule({ ...MODULE, name: 'vpc', version, location });
  }
  const location = `git::ssh://git@localhost:${ssh.port}/keys.git?ref=v1.0.0`;
  direct.addModule({ ...MODULE, name: 'keys', version: '1.0.0', location });
  const origins = [direct, direct.releases, internet.registry, internet.registry.releases, git];
  return {
    internet,
    direct,
    git,
    ssh,
    /** What anybody outside noticed since it was last asked. */
    noticed: () => {
      const requests = origins.flatMap(({ requests: log }) => log.all.map(({ method, path }) => `${method} ${path}`));
      const all = [...requests, ...internet.proxy.tunnels, ...(ssh.connections > 0 ? ['ssh'] : [])];
      for (const { requests } of origins) requests.clear();
      internet.proxy.tunnels.length = 0;
      ssh.connections = 0;
      return all;
    },
  };
}

type World = Awaited<ReturnType<typeof startWorld>>;

async function start({ internet, direct }: World, setup?: LarderSetup) {
  const larder = await startLarder({
    registries: [direct],
    config: {
      ...config,
      upstreams: { hosts: { [REGISTRY]: { ca: 'ca.pem', privateNetwork: true } } },
    },
    env: { ...internet.env, NO_PROXY: 'localhost', PATH: process.env['PATH'] },
    ...(setup && { setup }),
  });
  const client = new HttpClient({ ca: larder.ca });
  afterTest(() => client.close());
  const get = (path: string, options?: HttpOptions) => client.get(`${larder.url}${path}`, options);
  const admin = (method: string, path: string, body?: unknown) =>
    get(`/admin/${path}`, {
      method,
      headers: { authorization: `Bearer ${OPS}`, 'content-type': 'application/json' },
      ...(body !== undefined && { body: JSON.stringify(body) }),
    });
  return { larder, get, admin };
}

const zip = (version: string, platform = 'linux_amd64') => `terraform-provider-widget_${version}_${platform}.zip`;

/** Brings in version 1.0.0 of everything, and SHA256SUMS of 3.0.0. */
async function fill({ direct }: World, get: (path: string) => Promise<HttpAnswer>) {
  for (const host of [direct.hostname, REGISTRY]) {
    const release = `/registry/${host}/v1/providers/acme/widget`;
    for (const path of [
      `/providers/${host}/acme/widget/${zip('1.0.0')}`,
      `/providers/${host}/acme/widget/index.json`,
      `${release}/1.0.0/download/linux/amd64`,
      `${release}/3.0.0/SHA256SUMS`,
    ]) {
      expect((await get(path)).status, path).toBe(200);
    }
  }
  for (const name of ['net', 'vpc']) {
    const path = `/registry/${direct.hostname}/v1/modules/acme/${name}/aws`;
    const located = await get(`${path}/1.0.0/download`);
    expect(located.status, located.text()).toBe(204);
    expect((await get(`${path}/1.0.0/acme-${name}-aws-1.0.0.tar.gz`)).status).toBe(200);
    expect((await get(`${path}/versions`)).status).toBe(200);
  }
}

interface Asked {
  readonly path: string;
  readonly status: number;
  /** What a miss is called. */
  readonly names?: string;
  /** Of the hint. */
  readonly hint?: string;
  readonly check?: (answer: HttpAnswer) => void;
}

/** Every door, for what is stored and for what is not. */
function everyDoor({ direct }: World): readonly Asked[] {
  const providers = [direct.hostname, REGISTRY].flatMap((host): Asked[] => {
    const mirror = `/providers/${host}/acme`;
    const registry = `/registry/${host}/v1/providers/acme`;
    const widget = `${host}/acme/widget`;
    const warm = (line: string) => `echo '${line}' | larder warm - --stdin-name list.txt`;
    const missing = (path: string, item: string, line: string): Asked => ({
      path,
      status: 503,
      names: `${item} is not stored`,
      hint: warm(line),
    });
    return [
      {
        path: `${mirror}/widget/index.json`,
        status: 200,
        check: (answer) => expect(Object.keys(answer.json().versions)).toEqual(['1.0.0']),
      },
      missing(`${mirror}/gadget/index.json`, `${host}/acme/gadget`, `${host}/acme/gadget`),
      {
        path: `${mirror}/widget/1.0.0.json`,
        status: 200,
        check: (answer) => expect(Object.keys(answer.json().archives)).toEqual(['linux_amd64']),
      },
      // The clients have other sources, and go on to them.
      ...['2.0.0', '3.0.0'].map((version) => ({
        path: `${mirror}/widget/${version}.json`,
        status: 200,
        check: (answer: HttpAnswer) => {
          expect(answer.json()).toEqual({ archives: {} });
          expect(answer.headers['warning']).toContain(`${widget} ${version} is not stored`);
        },
      })),
      missing(`${mirror}/gadget/1.0.0.json`, `${host}/acme/gadget 1.0.0`, `${host}/acme/gadget@1.0.0`),
      { path: `${mirror}/widget/${zip('1.0.0')}`, status: 200 },
      missing(`${mirror}/widget/${zip('2.0.0')}`, `${widget} 2.0.0 linux_amd64`, `${widget}@2.0.0`),
      {
        path: `${registry}/widget/versions`,
        status: 200,
        check: (answer) => {
          const { versions } = answer.json() as { versions: { version: string; platforms: unknown[] }[] };
          expect(versions).toMatchObject([{ version: '1.0.0', platforms: [{ os: 'linux', arch: 'amd64' }] }]);
          expect(versions[0]?.platforms).toHaveLength(1);
        },
      },
      missing(`${registry}/gadget/versions`, `${host}/acme/gadget`, `${host}/acme/gadget`),
      { path: `${registry}/widget/1.0.0/download/linux/amd64`, status: 200 },
      missing(`${registry}/widget/2.0.0/download/linux/amd64`, `${widget} 2.0.0 linux_amd64`, `${widget}@2.0.0`),
      { path: `${registry}/widget/1.0.0/SHA256SUMS`, status: 200 },
      { path: `${registry}/widget/1.0.0/SHA256SUMS.sig`, status: 200 },
      { path: `${registry}/widget/3.0.0/SHA256SUMS`, status: 200 },
      missing(`${registry}/widget/2.0.0/SHA256SUMS`, `SHA256SUMS of ${widget} 2.0.0`, `${widget}@2.0.0`),
      missing(`${registry}/widget/2.0.0/SHA256SUMS.sig`, `SHA256SUMS of ${widget} 2.0.0`, `${widget}@2.0.0`),
      { path: `/registry/${host}/.well-known/terraform.json`, status: 200 },
      { path: `/registry/${host}/v1/search/?q=widget`, status: 503, names: 'v1/search/', hint: 'larder seal --off' },
      { path: `/registry/${host}/v2/providers`, status: 503, names: 'v2/providers', hint: 'larder seal --off' },
    ];
  });
  const modules = ['net', 'vpc', 'keys'].flatMap((name): Asked[] => {
    const address = `${direct.hostname}/acme/${name}/aws`;
    const path = `/registry/${direct.hostname}/v1/modules/acme/${name}/aws`;
    const file = (version: string) => `${path}/${version}/acme-${name}-aws-${version}.tar.gz`;
    const missing = (wanted: string, version?: string): Asked => ({
      path: wanted,
      status: 503,
      names: `${[address, version].filter(Boolean).join(' ')} is not stored`,
      hint: `echo '${[address, version].filter(Boolean).join('@')}' | larder warm -`,
    });
    if (name === 'keys') return [missing(`${path}/versions`), missing(`${path}/1.0.0/download`, '1.0.0')];
    return [
      {
        path: `${path}/versions`,
        status: 200,
        check: (answer) => expect(answer.json().modules[0].versions).toMatchObject([{ version: '1.0.0' }]),
      },
      { path: `${path}/1.0.0/download`, status: 204 },
      { path: file('1.0.0'), status: 200 },
      missing(`${path}/2.0.0/download`, '2.0.0'),
      missing(file('2.0.0'), '2.0.0'),
    ];
  });
  const rest = ['/', '/healthz', '/readyz', '/metrics', '/.well-known/terraform.json'];
  return [...providers, ...modules, ...rest.map((path) => ({ path, status: 200 }))];
}

async function askEverything(
  world: World,
  get: (path: string, options?: HttpOptions) => Promise<HttpAnswer>,
  leaveOut = /^$/,
) {
  for (const { path, status, names, hint, check } of everyDoor(world)) {
    if (leaveOut.test(path)) continue;
    const answer = await get(path);
    expect(answer.status, `${path} ${answer.text()}`).toBe(status);
    if (names !== undefined) expect(answer.json().errors[0], path).toContain(names);
    if (hint !== undefined) expect(answer.json().hint, path).toContain(hint);
    check?.(answer);
    if (!path.endsWith('.well-known/terraform.json')) {
      expect((await get(path, { method: 'HEAD' })).status, `HEAD ${path}`).toBe(status);
    }
  }
}

function lockFile(host: string, version: string): string {
  return `provider "${host}/acme/widget" {\n  version = "${version}"\n}\n`;
}

/** What operators may do besides; none of it may leave. */
async function workAsOperators({ direct }: World, { larder, admin }: Awaited<ReturnType<typeof start>>) {
  const files = [direct.hostname, REGISTRY].map((host, index) => ({
    path: `${index}/.terraform.lock.hcl`,
    text: lockFile(host, '2.0.0'),
  }));
  const wish = { files, platforms: ['linux_amd64'] };
  const gaps = await admin('POST', 'gaps', wish);
  expect(gaps.status, gaps.text()).toBe(200);
  expect(gaps.text()).toContain('2.0.0');
  const warm = await admin('POST', 'warm', wish);
  expect(warm.status, warm.text()).toBe(409);
  expect(warm.json()).toMatchObject({ code: 'SEALED', hint: expect.stringContaining('larder seal --off') });
  await admin('POST', 'verify', {});
  const server = ['--server', larder.url, '--ca', larder.setup.caFile, '--token', OPS];
  for (const command of [['ls'], ['verify']]) {
    const result = await runLarder([...command, ...server]);
    expect(result.code, result.stderr).toBe(0);
  }
}

async function quiet(): Promise<void> {
  await new Promise((resolve) => setTimeout(resolve, QUIET_MS));
}

/** What left for anywhere but Larder itself, whose clients are in this process as well. */
function departed(departures: string[], { port }: Larder): string[] {
  return departures.filter((one) => one !== `connect localhost:${port}` && one !== 'look up localhost');
}

/** Many doors, and commands that are processes. */
const PATIENCE = { timeout: 120_000 };

describeWith(['git'], 'nothing leaves a sealed Larder', () => {
  it('whatever it is asked for at whatever door, and whatever it does by itself', PATIENCE, async () => {
    const world = await startWorld();
    const open = await start(world);
    await fill(world, open.get);
    expect(world.noticed().length).toBeGreaterThan(10);
    expect((await open.admin('PUT', 'seal', { sealed: true })).status).toBe(200);
    await open.larder.close();

    const departures = watchDepartures();
    const sealed = await start(world, open.larder.setup);
    departures.clear();
    world.noticed();
    await askEverything(world, sealed.get);
    await workAsOperators(world, sealed);
    // Once more, now that what is stored is old enough to be looked at.
    await askEverything(world, sealed.get);
    await quiet();
    expect(world.noticed()).toEqual([]);
    expect(departed(departures.since(), sealed.larder)).toEqual([]);

    // The counters count: opened again, upstream is asked.
    expect((await sealed.admin('PUT', 'seal', { sealed: false })).status).toBe(200);
    expect((await sealed.get(`/providers/${world.direct.hostname}/acme/widget/${zip('2.0.0')}`)).status).toBe(200);
    expect((await sealed.get(`/providers/${REGISTRY}/acme/widget/${zip('2.0.0')}`)).status).toBe(200);
    expect(world.noticed()).toContain(`${REGISTRY}:443`);
    expect(departed(departures.since(), sealed.larder)).not.toEqual([]);
  });

  it('also when it is sealed while everything is on its way', PATIENCE, async () => {
    const world = await startWorld();
    const { direct, internet, ssh, git } = world;
    const running = await start(world);
    await fill(world, running.get);
    const { get, admin, larder } = running;
    const departures = watchDepartures();

    const archives = [direct, internet.registry].map(({ releases }) => {
      const hold = holdAfter(10_000);
      releases.on(/widget_2\.0\.0.*\.zip/, hold.fault);
      return hold;
    });
    const module = holdAfter(10);
    direct.releases.on(/net\/2\.0\.0/, module.fault);
    const search = holdAnswer();
    direct.on(/\/v1\/search\//, search.fault);
    const list = holdAnswer();
    direct.on(/\/gadget\/versions/, list.fault);
    const gitAsked = new Promise<void>((resolve) => {
      git.on(/vpc-2\.0\.0/, () => resolve());
    });
    const modulePath = (name: string) => `/registry/${direct.hostname}/v1/modules/acme/${name}/aws`;
    const asked = [
      `/providers/${direct.hostname}/acme/widget/${zip('2.0.0')}`,
      `/providers/${REGISTRY}/acme/widget/${zip('2.0.0')}`,
      `${modulePath('net')}/2.0.0/download`,
      `${modulePath('vpc')}/2.0.0/download`,
      `${modulePath('keys')}/1.0.0/download`,
      `/registry/${direct.hostname}/v1/search/?q=widget`,
      `/providers/${direct.hostname}/acme/gadget/index.json`,
    ].map((path) => get(path).catch((error: Error) => error));
    await Promise.all([...archives, module, search, list].map(({ reached }) => reached));
    await gitAsked;
    await eventually(() => ssh.connections).toBe(1);

    const sealing = await admin('PUT', 'seal', { sealed: true });
    expect(sealing.status, sealing.text()).toBe(200);
    // From the answer on.
    departures.clear();
    world.noticed();
    const [first, second, ...told] = await Promise.all(asked);
    for (const broken of [first, second]) expect(broken).toBeInstanceOf(Error);
    for (const answer of told as HttpAnswer[]) {
      expect(answer.status, answer.text?.()).toBe(503);
      expect(answer.json().errors[0]).toContain('sealed');
    }
    await eventually(() => ssh.open).toBe(0);
    // It had come before the archive.
    await askEverything(world, get, /2\.0\.0\/SHA256SUMS/);
    await quiet();
    expect(world.noticed()).toEqual([]);
    expect(departed(departures.since(), larder)).toEqual([]);

    for (const hold of [...archives, module, search, list]) hold.release();
    direct.heal();
    direct.releases.heal();
    await admin('PUT', 'seal', { sealed: false });
    const again = await get(`/providers/${direct.hostname}/acme/widget/${zip('2.0.0')}`);
    expect(again.status, again.text()).toBe(200);
  });
});
