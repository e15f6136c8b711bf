import { Hostname } from '../address/hostname.ts';
import type { Platform } from '../address/platform.ts';
import { readConfiguration } from '../configuration/configuration.ts';
import { type ChildPackage, LOCK_FILE_NAME, normalisePath } from '../configuration/configuration-files.ts';
import type { ReadingOptions } from '../configuration/directory-reader.ts';
import { KINDS_READ, kindOf } from '../configuration/file-kinds.ts';
import type { HclConverter } from '../configuration/hcl-converter.ts';
import { lockRequirements, readLockFile } from '../configuration/lock-file.ts';
import {
  type Diagnostic,
  type ModuleRequirement,
  mergeRequirements,
  type Requirements,
} from '../configuration/requirements.ts';
import { readWarmList, type WarmList } from '../configuration/warm-list.ts';
import { LarderError } from '../errors.ts';
import type { ReadWish, Wish } from './wanted.ts';

/** Whose providers and modules the clients mean when no host is named. */
const DEFAULT_HOSTNAMES: Readonly<Record<Wish['client'], Hostname>> = {
  opentofu: Hostname.parse('registry.opentofu.org'),
  terraform: Hostname.parse('registry.terraform.io'),
};

/** Whose rules hold when nobody says so: those of the client whose own registry is the default one. */
export function clientOf(defaultUpstream: Hostname): Wish['client'] {
  return String(defaultUpstream) === String(DEFAULT_HOSTNAMES.terraform) ? 'terraform' : 'opentofu';
}

/** The package of a module, for what it requires in turn; `undefined` when it is not at hand. May reject. */
export type ReadChildPackage = (call: ModuleRequirement) => Promise<ChildPackage | undefined>;

type WishFile = Wish['files'][number];

/** Finds out what a wish requires, file by file: what one of them lacks is no harm to the others. */
export class WishReader {
  readonly #converter: HclConverter;
  readonly #defaultPlatforms: readonly Platform[];

  constructor(deps: {
    converter: HclConverter;
    /** For wishes that name none. */
    defaultPlatforms: readonly Platform[];
  }) {
    this.#converter = deps.converter;
    this.#defaultPlatforms = deps.defaultPlatforms;
  }

  /**
   * - Configuration and `.terraform.lock.hcl` belong together by their directories.
   * - A lock file of another name stands for itself.
   * - Each item of a warm list stands for itself; a module in it is wanted with all that it calls and needs.
   *
   * Never rejects: what cannot be used is in the diagnostics.
   * @param childPackage without it, what modules of registries require is not known
   */
  async read(wish: Wish, childPackage?: ReadChildPackage): Promise<ReadWish> {
    const defaultHostname = DEFAULT_HOSTNAMES[wish.client];
    const options = {
      client: wish.client,
      defaultHostname,
      converter: this.#converter,
      ...(childPackage && { childPackage }),
    };
    const { configuration, locks, lists, others } = sorted(wish.files);
    const read = lists.map(({ path, text }) => readWarmList(text, path, options.defaultHostname));
    const requirements = mergeRequirements([
      await readConfiguration(configuration, options),
      ...locks.map(({ path, text }) => lockRequirements(readLockFile(text, path, options.defaultHostname))),
      ...read,
      ...(await withinModules(read, options)),
    ]);
    const { providers, modules } = requirements;
    const diagnostics = [...requirements.diagnostics, ...leftOut(others, others.length === wish.files.length)];
    return {
      requirements,
      platforms: firstNonEmpty(wish.platforms, platformsOf(read), this.#defaultPlatforms),
      diagnostics: [...diagnostics, ...saysNothing(wish.files, requirements, diagnostics)],
      // Nobody else has this very object: what was named was parsed.
      impliedHostname: [...providers, ...modules].some(({ address }) => address.hostname === defaultHostname)
        ? defaultHostname
        : undefined,
    };
  }
}

/** What asks for nothing is hardly what somebody meant to ask about. */
function saysNothing(
  [first, ...more]: readonly WishFile[],
  { providers, modules }: Requirements,
  diagnostics: readonly Diagnostic[],
): Diagnostic[] {
  const isExplained = diagnostics.some(({ severity }) => severity === 'error');
  if (!first || isExplained || providers.length + modules.length > 0) return [];
  const which = more.length > 0 ? `in these ${more.length + 1} files` : 'in this file';
  const message = `nothing ${which} needs a provider or a module of a registry`;
  return [{ file: normalisePath(first.path), at: undefined, severity: 'warning', message }];
}

function sorted(files: readonly WishFile[]) {
  const configuration: WishFile[] = [];
  const locks: WishFile[] = [];
  const lists: WishFile[] = [];
  const others: WishFile[] = [];
  for (const { path, text } of files) {
    const file = { path: normalisePath(path), text };
    const kind = kindOf(file.path);
    const name = file.path.slice(file.path.lastIndexOf('/') + 1);
    if (kind === 'configuration' || name === LOCK_FILE_NAME) configuration.push(file);
    else if (kind === 'lock') locks.push(file);
    else if (kind === 'list') lists.push(file);
    else others.push(file);
  }
  return { configuration, locks, lists, others };
}

/** What the modules of warm lists need in turn: nobody can use them without. */
async function withinModules(
  lists: readonly WarmList[],
  options: ReadingOptions & { readonly childPackage?: ReadChildPackage },
): Promise<Requirements[]> {
  const { childPackage } = options;
  if (!childPackage) return [];
  const found: Requirements[] = [];
  for (const call of mergeRequirements(lists).modules) {
    try {
      const child = await childPackage(call);
      if (child) found.push(await readConfiguration(child.files, { ...options, directory: child.directory }));
    } catch (error) {
      const [origin] = call.origins;
      const reason = error instanceof LarderError ? error.message : 'its package cannot be read';
      const message = `what ${call.address} requires is not known: ${reason}`;
      if (origin)
        found.push({ providers: [], modules: [], diagnostics: [{ ...origin, severity: 'warning', message }] });
    }
  }
  return found;
}

function platformsOf(lists: readonly WarmList[]): readonly Platform[] {
  const all = lists.flatMap(({ platforms }) => platforms);
  return [...new Map(all.map((platform) => [String(platform), platform])).values()];
}

function firstNonEmpty<T>(...candidates: (readonly T[])[]): readonly T[] {
  return candidates.find(({ length }) => length > 0) ?? [];
}

/** Somebody who sends a whole directory knows; somebody who sends nothing else does not. */
function leftOut(files: readonly WishFile[], areAll: boolean): Diagnostic[] {
  return files.map(({ path }) => ({
    file: path,
    at: undefined,
    severity: areAll ? 'error' : 'note',
    message: `files of this kind are not read; those that are: ${KINDS_READ}`,
  }));
}
