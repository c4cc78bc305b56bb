import { ROW_KINDS } from "../model/outline.ts";
import { formatCount, formatDollars, formatTokens } from "./format-numbers.ts";
import type { SessionModel } from "./session-model.ts";

interface TreeLineProps {
  model: SessionModel;
  line: number;
  /** Pixels. */
  top: number;
  height: number;
  left: number;
}

/** What a line of the tree says. */
export function TreeLine({ model, line, top, height, left }: TreeLineProps) {
  const { layout, rows, facts } = model;
  const row = layout.rows[line]!;
  const count = layout.counts[line]!;
  const kind = rows.kind(row);
  const label = model.labels.get(row);
  const isSelected = row === model.selected;
  const words = count > 1 ? `${formatCount(count, "step")}` : undefined;
  const gist = model.gist(layout.tellers[line]!);
  const text = gist?.text ?? "";
  const classes = ["tree-line", `kind-${kind === "?" ? "unknown" : kind}`];
  if (isSelected) classes.push("selected");
  if (layout.active[row] !== 1) classes.push("aside");
  if (count > 1) classes.push("run");
  if (gist?.failed) classes.push("failed");
  const cost = model.lineCosts[line] ?? 0;
  const act = () => (count > 1 ? model.openRun(row) : model.select(row));
  return (
    // biome-ignore lint/a11y/useKeyWithClickEvents: the tree itself has the keys
    // biome-ignore lint/a11y/useFocusableInteractive: the tree itself has the focus and names the line that is looked at
    <div
      id={`line-${line}`}
      role="treeitem"
      aria-level={layout.lanes[line]! + 1}
      aria-setsize={layout.rows.length}
      aria-posinset={line + 1}
      aria-selected={isSelected}
      aria-label={`${ROW_KINDS[kind]}${label ? `, labelled ${label}` : ""}: ${words ?? text}`}
      class={classes.join(" ")}
      style={{
        transform: `translateY(${top}px)`,
        height: `${height}px`,
        lineHeight: `${height}px`,
        paddingLeft: `${left}px`,
      }}
      data-row={row}
      onClick={act}
    >
      {label !== undefined && <span class="tag">{label}</span>}
      {row === facts.leafRow && <span class="tag leaf">leaf</span>}
      {words !== undefined && <span class="steps">{words}</span>}
      {words === undefined && gist && gist.tools.length > 0 && (
        <span class="tool">{toolNames(gist.tools)}</span>
      )}
      <bdi class="text">{kind === "c" ? compactionWords(model, row) : text}</bdi>
      {cost > 0 && <span class="number">{formatDollars(cost)}</span>}
      {kind !== "c" && count === 1 && gist !== undefined && gist.tokens > 0 && (
        <span class="number">{formatTokens(gist.tokens)}</span>
      )}
    </div>
  );
}

/** `bash ×3 · edit` */
function toolNames(tools: readonly string[]): string {
  const counts = new Map<string, number>();
  for (const tool of tools) counts.set(tool, (counts.get(tool) ?? 0) + 1);
  return [...counts].map(([tool, count]) => (count > 1 ? `${tool} ×${count}` : tool)).join(" · ");
}

function compactionWords({ facts }: SessionModel, row: number): string {
  const mark = facts.compactions.find((compaction) => compaction.row === row);
  return mark ? `Compaction of ${formatTokens(mark.tokensBefore)} tokens` : "Compaction";
}
