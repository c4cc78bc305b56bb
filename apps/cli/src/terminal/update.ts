import { ACT_BINDINGS } from "./act-bindings.ts";
import { bindingOf } from "./binding.ts";
import { pasteIntoDialog, updateDialog } from "./dialog.ts";
import { generalKey } from "./general-bindings.ts";
import { treeLayout } from "./layout.ts";
import { moveInList, SESSIONS_BINDINGS, searchFor, searchKey } from "./sessions-bindings.ts";
import { sessionsRows } from "./sessions-rows.ts";
import { type Next, next, type TerminalState } from "./state.ts";
import type { TerminalEffect } from "./terminal-effect.ts";
import type { TerminalEvent } from "./terminal-event.ts";
import { insertText } from "./text-field.ts";
import { READING_BINDINGS, TREE_BINDINGS } from "./tree-bindings.ts";
import { moveTo, shownOnScreen } from "./tree-cursor.ts";
import { type OtherEvent, updateByEvent } from "./update-by-event.ts";

/** What the terminal is after something happened, and what shall be done about it. Pure, but for reading the log. */
export function update(state: TerminalState, event: TerminalEvent): Next {
  const { state: changed, effects } = changedBy(state, event);
  return next(changed, ...effects, ...readsFor(state, changed));
}

function changedBy(state: TerminalState, event: TerminalEvent): Next {
  if (event.type === "key") return updateByKey({ ...state, notice: undefined }, event.key);
  if (event.type === "paste") return updateByPaste(state, event.text);
  if (event.type === "click") return updateByClick(state, event.row);
  return updateByEvent(state, event satisfies OtherEvent);
}

function updateByKey(state: TerminalState, key: string): Next {
  const { dialog, tree, sessions } = state;
  if (dialog) return updateDialog(state, dialog, key);
  if (tree) {
    const binding =
      (tree.isReading ? bindingOf(READING_BINDINGS, key) : undefined) ??
      bindingOf(TREE_BINDINGS, key) ??
      bindingOf(ACT_BINDINGS, key);
    return binding?.run(state, tree) ?? generalKey(state, key) ?? next(state);
  }
  const searched = searchKey(state, sessions, key);
  return (
    searched ??
    bindingOf(SESSIONS_BINDINGS, key)?.run(state, sessions) ??
    generalKey(state, key) ??
    next(state)
  );
}

function updateByPaste(state: TerminalState, text: string): Next {
  const { dialog, tree, sessions } = state;
  if (dialog) return pasteIntoDialog(state, dialog, text);
  if (tree || !sessions.query) return next(state);
  return searchFor(state, sessions, insertText(sessions.query, text.replace(/\s*\n\s*/g, " ")));
}

/** Lines above the body. */
const HEADING = 1;

function updateByClick(state: TerminalState, row: number): Next {
  const { dialog, tree, sessions } = state;
  if (dialog) return next(state);
  if (!tree) {
    const at = sessions.top + row - HEADING - 1;
    const isRow = row > HEADING && at < sessionsRows(sessions).length;
    return next(isRow ? { ...state, sessions: moveInList(state, sessions, at) } : state);
  }
  if (tree.isReading) return next(state);
  const position = shownOnScreen(tree, treeLayout(state, false).treeHeight)[row - HEADING];
  return next(position === undefined ? state : { ...state, tree: moveTo(state, tree, position) });
}

/** What has to be read for what is shown now and was not shown before. */
function readsFor(before: TerminalState, { tree, sessions }: TerminalState): TerminalEffect[] {
  if (tree) {
    const isShownAnew =
      tree.cursor !== before.tree?.cursor ||
      tree.tab !== before.tree.tab ||
      tree.view.model !== before.tree.view.model;
    if (!isShownAnew || tree.cursor < 0 || tree.tab === "entry") return [];
    return [{ type: tree.tab === "context" ? "read-context" : "read-usage", row: tree.cursor }];
  }
  const isSameList =
    before.sessions.listed === sessions.listed &&
    before.sessions.showsSubAgents === sessions.showsSubAgents &&
    before.sessions.top === sessions.top;
  if (isSameList && !before.tree) return [];
  const refs = sessionsRows(sessions)
    .slice(sessions.top, sessions.top + 100)
    .flatMap((row) =>
      row.type === "session" && !sessions.facts.has(row.session.ref) ? [row.session.ref] : [],
    );
  return refs.length === 0 ? [] : [{ type: "read-facts", refs }];
}
