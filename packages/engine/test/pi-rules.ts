import type { ContextMessage } from "@espalier/session-tree";

/** An entry as any reader of the format finds it. */
interface Line {
  type: string;
  id: string;
  parentId: string | null;
  timestamp: string;
  [field: string]: unknown;
}

/**
 * What a reader by the published rules of the format makes of a session at its end, written from those rules alone: the
 * path of the last line; the newest compaction on it says its summary, then come the entries from its first kept one to
 * it, without system messages, then everything after; the newest edit of each counts; older compactions say nothing.
 */
export function readByTheRules(text: string, leafId: string): ContextMessage[] {
  const lines = text.split("\n").slice(1).filter(Boolean);
  const byId = new Map(lines.map((line) => JSON.parse(line) as Line).map((entry) => [entry.id, entry]));
  const path: Line[] = [];
  for (let at = byId.get(leafId); at; at = byId.get(at.parentId ?? "")) path.unshift(at);
  const compactedAt = path.findLastIndex(({ type }) => type === "compaction");
  const shown = compactedAt < 0 ? path : [path[compactedAt]!, ...keptBy(path, compactedAt)];
  const edits = new Map(
    shown.flatMap((entry) => (entry.type === "context_edit" ? [[entry["targetId"], entry]] : [])),
  );
  return shown.flatMap((entry, at) =>
    entry.type === "compaction" && at > 0 ? [] : edited(messagesOf(entry), edits.get(entry.id)),
  );
}

function keptBy(path: readonly Line[], compactedAt: number): Line[] {
  const first = path.findIndex(({ id }) => id === path[compactedAt]!["firstKeptEntryId"]);
  const kept = first < 0 || first >= compactedAt ? [] : path.slice(first, compactedAt);
  const said = kept.filter((entry) => (entry["message"] as ContextMessage | undefined)?.role !== "system");
  return [...said, ...path.slice(compactedAt + 1)];
}

function messagesOf(entry: Line): ContextMessage[] {
  const timestamp = Date.parse(entry.timestamp);
  const { summary, tokensBefore, fromId, customType, content, display, details, systemMessage } = entry;
  switch (entry.type) {
    case "message":
      return [entry["message"] as ContextMessage];
    case "compaction":
      return [
        ...(systemMessage ? [systemMessage as ContextMessage] : []),
        { role: "compactionSummary", summary, tokensBefore, timestamp } as ContextMessage,
      ];
    case "branch_summary":
      return [{ role: "branchSummary", summary, fromId, timestamp } as ContextMessage];
    case "custom_message":
      return [{ role: "custom", customType, content, display, details, timestamp } as ContextMessage];
    default:
      return [];
  }
}

const EDITABLE = ["user", "assistant", "toolResult", "custom"];

function edited(messages: ContextMessage[], edit: Line | undefined): ContextMessage[] {
  if (!edit) return messages;
  const replacement = edit["replacement"] as { content: unknown } | null;
  if (replacement === null) return [];
  return messages.map((message) => {
    if (!EDITABLE.includes(message.role)) return message;
    const { content } = replacement;
    const isText =
      typeof content === "string" && (message.role === "assistant" || message.role === "toolResult");
    return { ...message, content: isText ? [{ type: "text", text: content }] : content } as ContextMessage;
  });
}
