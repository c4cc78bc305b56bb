import { defineEntry, type Entry } from "../entry.ts";

/**
 * Sets the leaf: our one addition to the format. Its parent is its target, so that a reader which takes the last line
 * for the leaf arrives at the same place.
 */
export interface LeafEntry extends Entry {
  type: "leaf";
  /** Null: before the first entry. */
  targetId: string | null;
  /** The act that this takes back, when it was written by an undo. */
  undoes?: string;
}

/** The kind of {@link LeafEntry}: says nothing, and is itself never the leaf. */
export const leaf = defineEntry<LeafEntry>("leaf", {
  movesLeaf: false,
  // Without a sound target it means its parent, as it does for a reader that knows no such entries.
  leafTarget: ({ targetId, parentId }) =>
    typeof targetId === "string" || targetId === null ? targetId : parentId,
  problem: ({ targetId, parentId }) =>
    targetId !== null && typeof targetId !== "string"
      ? "`targetId` is neither an id nor null"
      : targetId !== parentId
        ? "`targetId` and `parentId` differ"
        : undefined,
});
