import { defineEntry, type Entry } from "../entry.ts";

/** The session's name; the last one in file order wins. */
export interface SessionInfoEntry extends Entry {
  type: "session_info";
  name?: string;
}

export const sessionInfo = defineEntry<SessionInfoEntry>("session_info", {
  movesLeaf: false,
  problem: ({ name }) => (name === undefined || typeof name === "string" ? undefined : "`name` is not text"),
});
