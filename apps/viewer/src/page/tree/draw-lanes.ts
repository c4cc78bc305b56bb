import type { SessionModel } from "../source/session-model.ts";

/** Visible part of the tree. */
interface LaneWindow {
  /** First visible line, and the last one (exclusive). */
  from: number;
  to: number;
  /** Pixels from the top of the canvas to the first line. */
  top: number;
  lineHeight: number;
  /** Pixels between two lanes. */
  laneWidth: number;
}

/** Pixels to the left of the first lane. */
export const LANES_LEFT = 14;
const laneX = (lane: number, laneWidth: number): number => LANES_LEFT + lane * laneWidth;

/**
 * Draws lanes, entries, and the arrows of branch summaries. The cost depends on the visible part, not on the session's
 * size.
 */
export function drawLanes(
  canvas: CanvasRenderingContext2D,
  model: SessionModel,
  colours: TreeColours,
  window: LaneWindow,
): void {
  canvas.lineCap = "round";
  for (let line = window.from; line < window.to; line++) drawRails(canvas, model, colours, window, line);
  drawArrows(canvas, model, colours, window);
  for (let line = window.from; line < window.to; line++) drawNode(canvas, model, colours, window, line);
}

const middleOf = (line: number, { from, top, lineHeight }: LaneWindow): number =>
  top + (line - from + 0.5) * lineHeight;

function drawRails(
  canvas: CanvasRenderingContext2D,
  model: SessionModel,
  colours: TreeColours,
  window: LaneWindow,
  line: number,
): void {
  const { layout } = model;
  const { laneWidth, lineHeight } = window;
  const middle = middleOf(line, window);
  const [above, below] = [middle - lineHeight / 2, middle + lineHeight / 2];
  const lane = layout.lanes[line]!;
  const x = laneX(lane, laneWidth);
  const stroke = (colour: string, width: number, fromX: number, fromY: number, toX: number, toY: number) => {
    canvas.strokeStyle = colour;
    canvas.lineWidth = width;
    canvas.beginPath();
    canvas.moveTo(fromX, fromY);
    // Inside a lane the line is straight; between two lanes the curve begins and ends vertically.
    canvas.bezierCurveTo(fromX, toY, toX, fromY, toX, toY);
    canvas.stroke();
  };
  for (let mask = layout.passing[line]!, at = 0; mask !== 0; mask >>>= 1, at++) {
    if ((mask & 1) === 0) continue;
    const passing = laneX(at, laneWidth);
    const isActive = ((layout.passingActive[line]! >>> at) & 1) === 1;
    stroke(railColour(colours, at, isActive), THIN, passing, above, passing, below);
  }
  const isActive = layout.active[layout.rows[line]!] === 1;
  const colour = railColour(colours, lane, isActive);
  const parent = layout.parents[line]!;
  if (parent >= 0) stroke(colour, THIN, laneX(layout.lanes[parent]!, laneWidth), above, x, middle);
  if (layout.goesOn[line] === 1) stroke(colour, THIN, x, middle, x, below);
  const width = costWidth(model, line);
  const reach = Math.min(lineHeight / 2 - 2, lineHeight / 3);
  if (width > 0) stroke(colour, width, x, middle - reach, x, middle + reach);
}

const THIN = 2;

function railColour(colours: TreeColours, lane: number, isActive: boolean): string {
  return isActive ? colours.main : (colours.lanes[lane % colours.lanes.length] ?? colours.faded);
}

/**
 * Width in pixels of a line's cost. It grows with the square root of the dollars: ten times the cost is about three
 * times as wide.
 */
function costWidth({ lineCosts }: SessionModel, line: number): number {
  const cost = lineCosts[line] ?? 0;
  return cost === 0 ? 0 : Math.min(8, THIN + Math.sqrt(cost * 40));
}

function drawNode(
  canvas: CanvasRenderingContext2D,
  model: SessionModel,
  colours: TreeColours,
  window: LaneWindow,
  line: number,
): void {
  const { layout, rows } = model;
  const row = layout.rows[line]!;
  const x = laneX(layout.lanes[line]!, window.laneWidth);
  const y = middleOf(line, window);
  const kind = rows.kind(row);
  const isActive = layout.active[row] === 1;
  const isHidden = model.isHidden(row) || model.leftOut.has(row);
  const colour = colours.kinds[kind] ?? colours.faded;
  const size = Math.min(window.lineHeight / 2.6, kind === "u" ? 5.5 : kind === "c" || kind === "f" ? 6 : 3.5);
  canvas.fillStyle = isHidden ? colours.paper : colour;
  canvas.strokeStyle = colour;
  canvas.lineWidth = 1.5;
  canvas.globalAlpha = isActive ? 1 : 0.75;
  canvas.beginPath();
  if (kind === "c") canvas.rect(x - size, y - size / 1.6, size * 2, size * 1.25);
  else if (kind === "f") {
    canvas.moveTo(x, y - size);
    canvas.lineTo(x + size, y);
    canvas.lineTo(x, y + size);
    canvas.lineTo(x - size, y);
    canvas.closePath();
  } else if (layout.counts[line]! > 1) {
    // A run is drawn as three dots on the lane.
    for (const bead of [-1, 0, 1]) {
      canvas.moveTo(x + 1.8, y + (bead * window.lineHeight) / 4);
      canvas.arc(x, y + (bead * window.lineHeight) / 4, 1.8, 0, Math.PI * 2);
    }
  } else canvas.arc(x, y, size, 0, Math.PI * 2);
  canvas.fill();
  canvas.stroke();
  if (layout.lineOf[model.selected] === line) {
    canvas.strokeStyle = colours.ink;
    canvas.lineWidth = 1.5;
    canvas.beginPath();
    canvas.arc(x, y, size + 3.5, 0, Math.PI * 2);
    canvas.stroke();
  }
  canvas.globalAlpha = 1;
}

/** Draws an arrow from the end of a branch to its summary. */
function drawArrows(
  canvas: CanvasRenderingContext2D,
  { facts, layout }: SessionModel,
  colours: TreeColours,
  window: LaneWindow,
): void {
  canvas.strokeStyle = colours.kinds["f"] ?? colours.ink;
  canvas.fillStyle = canvas.strokeStyle;
  canvas.lineWidth = 1.5;
  for (const { row, fromRow } of facts.summaries) {
    const [to, from] = [layout.lineOf[row] ?? -1, layout.lineOf[fromRow] ?? -1];
    if (to < 0 || from < 0 || Math.max(to, from) < window.from || Math.min(to, from) >= window.to) continue;
    const start = { x: laneX(layout.lanes[from]!, window.laneWidth) + 6, y: middleOf(from, window) };
    const end = { x: laneX(layout.lanes[to]!, window.laneWidth) + 9, y: middleOf(to, window) };
    const out = Math.max(start.x, end.x) + window.laneWidth * 1.2;
    canvas.setLineDash([3, 3]);
    canvas.beginPath();
    canvas.moveTo(start.x, start.y);
    canvas.bezierCurveTo(out, start.y, out, end.y, end.x, end.y);
    canvas.stroke();
    canvas.setLineDash([]);
    canvas.beginPath();
    canvas.moveTo(end.x - 2, end.y);
    canvas.lineTo(end.x + 4, end.y - 3.5);
    canvas.lineTo(end.x + 4, end.y + 3.5);
    canvas.fill();
  }
}

/** Position of the bracket, left of all lanes, and length of its ends, in pixels. */
const LEFT = 2.5;
const REACH = 4;

/**
 * Draws a bracket next to the entries that a compaction of the path replaces: the selected compaction, else the newest.
 * The bracket begins at the first entry that the previous compaction kept, or at the root, and ends before the first
 * entry that this one keeps.
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

/** Colours of the tree, from the style sheet, for the light and the dark theme. */
export interface TreeColours {
  main: string;
  lanes: string[];
  faded: string;
  paper: string;
  ink: string;
  kinds: Record<string, string>;
}

const LANES = 6;

const KINDS: Readonly<Record<string, string>> = {
  u: "--user",
  a: "--answer",
  t: "--result",
  b: "--result",
  c: "--summary",
  f: "--summary",
  x: "--user",
};

export function readColours(element: Element): TreeColours {
  const style = getComputedStyle(element);
  const colour = (name: string) => style.getPropertyValue(name).trim();
  return {
    main: colour("--main"),
    lanes: Array.from({ length: LANES }, (_, lane) => colour(`--lane-${lane}`)),
    faded: colour("--line"),
    paper: colour("--paper"),
    ink: colour("--ink"),
    kinds: Object.fromEntries(Object.entries(KINDS).map(([kind, name]) => [kind, colour(name)])),
  };
}
