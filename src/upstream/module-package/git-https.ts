import { mkdir, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { NotFound, UpstreamInvalid, UpstreamRefused } from '../../errors.ts';
import { refuseInternalHost } from '../address-guard.ts';
import { defaultRoots, type ProxySettings } from '../connections.ts';
import { proxyFor } from '../egress-proxy.ts';
import type { HttpClient } from '../http-client.ts';
import type { Upstream } from '../upstream.ts';
import { addressesFor } from './git-addresses.ts';
import { parseAdvertisement } from './git-advertisement.ts';
import type { GitSettings } from './git-environment.ts';
import { accessRefused, noRepository } from './git-failures.ts';
import { basicCredentials, type GitHostAccess } from './git-host-access.ts';
import type { GitRefs } from './git-refs.ts';
import type { GitRepository } from './module-location.ts';
import { stored } from './work-files.ts';

/** Busy repositories have tens of thousands of pull requests, each of them two references. */
const MAX_ADVERTISEMENT_BYTES = 32 * 1024 * 1024;
const MAX_REDIRECTS = 5;
/** Plain http is for private networks, where addresses are not looked up by us. */
const HTTPS_PORT = 443;
const REFS_PATH = '/info/refs';

export interface HttpsRepository {
  readonly refs: GitRefs;
  /** Where it really is, redirects followed; no user name in it. */
  readonly url: URL;
  /** For that place only: credentials are not taken along to another host. */
  readonly authorization: string | undefined;
}

/**
 * Asks a repository over https for its references, as every git client begins. Done by our own client, so that
 * sealing, proxies, circuits and the rules about redirects and addresses hold here as well.
 * https://git-scm.com/docs/gitprotocol-http
 *
 * @throws NotFound, UpstreamRefused, UpstreamUnreachable, UpstreamInvalid
 */
export async function askOverHttps(
  http: HttpClient,
  upstream: Upstream,
  repository: GitRepository,
  access: GitHostAccess | undefined,
  signal: AbortSignal,
): Promise<HttpsRepository> {
  const asked = new URL(repository.url);
  asked.pathname = `${asked.pathname.replace(/\/+$/, '')}${REFS_PATH}`;
  asked.search = '?service=git-upload-pack';
  const authorization = await basicCredentials(repository, access);
  const answer = await http
    .fetchBody({
      upstream,
      url: asked,
      authenticate: false,
      authorization,
      maxBytes: MAX_ADVERTISEMENT_BYTES,
      maxRedirects: MAX_REDIRECTS,
      signal,
    })
    .catch((error: unknown) => {
      if (error instanceof NotFound) throw noRepository(repository);
      if (error instanceof UpstreamRefused) throw accessRefused(repository, error.host);
      throw error;
    });
  const refs = parseAdvertisement(answer.body, answer.url.host);
  if (!answer.url.pathname.endsWith(REFS_PATH)) {
    throw new UpstreamInvalid(answer.url.host, `is where ${repository.host} redirects to, with another path for git`);
  }
  const url = new URL(answer.url);
  url.pathname = url.pathname.slice(0, -REFS_PATH.length);
  url.search = '';
  return { refs, url, authorization: url.origin === asked.origin ? authorization : undefined };
}

/**
 * What git has to know to fetch from there as our own client would. Writes certificates into `directory`.
 * @throws UpstreamInvalid for internal hosts; UpstreamUnreachable when the name cannot be looked up
 */
export async function httpsSettings(
  { url, authorization }: HttpsRepository,
  upstream: Upstream,
  options: { directory: string; proxy: ProxySettings; extraCa: string | undefined; signal: AbortSignal },
): Promise<GitSettings> {
  const certificates = await writeCertificates(upstream, options);
  const proxy = proxyFor(url, options.proxy);
  if (proxy !== undefined && !upstream.privateNetwork) refuseInternalHost(url);
  // A proxy looks names up by itself.
  const addresses = proxy === undefined ? await addressesFor(url, upstream, options.signal) : [];
  return [
    ...certificates,
    ['http.proxy', proxy?.href ?? ''],
    ...(authorization === undefined
      ? []
      : [[`http.${url.origin}/.extraHeader`, `Authorization: ${authorization}`] as const]),
    ...(addresses.length === 0
      ? []
      : [['http.curloptResolve', `${url.hostname}:${url.port || HTTPS_PORT}:${addresses.join(',')}`] as const]),
  ];
}

/** The roots that everything else in Larder trusts: the system's may be other ones, or none. */
async function writeCertificates(
  { ca, clientCertificate }: Upstream,
  { directory, extraCa }: { directory: string; extraCa: string | undefined },
): Promise<GitSettings> {
  const own = path.join(directory, 'tls');
  const secret = { mode: 0o600 };
  await stored(mkdir(own, { mode: 0o700 }));
  const roots = path.join(own, 'roots.pem');
  await stored(writeFile(roots, [...defaultRoots(), extraCa ?? '', ca ?? ''].filter(Boolean).join('\n'), secret));
  const trust = [
    ['http.sslCAInfo', roots],
    ['http.proxySSLCAInfo', roots],
  ] as const;
  if (!clientCertificate) return trust;
  const [cert, key] = [path.join(own, 'client.pem'), path.join(own, 'client-key.pem')];
  await stored(writeFile(cert, clientCertificate.cert, secret));
  await stored(writeFile(key, clientCertificate.key, secret));
  return [...trust, ['http.sslCert', cert], ['http.sslKey', key]];
}
