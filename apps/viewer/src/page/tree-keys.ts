import type { SessionModel } from "./session-model.ts";

/**
 * The line that a key leads to from another; -1 where it did something else, undefined for keys that mean nothing here.
 * `page` is how many lines are in sight.
 */
export function stepInTree(key: string, model: SessionModel, line: number, page: number): number | undefined {
  const { layout, facts } = model;
  const last = layout.rows.length - 1;
  if (last < 0) return undefined;
  const within = (at: number) => Math.max(0, Math.min(last, at));
  switch (key) {
    case "ArrowDown":
    case "j":
      return within(line + 1);
    case "ArrowUp":
    case "k":
      return within(line - 1);
    case "PageDown":
      return within(line + page);
    case "PageUp":
      return within(line - page);
    case "Home":
      return 0;
    case "End":
      return last;
    case "ArrowLeft":
      return within(layout.parents[line] ?? 0);
    case "ArrowRight":
      if (line < 0 || layout.counts[line] === 1) return within(line + 1);
      model.openRun(layout.rows[line]!);
      return -1;
    case "[":
    case "]": {
      const lines = facts.compactions.map(({ row }) => layout.lineOf[row] ?? -1).sort((a, b) => a - b);
      const next = key === "]" ? lines.find((at) => at > line) : lines.findLast((at) => at < line && at >= 0);
      return next ?? line;
    }
    default:
      return undefined;
  }
}
