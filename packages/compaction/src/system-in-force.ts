import {
  type ContextMessage,
  messageText,
  type SystemMessage,
  type ToolDefinition,
} from "@espalier/session-tree";

/**
 * System prompt and tools in force after all system messages of a context, as one message; undefined where it has
 * none. A compaction carries it, since system messages before a compaction say nothing any more.
 */
export function systemInForce(messages: readonly ContextMessage[]): SystemMessage | undefined {
  const found = messages.filter((message) => message.role === "system");
  const newest = found.at(-1);
  if (!newest) return undefined;
  const sections: Record<string, string> = {};
  const tools = new Map<string, ToolDefinition>();
  for (const message of found) {
    for (const [name, text] of Object.entries(message.sections ?? {})) {
      delete sections[name];
      if (text !== null) sections[name] = text;
    }
    for (const name of listOf(message.toolsRemoved)) tools.delete(name);
    for (const tool of listOf(message.toolsAdded))
      if (typeof tool?.name === "string") tools.set(tool.name, tool);
  }
  const content = found.map(messageText).filter((text) => text !== "");
  return {
    role: "system",
    content: content.join("\n\n"),
    sections,
    toolsAdded: [...tools.values()],
    timestamp: newest.timestamp,
  };
}

/** Fields of a stored message are what a file says: not always lists. */
const listOf = <Item>(value: readonly Item[] | undefined): readonly Item[] =>
  Array.isArray(value) ? value : [];
