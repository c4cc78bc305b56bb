import { defineEntry, type Entry } from "../entry.ts";

/** From here on another model answers. */
export interface ModelChangeEntry extends Entry {
  type: "model_change";
  provider: string;
  modelId: string;
}

/** The kind of {@link ModelChangeEntry}: a setting of the path, silent to the model. */
export const modelChange = defineEntry<ModelChangeEntry>("model_change", {
  movesLeaf: true,
  mayName: ["model"],
  settings: ({ provider, modelId }) => ({ model: { provider, modelId } }),
  problem: ({ provider, modelId }) =>
    typeof provider === "string" && typeof modelId === "string"
      ? undefined
      : "`provider` or `modelId` is missing",
});
