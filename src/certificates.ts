import path from 'node:path';
import type { Config } from './config.ts';
import type { ServerCertificate } from './http/server.ts';
import { certificateNames, loadTls, type TlsMaterial, type TlsSettings } from './http/tls.ts';
import type { Logger } from './logger.ts';
import { paths } from './store/keys.ts';

/** They are looked at this often: the self-made one is renewed in time, and replaced files are taken up. */
const CHECK_MS = 24 * 3_600_000;

/** What the server shows its clients, now and later. */
export class Certificates {
  /** `undefined`: the server speaks in the clear. */
  readonly current: TlsMaterial | undefined;
  readonly #settings: TlsSettings;
  readonly #logger: Logger;
  #use: (renewed: ServerCertificate) => void = () => {};
  #check: NodeJS.Timeout | undefined;

  private constructor(deps: { current: TlsMaterial | undefined; settings: TlsSettings; logger: Logger }) {
    this.current = deps.current;
    this.#settings = deps.settings;
    this.#logger = deps.logger;
  }

  /** @throws InvalidConfiguration, StorageFailed */
  static async load(config: Config, { logger }: { logger: Logger }): Promise<Certificates> {
    const settings = settingsOf(config);
    return new Certificates({ current: await loadTls(settings), settings, logger });
  }

  /** @param use is given what is to be shown from then on */
  watch(use: (renewed: ServerCertificate) => void): void {
    this.#use = use;
    this.#check = setInterval(() => this.reload(), CHECK_MS).unref();
  }

  /** Takes up what was renewed. What cannot be used is logged, and the old one stays in use. */
  async reload(): Promise<void> {
    try {
      const renewed = await loadTls(this.#settings);
      if (renewed) this.#use(renewed);
    } catch (error) {
      this.#logger.error('the certificate could not be renewed, the old one stays in use', { error });
    }
  }

  close(): void {
    clearInterval(this.#check);
  }
}

function settingsOf({ tls, data, listen, publicUrl }: Config): TlsSettings {
  if (tls.mode === 'files') return tls;
  if (tls.mode === 'off') return { mode: 'off' };
  const names = certificateNames({ listenHost: listen.host, publicUrl });
  return { mode: 'selfsigned', directory: path.join(data, paths.tls), names };
}
