import type { LaneWindow } from "./draw-lanes.ts";
import type { SessionModel } from "./session-model.ts";
import type { TreeColours } from "./tree-colours.ts";

/** Where the bracket stands, left of all lanes, and how far its ends reach; pixels. */
const LEFT = 2.5;
const REACH = 4;

/**
 * A bracket beside what a compaction of the path stands for: of the one that is looked at, else of the newest. From
 * where the one before it kept entries, or from the root, to the first entry that this one keeps.
 */
export function drawCovered(
  canvas: CanvasRenderingContext2D,
  { facts, layout, path, selected }: SessionModel,
  colours: TreeColours,
  { from, to, top, lineHeight }: LaneWindow,
): void {
  const onPath = facts.compactions.filter(({ row }) => layout.active[row] === 1);
  const looked = onPath.findIndex(({ row }) => row === selected);
  const at = looked < 0 ? onPath.length - 1 : looked;
  const shown = onPath[at];
  const begins = onPath[at - 1]?.firstKeptRow ?? path[0];
  if (!shown || begins === undefined || begins >= shown.firstKeptRow) return;
  const [first, end] = [layout.lineOf[begins] ?? -1, layout.lineOf[shown.firstKeptRow] ?? -1];
  if (first < 0 || end <= first || end <= from || first >= to) return;
  const yOf = (line: number) => top + (line - from) * lineHeight;
  canvas.strokeStyle = colours.kinds["c"] ?? colours.ink;
  canvas.lineWidth = 1.5;
  canvas.beginPath();
  canvas.moveTo(LEFT + REACH, yOf(first) + 2);
  canvas.lineTo(LEFT, yOf(first) + 2);
  canvas.lineTo(LEFT, yOf(end) - 2);
  canvas.lineTo(LEFT + REACH, yOf(end) - 2);
  canvas.stroke();
}
