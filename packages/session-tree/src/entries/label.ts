import { defineEntry, type Entry } from "../entry.ts";

/** A name for a place in the tree. The last label in file order wins; without `label` it is cleared. */
export interface LabelEntry extends Entry {
  type: "label";
  targetId: string;
  label?: string;
}

/** The kind of {@link LabelEntry}: beside the conversation; appending one leaves the leaf where it is. */
export const label = defineEntry<LabelEntry>("label", {
  movesLeaf: false,
  problem: (entry) =>
    typeof entry.targetId !== "string"
      ? "`targetId` is missing"
      : entry.label === undefined || typeof entry.label === "string"
        ? undefined
        : "`label` is not text",
});
