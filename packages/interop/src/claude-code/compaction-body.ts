import { isRecord, messageText } from "@espalier/session-tree";
import type { EntryBody } from "../import-entry.ts";
import type { Line } from "./hearing.ts";

/** What is in force where a compaction stands. Claude Code's files do not name a thinking level: it is the default. */
export interface Force {
  provider: string;
  modelId: string;
}

/** A compaction out of its summary, what its boundary says, and the first line it keeps (undefined: none). */
export function compactionBody(
  summary: Line,
  metadata: Line,
  firstKeptEntryId: string,
  inForce: Force | undefined,
): EntryBody {
  const { trigger, preTokens } = metadata;
  const message = isRecord(summary["message"]) ? summary["message"] : {};
  return {
    type: "compaction",
    summary: messageText({ role: "user", content: message["content"] as string, timestamp: 0 }),
    firstKeptEntryId,
    tokensBefore: typeof preTokens === "number" ? preTokens : 0,
    details: {
      ...(typeof trigger === "string" ? { reason: trigger } : {}),
      ...(inForce ? { settings: { ...inForce, thinkingLevel: "off" } } : {}),
      "claude-code": metadata,
    },
  };
}
