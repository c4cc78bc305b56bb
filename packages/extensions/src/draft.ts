/** An object that may be changed at will while the one behind it stays as it is. */
export interface ObjectDraft {
  readonly draft: Record<string, unknown>;
  /** The changed copy, sharing what was not changed; the same object if nothing was. The draft is dead afterwards. */
  finish(): Record<string, unknown>;
}

export type Drafting = (base: Record<string, unknown>) => ObjectDraft;

let drafting: Promise<Drafting> | undefined;

/** immer is loaded for the first handler that may change something: a program without any does not wait for it. */
export function loadDrafting(): Promise<Drafting> {
  drafting ??= import("immer").then(({ enableMapSet, Immer }) => {
    enableMapSet();
    // Freezing is ours: immer's recurses and would freeze the untouched base as well.
    const immer = new Immer({ autoFreeze: false });
    return (base) => {
      const draft = immer.createDraft(base);
      return { draft, finish: () => immer.finishDraft(draft) };
    };
  });
  return drafting;
}
