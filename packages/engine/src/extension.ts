import type { ExtensionApi, ExtensionSetup } from "@espalier/extensions";
import { custom, type Entry, type EntryKind, isCustom } from "@espalier/session-tree";
import type { ExtensionContext } from "./extension-context.ts";
import type { EngineHooks } from "./hooks.ts";
import type { SessionState } from "./session-state.ts";

/** State of an extension that follows the branch: folded from its `custom` entries along the path. */
export interface ExtensionState<State> {
  /** The state at the leaf, or at any other entry. */
  get(leafId?: string | null): State;
  /** Appends data under the leaf; from here on the state is folded with it. */
  append(data: unknown): Promise<string>;
}

/** How data becomes state. Default: the newest data is the state. */
export interface StateOptions<State> {
  /** The state of a path without any data. */
  initial: State;
  /** The state after one more entry, oldest first. Pure. Default: the data itself. */
  fold?(state: State, data: unknown, entry: Entry): State;
}

/** What an extension is given: `on` for every hook of the engine, and state that follows the branch. */
export interface EspalierApi extends ExtensionApi<EngineHooks, ExtensionContext> {
  /**
   * State in entries of the session, which goes where its branch goes.
   * @param type the `customType` of the entries; begin it with the extension's name
   */
  state<State>(type: string, options: StateOptions<State>): ExtensionState<State>;
  /**
   * Gives the session a kind of entry besides those of the format; see `SessionOptions.kinds`.
   * @throws SessionTreeError `bad-kind`, `exists` for a type that another kind answers for
   */
  registerKind(kind: EntryKind): void;
}

/** What the file of an extension exports by default. */
export type Extension = ExtensionSetup<EspalierApi>;

/** An extension with all hooks typed: `export default defineExtension((api) => { api.on(…) })`. */
export function defineExtension(setup: Extension): Extension;
/** An extension with a name, which reports and vetoes give for one that is no file: `defineExtension("careful", (api) => { … })`. */
export function defineExtension(name: string, setup: Extension): Extension;
export function defineExtension(nameOrSetup: string | Extension, setup?: Extension): Extension {
  if (typeof nameOrSetup !== "string") return nameOrSetup;
  const named: Extension = (api) => setup?.(api);
  return Object.defineProperty(named, "name", { value: nameOrSetup });
}

/** The engine's part of the api. */
export function stateOf<State>(
  { core }: SessionState,
  type: string,
  options: StateOptions<State>,
): ExtensionState<State> {
  const { initial, fold = (_state: State, data: unknown) => data as State } = options;
  return {
    get(leafId = core.leafId) {
      let state = initial;
      for (const entry of core.getBranch(leafId))
        if (isCustom(entry, type)) state = fold(state, entry.data, entry);
      return state;
    },
    async append(data) {
      const [entry] = await core.append(custom.of({ customType: type, data }));
      return entry!.id;
    },
  };
}
