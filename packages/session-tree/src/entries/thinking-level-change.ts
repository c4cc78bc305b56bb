import { defineEntry, type Entry } from "../entry.ts";

/** From here on the model thinks more or less before it answers. */
export interface ThinkingLevelChangeEntry extends Entry {
  type: "thinking_level_change";
  /** `off`, `minimal`, `low`, `medium`, `high` in files of Pi; any word is kept. */
  thinkingLevel: string;
}

/** The kind of {@link ThinkingLevelChangeEntry}: a setting of the path, silent to the model. */
export const thinkingLevelChange = defineEntry<ThinkingLevelChangeEntry>("thinking_level_change", {
  movesLeaf: true,
  mayName: ["thinkingLevel"],
  settings: ({ thinkingLevel }) => ({ thinkingLevel }),
  problem: ({ thinkingLevel }) =>
    typeof thinkingLevel === "string" ? undefined : "`thinkingLevel` is missing",
});
