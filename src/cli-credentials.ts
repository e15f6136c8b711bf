import type { Hostname } from './address/hostname.ts';
import { CliConfigFile } from './configuration/cli-config-file.ts';
import type { Logger } from './logger.ts';
import { CredentialsHelper } from './upstream/credentials-helper.ts';

/** Tokens as a client on this machine would find them: in a CLI configuration file, else from the helper it names. */
export class CliCredentials {
  readonly #file: CliConfigFile;
  readonly #programs: Programs;
  readonly #logger: Logger;
  #helper: { readonly settings: string; readonly helper: CredentialsHelper } | undefined;

  private constructor(file: CliConfigFile, programs: Programs, logger: Logger) {
    this.#file = file;
    this.#programs = programs;
    this.#logger = logger;
  }

  /** @throws InvalidConfiguration when the file cannot be used */
  static async open(deps: { file: string; programs: Programs; logger: Logger }): Promise<CliCredentials> {
    const { file, programs, logger } = deps;
    return new CliCredentials(await CliConfigFile.open({ file, logger }), programs, logger);
  }

  /** @throws UpstreamRefused when the helper fails */
  async token(hostname: Hostname): Promise<string | undefined> {
    const { credentials, helper } = await this.#file.read();
    return credentials.get(hostname.toString()) ?? (helper && this.#running(helper).token(hostname));
  }

  /** The helper that is configured now, with what it remembers. */
  #running(wanted: { name: string; args: readonly string[] }): CredentialsHelper {
    const settings = JSON.stringify(wanted);
    if (this.#helper?.settings !== settings) {
      const helper = new CredentialsHelper({ ...wanted, ...this.#programs, logger: this.#logger });
      this.#helper = { settings, helper };
    }
    return this.#helper.helper;
  }
}

/** HOME and PATH. */
export interface Programs {
  readonly home: string | undefined;
  readonly path: string | undefined;
}
