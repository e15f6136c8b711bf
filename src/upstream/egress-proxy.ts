import { type ProxySettings, proxyUrl } from './connections.ts';

const DEFAULT_PORTS: Readonly<Record<string, number>> = { 'http:': 80, 'https:': 443 };

/**
 * The proxy through which a URL is reached, `undefined` for none: chosen as the pools of connections choose, where the
 * http proxy also serves https when there is no other.
 * @throws InvalidConfiguration when a proxy is no usable URL
 */
export function proxyFor(url: URL, { http, https, no }: ProxySettings): URL | undefined {
  const chosen = (url.protocol === 'https:' && proxyUrl(https)) || proxyUrl(http);
  return chosen === '' || isExempt(url, no ?? '') ? undefined : new URL(chosen);
}

/** NO_PROXY: names with everything below them, `.name` and `*.name` alike, each possibly with a port; or `*`. */
function isExempt(url: URL, list: string): boolean {
  if (list === '*') return true;
  const host = url.hostname.toLowerCase();
  const port = Number(url.port) || DEFAULT_PORTS[url.protocol];
  return list
    .split(/[,\s]/)
    .filter(Boolean)
    .some((entry) => {
      const [, named = entry, onlyPort] = /^(.+):(\d+)$/.exec(entry) ?? [];
      const name = named.replace(/^\*?\./, '').toLowerCase();
      if (onlyPort !== undefined && Number(onlyPort) !== port) return false;
      return host === name || host.endsWith(`.${name}`);
    });
}
