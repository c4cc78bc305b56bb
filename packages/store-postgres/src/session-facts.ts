import { compaction, isMessage, listedMessage, sessionInfo } from "@espalier/session-tree";
import type { LineRow } from "./line-row.ts";

/** What a batch of lines changes of what a list shows of their session; null for what it does not. */
export interface SessionFacts {
  /** Empty when the name was taken away. */
  name: string | null;
  firstMessage: string | null;
  updatedAt: string | null;
  lastCompaction: string | null;
}

export function factsOf(rows: readonly LineRow[]): SessionFacts {
  const facts: SessionFacts = { name: null, firstMessage: null, updatedAt: null, lastCompaction: null };
  for (const entry of rows.flatMap(({ entries }) => entries)) {
    const time = typeof entry.timestamp === "string" ? columnText(entry.timestamp) : null;
    facts.updatedAt = time ?? facts.updatedAt;
    if (compaction.is(entry)) facts.lastCompaction = time ?? facts.lastCompaction;
    if (sessionInfo.is(entry)) facts.name = columnText(entry.name ?? "");
    if (facts.firstMessage === null && isMessage(entry, "user"))
      facts.firstMessage = columnText(listedMessage(entry));
  }
  return facts;
}

/** Text as a column can hold it: there is no NUL in one. */
const columnText = (text: string): string => text.replaceAll("\0", "\ufffd");
