import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { Hostname } from '../../src/address/hostname.ts';
import { Authenticator } from '../../src/http/authenticate.ts';
import {
  cliConfiguration,
  hostConfiguration,
  mirrorConfiguration,
  startUpMessage,
} from '../../src/http/cli-snippets.ts';
import { html } from '../../src/http/html.ts';
import { PAGE_STYLE } from '../../src/http/page-style.ts';
import { loadTls } from '../../src/http/tls.ts';
import { start } from './harness.ts';

const REGISTRIES = ['registry.opentofu.org', 'registry.terraform.io'].map((text) => Hostname.parse(text));

test('the CLI configuration sends the mirrored registries here, and nothing else', () => {
  expect(cliConfiguration({ baseUrl: 'https://larder.example.com:8443', upstreams: REGISTRIES })).toBe(
    `provider_installation {
  network_mirror {
    url     = "https://larder.example.com:8443/providers/"
    include = [
      "registry.opentofu.org/*/*",
      "registry.terraform.io/*/*",
    ]
    # trust_all_hashes = true  # OpenTofu >= 1.12
  }
  direct {
    exclude = [
      "registry.opentofu.org/*/*",
      "registry.terraform.io/*/*",
    ]
  }
}
`,
  );
});

test('L2, R96: hosts with ports are left out of it, and international names are written as the clients want them', () => {
  const upstreams = ['registry.corp.example:8443', 'xn--bcher-kva.example.com'].map((text) => Hostname.parse(text));
  const configuration = cliConfiguration({ baseUrl: 'https://larder.example.com/', upstreams });
  expect(configuration).toContain('include = ["bücher.example.com/*/*"]');
  expect(configuration).toContain('url     = "https://larder.example.com/providers/"');
  expect(configuration).not.toContain('8443');
  expect(configuration).not.toContain('xn--');
});

test('every registry gets a block that names both services, with a slash at the end of each', () => {
  const baseUrl = 'https://larder.example.com/base/';
  const upstreams = ['registry.corp.example:8443', 'xn--bcher-kva.example.com'].map((text) => Hostname.parse(text));
  expect(hostConfiguration({ baseUrl, upstreams })).toBe(`host "registry.corp.example:8443" {
  services = {
    "modules.v1"   = "https://larder.example.com/base/registry/registry.corp.example:8443/v1/modules/"
    "providers.v1" = "https://larder.example.com/base/registry/registry.corp.example:8443/v1/providers/"
  }
}
host "bücher.example.com" {
  services = {
    "modules.v1"   = "https://larder.example.com/base/registry/xn--bcher-kva.example.com/v1/modules/"
    "providers.v1" = "https://larder.example.com/base/registry/xn--bcher-kva.example.com/v1/providers/"
  }
}
`);
});

test('a network mirror takes the blocks along: modules and hosts with ports do not go through it', () => {
  const baseUrl = 'https://larder.example.com';
  const upstreams = ['registry.corp.example:8443', 'registry.example.com'].map((text) => Hostname.parse(text));
  const address = { baseUrl, upstreams };
  expect(mirrorConfiguration(address)).toBe(cliConfiguration(address) + hostConfiguration(address));
  // Without any name in its list, it would be asked for everything.
  expect(mirrorConfiguration({ baseUrl, upstreams: upstreams.slice(0, 1) })).toBe('');
});

test('a URL cannot break out of the configuration', () => {
  const configuration = cliConfiguration({ baseUrl: `https://a/"\\${'$'}{x}`, upstreams: [] });
  expect(configuration).toContain('url     = "https://a/\\"\\\\$${x}/providers/"');
});

test('the start-up message holds all there is to paste', () => {
  const message = startUpMessage({
    baseUrl: 'https://localhost:8443',
    upstreams: REGISTRIES,
    caFile: '/srv/it is/tls/ca.pem',
  });
  expect(message).toContain('Larder listens on https://localhost:8443\n');
  expect(message).toContain('  host "registry.terraform.io" {\n');
  expect(message).toContain('"https://localhost:8443/registry/registry.terraform.io/v1/modules/"\n');
  expect(message).not.toContain('provider_installation');
  expect(message).toContain("  export SSL_CERT_FILE='/srv/it is/tls/ca.pem'\n");
  const plain = startUpMessage({ baseUrl: 'https://larder', upstreams: REGISTRIES });
  expect(plain).not.toContain('SSL_CERT_FILE');
  expect(plain).not.toContain('credentials');
  const needsToken = startUpMessage({ baseUrl: 'https://larder:8443', upstreams: REGISTRIES, needsToken: true });
  for (const { display } of REGISTRIES) {
    expect(needsToken).toContain(`  credentials "${display}" {\n    token = "…"\n  }\n`);
  }
  expect(needsToken).not.toContain('credentials "larder:8443"');
});

test('values in HTML are escaped, markup is not', () => {
  expect(html`<p title="${'"<&>\''}">${html`<b>${'<i>'}</b>`}${undefined}${false}${0}</p>`.text).toBe(
    '<p title="&quot;&lt;&amp;&gt;&#39;"><b>&lt;i&gt;</b>0</p>',
  );
});

test('code that is too long for the window goes on in the next line: the slash at the end of a URL is never out of sight', () => {
  const [, pre = ''] = /^pre \{(.*?)\}/ms.exec(PAGE_STYLE) ?? [];
  expect(pre).toContain('white-space: pre-wrap;');
  expect(pre).toContain('overflow-wrap: anywhere;');
  expect(pre).not.toContain('overflow-x');
});

test('the page shows the configuration for the address it was asked on', async () => {
  const { exchange } = await start({}, { upstreams: REGISTRIES });
  const answer = await exchange('GET / HTTP/1.1\nHost: Larder.example.com:8080\nConnection: close\n\n');
  const page = answer.body.toString();
  expect(answer.statusLine).toBe('HTTP/1.1 200 OK');
  expect(answer.headers['content-type']).toBe('text/html; charset=utf-8');
  expect(answer.headers['content-security-policy']).toMatch(/^default-src 'none'; style-src 'self'/);
  expect(answer.headers['cache-control']).toBe('no-store');
  expect(page).toContain('url     = &quot;http://larder.example.com:8080/providers/&quot;');
  expect(page).toContain('accept <code>https</code> mirrors only');
  expect(page).not.toMatch(/<script|style="|https?:\/\/(?!larder\.example\.com)/);
});

test.each([
  [['X-Forwarded-Proto: https', 'X-Forwarded-Host: mirror.example.com'], 'https://mirror.example.com/providers/'],
  [['X-Forwarded-Proto: https, http', 'X-Forwarded-Host: a.example, b.example'], 'https://a.example/providers/'],
  [['X-Forwarded-Proto: https'], 'https://larder.test/providers/'],
  [['X-Forwarded-Proto: https', 'X-Forwarded-Host: a.example:443'], 'https://a.example/providers/'],
  [['X-Forwarded-Proto: https', 'X-Forwarded-Host: [fd00::1]:8443'], 'https://[fd00::1]:8443/providers/'],
  [['X-Forwarded-Proto: javascript'], 'https://LARDER/providers/'],
  [['X-Forwarded-Host: evil.example/"><script>'], 'https://LARDER/providers/'],
  [['X-Forwarded-Host: user@evil.example'], 'https://LARDER/providers/'],
])('behind a proxy that says %j the address is %s', async (headers, url) => {
  const { ask } = await start();
  const page = (await ask('GET /', ...headers)).body.toString();
  expect(page).toContain(`url     = &quot;${url}&quot;`);
  expect(page).not.toContain('<script');
});

test('the configured address wins over all others', async () => {
  const { ask } = await start({}, { publicUrl: 'https://mirror.example.com/larder/' });
  const page = (await ask('GET /', 'X-Forwarded-Host: evil.example')).body.toString();
  expect(page).toContain('https://mirror.example.com/larder/providers/');
  expect(page).not.toContain('evil');
});

test('the page says which registries cannot be reached through a mirror, and what is wrong', async () => {
  const { ask } = await start(
    {},
    {
      upstreams: [...REGISTRIES, Hostname.parse('registry.corp.example:8443')],
      isSealed: () => true,
      checks: [{ name: 'metadata', essential: false, check: () => Promise.reject(new Error('<b>')) }],
    },
  );
  const page = (await ask('GET /')).body.toString();
  expect(page).toContain('<code>registry.corp.example:8443</code> <span class="note">not through a network mirror');
  expect(page).toContain('host &quot;registry.corp.example:8443&quot; {');
  expect(page).toContain('/registry/registry.terraform.io/v1/modules/&quot;');
  expect(page).toContain('is all that the CLI then knows of that host');
  expect(page).toContain('<code>terraform login</code>');
  expect(page).toContain('Ready, with limits · sealed');
  expect(page).toContain('metadata: not available');
});

test('host blocks come first, a network mirror second, each with the token it takes', async () => {
  const authenticator = new Authenticator({ anonymous: 'none', tokens: async () => [] });
  const { ask } = await start({}, { upstreams: REGISTRIES, authenticator });
  const page = (await ask('GET /')).body.toString();
  const order = [
    'host &quot;registry.opentofu.org&quot; {',
    'credentials &quot;registry.opentofu.org&quot; {',
    'TF_TOKEN_registry_opentofu_org',
    'provider_installation {',
    'credentials &quot;larder.test&quot; {',
    'TF_TOKEN_larder_test',
  ].map((text) => page.indexOf(text));
  expect(order).not.toContain(-1);
  expect(order).toEqual([...order].sort((a, b) => a - b));
});

test('where no registry can be reached through a network mirror, none is shown', async () => {
  const { ask } = await start({}, { upstreams: [Hostname.parse('registry.corp.example:8443')] });
  expect((await ask('GET /')).body.toString()).not.toContain('provider_installation');
});

test('the page’s style comes from here, and nothing else is served beside it', async () => {
  const { ask } = await start();
  const [link] = /style\.css\?[0-9a-f]+/.exec((await ask('GET /')).body.toString()) ?? [];
  const style = await ask(`GET /${link}`);
  expect(style.headers['content-type']).toBe('text/css; charset=utf-8');
  expect(style.body.toString()).not.toMatch(/url\(|@import/);
  expect((await ask('GET /ca.pem')).statusLine).toBe('HTTP/1.1 404 Not Found');
  expect((await ask('POST /', 'Content-Length: 0')).statusLine).toBe('HTTP/1.1 405 Method Not Allowed');
  const head = await ask('HEAD /');
  expect([head.statusLine, head.body.length]).toEqual(['HTTP/1.1 200 OK', 0]);
});

test('the certificate of Larder’s own authority can be downloaded, and compared', async () => {
  const directory = await mkdtemp(join(tmpdir(), 'larder-page-'));
  onTestFinished(() => rm(directory, { recursive: true, force: true }));
  const tls = await loadTls({ mode: 'selfsigned', directory, names: ['localhost'] });
  const { ask } = await start({}, { caCertificate: tls?.authority?.certificate });
  const certificate = await ask('GET /ca.pem');
  expect(certificate.body.toString()).toBe(tls?.authority?.certificate);
  expect(certificate.headers['content-disposition']).toBe('attachment; filename="larder-ca.pem"');
  const page = (await ask('GET /')).body.toString();
  expect(page).toContain('curl -fsSk -o larder-ca.pem http://larder.test/ca.pem');
  expect(page).toMatch(/(?:[0-9A-F]{2}:){31}[0-9A-F]{2}/);
});
