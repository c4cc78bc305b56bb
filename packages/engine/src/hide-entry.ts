import { archivedRows } from "@espalier/policies";
import {
  type ContextEdit,
  contextEdit,
  type Entry,
  isOnPath,
  kindOf,
  type NewEntry,
  projectPath,
  type SessionTree,
} from "@espalier/session-tree";
import { editsOf } from "./edits-of.ts";
import { EngineError } from "./engine-error.ts";

/**
 * The edit that takes what an entry says out of the context of the leaf's path, or brings it back; undefined where it
 * is so already. What comes back is what the entry said before it was hidden: shortened, where a compaction had
 * shortened it.
 *
 * @throws SessionTreeError `unknown-entry`; EngineError `not-in-context`
 */
export function planHiding(core: SessionTree, targetId: string, isHidden: boolean): NewEntry | undefined {
  const { entry, isSaid } = placeInContext(core, targetId);
  if (isSaid !== isHidden) return undefined;
  const replacement = isHidden ? null : saidBefore(core, entry);
  return contextEdit.of({ targetId, replacement, reason: "manual" });
}

/** The entry, if the model reads it at the leaf, or would, had no edit left it out. */
function placeInContext(core: SessionTree, id: string): { entry: Entry; isSaid: boolean } {
  const { tree, leafId, window } = core;
  const row = tree.row(id);
  const saysNothing = ({ type }: { type: string }) =>
    notInContext(`${id} (${type}) says nothing to it: name an entry that the context lists`);
  if (!tree.kindAt(row).toMessages) throw saysNothing(tree.entryAt(row));
  if (leafId === null || !isOnPath(tree, row, tree.row(leafId)))
    throw notInContext(`${id} is on another branch: navigate to where it is read first`);
  const found = projectPath(window.entries).find(({ entry }) => entry.id === id);
  if (!found) {
    const compaction = tree.idAt(archivedRows({ tree, leafId }).compactionRow);
    throw notInContext(
      `the compaction ${compaction} stands for ${id} already: hide that one, or navigate to before it first`,
    );
  }
  const isSaid = found.messages.length > 0;
  if (!isSaid && editsOf(core, id).next().value?.replacement !== null) throw saysNothing(found.entry);
  return { entry: found.entry, isSaid };
}

/** What brings an entry back: its newest replacement, or what it says of its own. */
function saidBefore(core: SessionTree, entry: Entry): NonNullable<ContextEdit["replacement"]> {
  for (const { replacement } of editsOf(core, entry.id)) if (replacement !== null) return replacement;
  // Messages whose content no edit replaces (summaries, shell runs) are whole again with any.
  const said = (kindOf(entry).toMessages?.(entry) ?? []) as { content?: unknown }[];
  const { content = "" } = said.at(-1) ?? {};
  return { content } as NonNullable<ContextEdit["replacement"]>;
}

const notInContext = (why: string) =>
  new EngineError("not-in-context", `The model does not read this entry at the leaf; ${why}.`);
