import { afterTest } from './after-test.ts';
import { EgressProxy } from './egress-proxy.ts';
import { editJson } from './faults.ts';
import { UpstreamRegistry } from './upstream-registry.ts';

/** Where the registry is, as addresses of providers name it. */
export const REGISTRY = 'registry.example.test';
/** Where its files are. */
const RELEASES = 'releases.example.test';

/**
 * A registry under a public name, which only an egress proxy knows the way to. Clients cannot ask a network mirror for
 * providers of a host with a port, so nothing on `localhost:PORT` would do.
 */
export class Internet {
  readonly registry: UpstreamRegistry;
  readonly proxy: EgressProxy;

  private constructor(registry: UpstreamRegistry, proxy: EgressProxy) {
    this.registry = registry;
    this.proxy = proxy;
    this.heal();
  }

  /** Inside a test it is stopped when the test ends. @param names further names of the registry */
  static async start(names: readonly string[] = []): Promise<Internet> {
    const registry = await UpstreamRegistry.start({ hostNames: [REGISTRY, RELEASES, ...names] });
    const routes = Object.fromEntries([REGISTRY, ...names].map((name) => [`${name}:443`, registry.port]));
    const proxy = await EgressProxy.start({ ...routes, [`${RELEASES}:443`]: registry.releases.port });
    const internet = new Internet(registry, proxy);
    afterTest(() => internet.stop());
    return internet;
  }

  /** For Larder and for clients: the way out. */
  get env(): Record<string, string> {
    return { HTTPS_PROXY: this.proxy.url };
  }

  /**
   * Larder's configuration for it. The certificate authority is the one that tests share, whose certificate lies beside
   * the configuration.
   */
  larderConfig(more: Readonly<Record<string, unknown>> = {}, names: readonly string[] = [REGISTRY]) {
    const hosts = names.map((name) => [name, { ca: 'ca.pem', privateNetwork: true }]);
    const upstreams = {
      default: names[0],
      hosts: { 'registry.opentofu.org': null, 'registry.terraform.io': null, ...Object.fromEntries(hosts) },
    };
    return { upstreams, ...more };
  }

  /** Removes every scripted fault. */
  heal(): void {
    this.registry.heal();
    const { url } = this.registry.releases;
    const publicLinks = (document: Record<string, unknown>) =>
      Object.fromEntries(
        Object.entries(document).map(([key, value]) => [
          key,
          typeof value === 'string' ? value.replace(url, `https://${RELEASES}`) : value,
        ]),
      );
    this.registry.on(/\/download\//, editJson(publicLinks));
  }

  async stop(): Promise<void> {
    await this.registry.stop();
    await this.proxy.stop();
  }
}
