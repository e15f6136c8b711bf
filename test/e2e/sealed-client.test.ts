import { expect, it } from 'vitest';
import { startClient } from '../mirror/scene.ts';
import { afterTest } from '../support/after-test.ts';
import { configuration, hostCliConfig, mirrorCliConfig, runClient } from '../support/client.ts';
import { type Larder, startLarder } from '../support/larder.ts';
import { moduleTarGz } from '../support/module-archive.ts';
import { describeWith } from '../support/requirements.ts';
import { UpstreamRegistry } from '../support/upstream-registry.ts';

const OPS = 'token-of-the-operators';
const REGISTRY = 'sealed.example.test';
const PATIENCE = { timeout: 120_000 };

for (const program of ['terraform', 'tofu'] as const) {
  describeWith([program], `a sealed Larder and ${program}`, () => suite(program));
}

function suite(program: 'terraform' | 'tofu'): void {
  const uses = (type: string, module?: string) => ({
    'main.tf':
      `terraform {\n  required_providers {\n    ${type} = { source = "${REGISTRY}/acme/${type}" }\n  }\n}\n` +
      (module === undefined
        ? ''
        : `module "it" {\n  source  = "${REGISTRY}/acme/${module}/aws"\n  version = "1.0.0"\n}\n`),
  });

  async function init(larder: Larder, files: Record<string, string>, cliConfig: string) {
    const { directory } = await configuration(files);
    const result = await runClient({ program, args: ['init', '-no-color'], directory, cliConfig, ca: larder.ca });
    return { ...result, said: result.output.replace(/[\s│╷╵]+/g, ' ') };
  }

  it(
    'install what is stored through both doors, with no upstream there, and are told what is not',
    PATIENCE,
    async () => {
      const registry = await UpstreamRegistry.start({ name: REGISTRY });
      afterTest(() => registry.stop());
      for (const version of ['1.0.0', '2.0.0'])
        await registry.addProvider({ namespace: 'acme', type: 'widget', version });
      for (const name of ['net', 'absent']) {
        const { url } = registry.addModuleArchive(`/${name}.tar.gz`, moduleTarGz({ 'main.tf': '# nothing\n' }));
        registry.addModule({ namespace: 'acme', name, system: 'aws', version: '1.0.0', location: url });
      }
      const access = { tokens: [{ name: 'ops', token: OPS, roles: ['admin'] }] };
      const larder = await startLarder({ registries: [registry], config: { access } });
      const client = startClient(larder);
      const put = (sealed: boolean) =>
        client.get(`${larder.url}/admin/seal`, {
          method: 'PUT',
          headers: { authorization: `Bearer ${OPS}`, 'content-type': 'application/json' },
          body: JSON.stringify({ sealed }),
        });
      const pinned = uses('widget', 'net');
      pinned['main.tf'] = pinned['main.tf'].replace('/acme/widget"', '/acme/widget", version = "1.0.0"');
      const host = hostCliConfig(larder.url, REGISTRY);
      const first = await init(larder, pinned, host);
      expect(first.code, first.output).toBe(0);

      expect((await put(true)).status).toBe(200);
      await registry.stop();
      // The newer version is upstream's only: the list shows what is stored.
      const throughHost = await init(larder, uses('widget', 'net'), host);
      expect(throughHost.code, throughHost.output).toBe(0);
      expect(throughHost.said).toContain('widget v1.0.0');
      const throughMirror = await init(larder, uses('widget'), mirrorCliConfig(larder.url));
      expect(throughMirror.code, throughMirror.output).toBe(0);
      expect(throughMirror.said).toContain('widget v1.0.0');

      for (const [files, cliConfig] of [
        [uses('gadget'), host],
        [uses('gadget'), mirrorCliConfig(larder.url)],
        [uses('widget', 'absent'), host],
      ] as const) {
        const failed = await init(larder, files, cliConfig);
        expect(failed.code, failed.output).toBe(1);
        expect(failed.said).toMatch(/acme\/(gadget|absent)/);
        expect(failed.said).toContain('503');
      }
      // The clients show a status; the log says the rest.
      const logged = larder.log.filter(({ message }) => message === 'request failed').map(({ fields }) => fields);
      const hints = logged.map(({ hint }) => String(hint)).join('\n');
      expect(hints).toContain(`echo '${REGISTRY}/acme/gadget' | larder warm -`);
      expect(hints).toContain(`echo '${REGISTRY}/acme/absent/aws' | larder warm -`);
    },
  );
}
