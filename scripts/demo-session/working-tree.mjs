// The files of the project the story is about, and the tools that touch them: what a call reads, an earlier call wrote.

/** Ends the call with an error that the model reads. */
export class ToolError extends Error {}

/** A folder in memory. `snapshot` and `restore` stand for the version control of the people in the story. */
export function createWorkingTree() {
  let files = new Map();
  const get = (path) => {
    const text = files.get(path);
    if (text === undefined) throw new ToolError(`ENOENT: no such file or directory, open '${path}'`);
    return text;
  };
  const tools = {
    read({ path, offset = 1, limit }) {
      const lines = get(path).split("\n");
      const end = limit ? offset - 1 + limit : lines.length;
      const rest = lines.length - 1 - end;
      const more = rest > 0 ? `\n\n[${rest} more lines. Read on with offset=${end + 1}.]` : "";
      return { text: lines.slice(offset - 1, end).join("\n") + more };
    },
    write({ path, content }) {
      const known = files.has(path);
      files.set(path, content);
      return { text: `${known ? "Replaced" : "Created"} ${path} (${content.split("\n").length - 1} lines).` };
    },
    edit({ path, edits }) {
      const before = get(path);
      const changed = applyEdits(before, path, edits);
      files.set(path, changed.text);
      const places = edits.length === 1 ? "1 place" : `${edits.length} places`;
      return { text: `Changed ${path} in ${places}.`, details: { diff: changed.diff } };
    },
    search({ pattern, path = "." }) {
      const expression = new RegExp(pattern);
      const hits = [];
      for (const [name, text] of [...files].sort(([a], [b]) => (a < b ? -1 : 1))) {
        if (path !== "." && !name.startsWith(path)) continue;
        for (const [index, line] of text.split("\n").entries()) {
          if (expression.test(line)) hits.push(`${name}:${index + 1}:${line}`);
        }
      }
      return { text: hits.length > 0 ? hits.join("\n") : "No match." };
    },
  };
  return {
    tools,
    put: (path, text) => files.set(path, text),
    files: () => new Map(files),
    snapshot: () => new Map(files),
    restore(snapshot) {
      files = new Map(snapshot);
    },
  };
}

function applyEdits(before, path, edits) {
  const hunks = [];
  for (const [index, { oldText, newText }] of edits.entries()) {
    const start = before.indexOf(oldText);
    if (start < 0)
      throw new ToolError(`edits[${index}].oldText does not occur in ${path}. Nothing was changed.`);
    if (before.indexOf(oldText, start + 1) >= 0) {
      throw new ToolError(`edits[${index}].oldText occurs more than once in ${path}. Nothing was changed.`);
    }
    hunks.push({ start, oldText, newText });
  }
  hunks.sort((a, b) => a.start - b.start);
  let text = "";
  let copied = 0;
  for (const { start, oldText, newText } of hunks) {
    text += before.slice(copied, start) + newText;
    copied = start + oldText.length;
  }
  text += before.slice(copied);
  let shift = 0;
  const diff = hunks.map((hunk) => {
    const rendered = renderHunk(before, hunk, shift);
    shift += countLines(hunk.newText) - countLines(hunk.oldText);
    return rendered;
  });
  return { text, diff: `--- a/${path}\n+++ b/${path}\n${diff.join("\n")}` };
}

const countLines = (text) => text.split("\n").length;

/** One hunk of a unified diff, without the lines that the old and the new text share at either end. */
function renderHunk(before, { start, oldText, newText }, shift) {
  const lineStart = before.lastIndexOf("\n", start - 1) + 1;
  const lineEnd = (before.indexOf("\n", start + oldText.length) + 1 || before.length + 1) - 1;
  const head = before.slice(lineStart, start);
  const tail = before.slice(start + oldText.length, lineEnd);
  const removed = (head + oldText + tail).split("\n");
  const added = (head + newText + tail).split("\n");
  let first = before.slice(0, lineStart).split("\n").length;
  while (removed.length > 0 && added.length > 0 && removed[0] === added[0]) {
    removed.shift();
    added.shift();
    first++;
  }
  while (removed.length > 0 && added.length > 0 && removed.at(-1) === added.at(-1)) {
    removed.pop();
    added.pop();
  }
  const lines = before.split("\n");
  const above = lines.slice(Math.max(0, first - 4), first - 1);
  const below = lines.slice(first - 1 + removed.length, first + 2 + removed.length);
  if (below.at(-1) === "" && first + 2 + removed.length >= lines.length) below.pop();
  const from = first - above.length;
  const context = above.length + below.length;
  return [
    `@@ -${from},${removed.length + context} +${from + shift},${added.length + context} @@`,
    ...above.map((line) => ` ${line}`),
    ...removed.map((line) => `-${line}`),
    ...added.map((line) => `+${line}`),
    ...below.map((line) => ` ${line}`),
  ].join("\n");
}
