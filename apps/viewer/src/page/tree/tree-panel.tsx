import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { ROW_KINDS } from "../../model/outline.ts";
import { useViewer } from "../app/viewer.ts";
import { useKeys, useObserved } from "../source/observe.ts";
import type { SessionModel } from "../source/session-model.ts";
import { formatCount, formatDollars, formatTokens } from "../text/numbers.ts";
import { drawCovered, drawLanes, LANES_LEFT, readColours, type TreeColours } from "./draw-lanes.ts";

/** Height of a line in pixels at each zoom level. Below 16 no text is shown. */
const ZOOMS = [2, 4, 8, 16, 22, 28, 36];
const FIRST_ZOOM = 5;
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
export function TreePanel({ theme }: { theme: string }) {
  // Steps by keys are not added to the browser's history, as a selection by the mouse is.
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
        <button
          type="button"
          aria-label="Smaller"
          title="Smaller lines (Ctrl + wheel)"
          disabled={zoom === 0}
          onClick={() => setZoom(zoom - 1)}
        >
          −
        </button>
        <button
          type="button"
          aria-label="Larger"
          title="Larger lines (Ctrl + wheel)"
          disabled={zoom === ZOOMS.length - 1}
          onClick={() => setZoom(zoom + 1)}
        >
          +
        </button>
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
              theme={theme}
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

interface LaneCanvasProps {
  theme: string;
  size: { width: number; height: number };
  lines: Parameters<typeof drawLanes>[3];
}

function LaneCanvas({ theme, size, lines }: LaneCanvasProps) {
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
    drawCovered(drawing, model, colours.current, lines);
    // Mark for measurements of the time until a session is first visible.
    if (performance.getEntriesByName(PAINTED).length === 0) performance.mark(PAINTED);
  });
  return <canvas ref={element} style={{ width: `${size.width}px`, height: `${size.height}px` }} />;
}

interface TreeLineProps {
  line: number;
  /** Position in pixels. */
  top: number;
  height: number;
  left: number;
  isSelected: boolean;
}

/** Text of a line of the tree. */
function TreeLine({ line, top, height, left, isSelected }: TreeLineProps) {
  const { model, select } = useViewer();
  const { layout, rows, facts } = model;
  const row = layout.rows[line]!;
  const count = layout.counts[line]!;
  const kind = rows.kind(row);
  const label = model.labels.get(row);
  const words = count > 1 ? `${formatCount(count, "step")}` : undefined;
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
 * Returns the line that a key leads to from another line; -1 if the key did something else, undefined for unknown keys.
 * `page` is the number of visible lines.
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
