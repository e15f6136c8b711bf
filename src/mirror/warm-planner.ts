import type { ModuleRelease } from '../address/module.ts';
import type { ModuleRequirement, ProviderRequirement, Requirements } from '../configuration/requirements.ts';
import { Forbidden } from '../errors.ts';
import type { Logger } from '../logger.ts';
import type { ModuleMirror } from './module-mirror.ts';
import type { MayWarm, PlannedWish, PlanOptions } from './planned-wish.ts';
import type { ProviderMirror } from './provider-mirror.ts';
import type { TooNewVersions } from './too-new.ts';
import type { PlannedItem, Wish } from './wanted.ts';
import { nameOf } from './warm.ts';
import { WarmPlan } from './warm-plan.ts';
import type { WishReader } from './wish-reader.ts';

type Modules = Pick<ModuleMirror, 'list' | 'locate' | 'openPackage' | 'describePackage'>;

/** Brings wishes down to what is to be warmed, as far as whoever wishes may have it. */
export class WarmPlanner {
  readonly #reader: WishReader;
  readonly #providers: Pick<ProviderMirror, 'listVersions' | 'listPackages'>;
  readonly #modules: Modules;
  readonly #tooNew: Pick<TooNewVersions, 'find'> | undefined;
  readonly #logger: Logger;

  constructor(deps: {
    reader: WishReader;
    providers: Pick<ProviderMirror, 'listVersions' | 'listPackages'>;
    modules: Modules;
    tooNew?: Pick<TooNewVersions, 'find'> | undefined;
    logger: Logger;
  }) {
    this.#reader = deps.reader;
    this.#providers = deps.providers;
    this.#modules = deps.modules;
    this.#tooNew = deps.tooNew;
    this.#logger = deps.logger;
  }

  /**
   * What modules require is in their packages: those come in meanwhile. Never rejects for what is in the wish.
   * @throws the reason of `signal`
   */
  async plan(wish: Wish, mayWarm: MayWarm, { signal, onPlanned }: PlanOptions): Promise<PlannedWish> {
    const broughtIn = new Set<string>();
    const plan = new WarmPlan({
      providers: this.#providers,
      modules: noting(this.#modules, broughtIn),
      tooNew: this.#tooNew,
      logger: this.#logger,
    });
    const read = await this.#reader.read(wish, async (call) => {
      signal.throwIfAborted();
      if (!mayWarm(call.address)) throw new Forbidden(notFor(call));
      return plan.childPackage(call);
    });
    signal.throwIfAborted();
    const items: PlannedItem[] = refused(read.requirements, mayWarm);
    for (const item of items) onPlanned(item);
    for await (const item of plan.items({ ...read, requirements: allowed(read.requirements, mayWarm) })) {
      // What was found while it was no more to be looked for is not to be told.
      signal.throwIfAborted();
      items.push(item);
      onPlanned(item);
    }
    signal.throwIfAborted();
    return { items, diagnostics: read.diagnostics, impliedHostname: read.impliedHostname, broughtIn };
  }
}

/** The same modules; what was not stored when it was opened is noted. */
function noting(modules: Modules, broughtIn: Set<string>): Pick<ModuleMirror, 'list' | 'locate' | 'openPackage'> {
  return {
    list: (module) => modules.list(module),
    locate: (release) => modules.locate(release),
    openPackage: async (release: ModuleRelease) => {
      const { storedAt } = await modules.describePackage(release);
      const readable = await modules.openPackage(release);
      if (!storedAt) broughtIn.add(nameOf({ kind: 'package', release }));
      return readable;
    },
  };
}

function allowed(requirements: Requirements, mayWarm: MayWarm): Requirements {
  return {
    ...requirements,
    providers: requirements.providers.filter(({ address }) => mayWarm(address)),
    modules: requirements.modules.filter(({ address }) => mayWarm(address)),
  };
}

function refused({ modules, providers }: Requirements, mayWarm: MayWarm): PlannedItem[] {
  return [...modules, ...providers]
    .filter(({ address }) => !mayWarm(address))
    .map((one) => ({ unplanned: String(one.address), outcome: 'failed', reason: notFor(one) }));
}

function notFor({ address }: ModuleRequirement | ProviderRequirement): string {
  return `this token is not for ${address}`;
}
