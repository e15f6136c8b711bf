import { createReadStream } from 'node:fs';
import type { Readable } from 'node:stream';
import { ProviderArchive } from '../address/archive.ts';
import { parseHash, parseSha256 } from '../address/hash.ts';
import { ModuleAddress, ModuleRelease } from '../address/module.ts';
import { Platform } from '../address/platform.ts';
import { ProviderAddress } from '../address/provider.ts';
import { Version } from '../address/version.ts';
import type { ArchiveDocument, ModuleDocument } from '../http/admin-documents.ts';
import { parseReleaseDocument, releaseDocument } from '../http/admin-upload.ts';
import {
  type CarriedArchive,
  type CarriedPackage,
  type CarrySource,
  type Intake,
  type RefusalReason,
  refused,
} from '../mirror/carried.ts';
import type { BroughtArchive, BroughtPackage, ImportTarget } from '../mirror/import.ts';
import type { CheckedRelease } from '../mirror/release-intake.ts';
import type { ReleaseFiles } from '../store/archive-store.ts';
import { RunningServer, type ServerOptions } from './running-server.ts';

interface Listed {
  readonly archives: readonly ArchiveDocument[];
  readonly modules: readonly ModuleDocument[];
}

/** What a server says with these is about one thing only; everything else ends the command. */
const REFUSALS: Readonly<Record<number, RefusalReason>> = {
  404: 'excluded',
  409: 'drift',
  413: 'too large',
  422: 'digest',
};

/** Carries out of and into a running server. Every failure is a CommandFailed. */
export class ServerCarrier implements CarrySource, ImportTarget {
  readonly #server: RunningServer;
  #listed: Promise<Listed> | undefined;

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
    for (const { address, version, size, sha256, subdir = '', source } of (await this.#inventory()).modules) {
      const release = new ModuleRelease(ModuleAddress.parse(address), Version.parse(version));
      yield { release, size, sha256: parseSha256(sha256), subdir, source, fingerprint: undefined };
    }
  }

  async release(provider: ProviderAddress, version: Version): Promise<ReleaseFiles | undefined> {
    const { status, document } = await this.#server.ask('GET', `admin/releases/${encoded(`${provider}/${version}`)}`);
    return status === 404 ? undefined : parseReleaseDocument(document);
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

  async takeArchive({ archive, file, size, sha256 }: BroughtArchive): Promise<Intake<unknown>> {
    const stored = (await this.#inventory()).archives.find(
      (one) =>
        one.address === `${archive.provider}` &&
        one.version === `${archive.version}` &&
        one.platform === `${archive.platform}`,
    );
    if (stored?.sha256 === sha256) return { outcome: 'present', stored };
    return this.#put(archivePath(archive), createReadStream(file), { size, query: { sha256 } });
  }

  async takeRelease(provider: ProviderAddress, version: Version, { files }: CheckedRelease): Promise<Intake<unknown>> {
    return this.#put(`admin/releases/${encoded(`${provider}/${version}`)}`, JSON.stringify(releaseDocument(files)), {});
  }

  async takePackage({
    release,
    file,
    size,
    sha256,
    subdir,
    source,
    fingerprint,
  }: BroughtPackage): Promise<Intake<unknown>> {
    const stored = (await this.#inventory()).modules.find(
      (one) => one.address === `${release.module}` && one.version === `${release.version}`,
    );
    if (stored?.sha256 === sha256) return { outcome: 'present', stored };
    const query = { sha256, subdir, source, fingerprint };
    return this.#put(packagePath(release), createReadStream(file), { size, query });
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

  async #put(
    path: string,
    body: Readable | string,
    options: { size?: number; query?: Readonly<Record<string, string | undefined>> },
  ): Promise<Intake<unknown>> {
    const { status, document } = await this.#server.ask('PUT', path, { ...options, body });
    const why = REFUSALS[status];
    if (why) return refused(why, saidIn(document));
    return { outcome: status === 201 ? 'imported' : 'present', stored: document };
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

function saidIn(document: unknown): string {
  const { errors } = (document ?? {}) as { errors?: unknown };
  return Array.isArray(errors) && typeof errors[0] === 'string' ? errors[0] : 'the server refused it';
}
