import type { Hostname } from '../address/hostname.ts';
import { serviceUrls } from './service-urls.ts';

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

/**
 * What serves every client best (complete lock files, hosts with ports, modules): the blocks that make the clients ask
 * here for all that they would ask those registries for. A block replaces what a
 * host's own discovery says, whole, so each names both services.
 */
export function hostConfiguration({ baseUrl, upstreams }: MirrorAddress): string {
  return upstreams
    .map((hostname) => {
      const services = Object.entries(serviceUrls(baseUrl, hostname));
      const width = Math.max(...services.map(([id]) => quote(id).length));
      const lines = services.map(([id, url]) => `    ${quote(id).padEnd(width)} = ${quote(url)}\n`);
      return `host ${quote(hostname.display)} {\n  services = {\n${lines.join('')}  }\n}\n`;
    })
    .join('');
}

/** A network mirror for providers, and `host` blocks for all that does not go through one. Empty where none can. */
export function mirrorConfiguration(address: MirrorAddress): string {
  if (!address.upstreams.some(reachableThroughMirror)) return '';
  return cliConfiguration(address) + hostConfiguration(address);
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
 * The blocks of the CLI configuration that hold the token for this mirror. What goes through a `host` block is asked for
 * with the token of the host that the block names.
 */
export function tokenConfiguration({ upstreams }: Pick<MirrorAddress, 'upstreams'>): string {
  return upstreams.map((hostname) => credentialsBlock(hostname.display)).join('');
}

/** The same for a network mirror, which is asked with the token of its own host. */
export function mirrorTokenConfiguration({ baseUrl }: Pick<MirrorAddress, 'baseUrl'>): string {
  return credentialsBlock(credentialsHost(baseUrl));
}

function credentialsBlock(host: string): string {
  return `credentials ${quote(host)} {\n  token = "…"\n}\n`;
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

To install through it, put this into the CLI configuration (~/.terraformrc or ~/.tofurc, on Windows terraform.rc or
tofu.rc in %APPDATA%; where TF_CLI_CONFIG_FILE is set, the file that it names):

${indent(hostConfiguration({ baseUrl, upstreams }) + (needsToken ? tokenConfiguration({ upstreams }) : ''))}${trust}`;
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
