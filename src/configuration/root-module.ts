import { posix } from 'node:path';
import type { VersionConstraint } from '../address/version-constraint.ts';
import { type ChildPackage, normalisePath } from './configuration-files.ts';
import { DirectoryReader, type ReadingOptions } from './directory-reader.ts';
import type { LockFile } from './lock-file.ts';
import type {
  Diagnostic,
  ModuleRequirement,
  Origin,
  ProviderRequirement,
  Requirements,
  Severity,
} from './requirements.ts';

/** Calls within one configuration that are followed, local ones and those into packages. Real ones have dozens. */
const MAX_CALLS = 1_000;

interface RootOptions extends ReadingOptions {
  readonly childPackage?: (call: ModuleRequirement) => Promise<ChildPackage | undefined>;
}

/** A call still to be followed. */
interface Visit {
  readonly directories: DirectoryReader;
  readonly path: string;
}

/** A provider while the modules that need it are being walked. */
interface Needed {
  readonly address: ProviderRequirement['address'];
  readonly constraints: Map<string, VersionConstraint>;
  readonly origins: Origin[];
}

/** A configuration as `init` sees it: one directory and, by its calls, all others that belong to it. */
export class RootModule {
  readonly #directories: DirectoryReader;
  readonly #options: RootOptions;
  readonly #needed = new Map<string, Needed>();
  readonly #modules: ModuleRequirement[] = [];
  readonly #diagnostics: Diagnostic[] = [];
  readonly #visits: Visit[] = [];
  readonly #visited = new Map<DirectoryReader, Set<string>>();
  readonly #packages = new Set<string>();
  #calls = 0;

  constructor(directories: DirectoryReader, options: RootOptions) {
    this.#directories = directories;
    this.#options = options;
  }

  /** What the configuration in this directory requires. Never rejects. */
  async read(path: string): Promise<Requirements> {
    this.#visit({ directories: this.#directories, path });
    for (let visit = this.#visits.shift(); visit; visit = this.#visits.shift()) await this.#follow(visit);
    const root = await this.#directories.read(path);
    this.#diagnostics.push(...(root?.lock?.diagnostics ?? []));
    return { providers: this.#providers(root?.lock), modules: this.#modules, diagnostics: this.#diagnostics };
  }

  /** Which directories turned out to belong to it. */
  visited(directories: DirectoryReader): ReadonlySet<string> {
    return this.#visited.get(directories) ?? new Set();
  }

  /** Each directory once, however often it is called. */
  #visit(visit: Visit): void {
    const visited = this.#visited.get(visit.directories) ?? new Set<string>();
    this.#visited.set(visit.directories, visited);
    if (visited.has(visit.path)) return;
    visited.add(visit.path);
    this.#visits.push(visit);
  }

  async #follow({ directories, path }: Visit): Promise<void> {
    const module = (await directories.read(path))?.module;
    if (!module) return;
    this.#diagnostics.push(...module.diagnostics);
    for (const provider of module.providers) this.#need(provider);
    for (const call of module.localCalls) {
      const target = normalisePath(posix.join(path, call.path));
      if (directories.has(target)) {
        if (this.#mayCall(call.origin)) this.#visit({ directories, path: target });
      } else {
        const message = `module "${call.name}" in ${call.path} is not among the files given; what it requires is not known`;
        this.#tell('note', call.origin, message);
      }
    }
    for (const call of module.registryCalls) {
      this.#modules.push(call);
      if (this.#mayCall(call.origins[0])) await this.#enterPackage(call);
    }
  }

  #mayCall(origin: Origin | undefined): boolean {
    this.#calls += 1;
    if (this.#calls === MAX_CALLS && origin)
      this.#tell('error', origin, 'too many modules call each other; the rest is left out');
    return this.#calls < MAX_CALLS;
  }

  async #enterPackage(call: ModuleRequirement): Promise<void> {
    const key = `${call.address}|${call.constraint}|${call.subdir ?? ''}`;
    const { childPackage } = this.#options;
    if (!childPackage || this.#packages.has(key)) return;
    this.#packages.add(key);
    const [origin] = call.origins;
    try {
      const child = await childPackage(call);
      // Its other directories, examples and tests, are nobody's concern here.
      const directories = child && new DirectoryReader(child.files, this.#options);
      if (!directories) return;
      const path = normalisePath(child.directory);
      if (directories.has(path)) this.#visit({ directories, path });
      else if (origin) this.#tell('warning', origin, `${call.address} has no configuration in ${path}`);
    } catch (error) {
      const reason = error instanceof Error ? error.message : String(error);
      if (origin) this.#tell('warning', origin, `what ${call.address} requires is not known: ${reason}`);
    }
  }

  #need({ address, constraints, origins }: ProviderRequirement): void {
    const needed: Needed = this.#needed.get(String(address)) ?? { address, constraints: new Map(), origins: [] };
    this.#needed.set(String(address), needed);
    for (const constraint of constraints) needed.constraints.set(String(constraint), constraint);
    needed.origins.push(...origins);
  }

  /** With the versions that are locked; and what is locked besides, for modules that are not known here. */
  #providers(lock: LockFile | undefined): ProviderRequirement[] {
    for (const { address, constraint, at } of lock?.entries ?? []) {
      if (this.#needed.has(String(address))) continue;
      this.#need({
        address,
        constraints: constraint ? [constraint] : [],
        locked: undefined,
        origins: [{ file: lock?.file ?? '', at }],
      });
    }
    const entries = new Map(lock?.entries.map((entry) => [String(entry.address), entry]));
    return [...this.#needed].map(([key, { address, constraints, origins }]) => {
      const entry = entries.get(key);
      const all = [...constraints.values()];
      const refusing = entry && all.find((constraint) => !constraint.allows(entry.version));
      if (entry && lock && refusing) {
        const message = `${address} is locked to ${entry.version}, but ${refusing} is required; run init -upgrade`;
        this.#tell('warning', { file: lock.file, at: entry.at }, message);
      }
      const locked = entry && lock && { file: lock.file, version: entry.version, hashes: entry.hashes };
      // It is the lock file that the version comes from.
      const place = entry && lock && { file: lock.file, at: entry.at };
      const isNamed = origins.some(({ file, at }) => file === place?.file && at === place.at);
      return { address, constraints: all, locked, origins: place && !isNamed ? [place, ...origins] : origins };
    });
  }

  #tell(severity: Severity, { file, at }: Origin, message: string): void {
    this.#diagnostics.push({ file, at, severity, message });
  }
}
