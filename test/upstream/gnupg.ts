import { execFile, spawnSync } from 'node:child_process';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { onTestFinished } from 'vitest';

const run = promisify(execFile);

export function gpgInstalled(): boolean {
  return spawnSync('gpg', ['--version']).status === 0;
}

/** The real thing, with a key ring of its own that is gone after the test. */
export class GnuPG {
  readonly #home: string;

  private constructor(home: string) {
    this.#home = home;
  }

  static async open(): Promise<GnuPG> {
    // Short: the agent's socket lies in it, and socket paths have little room.
    const home = await mkdtemp(join(tmpdir(), 'gpg-'));
    onTestFinished(async () => {
      await run('gpgconf', ['--homedir', home, '--kill', 'all']).catch(() => {});
      await rm(home, { recursive: true, force: true });
    });
    return new GnuPG(home);
  }

  /** @param usage `cert` makes a primary key that cannot sign: then give a subkey's algorithm. */
  async generate(
    algorithm: string,
    usage: string,
    subkeys: string[],
    name = 'Publisher',
    options: { at?: string; expire?: string } = {},
  ): Promise<void> {
    await this.#gpg(['--quick-gen-key', name, algorithm, usage, options.expire ?? 'never'], options.at);
    for (const subkey of subkeys) {
      await this.#gpg(['--quick-add-key', await this.#fingerprint(), subkey, 'sign', 'never'], options.at);
    }
  }

  /** From now on, its only key never expires. */
  async renew(): Promise<void> {
    await this.#gpg(['--quick-set-expire', await this.#fingerprint(), '0']);
  }

  async exportKey(options: { minimal?: boolean } = {}): Promise<string> {
    const minimal = options.minimal ? ['--export-options', 'export-minimal'] : [];
    return (await this.#gpg(['--armor', ...minimal, '--export'])).toString();
  }

  async sign(data: Buffer, options: { armored: boolean; at?: string; options?: string[] }): Promise<Buffer> {
    const file = join(this.#home, 'data');
    await writeFile(file, data);
    const armor = options.armored ? ['--armor'] : [];
    return this.#gpg([...armor, ...(options.options ?? []), '--output', '-', '--detach-sign', file], options.at);
  }

  async #fingerprint(): Promise<string> {
    const listed = (await this.#gpg(['--with-colons', '--list-keys'])).toString();
    return /^fpr:+([0-9A-F]{40}):/m.exec(listed)?.[1] ?? '';
  }

  async #gpg(args: string[], at?: string): Promise<Buffer> {
    const time = at ? ['--faked-system-time', `${at}!`] : [];
    const common = [
      '--homedir',
      this.#home,
      '--batch',
      '--yes',
      '--quiet',
      '--pinentry-mode',
      'loopback',
      '--passphrase',
      '',
    ];
    const { stdout } = await run('gpg', [...common, ...time, ...args], { encoding: 'buffer' });
    return stdout;
  }
}
