import { formatCount, formatMany } from "../../numbers.ts";
import { frameText } from "../screen/frame.ts";
import { effect, say, type TerminalState, type TreeSearch, type TreeState } from "../state/state.ts";
import { editText, textField } from "../state/text-field.ts";
import {
  cursorPosition,
  fold,
  jump,
  nextFilter,
  nextLabel,
  positionOf,
  previousLabel,
  reveal,
  step,
  toggle,
  toggleAll,
  toggleBookkeeping,
  toLeaf,
  toOtherSide,
  toParent,
  toParting,
  unfold,
} from "../state/tree-cursor.ts";
import { bodyHeight, treeLayout } from "../view/layout.ts";
import { furthestScroll, previewLines, TABS } from "../view/preview.ts";
import { type Binding, movingBindings } from "./act-bindings.ts";

type TreeBinding = Binding<TreeState>;

/** Makes the function of a key that changes only the tree's state. */
const moves =
  (move: (state: TerminalState, tree: TreeState) => TreeState): TreeBinding["run"] =>
  (state, tree) => ({ ...state, tree: move(state, tree) });

/** Makes the function of a key that jumps, or shows a message when there is no target. */
const jumps =
  (to: Parameters<typeof jump>[2], missing: string): TreeBinding["run"] =>
  (state, tree) => {
    const moved = jump(state, tree, to);
    return moved === tree ? say(state, missing) : { ...state, tree: moved };
  };

/** Ends a search without moving the cursor. */
export const endSearch = (state: TerminalState, tree: TreeState): TerminalState =>
  effect(
    { ...state, tree: { ...tree, search: undefined, query: "", hits: [] } },
    { type: "find", query: "" },
  );

/** Handles a key while the query of a search is typed. */
export function typeSearch(
  state: TerminalState,
  tree: TreeState,
  search: TreeSearch,
  key: string,
): TerminalState {
  if (key === "escape" || key === "ctrl-c") {
    const from = positionOf(tree.view.model, search.from);
    return endSearch(state, from < 0 ? tree : reveal(state, tree, from));
  }
  if (key === "enter")
    return tree.query === "" ? endSearch(state, tree) : toHit(state, { ...tree, search: undefined }, 0);
  if (key === "down" || key === "up") return toHit(state, tree, key === "down" ? 1 : -1);
  return searchTree(state, tree, { ...search, field: editText(search.field, key) });
}

/** Returns the tree during a search for another text. */
export function searchTree(state: TerminalState, tree: TreeState, search: TreeSearch): TerminalState {
  const query = search.field.text.trim() === "" ? "" : search.field.text;
  if (query === tree.query) return { ...state, tree: { ...tree, search } };
  return effect({ ...state, tree: { ...tree, search, query, hits: [] } }, { type: "find", query });
}

/** Positions of the hits, ascending. */
const foundPositions = ({ hits, view }: TreeState): number[] =>
  hits.map((row) => positionOf(view.model, row)).filter((position) => position >= 0);

/** Cursor among the hits: `3 of 17`; `17 places` if it is on no hit, `nothing found` without hits. */
export function hitCount(tree: TreeState): string {
  const found = foundPositions(tree);
  if (found.length === 0) return "nothing found";
  const at = found.indexOf(cursorPosition(tree));
  return at < 0
    ? formatMany(found.length, "place")
    : `${formatCount(at + 1)} of ${formatCount(found.length)}`;
}

/** Moves to the first hit at or after the row where the search began, else to the first hit of the tree. */
export function toFirstHit(state: TerminalState, tree: TreeState): TreeState {
  const found = foundPositions(tree);
  const from = tree.view.model.order.positions[tree.search?.from ?? tree.cursor] ?? 0;
  const to = found.find((position) => position >= from) ?? found[0];
  return to === undefined ? tree : showMatch(state, reveal(state, tree, to));
}

/** Moves to the next or previous hit, around the end; with 0, stays at a hit, else moves to the next. */
export function toHit(state: TerminalState, tree: TreeState, direction: 1 | 0 | -1): TerminalState {
  const found = foundPositions(tree);
  if (found.length === 0)
    return say(
      { ...state, tree: { ...tree, awaits: tree.cursor } },
      tree.query === "" ? "There is no search; / starts one." : `No entry contains ${tree.query}.`,
    );
  const at = cursorPosition(tree);
  const to =
    direction < 0
      ? (found.findLast((position) => position < at) ?? found.at(-1)!)
      : (found.find((position) => (direction === 0 ? position >= at : position > at)) ?? found[0]!);
  const told = `Place ${formatCount(found.indexOf(to) + 1)} of ${formatCount(found.length)} with ${tree.query} · n next, N previous, Esc ends the search`;
  const moved = showMatch(state, reveal(state, tree, to));
  return say({ ...state, tree: { ...moved, awaits: moved.cursor } }, told);
}

/** Lines of a preview that are searched for the first match, and lines that stay visible above it. */
const LOOKED_THROUGH = 2_000;
const ABOVE = 2;

/** Scrolls the preview to its first line with the query. */
function showMatch(state: TerminalState, tree: TreeState): TreeState {
  if (tree.tab !== "entry") return tree;
  const query = tree.query.toLowerCase();
  const { lines } = previewLines(state, tree, LOOKED_THROUGH);
  const at = lines.findIndex((one) => frameText([one]).toLowerCase().includes(query));
  return { ...tree, scroll: furthestScroll(state, tree, Math.max(0, at - ABOVE)) };
}

const scrollPreview =
  (by: number) =>
  (state: TerminalState, tree: TreeState): TreeState => ({
    ...tree,
    scroll: furthestScroll(state, tree, Math.max(0, tree.scroll + by)),
  });

/** Keys of the tree, without the keys of acts. */
export const TREE_BINDINGS: readonly TreeBinding[] = [
  ...movingBindings<TreeState>(
    (state) => treeLayout(state, false).treeHeight - 1,
    (state, tree, by) => ({ ...state, tree: step(state, tree, by) }),
  ),
  {
    keys: ["."],
    title: "to the leaf, from which the session continues",
    hint: "leaf",
    run: jumps(toLeaf, "The leaf is before the first entry."),
  },
  {
    keys: ["]"],
    title: "to the next entry where branches start",
    run: jumps(toParting(1), "No branch starts further down."),
  },
  { keys: ["["], title: "to the previous one", run: jumps(toParting(-1), "No branch starts further up.") },
  { keys: ["p", "backspace"], title: "to the parent", run: jumps(toParent, "This is the root.") },
  {
    keys: ["o"],
    title: "to the other side of the branch",
    hint: "other side",
    run: jumps(toOtherSide, "No branch starts above this."),
  },
  { keys: ["}"], title: "to the next label", run: jumps(nextLabel, "No label further down.") },
  { keys: ["{"], title: "to the previous label", run: jumps(previousLabel, "No label further up.") },
  {
    keys: [" "],
    shown: "Space",
    title: "fold or unfold a turn or a branch",
    hint: "fold",
    run: moves(toggle),
  },
  { keys: ["right"], shown: "→", title: "unfold", run: moves(unfold) },
  { keys: ["left"], shown: "←", title: "fold", run: moves(fold) },
  { keys: ["Z"], title: "fold all branches, or none", run: moves(toggleAll) },
  {
    keys: ["f"],
    title: "switch the filter: turns, no tools, users only, labelled only, everything",
    hint: "filter",
    run: moves(nextFilter),
  },
  {
    keys: ["b"],
    title: "show or fold bookkeeping: reminders, state, changes of the model, snapshots",
    run: (state, tree) => {
      const toggled = toggleBookkeeping(state, tree);
      const { bookkeeping, showsBookkeeping } = toggled.view.model;
      const count = bookkeeping.reduce((sum, mark) => sum + mark, 0);
      const what = `${formatMany(count, "entry", "entries")} of bookkeeping`;
      return say({ ...state, tree: toggled }, `${what} ${showsBookkeeping ? "shown" : "folded"}.`);
    },
  },
  {
    keys: ["/"],
    title: "search in this session as you type; Enter stays at the hit, Esc goes back",
    hint: "search",
    run: moves((_, tree) => ({
      ...tree,
      search: { field: textField(), from: tree.cursor },
      query: "",
      hits: [],
    })),
  },
  { keys: ["n"], title: "to the next hit", run: (state, tree) => toHit(state, tree, 1) },
  { keys: ["N"], title: "to the previous one", run: (state, tree) => toHit(state, tree, -1) },
  {
    keys: ["enter"],
    shown: "Enter",
    title: "read the preview on the whole screen, and back",
    hint: "read",
    run: moves((_, tree) => ({ ...tree, isReading: !tree.isReading, scroll: 0 })),
  },
  {
    keys: ["tab"],
    shown: "Tab",
    title: "tabs: what was said, what the model reads here, usage and cost",
    hint: "preview",
    run: moves((_, tree) => {
      const at = TABS.findIndex(({ name }) => name === tree.tab);
      return { ...tree, tab: TABS[(at + 1) % TABS.length]!.name, scroll: 0 };
    }),
  },
  ...TABS.map(({ name: tab, title }, at): TreeBinding => {
    return { keys: [String(at + 1)], title, run: moves((_, tree) => ({ ...tree, tab, scroll: 0 })) };
  }),
  { keys: ["J"], title: "scroll the preview down", run: moves(scrollPreview(1)) },
  { keys: ["K"], title: "scroll it up", run: moves(scrollPreview(-1)) },
  {
    keys: ["z"],
    title: "show calls, results and thoughts in full or shortened",
    run: moves((_, tree) => ({ ...tree, isDetailed: !tree.isDetailed })),
  },
];

const readOther = (key: string, shown: string, title: string, by: number): TreeBinding => ({
  keys: [key],
  shown,
  title,
  run: moves((state, tree) => ({ ...step(state, tree, by), scroll: 0 })),
});

const readingPage = (state: TerminalState): number => bodyHeight(state) - 2;

/** Keys of the reading pane; all others work as in the tree. */
export const READING_BINDINGS: readonly TreeBinding[] = [
  ...movingBindings<TreeState>(readingPage, (state, tree, by) => moves(scrollPreview(by))(state, tree)),
  {
    keys: [" "],
    shown: "Space",
    title: "a screen down",
    run: moves((state, tree) => scrollPreview(readingPage(state))(state, tree)),
  },
  readOther("right", "→", "to the next row of the tree", 1),
  readOther("left", "←", "to the previous row of the tree", -1),
];
