import type { Line } from "./claude-code-lines.ts";

/**
 * The conversation in a file of Claude Code, rebuilt from the description of the format alone and without a look at the
 * importer: the lines as a tree, relinked by their compactions, from the leaf up to the newest boundary.
 *
 * Gives what is said, a line each, as `said` does for a context. Results that hang beside the path stay out.
 */
export function rebuildConversation(lines: readonly Line[]): string[] {
  const nodes = lines.filter((line) => typeof line["uuid"] === "string" && !line["isSidechain"]);
  const byId = new Map(nodes.map((node) => [node["uuid"] as string, node]));
  const parents = new Map(nodes.map((node) => [node["uuid"] as string, node["parentUuid"] as string | null]));
  for (const node of nodes) relink(node, byId, parents);

  const leaf = nodes.findLast(
    (node) => !node["isMeta"] && ![...parents.values()].includes(node["uuid"] as string),
  );
  const path: Line[] = [];
  for (let node = leaf; node; node = byId.get(parents.get(node["uuid"] as string) ?? "")) {
    if (node["subtype"] === "compact_boundary") break;
    path.unshift(node);
  }
  return tell(path);
}

/** Rule 3: the kept lines follow the anchor, one after the other; its other children follow the last of them. */
function relink(node: Line, byId: Map<string, Line>, parents: Map<string, string | null>): void {
  const preserved = (node["compactMetadata"] as Line | undefined)?.["preservedMessages"] as
    | { anchorUuid: string; uuids: string[] }
    | undefined;
  const kept = preserved?.uuids.filter((id) => byId.has(id)) ?? [];
  if (!preserved || kept.length === 0) return;
  for (const [id, parent] of parents) if (parent === preserved.anchorUuid) parents.set(id, kept.at(-1)!);
  for (const [at, id] of kept.entries()) parents.set(id, at === 0 ? preserved.anchorUuid : kept[at - 1]!);
}

function tell(path: readonly Line[]): string[] {
  const told: { role: string; id: unknown; thinking: string[]; texts: string[] }[] = [];
  for (const node of path) {
    const { type, isMeta, isCompactSummary } = node;
    const message = node["message"] as { id?: string; content: string | Line[] } | undefined;
    if ((type !== "user" && type !== "assistant") || isMeta || !message) continue;
    const blocks =
      typeof message.content === "string" ? [{ type: "text", text: message.content }] : message.content;
    for (const block of blocks) {
      const role = isCompactSummary
        ? "compactionSummary"
        : block["type"] === "tool_result"
          ? "toolResult"
          : String(type);
      const text = textsOf(block);
      const last = told.at(-1);
      if (role === "assistant" && last?.role === role && last.id === message.id) last.texts.push(...text);
      else told.push({ role, id: message.id, thinking: [], texts: text });
    }
  }
  return told.map(({ role, texts }) => `${role}: ${texts.join("\n")}`);
}

function textsOf(block: Line): string[] {
  const { type, text, content } = block;
  if (type === "text") return [String(text)];
  if (type !== "tool_result") return [];
  return typeof content === "string" ? [content] : (content as Line[]).flatMap(textsOf);
}
