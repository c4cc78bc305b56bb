import { defineEntry, type Entry } from "../entry.ts";

/** A name for a place in the tree. The last label in file order wins; without `label` it is cleared. */
export interface LabelEntry extends Entry {
  type: "label";
  targetId: string;
  label?: string;
}

export const label = defineEntry<LabelEntry>("label", {
  movesLeaf: false,
  problem: (entry) =>
    typeof entry.targetId !== "string"
      ? "`targetId` is missing"
      : entry.label === undefined || typeof entry.label === "string"
        ? undefined
        : "`label` is not text",
});
