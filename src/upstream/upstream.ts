import type { Hostname } from '../address/hostname.ts';
import type { RequestOrigin } from '../request-origin.ts';

export type SignaturePolicy = 'require' | 'verify' | 'ignore';

/** One configured registry: how it is reached and what is trusted of it. */
export interface Upstream {
  readonly hostname: Hostname;
  /**
   * Bearer token for its discovery and registry API, asked for anew with each request (a token file may change). Sent
   * nowhere else but to `archiveHosts`. May take as long as a program takes, and fail.
   */
  token(): Promise<string | undefined>;
  /** `HOST[:PORT]` in comparison form of those who get the token for files, too. */
  readonly archiveHosts: ReadonlySet<string>;
  /** Set when it is asked with the token of whoever asks here: names that token without telling it. */
  readonly partition?: string;
  /** PEM certificates trusted in addition to the public roots. */
  readonly ca: string | undefined;
  /** Client certificate and key, PEM. */
  readonly clientCertificate: { readonly cert: string; readonly key: string } | undefined;
  /** Lets it, and the archive hosts it names, be on loopback, link-local or private addresses. */
  readonly privateNetwork: boolean;
  readonly signatures: SignaturePolicy;
  /** The request for which it is asked; absent for what Larder does by itself. */
  readonly origin?: RequestOrigin | undefined;
}

/** The same upstream, asked for one request. Made for each, field by field: copying it whole takes fifty times as long. */
export class AskedUpstream implements Upstream {
  readonly hostname: Hostname;
  readonly archiveHosts: ReadonlySet<string>;
  readonly partition?: string;
  readonly ca: string | undefined;
  readonly clientCertificate: Upstream['clientCertificate'];
  readonly privateNetwork: boolean;
  readonly signatures: SignaturePolicy;
  readonly origin: RequestOrigin;
  readonly #upstream: Upstream;

  constructor(upstream: Upstream, origin: RequestOrigin) {
    this.#upstream = upstream;
    this.hostname = upstream.hostname;
    this.archiveHosts = upstream.archiveHosts;
    if (upstream.partition !== undefined) this.partition = upstream.partition;
    this.ca = upstream.ca;
    this.clientCertificate = upstream.clientCertificate;
    this.privateNetwork = upstream.privateNetwork;
    this.signatures = upstream.signatures;
    this.origin = origin;
  }

  token(): Promise<string | undefined> {
    return this.#upstream.token();
  }
}
