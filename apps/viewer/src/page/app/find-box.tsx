import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import type { FoundTexts } from "../../model/facts.ts";
import { TYPING, useAnswer } from "../source/observe.ts";
import type { SessionModel } from "../source/session-model.ts";

/** Search within the session. */
interface Finder {
  /** Hits of the search; undefined without a search, or before the first result. */
  found: FoundTexts | undefined;
  error: Error | undefined;
  /** Number of the selected entry among the hits, from 1; 0 if it is not a hit. */
  at: number;
  /** Selects the next hit in the drawing of the tree; with -1 the previous one. */
  step(by: 1 | -1): void;
}

export function useFinder(model: SessionModel, query: string, select: (row: number) => void): Finder {
  const wanted = query.trim();
  const isWanted = wanted.length > 1;
  const { answer, error } = useAnswer(
    async (signal) => (isWanted ? { wanted, found: await model.reader.find(wanted, signal) } : undefined),
    [model, wanted, model.rows.length],
    TYPING,
  );
  // Hits of an earlier query are not stepped through.
  const found = answer?.wanted === wanted ? answer.found : undefined;
  const { layout, selected } = model;
  const lineOf = (row: number) => layout.lineOf[row] ?? -1;
  const inOrder = useMemo(
    () => (found?.rows ?? []).toSorted((a, b) => lineOf(a) - lineOf(b) || a - b),
    [found, layout],
  );
  useFoundTexts(isWanted ? wanted : "", selected);
  return {
    found,
    error: isWanted ? error : undefined,
    at: inOrder.indexOf(selected) + 1,
    step(by) {
      const isBehind = (row: number) => (lineOf(row) - lineOf(selected) || row - selected) * by > 0;
      const next =
        by > 0 ? (inOrder.find(isBehind) ?? inOrder[0]) : (inOrder.findLast(isBehind) ?? inOrder.at(-1));
      if (next !== undefined) select(next);
    },
  };
}

interface FindBoxProps {
  finder: Finder;
  query: string;
  setQuery: (query: string) => void;
  close: () => void;
  select: (row: number) => void;
}

/** Search field, with the number of hits, and a list of them from typing until a hit is shown. */
export function FindBox({ finder, query, setQuery, close, select }: FindBoxProps) {
  const [listed, setListed] = useState(false);
  const box = useRef<HTMLElement>(null);
  const { found, error, at, step } = finder;
  const isWanted = query.trim().length > 1;
  // The list would cover the entry that a step shows.
  const go = (by: 1 | -1) => {
    setListed(false);
    step(by);
  };
  const press = (event: KeyboardEvent) => {
    if (event.key === "Escape") close();
    else if (event.key === "Enter" || event.key === "ArrowDown") go(event.shiftKey ? -1 : 1);
    else if (event.key === "ArrowUp") go(-1);
    else return;
    event.preventDefault();
  };
  return (
    <search
      class={`find${isWanted ? " searches" : ""}`}
      ref={box}
      onFocusOut={(event) => {
        if (!box.current?.contains(event.relatedTarget as Node | null)) setListed(false);
      }}
    >
      <input
        type="search"
        id="find"
        placeholder="Find in this session  /"
        aria-label="Find in this session"
        value={query}
        onFocus={() => setListed(true)}
        onClick={() => setListed(true)}
        onInput={(event) => {
          setListed(true);
          setQuery(event.currentTarget.value);
        }}
        onKeyDown={press}
      />
      {isWanted && (
        <>
          <output aria-label="Found">
            {found ? (at > 0 ? `${at} of ${found.rows.length}` : `${found.rows.length}`) : "…"}
          </output>
          <button
            type="button"
            aria-label="Previous hit"
            title="Previous hit (N, Shift+Enter)"
            onClick={() => go(-1)}
          >
            ↑
          </button>
          <button type="button" aria-label="Next hit" title="Next hit (n, Enter)" onClick={() => go(1)}>
            ↓
          </button>
          <button type="button" aria-label="End the search" title="End the search (Esc)" onClick={close}>
            ✕
          </button>
        </>
      )}
      {isWanted && listed && (found || error) && (
        <ul class="found">
          {found?.newest.map(({ row, snippet }) => (
            <li key={row}>
              <button
                type="button"
                class="link"
                onClick={() => {
                  select(row);
                  setListed(false);
                }}
              >
                <bdi>{snippet}</bdi>
              </button>
            </li>
          ))}
          {error && <li class="failure">{error.message}</li>}
          {found?.rows.length === 0 && <li class="quiet">No entry of this session has this text.</li>}
          {found && found.rows.length > found.newest.length && (
            <li class="quiet">These are the newest {found.newest.length}; ↓ and ↑ go through all of them.</li>
          )}
        </ul>
      )}
    </search>
  );
}

/** Name of the highlight in the style sheet. */
const NAME = "found";

/** Maximum number of highlighted places. */
const MOST = 2_000;

/** Milliseconds in which a newly selected entry is rendered and scrolled to its first hit. */
const COMING = 2_000;

/**
 * Highlights a text everywhere on the page without changing elements. When another entry is selected, its first hit is
 * scrolled into view and unfolded. Does nothing in browsers without the highlight interface.
 */
function useFoundTexts(wanted: string, selected: number): void {
  useEffect(() => {
    if (wanted === "" || !("highlights" in CSS)) return;
    const root = document.getElementById("app")!;
    const until = performance.now() + COMING;
    let isShown = false;
    let frame = 0;
    const mark = () => {
      frame = 0;
      CSS.highlights.set(NAME, new Highlight(...rangesIn(root, wanted)));
      if (!isShown && performance.now() < until) isShown = showFirst(selected, wanted);
    };
    const soon = () => {
      frame ||= requestAnimationFrame(mark);
    };
    const watch = new MutationObserver(soon);
    watch.observe(root, { childList: true, subtree: true, characterData: true });
    soon();
    return () => {
      watch.disconnect();
      cancelAnimationFrame(frame);
      CSS.highlights.delete(NAME);
    };
  }, [wanted, selected]);
}

/** Finds a text below an element, ignoring case. A text that spans several elements is not found. */
function rangesIn(root: Node, wanted: string): Range[] {
  const ranges: Range[] = [];
  const low = wanted.toLowerCase();
  const texts = document.createTreeWalker(root, NodeFilter.SHOW_TEXT);
  for (let node = texts.nextNode(); node && ranges.length < MOST; node = texts.nextNode()) {
    const text = node.textContent?.toLowerCase() ?? "";
    // If the lower-case text has another length, its offsets do not fit.
    if (text.length !== node.textContent?.length) continue;
    for (let at = text.indexOf(low); at >= 0; at = text.indexOf(low, at + low.length)) {
      const range = new Range();
      range.setStart(node, at);
      range.setEnd(node, at + low.length);
      ranges.push(range);
    }
  }
  return ranges;
}

/** Scrolls to the first hit in the selected entry; returns false until the entry is rendered. */
function showFirst(selected: number, wanted: string): boolean {
  const card = document.querySelector(`#panel .entry.selected`);
  const part = card?.querySelector(`[data-row="${selected}"]`) ?? card;
  if (!card || !part || !(card.matches(`[data-row="${selected}"]`) || part !== card)) return false;
  const [first] = rangesIn(part, wanted);
  if (!first) return true;
  for (let at = first.startContainer.parentElement; at && at !== card; at = at.parentElement)
    if (at instanceof HTMLDetailsElement) at.open = true;
  const place = first.getBoundingClientRect();
  const panel = document.getElementById("panel")!.getBoundingClientRect();
  if (place.top < panel.top || place.bottom > panel.bottom)
    first.startContainer.parentElement?.scrollIntoView({ block: "center" });
  return true;
}
