import type { Line } from "./codex-lines.ts";

/**
 * The conversation in the lines of a thread, rebuilt from the description of the format alone: what the model read last.
 * Gives what the user, the model and tools said, a line each, as `said` does for a context; a summary stands in front of
 * what a compaction keeps, as every context here has it.
 */
export function rebuildThread(lines: readonly Line[]): string[] {
  let history: Line[] = [];
  let summary: string | undefined;
  for (const line of lines) {
    const { type, payload, metadata } = line as { type: string; payload: Line; metadata?: Line };
    if (type === "response_item" && metadata?.["compaction_output"] !== true) history.push(payload);
    else if (type === "compacted") {
      summary = payload["message"] as string;
      const kept = payload["replacement_history"] as Line[] | undefined;
      history = (kept ?? history.filter(isPrompt)).filter((item) => textOf(item) !== summary);
    } else if (type === "event_msg" && payload["type"] === "thread_rolled_back") {
      for (let turns = payload["num_turns"] as number; turns > 0; turns--)
        history = history.slice(0, history.findLastIndex(isPrompt));
    }
  }
  const told: { role: string; text: string }[] = [];
  for (const item of history) {
    const role = roleOf(item);
    if (role === undefined) continue;
    const last = told.at(-1);
    if (role === "assistant" && last?.role === role)
      last.text = [last.text, textOf(item)].filter(Boolean).join("\n");
    else told.push({ role, text: textOf(item) });
  }
  const first = summary === undefined ? [] : [`compactionSummary: ${summary}`];
  return [...first, ...told.map(({ role, text }) => `${role}: ${text}`)];
}

function roleOf(item: Line): string | undefined {
  const { type, role } = item;
  if (type === "message") return role === "assistant" ? "assistant" : isPrompt(item) ? "user" : undefined;
  if (type === "function_call_output") return "toolResult";
  return type === "reasoning" || type === "function_call" ? "assistant" : undefined;
}

function isPrompt(item: Line): boolean {
  const passed = item["internal_chat_message_metadata_passthrough"] as
    | { content_item_kinds?: string[] }
    | undefined;
  if (item["type"] !== "message" || item["role"] !== "user") return false;
  const kinds = passed?.content_item_kinds;
  if (kinds) return kinds.every((kind) => kind === "user.text");
  return !/^(<environment_context>|# AGENTS\.md instructions|<user_instructions>)/.test(textOf(item));
}

function textOf(item: Line): string {
  const { content, output } = item;
  if (typeof output === "string") return output;
  return ((content ?? []) as Line[]).map((part) => String(part["text"])).join("\n");
}
