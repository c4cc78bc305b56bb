// What a path says to a model, as far as the demo needs it: enough to know what an answer costs and where to cut.

const SILENT = new Set(["model_change", "thinking_level_change", "custom", "context_edit"]);

/** True for entries of a path that are no message. */
export const isSilent = (entry) => SILENT.has(entry.type);

/** The neutral messages of a path, edits applied and compactions in force, each with the entry it comes from. */
export function buildContext(path) {
  const last = path.findLastIndex((entry) => entry.type === "compaction");
  let visible = path;
  if (last >= 0) {
    const first = path.findIndex((entry) => entry.id === path[last].firstKeptEntryId);
    const kept = path.slice(first, last).filter((entry) => entry.type !== "compaction");
    visible = [path[last], ...kept, ...path.slice(last + 1)];
  }
  const edits = new Map();
  for (const entry of visible)
    if (entry.type === "context_edit") edits.set(entry.targetId, entry.replacement);
  return visible.flatMap((entry) => {
    const message = toMessage(entry);
    const edit = edits.get(entry.id);
    if (!message || edit === null) return [];
    return [{ entry, message: edit ? { ...message, content: edit.content } : message }];
  });
}

function toMessage(entry) {
  const { type, summary, tokensBefore, fromId, customType, content, display } = entry;
  if (type === "message") return entry.message;
  if (type === "compaction") return { role: "compactionSummary", summary, tokensBefore };
  if (type === "branch_summary") return { role: "branchSummary", summary, fromId };
  if (type === "custom_message") return { role: "custom", customType, content, display };
  return undefined;
}

/** The files that the calls of a path read and changed, and those that its summaries remember. */
export function collectFiles(entries) {
  const read = new Set();
  const modified = new Set();
  for (const { message, details } of entries) {
    for (const path of details?.readFiles ?? []) read.add(path);
    for (const path of details?.modifiedFiles ?? []) modified.add(path);
    if (message?.role !== "assistant") continue;
    for (const block of message.content) {
      if (block.type !== "toolCall") continue;
      if (block.name === "read") read.add(block.arguments.path);
      if (block.name === "write" || block.name === "edit") modified.add(block.arguments.path);
    }
  }
  return {
    readFiles: [...read].filter((path) => !modified.has(path)).sort(),
    modifiedFiles: [...modified].sort(),
  };
}

/** The file lists as they stand at the end of a summary. */
export function renderFiles({ readFiles, modifiedFiles }) {
  const list = (tag, files) => (files.length > 0 ? `\n\n<${tag}>\n${files.join("\n")}\n</${tag}>` : "");
  return list("read-files", readFiles) + list("modified-files", modifiedFiles);
}
