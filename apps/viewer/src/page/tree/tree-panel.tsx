// Separate from session-view.tsx: each panel has a file.
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { ROW_KINDS } from "../../model/outline.ts";
import { useTheme } from "../app/theme.tsx";
import { useViewer } from "../app/viewer.ts";
import { useKeys, useObserved } from "../source/observe.ts";
import type { SessionModel } from "../source/session-model.ts";
import { formatDollars, formatMany, formatTokens } from "../text/numbers.ts";

/** Height of a line in pixels at each zoom level. Below 16 no text is shown. */
const ZOOMS = [2, 4, 8, 16, 22, 28, 36];
const FIRST_ZOOM = 5;
const ZOOM_STEPS = [
  ["Smaller", "−", -1],
  ["Larger", "+", 1],
] as const;
const WORDS_FROM = 16;

/**
 * Maximum height of an element in pixels; browsers fail at about twice this height. Longer trees are scrolled in
 * proportion.
 */
const TALLEST = 12_000_000;

/**
 * The tree: lanes on a canvas, and text next to them. Only the visible part is rendered, so that sessions may have any
 * size.
 */
export function TreePanel() {
  // A step by key makes no entry in the browser's history; a click does.
  const { model, select } = useViewer();
  useObserved(model);
  const [zoom, setZoom] = useState(FIRST_ZOOM);
  const scroller = useRef<HTMLDivElement>(null);
  const [view, setView] = useState({ top: 0, height: 600, width: 400 });
  const lineHeight = ZOOMS[zoom]!;
  const lines = model.layout.rows.length;
  const whole = lines * lineHeight;
  const tall = Math.min(whole, TALLEST);
  const scale = tall <= view.height ? 1 : (whole - view.height) / (tall - view.height);
  const offset = Math.max(0, Math.min(view.top * scale, whole - view.height));
  const from = Math.max(0, Math.floor(offset / lineHeight) - 1);
  const to = Math.min(lines, Math.ceil((offset + view.height) / lineHeight) + 1);
  const laneWidth = Math.max(5, Math.min(16, (view.width * 0.3) / Math.max(1, model.layout.width)));
  const textLeft = LANES_LEFT + model.layout.width * laneWidth + 8;
  const selectedLine = model.selected < 0 ? -1 : (model.layout.lineOf[model.selected] ?? -1);

  useEffect(() => {
    const element = scroller.current!;
    const measure = () =>
      setView({ top: element.scrollTop, height: element.clientHeight, width: element.clientWidth });
    const watch = new ResizeObserver(measure);
    watch.observe(element);
    element.addEventListener("scroll", measure, { passive: true });
    const wheel = (event: WheelEvent) => {
      if (!event.ctrlKey && !event.metaKey) return;
      event.preventDefault();
      setZoom((at) => Math.max(0, Math.min(ZOOMS.length - 1, at + (event.deltaY < 0 ? 1 : -1))));
    };
    element.addEventListener("wheel", wheel, { passive: false });
    return () => {
      watch.disconnect();
      element.removeEventListener("scroll", measure);
      element.removeEventListener("wheel", wheel);
    };
  }, []);

  // The selected entry is scrolled into view; unfolding a run does not scroll.
  useLayoutEffect(() => {
    const element = scroller.current!;
    if (selectedLine < 0) return;
    const y = selectedLine * lineHeight;
    const height = element.clientHeight;
    const now = element.scrollTop * scale;
    if (y >= now + lineHeight && y <= now + height - 2 * lineHeight) return;
    element.scrollTop = (y - height / 2) / scale;
    // A narrow screen shows the tree later.
  }, [model.selected, model.tip, model.fold, lineHeight, view.height > 0]);

  useKeys((event) => {
    const line = stepInTree(event.key, model, selectedLine, Math.floor(view.height / lineHeight));
    if (line === undefined) return;
    event.preventDefault();
    if (line >= 0) model.step(model.layout.rows[line]!);
  });

  return (
    <section class="tree" aria-label="Tree">
      <div class="tree-tools">
        <button
          type="button"
          aria-pressed={model.fold}
          title="Show answers and tool results between two prompts as one line"
          onClick={() => model.setFold(!model.fold)}
        >
          Fold runs
        </button>
        <button
          type="button"
          aria-pressed={model.showsBookkeeping}
          title="Show bookkeeping: state of programs, changes of the model, reminders that only the model reads"
          onClick={() => model.setBookkeeping(!model.showsBookkeeping)}
        >
          Bookkeeping
        </button>
        <span class="grow" />
        {ZOOM_STEPS.map(([name, sign, step]) => (
          <button
            type="button"
            key={name}
            aria-label={name}
            title={`${name} lines (Ctrl + wheel)`}
            disabled={ZOOMS[zoom + step] === undefined}
            onClick={() => setZoom(zoom + step)}
          >
            {sign}
          </button>
        ))}
        <button
          type="button"
          title="Show the path to the leaf, where the session continues"
          onClick={() => model.show(model.facts.leafRow)}
        >
          To the leaf
        </button>
      </div>
      <div
        class="tree-scroller"
        ref={scroller}
        role="tree"
        aria-label="Entries"
        tabIndex={0}
        aria-activedescendant={selectedLine >= from && selectedLine < to ? `line-${selectedLine}` : undefined}
      >
        <div style={{ height: `${tall}px` }}>
          <div class="tree-window" style={{ height: `${view.height}px` }}>
            <LaneCanvas
              size={{ width: view.width, height: view.height }}
              lines={{ from, to, top: from * lineHeight - offset, lineHeight, laneWidth }}
            />
            {lineHeight >= WORDS_FROM &&
              Array.from({ length: to - from }, (_, at) => from + at).map((line) => (
                <TreeLine
                  key={line}
                  line={line}
                  top={line * lineHeight - offset}
                  height={lineHeight}
                  left={textLeft}
                  isSelected={line === selectedLine}
                />
              ))}
            {lineHeight < WORDS_FROM && (
              // biome-ignore lint/a11y/noStaticElementInteractions: keys reach every entry; this is for the mouse alone
              // biome-ignore lint/a11y/useKeyWithClickEvents: keys reach every entry; this is for the mouse alone
              <div
                class="tree-touch"
                onClick={(event) => {
                  const line = Math.floor((offset + event.offsetY) / lineHeight);
                  if (line < lines) select(model.layout.rows[line]!);
                }}
              />
            )}
          </div>
        </div>
      </div>
    </section>
  );
}

const PAINTED = "tree-painted";

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

interface LaneCanvasProps {
  size: { width: number; height: number };
  lines: LaneWindow;
}

function LaneCanvas({ size, lines }: LaneCanvasProps) {
  const theme = useTheme();
  const { model } = useViewer();
  const element = useRef<HTMLCanvasElement>(null);
  const colours = useRef<TreeColours | undefined>(undefined);
  useLayoutEffect(() => {
    colours.current = undefined;
  }, [theme]);
  useLayoutEffect(() => {
    const canvas = element.current!;
    const pixels = globalThis.devicePixelRatio || 1;
    const [width, height] = [Math.round(size.width * pixels), Math.round(size.height * pixels)];
    if (canvas.width !== width || canvas.height !== height) Object.assign(canvas, { width, height });
    const drawing = canvas.getContext("2d")!;
    drawing.setTransform(pixels, 0, 0, pixels, 0, 0);
    drawing.clearRect(0, 0, size.width, size.height);
    colours.current ??= readColours(canvas);
    drawLanes(drawing, model, colours.current, lines);
    // Mark for measurements of the time until a session is first visible.
    if (performance.getEntriesByName(PAINTED).length === 0) performance.mark(PAINTED);
  });
  return <canvas ref={element} style={{ width: `${size.width}px`, height: `${size.height}px` }} />;
}

/** Pixels to the left of the first lane. */
const LANES_LEFT = 14;

const THIN = 2;

/** Position of the bracket of a compaction, left of all lanes, and length of its ends, in pixels. */
const BRACKET_LEFT = 2.5;
const BRACKET_REACH = 4;

/**
 * Draws lanes, entries, arrows of branch summaries, and the bracket of a compaction. The cost depends on the visible
 * part, not on the session's size.
 */
function drawLanes(
  canvas: CanvasRenderingContext2D,
  model: SessionModel,
  colours: TreeColours,
  { from, to, top, lineHeight, laneWidth }: LaneWindow,
): void {
  const { layout, rows, facts, path, selected } = model;
  const yOf = (line: number) => top + (line - from) * lineHeight;
  const middleOf = (line: number) => yOf(line + 0.5);
  const laneX = (lane: number) => LANES_LEFT + lane * laneWidth;
  const xOf = (line: number) => laneX(layout.lanes[line]!);
  const railColour = (lane: number, isActive: boolean) =>
    isActive ? colours.main : (colours.lanes[lane % colours.lanes.length] ?? colours.faded);
  const stroke = (colour: string, width: number, fromX: number, fromY: number, toX: number, toY: number) => {
    canvas.strokeStyle = colour;
    canvas.lineWidth = width;
    canvas.beginPath();
    canvas.moveTo(fromX, fromY);
    // Inside a lane the line is straight; between two lanes the curve begins and ends vertically.
    canvas.bezierCurveTo(fromX, toY, toX, fromY, toX, toY);
    canvas.stroke();
  };
  const drawRails = (line: number) => {
    const [above, middle, below] = [yOf(line), middleOf(line), yOf(line + 1)];
    for (let mask = layout.passing[line]!, at = 0; mask !== 0; mask >>>= 1, at++) {
      if ((mask & 1) === 0) continue;
      const isActive = ((layout.passingActive[line]! >>> at) & 1) === 1;
      stroke(railColour(at, isActive), THIN, laneX(at), above, laneX(at), below);
    }
    const x = xOf(line);
    const colour = railColour(layout.lanes[line]!, layout.active[layout.rows[line]!] === 1);
    const parent = layout.parents[line]!;
    if (parent >= 0) stroke(colour, THIN, xOf(parent), above, x, middle);
    if (layout.goesOn[line] === 1) stroke(colour, THIN, x, middle, x, below);
    const width = costWidth(model.lineCosts[line] ?? 0);
    const reach = Math.min(lineHeight / 2 - 2, lineHeight / 3);
    if (width > 0) stroke(colour, width, x, middle - reach, x, middle + reach);
  };
  const drawNode = (line: number) => {
    const row = layout.rows[line]!;
    const [x, y] = [xOf(line), middleOf(line)];
    const kind = rows.kind(row);
    const colour = colours.kinds[kind] ?? colours.faded;
    const size = Math.min(lineHeight / 2.6, kind === "u" ? 5.5 : kind === "c" || kind === "f" ? 6 : 3.5);
    canvas.fillStyle = model.isHidden(row) || model.leftOut.has(row) ? colours.paper : colour;
    canvas.strokeStyle = colour;
    canvas.lineWidth = 1.5;
    canvas.globalAlpha = layout.active[row] === 1 ? 1 : 0.75;
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
        canvas.moveTo(x + 1.8, y + (bead * lineHeight) / 4);
        canvas.arc(x, y + (bead * lineHeight) / 4, 1.8, 0, Math.PI * 2);
      }
    } else canvas.arc(x, y, size, 0, Math.PI * 2);
    canvas.fill();
    canvas.stroke();
    if (layout.lineOf[selected] === line) {
      canvas.strokeStyle = colours.ink;
      canvas.lineWidth = 1.5;
      canvas.beginPath();
      canvas.arc(x, y, size + 3.5, 0, Math.PI * 2);
      canvas.stroke();
    }
    canvas.globalAlpha = 1;
  };
  /** Draws an arrow from the end of a branch to its summary. */
  const drawArrow = (begin: number, end: number) => {
    if (end < 0 || begin < 0 || Math.max(end, begin) < from || Math.min(end, begin) >= to) return;
    const [startX, startY, endX, endY] = [xOf(begin) + 6, middleOf(begin), xOf(end) + 9, middleOf(end)];
    const out = Math.max(startX, endX) + laneWidth * 1.2;
    canvas.setLineDash([3, 3]);
    canvas.beginPath();
    canvas.moveTo(startX, startY);
    canvas.bezierCurveTo(out, startY, out, endY, endX, endY);
    canvas.stroke();
    canvas.setLineDash([]);
    canvas.beginPath();
    canvas.moveTo(endX - 2, endY);
    canvas.lineTo(endX + 4, endY - 3.5);
    canvas.lineTo(endX + 4, endY + 3.5);
    canvas.fill();
  };
  /**
   * Draws a bracket next to the entries that a compaction of the path replaces: the selected compaction, else the
   * newest. It begins at the first entry that the previous compaction kept, or at the root, and ends before the first
   * entry that this one keeps.
   */
  const drawCovered = () => {
    const onPath = facts.compactions.filter(({ row }) => layout.active[row] === 1);
    const looked = onPath.findIndex(({ row }) => row === selected);
    const at = looked < 0 ? onPath.length - 1 : looked;
    const shown = onPath[at];
    const begins = onPath[at - 1]?.firstKeptRow ?? path[0];
    if (!shown || begins === undefined || begins >= shown.firstKeptRow) return;
    const [first, end] = [layout.lineOf[begins] ?? -1, layout.lineOf[shown.firstKeptRow] ?? -1];
    if (first < 0 || end <= first || end <= from || first >= to) return;
    canvas.strokeStyle = colours.kinds["c"] ?? colours.ink;
    canvas.lineWidth = 1.5;
    canvas.beginPath();
    canvas.moveTo(BRACKET_LEFT + BRACKET_REACH, yOf(first) + 2);
    canvas.lineTo(BRACKET_LEFT, yOf(first) + 2);
    canvas.lineTo(BRACKET_LEFT, yOf(end) - 2);
    canvas.lineTo(BRACKET_LEFT + BRACKET_REACH, yOf(end) - 2);
    canvas.stroke();
  };
  canvas.lineCap = "round";
  for (let line = from; line < to; line++) drawRails(line);
  canvas.strokeStyle = colours.kinds["f"] ?? colours.ink;
  canvas.fillStyle = canvas.strokeStyle;
  canvas.lineWidth = 1.5;
  for (const { row, fromRow } of facts.summaries)
    drawArrow(layout.lineOf[fromRow] ?? -1, layout.lineOf[row] ?? -1);
  for (let line = from; line < to; line++) drawNode(line);
  drawCovered();
}

/**
 * Width in pixels of a line's cost in dollars, at most 8. It grows with the square root of the dollars: ten times the cost
 * is about three times as wide.
 */
const costWidth = (cost: number): number => (cost === 0 ? 0 : Math.min(8, THIN + Math.sqrt(cost * 40)));

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

/** Colours of the tree, from the style sheet, for the light and the dark theme. */
type TreeColours = ReturnType<typeof readColours>;

function readColours(element: Element) {
  const style = getComputedStyle(element);
  const colour = (name: string) => style.getPropertyValue(name).trim();
  const kinds: Record<string, string> = {};
  for (const [kind, name] of Object.entries(KINDS)) kinds[kind] = colour(name);
  return {
    main: colour("--main"),
    lanes: Array.from({ length: LANES }, (_, lane) => colour(`--lane-${lane}`)),
    faded: colour("--line"),
    paper: colour("--paper"),
    ink: colour("--ink"),
    kinds,
  };
}

interface TreeLineProps {
  line: number;
  /** Position in pixels. */
  top: number;
  height: number;
  left: number;
  isSelected: boolean;
}

function TreeLine({ line, top, height, left, isSelected }: TreeLineProps) {
  const { model, select } = useViewer();
  const { layout, rows, facts } = model;
  const row = layout.rows[line]!;
  const count = layout.counts[line]!;
  const kind = rows.kind(row);
  const label = model.labels.get(row);
  const gist = model.gist(layout.tellers[line]!);
  const text = gist?.text ?? "";
  const classes = ["tree-line", `kind-${kind === "?" ? "unknown" : kind}`];
  if (isSelected) classes.push("selected");
  if (layout.active[row] !== 1) classes.push("aside");
  if (count > 1) classes.push("run");
  if (gist?.failed) classes.push("failed");
  const cost = model.lineCosts[line] ?? 0;
  const act = () => (count > 1 ? model.openRun(row) : select(row));
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
      <span class="unseen">{ROW_KINDS[kind]}: </span>
      {label !== undefined && <span class="tag">{label}</span>}
      {layout.lineOf[facts.leafRow] === line && (
        <span class="tag leaf" title="The session continues here">
          leaf
        </span>
      )}
      {count > 1 && <span class="steps">{formatMany(count, "step")}</span>}
      {count === 1 && gist && gist.tools.length > 0 && <span class="tool">{toolNames(gist.tools)}</span>}
      <bdi class="text">{kind === "c" ? compactionWords(model, row) : text}</bdi>
      {cost > 0 && <span class="number">{formatDollars(cost)}</span>}
      {kind !== "c" && count === 1 && gist !== undefined && gist.tokens > 0 && (
        <span class="number">{formatTokens(gist.tokens)}</span>
      )}
    </div>
  );
}

/** Lists tools, `bash ×3 · edit`. */
function toolNames(tools: readonly string[]): string {
  const counts = new Map<string, number>();
  for (const tool of tools) counts.set(tool, (counts.get(tool) ?? 0) + 1);
  return [...counts].map(([tool, count]) => (count > 1 ? `${tool} ×${count}` : tool)).join(" · ");
}

function compactionWords({ facts }: SessionModel, row: number): string {
  const mark = facts.compactions.find((compaction) => compaction.row === row);
  return mark ? `Compaction of ${formatTokens(mark.tokensBefore)} tokens` : "Compaction";
}

/**
 * Returns the line that a key leads to from another line; -1 if the key unfolded a run, undefined for an unknown key and
 * for an empty tree. `page` is the number of visible lines.
 */
export function stepInTree(key: string, model: SessionModel, line: number, page: number): number | undefined {
  const { layout, facts } = model;
  const last = layout.rows.length - 1;
  if (last < 0) return undefined;
  const within = (at: number) => Math.max(0, Math.min(last, at));
  if (key === "ArrowRight" && line >= 0 && layout.counts[line] !== 1) {
    model.openRun(layout.rows[line]!);
    return -1;
  }
  if (key === "[" || key === "]") {
    const lines = facts.compactions.map(({ row }) => layout.lineOf[row] ?? -1).sort((a, b) => a - b);
    const next = key === "]" ? lines.find((at) => at > line) : lines.findLast((at) => at < line && at >= 0);
    return next ?? line;
  }
  const steps = new Map([
    ["ArrowDown", line + 1],
    ["j", line + 1],
    ["ArrowUp", line - 1],
    ["k", line - 1],
    ["PageDown", line + page],
    ["PageUp", line - page],
    ["Home", 0],
    ["End", last],
    ["ArrowLeft", layout.parents[line] ?? 0],
    ["ArrowRight", line + 1],
  ]);
  const step = steps.get(key);
  return step === undefined ? undefined : within(step);
}
