import type { Hostname } from '../address/hostname.ts';

/** What a CLI has to be told to install through this mirror. */
export interface MirrorAddress {
  /** Where the clients reach Larder, without a slash at its end. */
  readonly baseUrl: string;
  /** The registries mirrored here. */
  readonly upstreams: readonly Hostname[];
}

/** The `url` of a `network_mirror` block. Without the slash at its end, clients drop the last part of it. */
export function networkMirrorUrl(baseUrl: string): string {
  return `${baseUrl.replace(/\/+$/, '')}/providers/`;
}

/** Clients cannot ask a network mirror for providers of a host with a port: they read it as a URL's scheme. */
export function reachableThroughMirror(hostname: Hostname): boolean {
  return hostname.port === undefined;
}

/**
 * The CLI configuration (`~/.terraformrc`, `~/.tofurc` or the file that TF_CLI_CONFIG_FILE names) that sends the
 * mirrored registries' providers here, and leaves all others to be fetched directly.
 */
export function cliConfiguration({ baseUrl, upstreams }: MirrorAddress): string {
  const patterns = upstreams
    .filter(reachableThroughMirror)
    // The configuration wants the Unicode form; punycode is an error there.
    .map((hostname) => quote(`${hostname.display}/*/*`));
  const list = patterns.length > 1 ? `[\n      ${patterns.join(',\n      ')},\n    ]` : `[${patterns.join('')}]`;
  return `provider_installation {
  network_mirror {
    url     = ${quote(networkMirrorUrl(baseUrl))}
    include = ${list}
    # trust_all_hashes = true  # OpenTofu >= 1.12
  }
  direct {
    exclude = ${list}
  }
}
`;
}

/** Where this mirror speaks the provider registry protocol for a registry. Without the slash at its end, clients drop the last part of it. */
export function providersServiceUrl(baseUrl: string, hostname: Hostname): string {
  return `${baseUrl.replace(/\/+$/, '')}/registry/${hostname}/v1/providers/`;
}

/** The blocks that make the clients ask here for what they would ask those registries for. */
export function hostConfiguration({ baseUrl, upstreams }: MirrorAddress): string {
  return upstreams
    .map(
      (hostname) => `host ${quote(hostname.display)} {
  services = {
    "providers.v1" = ${quote(providersServiceUrl(baseUrl, hostname))}
  }
}
`,
    )
    .join('');
}

/** A network mirror for every registry that can be asked for through one, and a `host` block for each of the others. */
export function recommendedConfiguration({ baseUrl, upstreams }: MirrorAddress): string {
  const others = hostConfiguration({ baseUrl, upstreams: upstreams.filter((host) => !reachableThroughMirror(host)) });
  // Without any name in its list, a network mirror is asked for everything.
  const isMirror = upstreams.length === 0 || upstreams.some(reachableThroughMirror);
  return (isMirror ? cliConfiguration({ baseUrl, upstreams }) : '') + others;
}

/** What the clients call the host that a token is for: with its port unless that is 443. */
export function credentialsHost(baseUrl: string): string {
  return new URL(baseUrl).host;
}

/** The environment variable in which the clients look for the token of a host. With a port, only `env` can set it. */
export function tokenVariable(host: string): string {
  return `TF_TOKEN_${host.replaceAll('-', '__').replaceAll('.', '_')}`;
}

/**
 * The blocks of the CLI configuration that hold the token for this mirror: under its own name for what is asked of a
 * network mirror, under those of the registries for what goes through `host` blocks.
 */
export function tokenConfiguration({ baseUrl, upstreams }: MirrorAddress): string {
  const names = upstreams.filter((host) => !reachableThroughMirror(host)).map((host) => host.display);
  const own = upstreams.length === 0 || upstreams.some(reachableThroughMirror) ? [credentialsHost(baseUrl)] : [];
  return [...own, ...names].map((name) => `credentials ${quote(name)} {\n  token = "…"\n}\n`).join('');
}

/** The commands after which a client trusts Larder's own certificate authority. `curl -k`: it is not trusted yet. */
export function trustCommands(baseUrl: string): string {
  return `curl -fsSk -o larder-ca.pem ${baseUrl}/ca.pem
export SSL_CERT_FILE="$PWD/larder-ca.pem"
`;
}

/**
 * What `larder serve` prints once it listens: everything to paste, and nothing else.
 * @param caFile where the certificate authority's certificate lies, when Larder made its own
 * @param needsToken whether anonymous clients are refused
 */
export function startUpMessage({
  baseUrl,
  upstreams,
  caFile,
  needsToken = false,
}: MirrorAddress & { caFile?: string; needsToken?: boolean }): string {
  const trust =
    caFile === undefined
      ? ''
      : `\nand let it trust this server's own certificate authority:\n\n${indent(`export SSL_CERT_FILE=${shellQuote(caFile)}\n`)}`;
  return `Larder listens on ${baseUrl}

To install through it, put this into the CLI configuration (~/.terraformrc or ~/.tofurc):

${indent(recommendedConfiguration({ baseUrl, upstreams }) + (needsToken ? tokenConfiguration({ baseUrl, upstreams }) : ''))}${trust}`;
}

function indent(text: string): string {
  return text.replace(/^(?=.)/gm, '  ');
}

/** An HCL string: quotes, backslashes and the two template openings are escaped. */
function quote(text: string): string {
  return `"${text.replace(/["\\]/g, '\\$&').replace(/([$%])(?=\{)/g, '$1$1')}"`;
}

function shellQuote(text: string): string {
  return /^[\w@%+:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`;
}
