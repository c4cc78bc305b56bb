import { bytesView, encodeLines } from "@espalier/jsonl-stream";
import { Tree } from "@espalier/session-tree";
import fc from "fast-check";

const KINDS = ["user", "assistant", "toolResult", "compaction", "label", "custom", "branch_summary"] as const;

/** Trees of up to a hundred entries of any kind, under any parent that stands above them, or under none. */
export const arbitraryTree = fc
  .array(
    fc.record({
      kind: fc.constantFrom(...KINDS),
      up: fc.nat({ max: 12 }),
      text: fc.string({ maxLength: 40, unit: "grapheme" }),
    }),
    { minLength: 1, maxLength: 100 },
  )
  .map((drafts) => treeOf(drafts.map(({ kind, up, text }, at) => entryOf(kind, at, at - 1 - up, text))));

/** A tree of these entries. */
export function treeOf(entries: readonly object[]): Tree {
  const header = {
    type: "session",
    version: 3,
    id: "s1",
    timestamp: "2026-01-01T00:00:00.000Z",
    cwd: "/garden",
  };
  return new Tree(bytesView(encodeLines([header, ...entries].map((line) => JSON.stringify(line)))));
}

function entryOf(kind: (typeof KINDS)[number], at: number, parent: number, text: string): object {
  const base = {
    id: `e${at}`,
    parentId: parent < 0 ? null : `e${parent}`,
    timestamp: "2026-01-01T00:00:01.000Z",
  };
  switch (kind) {
    case "compaction":
      return {
        type: kind,
        ...base,
        summary: text,
        firstKeptEntryId: `e${Math.max(0, parent)}`,
        tokensBefore: 9,
      };
    case "branch_summary":
      return { type: kind, ...base, summary: text, fromId: `e${Math.max(0, at - 1)}` };
    case "label":
      return { type: kind, ...base, targetId: `e${Math.max(0, at - 1)}`, label: text };
    case "custom":
      return { type: kind, ...base, customType: "x", data: { text } };
    default:
      return {
        type: "message",
        ...base,
        message: { role: kind, content: [{ type: "text", text }], timestamp: 1 },
      };
  }
}
