import { readFile, stat } from 'node:fs/promises';
import { InvalidConfiguration } from '../errors.ts';
import type { Logger } from '../logger.ts';
import { type CliConfig, readCliConfig } from './cli-config.ts';

/** Beyond this it is something else. */
const MAX_BYTES = 1024 * 1024;

/**
 * A CLI configuration file that may change while Larder runs. It is read again when it has changed. What cannot be
 * used then is told once in the log, and what was read before stays in use: an editor that saves in two steps must not
 * take every registry away.
 */
export class CliConfigFile {
  readonly #file: string;
  readonly #logger: Logger;
  #known: { readonly state: string; readonly config: CliConfig };
  /** The state that was complained about last. */
  #complaint: string | undefined;

  private constructor(file: string, logger: Logger, known: { state: string; config: CliConfig }) {
    this.#file = file;
    this.#logger = logger;
    this.#known = known;
  }

  /** @throws InvalidConfiguration naming file, lines and what is wrong */
  static async open({ file, logger }: { file: string; logger: Logger }): Promise<CliConfigFile> {
    const state = await stateOf(file);
    return new CliConfigFile(file, logger, { state, config: await readConfig(file) });
  }

  /** As it stands now. Never throws. */
  async read(): Promise<CliConfig> {
    const state = await stateOf(this.#file);
    if (state === this.#known.state) this.#complaint = undefined;
    if (state === this.#known.state || state === this.#complaint) return this.#known.config;
    try {
      this.#known = { state, config: await readConfig(this.#file) };
      this.#complaint = undefined;
    } catch (error) {
      this.#complaint = state;
      this.#logger.warn('the CLI configuration file cannot be used as it is now; what it said before stays in use', {
        file: this.#file,
        error,
      });
    }
    return this.#known.config;
  }
}

/** Differs whenever the file has changed, or why it cannot be read. */
async function stateOf(file: string): Promise<string> {
  try {
    const { mtimeMs, size, ino } = await stat(file);
    return `${mtimeMs} ${size} ${ino}`;
  } catch (error) {
    return String((error as NodeJS.ErrnoException).code);
  }
}

async function readConfig(file: string): Promise<CliConfig> {
  const config = readCliConfig(await readText(file));
  if (config.diagnostics.length === 0) return config;
  const lines = config.diagnostics.map(({ message, position }) => {
    return `${file}${position ? `:${position.line}:${position.column}` : ''}: ${message}`;
  });
  throw new InvalidConfiguration(['the CLI configuration file cannot be used:', ...lines].join('\n  '));
}

async function readText(file: string): Promise<string> {
  try {
    const about = await stat(file);
    if (!about.isFile()) throw new InvalidConfiguration(`${file} is not a file`);
    if (about.size > MAX_BYTES) throw new InvalidConfiguration(`${file} is larger than ${MAX_BYTES} bytes`);
    return await readFile(file, 'utf8');
  } catch (cause) {
    if (cause instanceof InvalidConfiguration) throw cause;
    throw new InvalidConfiguration(`${file} cannot be read`, { cause });
  }
}
