import { createHash, X509Certificate } from 'node:crypto';
import { type RequestHandler, type Response, Router } from 'express';
import type { Hostname } from '../address/hostname.ts';
import {
  credentialsHost,
  hostConfiguration,
  mirrorConfiguration,
  mirrorTokenConfiguration,
  reachableThroughMirror,
  tokenConfiguration,
  tokenVariable,
  trustCommands,
} from './cli-snippets.ts';
import type { Health, HealthReport } from './health.ts';
import { html, type Markup } from './html.ts';
import { PAGE_STYLE } from './page-style.ts';
import { publicAddress } from './public-address.ts';
import { allowOnly } from './request-guards.ts';

export interface LandingPageOptions {
  readonly health: Health;
  readonly upstreams: readonly Hostname[];
  readonly publicUrl?: string | undefined;
  /** PEM of the certificate authority that Larder made for itself, offered for download. */
  readonly caCertificate?: string | undefined;
  readonly isSealed: () => boolean;
  readonly authenticator: { readonly isRequired: boolean };
}

/** Nothing but the page's own style: no script, no frame, nothing from elsewhere. */
const PAGE_HEADERS = {
  'Content-Type': 'text/html; charset=utf-8',
  'Content-Security-Policy':
    "default-src 'none'; style-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
  'X-Content-Type-Options': 'nosniff',
  'Referrer-Policy': 'no-referrer',
  // Made for the address it was asked on: of no use to anybody else.
  'Cache-Control': 'no-store',
} as const;

/** `/`, for people: how to point a CLI here, with snippets made for this very address. Also what the page needs. */
export function landingPage(options: LandingPageOptions): Router {
  const router = Router({ caseSensitive: true, strict: true });
  const get = (path: string, handler: RequestHandler) => router.route(path).all(allowOnly('GET', 'HEAD')).get(handler);

  get('/', async (req, res) => {
    const page = renderPage(options, publicAddress(req, options.publicUrl), await options.health.report());
    send(res, page.text, PAGE_HEADERS);
  });
  get('/style.css', (_req, res) =>
    send(res, PAGE_STYLE, { 'Content-Type': 'text/css; charset=utf-8', 'Cache-Control': 'public, max-age=86400' }),
  );
  const { caCertificate } = options;
  if (caCertificate !== undefined) {
    get('/ca.pem', (_req, res) =>
      send(res, caCertificate, {
        'Content-Type': 'application/x-pem-file',
        'Content-Disposition': 'attachment; filename="larder-ca.pem"',
        'Cache-Control': 'no-cache',
      }),
    );
  }
  return router;
}

/** A version of the style in its link lets it be cached and yet change with a release. */
const STYLE_VERSION = createHash('sha256').update(PAGE_STYLE).digest('hex').slice(0, 12);

function renderPage(options: LandingPageOptions, address: string | undefined, health: HealthReport): Markup {
  const baseUrl = address ?? 'https://LARDER';
  const reachable = options.upstreams.filter(reachableThroughMirror);
  const unreachable = options.upstreams.filter((hostname) => !reachableThroughMirror(hostname));
  return html`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>Larder: provider and module mirror</title>
<link rel="stylesheet" href="style.css?${STYLE_VERSION}">
</head>
<body>
<header>
<div class="wrap">
<p class="brand">Larder</p>
${statusLine(health, options.isSealed())}
</div>
</header>
<main class="wrap">
<h1>Providers and modules, from close by</h1>
<p class="lead">This is a caching mirror for the providers and modules of OpenTofu and Terraform. It fetches what is asked for
once, verifies it, keeps it, and goes on serving it when the registry does not answer.</p>

<section aria-labelledby="use">
<h2 id="use">Point your CLI here</h2>
<p>Put this into the CLI configuration: <code>~/.tofurc</code>, <code>~/.terraformrc</code>, or the file that
<code>TF_CLI_CONFIG_FILE</code> names. Then run <code>init</code> as always.</p>
${options.upstreams.length > 0 && codeBlock('CLI configuration', hostConfiguration({ baseUrl, upstreams: options.upstreams }))}
<ul>
<li>The CLI then asks here for everything that it would ask these registries for: providers with complete lock files and signatures that it
checks itself, and modules.</li>
<li>A <code>host</code> block is all that the CLI then knows of that host. Each names both services, because what is not named counts as not
provided; to <code>terraform login</code> to the host itself, take its block out for the time being.</li>
<li>The slash at the end of the URLs matters: without it, the clients drop the last part.</li>
${
  baseUrl.startsWith('http://') &&
  html`<li class="warning">This page was asked for over plain <code>http</code>, over which tokens travel in the clear. Use the address of the proxy
that terminates TLS in front of Larder.</li>`
}
</ul>
</section>

${options.authenticator.isRequired && tokenSection(options.upstreams)}

${reachable.length > 0 && mirrorSection(baseUrl, options)}

${options.caCertificate !== undefined && trustSection(baseUrl, options.caCertificate)}

<section aria-labelledby="registries">
<h2 id="registries">Registries mirrored here</h2>
${
  options.upstreams.length === 0
    ? html`<p>None is configured yet: name them under <code>upstreams.hosts</code>.</p>`
    : html`<ul class="hosts">${reachable.map((hostname) => html`<li><code>${hostname.display}</code></li>`)}${unreachable.map(
        (hostname) =>
          html`<li><code>${hostname.display}</code> <span class="note">not through a network mirror</span></li>`,
      )}</ul>`
}
</section>
</main>
<footer class="wrap"><p>For operators: <a href="ui/">dashboard</a>. For machines: <a href="healthz">/healthz</a> and <a href="readyz">/readyz</a></p></footer>
</body>
</html>
`;
}

function mirrorSection(baseUrl: string, { upstreams, authenticator }: LandingPageOptions): Markup {
  return html`<section aria-labelledby="mirror">
<h2 id="mirror">Or: providers through a network mirror</h2>
<p>A <code>provider_installation</code> block sends providers another way, without the signatures: Terraform then writes the hash of one platform into the
lock file and says that it is incomplete. Modules, <code>providers lock</code> and hosts with a port still go by the <code>host</code> blocks.</p>
${codeBlock('Network mirror', mirrorConfiguration({ baseUrl, upstreams }))}
<ul>
<li><code>trust_all_hashes</code> makes OpenTofu 1.12 and newer write the hashes of all platforms into the lock file, for
providers of <code>registry.opentofu.org</code>.</li>
${baseUrl.startsWith('http://') && html`<li class="warning">The clients accept <code>https</code> mirrors only.</li>`}
${authenticator.isRequired && html`<li>It is asked with the token of its own host, with its port, in addition to those above.</li>`}
</ul>
${authenticator.isRequired && mirrorTokenSnippet(baseUrl)}
</section>`;
}

function mirrorTokenSnippet(baseUrl: string): Markup {
  const host = credentialsHost(baseUrl);
  return html`${codeBlock('Credentials for the network mirror', mirrorTokenConfiguration({ baseUrl }))}
${
  host.includes(':')
    ? html`<p>In CI: <code>env 'TF_TOKEN_${host}=…' terraform init</code>. No shell can <code>export</code> a variable with a port in
its name.</p>`
    : html`<p>In CI: the variable <code>${tokenVariable(host)}</code>.</p>`
}`;
}

function tokenSection(upstreams: readonly Hostname[]): Markup {
  const [exportable] = upstreams.filter(reachableThroughMirror);
  return html`<section aria-labelledby="token">
<h2 id="token">Give it your token</h2>
<p>This mirror wants to know who asks. Put the token that you were given into the same file:</p>
${codeBlock('Credentials', tokenConfiguration({ upstreams }))}
<ul>
<li>What goes through a <code>host</code> block is asked for with the token of the host that the block names.</li>
${exportable && html`<li>In CI: the variable <code>${tokenVariable(exportable.toString())}</code>, and likewise for the others.</li>`}
</ul>
</section>`;
}

function trustSection(baseUrl: string, caCertificate: string): Markup {
  return html`<section aria-labelledby="trust">
<h2 id="trust">Trust its certificate</h2>
<p>Larder made its own certificate authority. <a href="ca.pem" download>Download its certificate</a>, or:</p>
${codeBlock('Shell', trustCommands(baseUrl))}
<ul>
<li><code>SSL_CERT_FILE</code> replaces the system's list. To reach other hosts as well, append the certificate to a copy of
that list, or install it system-wide. On macOS and Windows, add it to the system's trust store.</li>
<li>Its SHA-256 fingerprint, to compare with that of <code>tls/ca.pem</code> in Larder's data directory:
<code class="fingerprint">${new X509Certificate(caCertificate).fingerprint256}</code></li>
</ul>
</section>`;
}

const STATUS_TEXT: Readonly<Record<HealthReport['status'], string>> = {
  ready: 'Ready',
  degraded: 'Ready, with limits',
  failing: 'Not ready',
  draining: 'Shutting down',
};

function statusLine({ status, checks }: HealthReport, sealed: boolean): Markup {
  const troubles = Object.entries(checks).filter(([, result]) => result.status !== 'ok');
  return html`<p class="status ${status}"><span aria-hidden="true" class="dot"></span>${STATUS_TEXT[status]}${
    sealed && ' · sealed: only what is stored is served'
  }${troubles.map(([name, result]) => html` · ${name}: ${result.reason ?? result.status}`)}</p>`;
}

function codeBlock(label: string, code: string): Markup {
  return html`<pre role="group" aria-label="${label}"><code>${code}</code></pre>`;
}

function send(res: Response, text: string, headers: Readonly<Record<string, string>>): void {
  const body = Buffer.from(text);
  res.writeHead(200, { ...headers, 'Content-Length': body.length }).end(body);
}
