import type { HookAlias } from "./hook-alias.ts";

/** One handler of one hook. */
export interface Registration {
  /** The extension it belongs to, by the name that reports use. */
  readonly owner: string;
  /** The name it was registered under: the hook's own or an alias. */
  readonly hookName: string;
  readonly alias: HookAlias | null;
  readonly handler: (event: object, context: object) => unknown;
  readonly priority: number;
  readonly critical: boolean;
  readonly timeoutMs: number;
}

/** The handlers of all hooks, each list in the order in which they are asked. */
export interface Registry {
  /** Returns the function that removes it again. */
  add(hookName: string, registration: Registration): () => void;
  has(hookName: string): boolean;
  /**
   * The handlers registered when the walk begins, leaving out those that are removed before their turn;
   * what is added meanwhile waits for the next walk.
   */
  walk(hookName: string): Iterable<Registration>;
}

export function createRegistry(): Registry {
  // Lists are replaced, never changed, so that a walk keeps the one it began with.
  const lists = new Map<string, readonly Registration[]>();
  const listOf = (hookName: string) => lists.get(hookName) ?? [];

  return {
    add(hookName, registration) {
      const list = listOf(hookName);
      const found = list.findIndex((other) => other.priority < registration.priority);
      lists.set(hookName, list.toSpliced(found === -1 ? list.length : found, 0, registration));
      return () => {
        lists.set(
          hookName,
          listOf(hookName).filter((other) => other !== registration),
        );
      };
    },
    has: (hookName) => listOf(hookName).length > 0,
    *walk(hookName) {
      for (const registration of listOf(hookName)) {
        if (listOf(hookName).includes(registration)) yield registration;
      }
    },
  };
}
