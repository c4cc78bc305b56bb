import { goalIn, latestUserMessageIn, userTexts } from "@espalier/compaction";
import {
  compaction,
  type Entry,
  isMessage,
  message,
  pathRowsOf,
  type SessionTree,
  type Tree,
} from "@espalier/session-tree";

/**
 * The user's first and newest words, where the end of the path that is at hand cannot tell them. A compaction of ours
 * carries them; behind one that does not they are looked for from both ends of the path.
 */
export function untoldWords(core: SessionTree): { goal?: string; latestUserMessage?: string } {
  const { complete, entries } = core.window;
  if (complete) return {};
  const front = entries.findLast((entry) => compaction.is(entry));
  const summary = front && compaction.is(front) ? front.summary : "";
  // One that has a goal and no newest message was made when both were one.
  if (goalIn(summary) !== undefined) return {};
  const { tree, leafId } = core;
  if (leafId === null) return {};
  const leaf = tree.row(leafId);
  const editing = pathRowsOf(tree, leaf, ({ edit }) => edit !== undefined);
  const edits = Array.from(editing, (row) => tree.entryAt(row));
  const rows = pathRowsOf(tree, leaf, ({ type }) => type === message.type);
  const knowsLatest =
    entries.some((entry) => isMessage(entry, "user")) || latestUserMessageIn(summary) !== undefined;
  const goal = firstText(tree, rows, edits);
  const latestUserMessage = knowsLatest ? undefined : firstText(tree, rows.reverse(), edits);
  return {
    ...(goal === undefined ? {} : { goal }),
    ...(latestUserMessage === undefined ? {} : { latestUserMessage }),
  };
}

/** What the user said in the first of these rows in which there is something; no row behind it is read. */
function firstText(tree: Tree, rows: Iterable<number>, edits: readonly Entry[]): string | undefined {
  for (const row of rows) {
    const [text] = userTexts([tree.entryAt(row), ...edits]);
    if (text !== undefined) return text;
  }
  return undefined;
}
