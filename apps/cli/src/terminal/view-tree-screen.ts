import { beside, fitLine, fitLines, type Line, line, lineWidth, type Span, span } from "./frame.ts";
import { treeLayout } from "./layout.ts";
import { minimap } from "./minimap.ts";
import { furthestScroll, previewLines, TABS } from "./preview.ts";
import { rowLine } from "./row-line.ts";
import type { TerminalState, TreeState } from "./state.ts";
import { shownOnScreen } from "./tree-cursor.ts";

/** The body of the tree's screen: the tree with a map of the whole, and the preview beside or below it. */
export function viewTreeScreen(state: TerminalState, tree: TreeState): Line[] {
  const layout = treeLayout(state, tree.isReading);
  const preview = previewPane(state, tree);
  if (layout.preview === "whole") return preview;
  const rows = treePane(state, tree);
  if (layout.preview === "below") return [...rows, ...preview];
  return beside(rows, layout.treeColumns, span("│ ", "dim"), preview);
}

function treePane(state: TerminalState, tree: TreeState): Line[] {
  const { treeColumns, treeHeight } = treeLayout(state, tree.isReading);
  const { view, cursor, mark } = tree;
  const positions = shownOnScreen(tree, treeHeight);
  const look = {
    columns: treeColumns - 2,
    now: state.now,
    cursor,
    mark,
    query: tree.query.toLowerCase(),
  };
  const rows = positions.map((position) => rowLine(view, position, look));
  if (rows.length === 0) rows.push(line(span(emptyText(tree), "dim")));
  const map = minimap(view.model, treeHeight, { first: positions[0] ?? 0, last: positions.at(-1) ?? 0 });
  return fitLines(rows, treeHeight).map((row, at) => ({
    spans: [...fitLine(row, treeColumns - 2).spans, span(" "), map[at] ?? span(" ")],
  }));
}

const emptyText = ({ view }: TreeState): string =>
  view.model.length === 0
    ? "  This session has no entry yet."
    : "  Nothing here is shown; f shows other rows.";

function previewPane(state: TerminalState, tree: TreeState): Line[] {
  const { previewColumns, previewHeight } = treeLayout(state, tree.isReading);
  const scroll = furthestScroll(state, tree, tree.scroll);
  const { lines, isWhole } = previewLines(state, tree, scroll + previewHeight + 1);
  const shown = fitLines(lines.slice(scroll, scroll + previewHeight), previewHeight);
  const left = lines.length - scroll - previewHeight;
  const count = isWhole ? `${left} more` : "more";
  const more = left > 0 ? `${scroll > 0 ? "↑" : " "}${count} ↓` : scroll > 0 ? "↑" : "";
  return [tabLine(tree, previewColumns, more), ...shown];
}

/** The tabs, and how much more there is; where that does not fit, those that are not shown are numbers alone. */
function tabLine(tree: TreeState, columns: number, more: string): Line {
  const behind = more === "" ? [] : [span(` ${more} `, "dim")];
  for (const tabs of [tabSpans(tree, true), tabSpans(tree, false)]) {
    const rest = columns - lineWidth({ spans: [...tabs, ...behind] });
    if (rest >= 0) return { spans: [...tabs, span("─".repeat(rest), "dim"), ...behind] };
  }
  return fitLine({ spans: tabSpans(tree, false) }, columns);
}

function tabSpans({ tab }: TreeState, isNamed: boolean): Span[] {
  const spans: Span[] = [span("─", "dim")];
  for (const [at, { name, title }] of TABS.entries()) {
    const isShown = name === tab;
    const text = isShown || isNamed ? `${at + 1} ${title}` : `${at + 1}`;
    spans.push(span(isShown ? `[${text}]` : ` ${text} `, isShown ? "heading" : "dim"), span("─", "dim"));
  }
  return spans;
}
