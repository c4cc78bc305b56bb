import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { drawCovered } from "./draw-covered.ts";
import { drawLanes, LANES_LEFT } from "./draw-lanes.ts";
import { useObserved } from "./observe.ts";
import type { SessionModel } from "./session-model.ts";
import { readColours, type TreeColours } from "./tree-colours.ts";
import { stepInTree } from "./tree-keys.ts";
import { TreeLine } from "./tree-line.tsx";

/** Pixels of a line at each zoom. Below 16 there is no room for words. */
const ZOOMS = [2, 4, 8, 16, 22, 28, 36];
const FIRST_ZOOM = 5;
const WORDS_FROM = 16;

/** Browsers draw elements up to about twice this height; longer trees are scrolled in proportion. */
const TALLEST = 12_000_000;

/** The tree: lanes on a canvas, words beside them; only what is in sight exists, whatever the session's size. */
export function TreePanel({ model, theme }: { model: SessionModel; theme: string }) {
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

  // What is looked at comes into sight, wherever that was decided; opening a run moves nothing.
  useLayoutEffect(() => {
    const element = scroller.current!;
    if (selectedLine < 0) return;
    const y = selectedLine * lineHeight;
    const height = element.clientHeight;
    const now = element.scrollTop * scale;
    if (y >= now + lineHeight && y <= now + height - 2 * lineHeight) return;
    element.scrollTop = (y - height / 2) / scale;
  }, [model.selected, model.tip, model.fold, lineHeight]);

  const press = (event: KeyboardEvent) => {
    // With these, a key is the browser's own.
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const line = stepInTree(event.key, model, selectedLine, Math.floor(view.height / lineHeight));
    if (line === undefined) return;
    event.preventDefault();
    if (line >= 0) model.select(model.layout.rows[line]!);
  };

  return (
    <section class="tree" aria-label="Tree">
      <div class="tree-tools">
        <button type="button" aria-pressed={model.fold} onClick={() => model.setFold(!model.fold)}>
          Fold runs
        </button>
        <span class="grow" />
        <button type="button" aria-label="Smaller" disabled={zoom === 0} onClick={() => setZoom(zoom - 1)}>
          −
        </button>
        <button
          type="button"
          aria-label="Larger"
          disabled={zoom === ZOOMS.length - 1}
          onClick={() => setZoom(zoom + 1)}
        >
          +
        </button>
        <button type="button" onClick={() => model.show(model.facts.leafRow)}>
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
        onKeyDown={press}
      >
        <div style={{ height: `${tall}px` }}>
          <div class="tree-window" style={{ height: `${view.height}px` }}>
            <LaneCanvas
              model={model}
              theme={theme}
              size={{ width: view.width, height: view.height }}
              lines={{ from, to, top: from * lineHeight - offset, lineHeight, laneWidth }}
            />
            {lineHeight >= WORDS_FROM &&
              Array.from({ length: to - from }, (_, at) => from + at).map((line) => (
                <TreeLine
                  key={line}
                  model={model}
                  line={line}
                  top={line * lineHeight - offset}
                  height={lineHeight}
                  left={textLeft}
                />
              ))}
            {lineHeight < WORDS_FROM && (
              // biome-ignore lint/a11y/noStaticElementInteractions: keys reach every entry; this is for the mouse alone
              // biome-ignore lint/a11y/useKeyWithClickEvents: keys reach every entry; this is for the mouse alone
              <div
                class="tree-touch"
                onClick={(event) => {
                  const line = Math.floor((offset + event.offsetY) / lineHeight);
                  if (line < lines) model.select(model.layout.rows[line]!);
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
  model: SessionModel;
  theme: string;
  size: { width: number; height: number };
  lines: Parameters<typeof drawLanes>[3];
}

function LaneCanvas({ model, theme, size, lines }: LaneCanvasProps) {
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
    // For who measures how long the first sight of a session takes.
    if (performance.getEntriesByName(PAINTED).length === 0) performance.mark(PAINTED);
  });
  return <canvas ref={element} style={{ width: `${size.width}px`, height: `${size.height}px` }} />;
}
