import { expect, it } from 'vitest';
import { hostCliConfig, mirrorCliConfig, runClient, workspace } from '../support/client.ts';
import { Internet, REGISTRY } from '../support/internet.ts';
import { startLarder } from '../support/larder.ts';
import { describeWith } from '../support/requirements.ts';

for (const program of ['terraform', 'tofu'] as const) {
  describeWith([program], `a release that is too young and ${program}`, () => suite(program));
}

function suite(program: 'terraform' | 'tofu'): void {
  it('is passed over for the newest that is old enough, and not to be had by its number', async () => {
    const internet = await Internet.start();
    const publish = (type: string, version: string) =>
      internet.registry.addProvider({ namespace: 'acme', type, version, platforms: ['linux_amd64'] });
    for (const type of ['widget', 'gadget']) await publish(type, '1.0.0');
    const larder = await startLarder({
      config: internet.larderConfig({
        cooldown: { default: '7d', allow: [`${REGISTRY}/acme/gadget@1.1.0`] },
        freshness: { versions: '1ms' },
      }),
      env: internet.env,
    });
    const doors = { mirror: mirrorCliConfig(larder.url), host: hostCliConfig(larder.url, REGISTRY) };
    const init = async (door: keyof typeof doors, version: string) => {
      const providers = Object.fromEntries(
        ['widget', 'gadget'].map((type) => [type, { source: `${REGISTRY}/acme/${type}`, version }]),
      );
      const { directory, lockFile } = await workspace({ providers });
      const run = { program, args: ['init', '-no-color'], directory, cliConfig: doors[door], ca: larder.ca };
      const result = await runClient(run);
      return {
        ...result,
        versions: [...((await lockFile()) ?? '').matchAll(/version {5}= "(.*)"/g)].map(([, v]) => v),
      };
    };
    // In the order of their names: gadget, widget.
    expect((await init('mirror', '>= 1.0.0')).versions).toEqual(['1.0.0', '1.0.0']);
    for (const type of ['widget', 'gadget']) await publish(type, '1.1.0');
    for (const door of ['mirror', 'host'] as const) {
      const passedOver = await init(door, '>= 1.0.0');
      expect(passedOver.code, passedOver.output).toBe(0);
      expect(passedOver.versions).toEqual(['1.1.0', '1.0.0']);
      const exact = await init(door, '1.1.0');
      expect(exact.code).toBe(1);
      expect(exact.output.replace(/[\s│]+/g, ' ')).toMatch(/no available releases match the given constraints 1\.1\.0/);
    }
  });
}
