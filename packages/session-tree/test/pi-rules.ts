/**
 * How another reader of the format sees a file, from the description of the format alone: the leaf is the last line,
 * ids are looked up in the whole file, a line that does not parse is passed over.
 */
// biome-ignore lint/suspicious/noExplicitAny: a reader that validates nothing
type Json = Record<string, any>;

export interface PiSession {
  entries: Json[];
  leafId: string | null;
  labels: Map<string, string>;
  name: string | undefined;
  messages: Json[];
  model: { provider: string; modelId: string } | null;
  thinkingLevel: string;
}

export function readAsPi(text: string, leafId?: string | null): PiSession {
  const lines = text.split("\n").flatMap((line) => {
    try {
      return [JSON.parse(line) as Json];
    } catch {
      return [];
    }
  });
  if (lines[0]?.["type"] !== "session" || typeof lines[0]["id"] !== "string") throw new Error("no session");
  const entries = lines.filter(({ type }) => type !== "session");
  const byId = new Map(entries.map((entry) => [entry["id"] as string, entry]));
  const labels = new Map<string, string>();
  let name: string | undefined;
  for (const { type, targetId, label, ...rest } of entries) {
    if (type === "label" && label) labels.set(targetId, label);
    else if (type === "label") labels.delete(targetId);
    if (type === "session_info") name = rest["name"] || undefined;
  }
  const leaf = leafId === undefined ? (entries.at(-1)?.["id"] ?? null) : leafId;
  return { entries, leafId: leaf, labels, name, ...contextOf(pathTo(leaf, byId)) };
}

function pathTo(leafId: string | null, byId: Map<string, Json>): Json[] {
  const path: Json[] = [];
  for (let entry = byId.get(leafId ?? ""); entry; entry = byId.get(entry["parentId"] ?? ""))
    path.unshift(entry);
  return path;
}

function contextOf(path: Json[]): Pick<PiSession, "messages" | "model" | "thinkingLevel"> {
  const at = path.findLastIndex(({ type }) => type === "compaction");
  const compaction = path[at];
  const kept = compaction
    ? path.slice(0, at).findIndex(({ id }) => id === compaction["firstKeptEntryId"])
    : 0;
  const visible = compaction
    ? [
        compaction,
        ...(kept < 0 ? [] : path.slice(kept, at)).filter(({ message }) => message?.role !== "system"),
        ...path.slice(at + 1),
      ]
    : path;
  const edits = new Map(
    visible.filter(({ type }) => type === "context_edit").map((edit) => [edit["targetId"], edit]),
  );
  const messages = visible.flatMap((entry, position) =>
    entry["type"] === "compaction" && position > 0 ? [] : edited(said(entry), edits.get(entry["id"])),
  );
  let model: PiSession["model"] = null;
  let thinkingLevel = "off";
  for (const { type, provider, modelId, message, ...rest } of path) {
    if (type === "model_change") model = { provider, modelId };
    if (message?.role === "assistant") model = { provider: message.provider, modelId: message.model };
    if (type === "thinking_level_change") thinkingLevel = rest["thinkingLevel"];
  }
  return { messages, model, thinkingLevel };
}

function said(entry: Json): Json[] {
  const timestamp = Date.parse(entry["timestamp"]);
  const { type, summary, message } = entry;
  if (type === "message")
    return [
      message.content == null && message.role !== "bashExecution" ? { ...message, content: [] } : message,
    ];
  if (type === "branch_summary")
    return summary ? [{ role: "branchSummary", summary, fromId: entry["fromId"], timestamp }] : [];
  if (type === "compaction") {
    const told = { role: "compactionSummary", summary, tokensBefore: entry["tokensBefore"], timestamp };
    return entry["systemMessage"] ? [entry["systemMessage"], told] : [told];
  }
  if (type !== "custom_message") return [];
  const { customType, content, display, details } = entry;
  return [{ role: "custom", customType, content: content ?? [], display, details, timestamp }];
}

function edited(messages: Json[], edit: Json | undefined): Json[] {
  if (!edit) return messages;
  if (edit["replacement"] === null) return [];
  const { content } = edit["replacement"];
  return messages.map((message) => {
    if (!["user", "assistant", "toolResult", "custom"].includes(message["role"])) return message;
    const blocks = ["assistant", "toolResult"].includes(message["role"]) && typeof content === "string";
    return { ...message, content: blocks ? [{ type: "text", text: content }] : content };
  });
}
