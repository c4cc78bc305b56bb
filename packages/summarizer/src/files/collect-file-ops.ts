import { type ContextMessage, isFailedAnswer, toolCalls } from "@espalier/session-tree";
import { callsWithin } from "./code-mode.ts";
import { parseFileLists } from "./file-lists.ts";
import { type FileOps, newFileOps } from "./file-ops.ts";
import { type FileTool, findFileTool } from "./file-tool.ts";
import { fileTools } from "./file-tools.ts";

/**
 * Adds what the calls in `messages` did to files, by what their tools declare, to `into`, which is returned. Calls of
 * failed answers never ran, and a call whose result is an error did nothing. Summaries among the messages bring the
 * lists that stand in them, so that lists are cumulative.
 */
export function collectFileOps(
  messages: readonly ContextMessage[],
  tools: readonly FileTool[] = fileTools,
  into: FileOps = newFileOps(),
): FileOps {
  const failed = new Set<string>();
  for (const message of messages) {
    if (message.role === "toolResult" && message.isError === true) failed.add(message.toolCallId);
  }
  for (const message of messages) {
    if (message.role === "compactionSummary" || message.role === "branchSummary") {
      const lists = parseFileLists(message.summary ?? "");
      addAll(into.read, lists.readFiles);
      addAll(into.edited, lists.modifiedFiles);
    }
    if (isFailedAnswer(message)) continue;
    for (const call of toolCalls(message)) {
      if (failed.has(call.id)) continue;
      for (const { name, arguments: given } of callsWithin(call)) {
        if (typeof name !== "string") continue;
        const touched = findFileTool(tools, name)?.files(recordOf(given)) ?? {};
        addAll(into.read, touched.read);
        addAll(into.written, touched.written);
        addAll(into.edited, touched.edited);
      }
    }
  }
  return into;
}

function addAll(set: Set<string>, paths: readonly string[] = []): void {
  for (const path of paths) set.add(path);
}

/** Arguments are an object; some agents write their JSON, or the one text a tool takes. */
function recordOf(value: unknown): Record<string, unknown> {
  if (typeof value === "object" && value !== null) return value as Record<string, unknown>;
  return typeof value === "string" ? { input: value } : {};
}
