import { type Span, span } from "./frame.ts";
import type { TreeModel } from "./tree-model.ts";

/** Which positions are on the screen. */
export interface Viewport {
  first: number;
  last: number;
}

/**
 * The whole tree in one column: a cell stands for as many entries as fit, and shows what is most worth going to there:
 * the leaf, a label, a compaction, a branch; behind all of it, where the screen is.
 */
export function minimap({ order, ...model }: TreeModel, height: number, { first, last }: Viewport): Span[] {
  const { length } = order;
  if (length === 0) return Array.from({ length: height }, () => span(" "));
  // A screen that is a small part of the whole is what one looks for on the map.
  const isSmall = (last - first) * 3 < length;
  const leaf = model.leafRow < 0 ? -1 : (order.positions[model.leafRow] ?? -1);
  return Array.from({ length: height }, (_, cell) => {
    const from = Math.floor((cell * length) / height);
    const to = Math.max(from + 1, Math.floor(((cell + 1) * length) / height));
    if (leaf >= from && leaf < to) return span("*", "leaf");
    const isSeen = first < to && last >= from;
    if (isSeen && isSmall) return span("█", "plain");
    if (hasBetween(model.labelPositions, from, to)) return span("●", "label");
    if (hasBetween(model.compactionPositions, from, to)) return span("◆", "summary");
    if (isSeen) return span("█", "plain");
    return hasBetween(order.branchStarts, from, to) ? span("├", "dim") : span("│", "dim");
  });
}

/** Whether an ascending list has a number in `[from, to)`. */
function hasBetween(numbers: readonly number[], from: number, to: number): boolean {
  let low = 0;
  for (let high = numbers.length; low < high; ) {
    const middle = (low + high) >>> 1;
    if (numbers[middle]! < from) low = middle + 1;
    else high = middle;
  }
  return (numbers[low] ?? Number.POSITIVE_INFINITY) < to;
}
