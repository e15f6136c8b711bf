import type { Readable } from 'node:stream';
import { ProviderArchive } from '../address/archive.ts';
import { parseHash, parseSha256 } from '../address/hash.ts';
import { ModuleAddress, ModuleRelease } from '../address/module.ts';
import { Platform } from '../address/platform.ts';
import { ProviderAddress } from '../address/provider.ts';
import { Version } from '../address/version.ts';
import type { ArchiveDocument, ModuleDocument } from '../http/admin-documents.ts';
import { parseReleaseDocument, releaseDocument } from '../http/admin-upload.ts';
import { refusalReason } from '../http/refusals.ts';
import { type CarriedArchive, type CarriedPackage, type CarrySource, refused } from '../mirror/carried.ts';
import type { BroughtArchive, BroughtPackage, Handed, ImportTarget } from '../mirror/import.ts';
import type { CheckedRelease } from '../mirror/release-intake.ts';
import type { ReleaseFiles } from '../store/archive-store.ts';
import { CommandFailed, ConnectionLost } from './command-failed.ts';
import { FileReading } from './file-reading.ts';
import { type AnswerDocument, RunningServer } from './running-server.ts';
import type { ServerOptions } from './server-options.ts';

interface Listed {
  readonly archives: readonly ArchiveDocument[];
  readonly modules: readonly ModuleDocument[];
}

/** So many that get lost one after the other are not about them: the server is gone. */
const MAX_LOST = 3;
/** Of proxies that reached no server, or not in time. */
const GATEWAY_TROUBLE: ReadonlySet<number> = new Set([502, 503, 504]);

/** Carries out of and into a running server. Every failure is a CommandFailed. */
export class ServerCarrier implements CarrySource, ImportTarget {
  readonly #server: RunningServer;
  #listed: Promise<Listed> | undefined;
  /** How many the connection broke off for since the last one that was answered. */
  #lost = 0;

  private constructor(server: RunningServer) {
    this.#server = server;
  }

  /** @throws CommandFailed when URL, token or file cannot be used */
  static async at(server: string, options: ServerOptions): Promise<ServerCarrier> {
    return new ServerCarrier(await RunningServer.at(server, options));
  }

  async *archives(): AsyncGenerator<CarriedArchive> {
    for (const { address, version, platform, size, sha256, h1 } of (await this.#inventory()).archives) {
      const provider = ProviderAddress.parse(address);
      const archive = new ProviderArchive(provider, Version.parse(version), Platform.parse(platform));
      yield { archive, size, sha256: parseSha256(sha256), h1: h1 === undefined ? undefined : parseHash(h1) };
    }
  }

  async *packages(): AsyncGenerator<CarriedPackage> {
    for (const one of (await this.#inventory()).modules) {
      const { address, version, size, sha256, subdir = '', source, fingerprint } = one;
      const release = new ModuleRelease(ModuleAddress.parse(address), Version.parse(version));
      yield { release, size, sha256: parseSha256(sha256), subdir, source, fingerprint };
    }
  }

  async release(provider: ProviderAddress, version: Version): Promise<ReleaseFiles | undefined> {
    const path = `admin/releases/${encoded(`${provider}/${version}`)}`;
    const { status, document } = await this.#server.exchange('GET', path);
    if (status === 404 && document?.code === 'NOT_FOUND') return undefined;
    if (status !== 200) throw this.#server.refused(status, document);
    try {
      return parseReleaseDocument(document);
    } catch (error) {
      throw new CommandFailed(`the server gives SHA256SUMS of ${provider} ${version} as nobody can read them`, {
        cause: error,
      });
    }
  }

  openArchive({ archive }: CarriedArchive): Promise<Readable> {
    return this.#server.download(archivePath(archive));
  }

  openPackage({ release }: CarriedPackage): Promise<Readable> {
    return this.#server.download(packagePath(release));
  }

  fileOf(): undefined {
    return undefined;
  }

  async takeArchive({ archive, file, size, sha256 }: BroughtArchive): Promise<Handed> {
    const stored = (await this.#inventory()).archives.find(
      (one) =>
        one.address === `${archive.provider}` &&
        one.version === `${archive.version}` &&
        one.platform === `${archive.platform}`,
    );
    if (stored?.sha256 === sha256) return { outcome: 'present', stored };
    return this.#putFile(archivePath(archive), { file, size }, { sha256 });
  }

  async takeRelease(provider: ProviderAddress, version: Version, { files }: CheckedRelease): Promise<Handed> {
    const body = JSON.stringify(releaseDocument(files));
    return this.#put(`admin/releases/${encoded(`${provider}/${version}`)}`, { body });
  }

  async takePackage({ release, file, size, sha256, subdir, source, fingerprint }: BroughtPackage): Promise<Handed> {
    const stored = (await this.#inventory()).modules.find(
      (one) => one.address === `${release.module}` && one.version === `${release.version}`,
    );
    if (stored?.sha256 === sha256) return { outcome: 'present', stored };
    return this.#putFile(packagePath(release), { file, size }, { sha256, subdir, source, fingerprint });
  }

  async close(): Promise<void> {
    await this.#server.close();
  }

  /** As it was when it was first asked for. */
  #inventory(): Promise<Listed> {
    this.#listed ??= this.#server.get('admin/inventory').then((document) => {
      const { archives = [], modules = [] } = document as Partial<Listed>;
      return { archives, modules };
    });
    return this.#listed;
  }

  /** What goes wrong with the file is no trouble of the server. */
  async #putFile(
    path: string,
    { file, size }: { readonly file: string; readonly size: number },
    query: Readonly<Record<string, string | undefined>>,
  ): Promise<Handed> {
    const reading = new FileReading(file, size);
    const handed = await this.#put(path, { body: reading.stream, size, query }, () => reading.trouble !== undefined);
    return reading.trouble === undefined ? handed : { outcome: 'failed', reason: reading.trouble };
  }

  /**
   * @param isOurs whether it was broken off from here
   * @throws CommandFailed when nothing else would get there either
   */
  async #put(
    path: string,
    request: {
      readonly body: Readable | string;
      readonly size?: number;
      readonly query?: Readonly<Record<string, string | undefined>>;
    },
    isOurs: () => boolean = () => false,
  ): Promise<Handed> {
    let answer: Awaited<ReturnType<RunningServer['exchange']>>;
    try {
      answer = await this.#server.exchange('PUT', path, request);
    } catch (error) {
      if (!(error instanceof ConnectionLost)) throw error;
      return isOurs() ? { outcome: 'failed', reason: error.message } : this.#isLost(error);
    }
    const { status, document } = answer;
    if (document?.code === undefined && GATEWAY_TROUBLE.has(status)) {
      return this.#isLost(this.#server.refused(status, document));
    }
    this.#lost = 0;
    return this.#handed(status, document);
  }

  #handed(status: number, document: AnswerDocument | undefined): Handed {
    if (status === 201 && document) return { outcome: 'imported', stored: document };
    if (status === 200 && document) return { outcome: 'present', stored: document };
    const failure = this.#server.refused(status, document);
    const why = refusalReason(document?.code);
    if (why) return refused(why, saidIn(document) ?? failure.message);
    if (status === 413) {
      // Whatever stands before a Larder has limits of its own, and no such words.
      return refused('too large', saidIn(document) ?? 'a proxy before the server lets nothing through that is so long');
    }
    if (status === 408) return { outcome: 'failed', reason: failure.message };
    throw failure;
  }

  #isLost(error: CommandFailed): Handed {
    this.#lost += 1;
    if (this.#lost < MAX_LOST) return { outcome: 'failed', reason: error.message };
    throw new CommandFailed(error.message, {
      cause: error,
      hint: error.hint ?? 'what was taken in is there; the same command goes on where it stopped',
    });
  }
}

function archivePath(archive: ProviderArchive): string {
  return `admin/archives/${encoded(`${archive.provider}/${archive.filename}`)}`;
}

function packagePath({ module, version }: ModuleRelease): string {
  return `admin/packages/${encoded(`${module}/${version}`)}.tar.gz`;
}

function encoded(path: string): string {
  return path.split('/').map(encodeURIComponent).join('/');
}

function saidIn(document: AnswerDocument | undefined): string | undefined {
  const [said] = Array.isArray(document?.errors) ? (document.errors as unknown[]) : [];
  return typeof said === 'string' ? said : undefined;
}
