import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { loadConfig } from '../src/config.ts';
import { silentLogger } from '../src/logger.ts';
import { loadUpstreamRules } from '../src/upstreams.ts';
import { CertificateAuthority } from './support/certificates.ts';

let directory: string;

beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'larder-upstreams-'));
  const authority = await CertificateAuthority.shared();
  const [one, other] = [await authority.issue(), await authority.issue()];
  const files = {
    'bundle.pem': `# Corp root\n${authority.pem}\n# and another\n${one.cert}`,
    'damaged.pem': `${authority.pem}\n-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n`,
    'text.pem': 'root:x:0:0\n',
    'one.pem': one.cert,
    'one.key': one.key,
    'other.key': other.key,
  };
  await Promise.all(Object.entries(files).map(([name, text]) => writeFile(join(directory, name), text)));
});

afterAll(() => rm(directory, { recursive: true, force: true }));

async function load(settings: string) {
  const file = join(directory, 'larder.yaml');
  await writeFile(file, `upstreams: { hosts: { registry.corp.example: ${settings} } }\n`);
  const rules = await loadUpstreamRules(await loadConfig({ file, env: {}, cwd: directory }), { logger: silentLogger });
  return rules.find(({ upstream }) => String(upstream.hostname) === 'registry.corp.example')?.upstream;
}

test('an authority bundle with comments and a client certificate with its key are taken', async () => {
  const upstream = await load('{ ca: bundle.pem, clientCertificate: { cert: one.pem, key: one.key } }');
  expect(upstream?.ca).toContain('# Corp root');
  expect(upstream?.clientCertificate?.key).toContain('PRIVATE KEY');
});

test.each([
  ['{ ca: text.pem }', /"\.ca: .*text\.pem holds no PEM certificate/],
  ['{ ca: damaged.pem }', /"\.ca: .*damaged\.pem holds no PEM certificate, or a damaged one/],
  ['{ clientCertificate: { cert: text.pem, key: one.key } }', /clientCertificate\.cert: .*holds no PEM certificate/],
  ['{ clientCertificate: { cert: one.pem, key: text.pem } }', /clientCertificate\.key: .*holds no PEM private key/],
  ['{ clientCertificate: { cert: one.pem, key: other.key } }', /clientCertificate\.key: .*is not the key of the first/],
])('at start, not at the first request: %s is refused', async (settings, message) => {
  await expect(load(settings)).rejects.toMatchObject({
    code: 'INVALID_CONFIGURATION',
    message: expect.stringMatching(message),
  });
});
