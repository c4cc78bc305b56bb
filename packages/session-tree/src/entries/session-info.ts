import { defineEntry, type Entry } from "../entry.ts";

/** The session's name; the last one in file order wins. */
export interface SessionInfoEntry extends Entry {
  type: "session_info";
  /** Absent or empty: the session has no name any more. Ours are never absent, as the format has it. */
  name?: string;
}

/** The kind of {@link SessionInfoEntry}: beside the conversation; appending one leaves the leaf where it is. */
export const sessionInfo = defineEntry<SessionInfoEntry>("session_info", {
  movesLeaf: false,
  problem: ({ name }) => (name === undefined || typeof name === "string" ? undefined : "`name` is not text"),
});
