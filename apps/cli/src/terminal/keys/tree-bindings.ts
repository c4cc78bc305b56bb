import { askText } from "../state/dialog.ts";
import { type Next, next, type PreviewTab, say, type TerminalState, type TreeState } from "../state/state.ts";
import { textField } from "../state/text-field.ts";
import {
  cursorPosition,
  fold,
  jump,
  nextFilter,
  nextLabel,
  nextParting,
  previousLabel,
  previousParting,
  reveal,
  step,
  toggle,
  toggleAll,
  toLeaf,
  toOtherSide,
  toParent,
  unfold,
} from "../state/tree-cursor.ts";
import { bodyHeight, treeLayout } from "../view/layout.ts";
import { furthestScroll, TABS } from "../view/preview.ts";
import { type Binding, movingBindings } from "./act-bindings.ts";

type TreeBinding = Binding<TreeState>;

/** A key that changes the tree's state alone. */
const moves =
  (move: (state: TerminalState, tree: TreeState) => TreeState): TreeBinding["run"] =>
  (state, tree) =>
    next({ ...state, tree: move(state, tree) });

/** A key that jumps, or shows a message when there is nothing to jump to. */
const jumps =
  (to: Parameters<typeof jump>[2], missing: string): TreeBinding["run"] =>
  (state, tree) => {
    const moved = jump(state, tree, to);
    return next(moved === tree ? say(state, missing) : { ...state, tree: moved });
  };

const MOVES = movingBindings<TreeState>(
  (state) => treeLayout(state, false).treeHeight - 1,
  (state, tree, by) => next({ ...state, tree: step(state, tree, by) }),
);

const JUMPS: readonly TreeBinding[] = [
  {
    keys: ["."],
    title: "to the leaf, from which the session continues",
    hint: "leaf",
    run: jumps(toLeaf, "The session continues before its first entry."),
  },
  {
    keys: ["]"],
    title: "to the next place where branches start",
    run: jumps(nextParting, "No branch starts further down."),
  },
  { keys: ["["], title: "to the one before", run: jumps(previousParting, "No branch starts further up.") },
  { keys: ["p", "backspace"], title: "to the parent", run: jumps(toParent, "This is the root.") },
  {
    keys: ["o"],
    title: "to the other side of the branch",
    hint: "other side",
    run: jumps(toOtherSide, "No branch starts above this."),
  },
  { keys: ["}"], title: "to the next label", run: jumps(nextLabel, "No label further down.") },
  { keys: ["{"], title: "to the label before", run: jumps(previousLabel, "No label further up.") },
];

const FOLDS: readonly TreeBinding[] = [
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
    title: "show turns, hide tools, users only, labelled only, everything",
    hint: "filter",
    run: moves(nextFilter),
  },
  {
    keys: ["/"],
    title: "search in this session",
    hint: "search",
    run: (state, tree) =>
      next({
        ...state,
        dialog: askText("Search in this session", textField(tree.query), (closed, text) =>
          closed.tree
            ? next(
                { ...closed, tree: { ...closed.tree, query: text.trim(), hits: [] } },
                { type: "find", query: text.trim() },
              )
            : next(closed),
        ),
      }),
  },
  { keys: ["n"], title: "to the next place found", run: (state, tree) => toHit(state, tree, 1) },
  { keys: ["N"], title: "to the one before", run: (state, tree) => toHit(state, tree, -1) },
];

/** The next or previous row of those found, round about. */
export function toHit(state: TerminalState, tree: TreeState, direction: 1 | -1): Next {
  const { positions } = tree.view.model.order;
  const found = tree.hits.flatMap((row) => positions[row] ?? []).filter((position) => position >= 0);
  if (found.length === 0)
    return next(
      say(state, tree.query === "" ? "There is no search; / starts one." : `Nothing found of ${tree.query}.`),
    );
  const at = cursorPosition(tree);
  const to =
    direction > 0
      ? (found.find((position) => position > at) ?? found[0]!)
      : (found.findLast((position) => position < at) ?? found.at(-1)!);
  const told = `Place ${found.indexOf(to) + 1} of ${found.length} with ${tree.query}`;
  return next(say({ ...state, tree: reveal(state, tree, to) }, told));
}

const showTab = (tab: PreviewTab): TreeBinding["run"] => moves((_, tree) => ({ ...tree, tab, scroll: 0 }));

function scrollPreview(state: TerminalState, tree: TreeState, by: number): TreeState {
  return { ...tree, scroll: furthestScroll(state, tree, Math.max(0, tree.scroll + by)) };
}

const PREVIEW: readonly TreeBinding[] = [
  {
    keys: ["enter"],
    shown: "Enter",
    title: "read: the preview on the whole screen, and back",
    hint: "read",
    run: moves((_, tree) => ({ ...tree, isReading: !tree.isReading, scroll: 0 })),
  },
  {
    keys: ["tab"],
    shown: "Tab",
    title: "what was said, what the model reads here, usage and cost",
    hint: "preview",
    run: moves((_, tree) => {
      const at = TABS.findIndex(({ name }) => name === tree.tab);
      return { ...tree, tab: TABS[(at + 1) % TABS.length]!.name, scroll: 0 };
    }),
  },
  ...TABS.map(
    ({ name, title }, at): TreeBinding => ({
      keys: [String(at + 1)],
      title,
      run: showTab(name),
    }),
  ),
  {
    keys: ["J"],
    title: "scroll the preview down",
    run: moves((state, tree) => scrollPreview(state, tree, 1)),
  },
  { keys: ["K"], title: "scroll it up", run: moves((state, tree) => scrollPreview(state, tree, -1)) },
  {
    keys: ["z"],
    title: "calls, results and thoughts in full, or in short",
    run: moves((_, tree) => ({ ...tree, isDetailed: !tree.isDetailed })),
  },
];

/** Keys of the tree, acts not among them. */
export const TREE_BINDINGS: readonly TreeBinding[] = [...MOVES, ...JUMPS, ...FOLDS, ...PREVIEW];

const readOther = (key: string, shown: string, title: string, by: number): TreeBinding => ({
  keys: [key],
  shown,
  title,
  run: moves((state, tree) => ({ ...step(state, tree, by), scroll: 0 })),
});

const scrollBy = (state: TerminalState, tree: TreeState, by: number): Next =>
  next({ ...state, tree: scrollPreview(state, tree, by) });

const readingPage = (state: TerminalState): number => bodyHeight(state) - 2;

/** Keys of the reading pane; all others mean the same as in the tree. */
export const READING_BINDINGS: readonly TreeBinding[] = [
  ...movingBindings<TreeState>(readingPage, scrollBy),
  {
    keys: [" "],
    shown: "Space",
    title: "a screen down",
    run: (state, tree) => scrollBy(state, tree, readingPage(state)),
  },
  readOther("right", "→", "to the next row of the tree", 1),
  readOther("left", "←", "to the row before", -1),
];
