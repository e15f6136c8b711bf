import type { Declarations, ModuleCall, ProviderBlock, ProviderUse, RequiredProvider } from './declarations.ts';
import type { Diagnostic, Origin } from './requirements.ts';

/** Of one directory. */
const MAX_DIAGNOSTICS = 1_000;

/** All declarations of a directory, override files applied. */
export interface Overridden {
  readonly declarations: Declarations;
  readonly diagnostics: readonly Diagnostic[];
}

/**
 * Joins the files of one directory as the CLIs do: those of `primary` stand side by side; those of `overrides`, in
 * order, change what is there already, argument by argument. An entry of `required_providers` is replaced as a whole.
 */
export function joinFiles(primary: readonly Declarations[], overrides: readonly Declarations[]): Overridden {
  const joining = new Joining();
  for (const file of primary) joining.add(file);
  for (const file of overrides) joining.override(file);
  return joining;
}

class Joining implements Overridden {
  readonly diagnostics: Diagnostic[] = [];
  readonly #required = new Map<string, RequiredProvider[]>();
  /** By name and alias. */
  readonly #blocks = new Map<string, ProviderBlock[]>();
  readonly #uses = new Map<string, ProviderUse>();
  readonly #calls = new Map<string, ModuleCall>();

  get declarations(): Declarations {
    return {
      requiredProviders: [...this.#required.values()].flat(),
      providerBlocks: [...this.#blocks.values()].flat(),
      uses: [...this.#uses.values()],
      moduleCalls: [...this.#calls.values()],
    };
  }

  add({ requiredProviders, providerBlocks, uses, moduleCalls }: Declarations): void {
    for (const required of requiredProviders) {
      const known = this.#required.get(required.name) ?? [];
      const [earlier] = known;
      if (earlier) this.#twice(required.origin, `${required.name} is required in ${place(earlier.origin)} already`);
      // What the name means must not depend on the order of the files.
      if (!earlier || earlier.source === required.source) known.push(required);
      this.#required.set(required.name, known);
    }
    for (const block of providerBlocks) {
      const known = this.#blocks.get(blockKey(block));
      if (known) known.push(block);
      else this.#blocks.set(blockKey(block), [block]);
    }
    for (const use of uses) if (!this.#uses.has(use.key)) this.#uses.set(use.key, use);
    for (const call of moduleCalls) {
      const earlier = this.#calls.get(call.name);
      if (earlier) this.#twice(call.origin, `module "${call.name}" is called in ${place(earlier.origin)} already`);
      else this.#calls.set(call.name, call);
    }
  }

  override({ requiredProviders, providerBlocks, uses, moduleCalls }: Declarations): void {
    for (const required of requiredProviders) this.#required.set(required.name, [required]);
    for (const block of providerBlocks) {
      const [base, ...others] = this.#blocks.get(blockKey(block)) ?? [];
      const version = block.version === undefined ? base?.version : block.version;
      this.#blocks.set(blockKey(block), [{ ...block, version }, ...others]);
    }
    for (const use of uses) {
      const base = this.#uses.get(use.key);
      if (use.named !== undefined || !base) this.#uses.set(use.key, use);
    }
    for (const call of moduleCalls) {
      const base = this.#calls.get(call.name);
      if (!base) this.#baseless(call);
      this.#calls.set(call.name, {
        name: call.name,
        source: call.source === undefined ? base?.source : call.source,
        version: call.version === undefined ? base?.version : call.version,
        origin: call.origin,
      });
    }
  }

  #twice(origin: Origin, message: string): void {
    this.#tell(origin, `${message}; keep one of them`);
  }

  #baseless({ name, origin }: ModuleCall): void {
    this.#tell(origin, `there is no module "${name}" that this override file could change; call it in another file`);
  }

  #tell(origin: Origin, message: string): void {
    if (this.diagnostics.length < MAX_DIAGNOSTICS) this.diagnostics.push({ ...origin, severity: 'error', message });
  }
}

function blockKey({ name, alias }: ProviderBlock): string {
  return `${name}.${alias ?? ''}`;
}

function place({ file, at }: Origin): string {
  return at === undefined ? file : `${file}:${at}`;
}
