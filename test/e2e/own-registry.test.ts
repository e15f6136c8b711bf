import { expect, it } from 'vitest';
import { startScene } from '../mirror/scene.ts';
import { configuration, runClient } from '../support/client.ts';
import { moduleTarGz } from '../support/module-archive.ts';
import { describeWith } from '../support/requirements.ts';

const TOKEN = 'larder-token-41c8';

for (const program of ['terraform', 'tofu'] as const) {
  describeWith([program], `${program} and modules with Larder's own host in their address`, () => {
    it('installs them without any host block, with the token of that host', { timeout: 60_000 }, async () => {
      const scene = await startScene({
        providers: [],
        config: { access: { anonymous: 'none', tokens: [{ name: 'ci', token: TOKEN, roles: ['read'] }] } },
      });
      const { registry, larder } = scene;
      const archive = moduleTarGz({ 'main.tf': 'output "said" {\n  value = "from the default registry"\n}\n' });
      const { url } = registry.addModuleArchive('/net-1.0.0.tar.gz', archive);
      registry.addModule({ namespace: 'acme', name: 'net', system: 'aws', version: '1.0.0', location: url });
      // Clients want a dot in a module's host.
      const host = `127.0.0.1:${larder.port}`;
      const { directory } = await configuration({
        'main.tf': `module "net" {\n  source  = "${host}/acme/net/aws"\n  version = "1.0.0"\n}\n`,
      });
      const run = { program, args: ['init', '-no-color'], directory, ca: larder.ca };
      const credentials = `credentials "${host}" {\n  token = "${TOKEN}"\n}\n`;
      const result = await runClient({ ...run, cliConfig: credentials });
      expect(result.code, result.output).toBe(0);
      const paths = larder.log
        .filter(({ message }) => message === 'request')
        .map(({ fields }) => String(fields['path']).replace(registry.hostname, 'HOST'));
      expect(paths.slice(0, 3)).toEqual([
        '/.well-known/terraform.json',
        '/registry/HOST/v1/modules/acme/net/aws/versions',
        '/registry/HOST/v1/modules/acme/net/aws/1.0.0/download',
      ]);
    });
  });
}
