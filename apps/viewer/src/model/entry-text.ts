import { jsonText } from "@espalier/jsonl-stream";
import { type Entry, fieldText, kindOf, messageText, toolCalls } from "@espalier/session-tree";

/** Everything an entry says, calls with their arguments among it; empty for one that says nothing to a model. */
export function textOfEntry(entry: Entry): string {
  const kind = kindOf(entry);
  if (kind.problem?.(entry)) return "";
  // What a compaction carries of the system stands in the system's own entry.
  const said = kind.toMessages?.(entry).at(-1);
  if (!said) return "";
  const calls = toolCalls(said).map((call) => `${fieldText(call.name)} ${jsonText(call.arguments)}`);
  return [messageText(said), ...calls].join("\n");
}
