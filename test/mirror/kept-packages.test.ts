import { appendFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { neverAnswer, reset, status } from '../support/faults.ts';
import type { Fault } from '../support/origin.ts';
import type { ProviderOptions, PublishedVersion } from '../support/published-provider.ts';
import {
  bytesOf,
  eventually,
  hashesIn,
  packageOf,
  platformsIn,
  type Scene,
  startRegistry,
  startScene,
  stoppedClock,
  WIDGET,
} from './scene.ts';

const EVERYTHING = /./;
const DARWIN = 'darwin_arm64';
const NO_TROUBLE: Fault = (call, next) => next(call);
const BOTH = [DARWIN, 'linux_amd64'];

interface Forgetful extends Scene {
  readonly published: PublishedVersion;
}

interface ForgetfulOptions {
  readonly published?: Partial<ProviderOptions>;
  /** Done to it while it is stopped: what is kept of 1.0.0 lies at `shasums`, and beside it. */
  readonly meanwhile?: (shasums: string, first: Scene) => Promise<unknown>;
  /** Of its second life. */
  readonly sealed?: boolean;
  readonly metadataDeadline?: string;
  readonly signatures?: 'require' | 'verify' | 'ignore';
}

/** The archive for linux_amd64 is stored, and everything that was remembered of upstream is lost. Upstream is in trouble. */
async function forgetful(trouble: Fault, options: ForgetfulOptions = {}): Promise<Forgetful> {
  const registry = await startRegistry();
  const published = await registry.addProvider({ ...WIDGET, platforms: BOTH, ...options.published });
  const first = await startScene({ registry });
  expect((await first.archive()).status).toBe(200);
  await first.stored();
  // It is computed in the background, and is on disk when it is known.
  await eventually(async () => hashesIn(await first.version('1.0.0'))).toHaveLength(2);
  await first.larder.close();
  const data = first.larder.setup.dataDirectory;
  await rm(join(data, 'metadata'), { recursive: true, force: true });
  await options.meanwhile?.(
    join(data, 'providers', registry.hostname, 'acme/widget', published.shasumsFilename),
    first,
  );
  registry.on(EVERYTHING, trouble);

  const { signatures = 'verify', sealed = false, metadataDeadline = '8s' } = options;
  const scene = await startScene({
    registry,
    config: {
      data,
      sealed,
      limits: { metadataDeadline },
      upstreams: { hosts: { [registry.hostname]: { signatures } } },
    },
  });
  return { ...scene, published };
}

describe('a version of which one archive is stored, while upstream is in trouble and nothing is remembered', () => {
  it.each<[string, Fault, number]>([
    ['answers 503', status(503), 502],
    ['answers 429', status(429, { retryAfter: 30 }), 503],
    ['answers 403', status(403), 502],
    ['breaks connections off', reset(), 502],
    ['does not answer', neverAnswer(), 504],
  ])(
    'has all the platforms that it has: that upstream %s is told to who asks for another one',
    async (_, fault, told) => {
      const { registry, published, version, archive, get } = await forgetful(
        fault,
        told === 504 ? { metadataDeadline: '1s' } : {},
      );
      const list = await version('1.0.0');
      expect(platformsIn(list)).toEqual(BOTH);
      expect(list.headers['warning']).toContain('110');
      const { zh, h1 } = packageOf(published);
      expect(hashesIn(list)).toEqual([h1, zh]);
      expect(hashesIn(list, DARWIN)).toEqual([packageOf(published, DARWIN).zh]);

      expect((await archive('1.0.0')).body).toEqual(bytesOf(packageOf(published)));
      const document = `/registry/${registry.hostname}/v1/providers/acme/widget/1.0.0/download/darwin/arm64`;
      for (const answer of [await archive('1.0.0', DARWIN), await get(document)]) {
        expect(answer.status).toBe(told);
        expect(answer.json().errors[0]).toContain(registry.hostname);
      }
      expect((await archive('1.0.0', DARWIN, { method: 'HEAD' })).status).toBe(told);
    },
  );

  it('gives what it listed when upstream is back', async () => {
    const clock = stoppedClock();
    const { registry, published, version, archive } = await forgetful(status(503));
    const { url } = (await version('1.0.0')).json().archives[DARWIN];
    registry.heal();
    clock.advance(10_000);
    expect(packageOf(published, DARWIN).filename).toBe(url);
    expect((await archive('1.0.0', DARWIN)).body).toEqual(bytesOf(packageOf(published, DARWIN)));
    const list = await version('1.0.0');
    expect(list.headers).not.toHaveProperty('warning');
    expect(platformsIn(list)).toEqual(BOTH);
  });

  it('is told with the hashes that its registry gave, of archives that are named unlike the others as well', async () => {
    const odd = 'linux_arm';
    const { published, version } = await forgetful(status(503), {
      published: {
        platforms: [...BOTH, odd],
        withPackages: true,
        filename: (platform) => `terraform-provider-widget_1.0.0_${platform === odd ? 'linux_armv6' : platform}.zip`,
      },
    });
    const list = await version('1.0.0');
    for (const platform of [...BOTH, odd]) {
      const { h1, zh } = packageOf(published, platform);
      expect(hashesIn(list, platform)).toEqual([h1, zh]);
    }
  });

  it('has none that SHA256SUMS does not give an archive of this provider for', async () => {
    const digest = 'ab'.repeat(32);
    const { version } = await forgetful(status(503), {
      published: {
        filename: (platform) => `widget-v1_${platform}.zip`,
        extraShasumsLines: [
          `${digest}  widget-v1_manifest.json`,
          `${digest}  gadget_plan9_386.zip`,
          `${digest}  widget-v1_${'x'.repeat(40)}_amd64.zip`,
          `${digest}  widget-v1_freebsd_amd64.tar.gz`,
        ],
      },
    });
    expect(platformsIn(await version('1.0.0'))).toEqual(BOTH);
  });

  it('has the digests that were seen first, and no drift is reported while upstream says nothing', async () => {
    const { published, larder, version } = await forgetful(status(503), {
      meanwhile: (_shasums, { registry }) =>
        registry.addProvider({ ...WIDGET, platforms: BOTH, zip: () => Buffer.from('other bytes') }),
    });
    expect(hashesIn(await version('1.0.0'), DARWIN)).toEqual([packageOf(published, DARWIN).zh]);
    expect(larder.log.filter(({ message }) => message.includes('publishes other bytes'))).toEqual([]);
  });

  it('is seen as it is when SHA256SUMS comes to it meanwhile', async () => {
    let put = async () => {};
    const { published, version } = await forgetful(status(503), {
      meanwhile: async (shasums) => {
        await rm(shasums);
        put = () => writeFile(shasums, published.shasums);
      },
    });
    expect(platformsIn(await version('1.0.0'))).toEqual(['linux_amd64']);
    await put();
    await eventually(async () => platformsIn(await version('1.0.0'))).toEqual(BOTH);
  });
});

describe('only what is stored is listed', () => {
  it('when upstream says that there is no such version any more', async () => {
    const { version, archive } = await forgetful(NO_TROUBLE, {
      meanwhile: async (_shasums, { registry }) => registry.removeVersion(WIDGET),
    });
    const list = await version('1.0.0');
    expect(platformsIn(list)).toEqual(['linux_amd64']);
    expect(list.headers).not.toHaveProperty('warning');
    expect((await archive('1.0.0', DARWIN)).status).toBe(404);
  });

  it('when Larder is sealed', async () => {
    const { version, archive } = await forgetful(status(503), { sealed: true });
    const list = await version('1.0.0');
    expect(platformsIn(list)).toEqual(['linux_amd64']);
    expect(list.headers).not.toHaveProperty('warning');
    expect((await archive('1.0.0', DARWIN)).status).toBe(503);
  });

  it.each<[string, (shasums: string) => Promise<unknown>, signatures?: 'ignore']>([
    ['is not there', (shasums) => rm(shasums)],
    ['was changed after it was signed', (shasums) => appendFile(shasums, `${'00'.repeat(32)}  x_linux_arm.zip\n`)],
    ['cannot be read', (shasums) => writeFile(shasums, '<html>')],
    // The key that it was signed with is kept, too.
    ['has lost its signature', (shasums) => rm(`${shasums}.sig`)],
    [
      'is of other archives',
      async (shasums) => {
        await rm(`${shasums}.sig`);
        await writeFile(
          shasums,
          BOTH.map((of) => `${'00'.repeat(32)}  terraform-provider-widget_1.0.0_${of}.zip\n`).join(''),
        );
      },
      'ignore',
    ],
  ])('when the SHA256SUMS that was kept %s', async (_, meanwhile, signatures) => {
    const { version } = await forgetful(status(503), { meanwhile, ...(signatures && { signatures }) });
    const list = await version('1.0.0');
    expect(platformsIn(list)).toEqual(['linux_amd64']);
    expect(list.headers['warning']).toContain('110');
  });

  it.each([
    ['verify', BOTH],
    ['ignore', BOTH],
    ['require', ['linux_amd64']],
  ] as const)('when it is not signed, and has to be: signatures: %s', async (signatures, listed) => {
    const { version, warnings } = await forgetful(status(503), { published: { sign: 'none' }, signatures });
    for (let times = 0; times < 2; times += 1) expect(platformsIn(await version('1.0.0'))).toEqual(listed);
    expect(warnings('not relied on')).toHaveLength(signatures === 'require' ? 1 : 0);
  });
});
