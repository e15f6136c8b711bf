import type { Hostname } from '../address/hostname.ts';
import { VersionConstraint } from '../address/version-constraint.ts';
import { hasCode } from '../errors.ts';
import type { Declarations, ModuleCall, Setting } from './declarations.ts';
import { parseModuleSource } from './module-source.ts';
import { impliedProvider, type ProviderSource, parseProviderSource } from './provider-source.ts';
import type { Diagnostic, ModuleRequirement, Origin, ProviderRequirement, Severity } from './requirements.ts';

/** Kept of one provider. */
const MAX_ORIGINS = 100;
/** Of one directory. */
const MAX_DIAGNOSTICS = 1_000;

/** The call of a module that lies beside the caller. */
export interface LocalCall {
  readonly name: string;
  /** Relative to the directory of the caller. */
  readonly path: string;
  readonly origin: Origin;
}

/** What one module (one directory) needs by itself, without the modules it calls. */
export interface ModuleConfiguration {
  readonly providers: readonly ProviderRequirement[];
  readonly registryCalls: readonly ModuleRequirement[];
  readonly localCalls: readonly LocalCall[];
  readonly diagnostics: readonly Diagnostic[];
}

/** Gives declarations their meaning: local names become providers, sources become addresses. Never throws. */
export function resolveModule(declarations: Declarations, defaultHostname: Hostname): ModuleConfiguration {
  return new Resolving(defaultHostname).resolve(declarations);
}

/** A provider while its parts are being gathered. */
interface Gathered {
  readonly address: ProviderRequirement['address'];
  readonly constraints: Map<string, VersionConstraint>;
  readonly origins: Origin[];
}

class Resolving implements ModuleConfiguration {
  readonly registryCalls: ModuleRequirement[] = [];
  readonly localCalls: LocalCall[] = [];
  readonly diagnostics: Diagnostic[] = [];
  readonly #defaultHostname: Hostname;
  readonly #gathered = new Map<string, Gathered>();
  /** What each local name stands for; `undefined` for one that cannot be known. */
  readonly #localNames = new Map<string, ProviderSource | undefined>();

  constructor(defaultHostname: Hostname) {
    this.#defaultHostname = defaultHostname;
  }

  get providers(): ProviderRequirement[] {
    return [...this.#gathered.values()].map(({ address, constraints, origins }) => ({
      address,
      constraints: [...constraints.values()],
      locked: undefined,
      origins,
    }));
  }

  resolve({ requiredProviders, providerBlocks, uses, moduleCalls }: Declarations): ModuleConfiguration {
    for (const { name, source, version, origin } of requiredProviders) {
      const meaning = this.#parse(origin, () => {
        if (source === null) return undefined;
        return source === undefined ? this.#implied(name) : parseProviderSource(source, this.#defaultHostname);
      });
      this.#localNames.set(name, meaning);
      this.#need(meaning, version, origin);
    }
    for (const { name, version, origin } of providerBlocks) this.#need(this.#meaning(name, origin), version, origin);
    for (const { named, implied, origin } of uses) {
      const name = named ?? implied;
      if (name !== undefined) this.#need(this.#meaning(name, origin), undefined, origin);
    }
    for (const call of moduleCalls) this.#call(call);
    return this;
  }

  #meaning(name: string, origin: Origin): ProviderSource | undefined {
    if (!this.#localNames.has(name))
      this.#localNames.set(
        name,
        this.#parse(origin, () => this.#implied(name)),
      );
    return this.#localNames.get(name);
  }

  #implied(name: string): ProviderSource {
    return impliedProvider(name, this.#defaultHostname);
  }

  #need(source: ProviderSource | undefined, version: Setting, origin: Origin): void {
    if (source?.kind === 'legacy') {
      this.#tell(
        'note',
        origin,
        `-/${source.type} stands for no provider of today and is left out; write NAMESPACE/TYPE`,
      );
    }
    if (source?.kind !== 'provider') return;
    const { address } = source;
    const known = this.#gathered.get(String(address));
    const gathered: Gathered = known ?? { address, constraints: new Map(), origins: [] };
    this.#gathered.set(String(address), gathered);
    const constraint = this.#constraint(version, origin);
    if (constraint) gathered.constraints.set(String(constraint), constraint);
    // Hundreds of resources tell no more than the first.
    if ((constraint || !known) && gathered.origins.length < MAX_ORIGINS) gathered.origins.push(origin);
  }

  #constraint(version: Setting, origin: Origin): VersionConstraint | undefined {
    if (version === undefined || version === null || version.trim() === '') return undefined;
    return this.#parse(origin, () => VersionConstraint.parse(version));
  }

  #call({ name, source: text, version, origin }: ModuleCall): void {
    if (text === null) return;
    if (text === undefined) {
      this.#tell('error', origin, `module "${name}" has no source; write where it comes from`);
      return;
    }
    const source = parseModuleSource(text, this.#defaultHostname);
    if (source.kind === 'local') this.localCalls.push({ name, path: source.path, origin });
    else if (source.kind === 'invalid') this.#tell('error', origin, `the source of module "${name}": ${source.why}`);
    else if (source.kind === 'elsewhere') {
      const message = `module "${name}" comes from ${source.what}; only modules of registries are mirrored`;
      this.#tell('note', origin, message);
    } else {
      const constraint = this.#constraint(version, origin) ?? VersionConstraint.parse('');
      this.registryCalls.push({ address: source.address, constraint, subdir: source.subdir, origins: [origin] });
    }
  }

  #parse<T>(origin: Origin, parse: () => T): T | undefined {
    try {
      return parse();
    } catch (error) {
      if (!hasCode(error, 'INVALID_ADDRESS')) throw error;
      this.#tell('error', origin, error.hint ? `${error.message}; ${error.hint}` : error.message);
      return undefined;
    }
  }

  #tell(severity: Severity, origin: Origin, message: string): void {
    if (this.diagnostics.length < MAX_DIAGNOSTICS) this.diagnostics.push({ ...origin, severity, message });
  }
}
