import { type ContextEdit, defineEntry, type Entry } from "../entry.ts";

/** Changes what an earlier entry of the path says to the model from here on. */
export interface ContextEditEntry extends Entry, ContextEdit {
  type: "context_edit";
  /** That somebody asked for it, so that an undo takes it back; absent on what a program did by itself. */
  reason?: "manual";
}

/** The kind of {@link ContextEditEntry}: says nothing itself. The newest edit of a target on a path counts. */
export const contextEdit = defineEntry<ContextEditEntry>("context_edit", {
  movesLeaf: true,
  edit: ({ targetId, replacement }) => ({ targetId, replacement }),
  problem: ({ targetId, replacement }) =>
    typeof targetId !== "string"
      ? "`targetId` is missing"
      : replacement === null || (typeof replacement === "object" && "content" in replacement)
        ? undefined
        : "`replacement` is neither null nor has `content`",
});
