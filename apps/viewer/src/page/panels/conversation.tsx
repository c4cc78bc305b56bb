import { costOf, usageOf } from "@espalier/engine/reading";
import { jsonText } from "@espalier/jsonl-stream";
import {
  branchSummary,
  compaction,
  contextEdit,
  custom,
  customMessage,
  type Entry,
  entryFields,
  fieldText,
  titleIn,
  toolCalls,
} from "@espalier/session-tree";
import type { RefObject } from "preact";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { saidIn } from "../../model/entry-gist.ts";
import { ROW_KINDS, type RowKind } from "../../model/outline.ts";
import { type Order, useViewer } from "../app/viewer.ts";
import { type FoundResult, MessageView } from "../entry/message-view.tsx";
import { useAnswer } from "../source/observe.ts";
import type { SessionModel } from "../source/session-model.ts";
import { Markdown, PlainText } from "../text/markdown.tsx";
import { formatDollars, formatTime } from "../text/numbers.ts";

/** Number of entries that are rendered before and after the selected entry, and added at each end on scrolling. */
const BEFORE = 12;
const AFTER = 24;
const STEP = 24;

interface ConversationProps {
  /** Rows of the entries, in order. */
  rows: readonly number[];
  /** Present while the whole path is printed; called after printing. */
  onPrinted?: () => void;
}

/** Messages of a path: the part around the selected entry, and more on scrolling. */
export function Conversation({ rows: all, onPrinted }: ConversationProps) {
  const { model } = useViewer();
  const scroller = useRef<HTMLDivElement>(null);
  const rows = onPrinted ? all.slice(-MOST_PRINTED) : all;
  // If the selected entry is folded, the entry before it is shown.
  const at = Math.max(
    0,
    rows.findLastIndex((row) => row <= model.selected),
  );
  const first = onPrinted ? { from: 0, to: rows.length } : { from: at - BEFORE, to: at + AFTER };
  const [range, setRange] = useState(first);
  const isOutside = at < range.from || at >= range.to;
  const from = Math.max(0, isOutside ? at - BEFORE : range.from);
  const to = Math.min(rows.length, isOutside ? at + AFTER : range.to);
  if (isOutside) setRange({ from, to });
  const name = `${from} ${to} ${rows[from]} ${rows[to - 1]}`;
  const { answer, error, of } = useAnswer(() => entriesOf(model, rows.slice(from, to)), [name, model]);
  // Loaded entries stay visible until the next ones have arrived; then more are requested.
  const isWhole = answer !== undefined && of === name;
  useScrollTo(scroller, model.selected, isWhole);
  usePrint(scroller, isWhole, onPrinted);
  if (error) return <p class="failure">{error.message}</p>;
  if (all.length === 0) return <p class="quiet padded">This session has no entry yet.</p>;
  const pairs = pairResults(answer ?? []);
  return (
    <div class="conversation" ref={scroller} role="log" aria-label="Conversation" aria-live="off">
      {rows.length < all.length && (
        <p class="quiet">
          The newest {rows.length} of {all.length} entries; an export as Markdown has all of them.
        </p>
      )}
      {isWhole && from > 0 && (
        <Further
          key={`before-${from}`}
          text={`${from} before`}
          onReached={() => setRange({ from: from - STEP, to })}
        />
      )}
      {pairs.entries.map(({ row, entry }) => (
        <EntryCard
          key={row}
          row={row}
          entry={entry}
          results={pairs.results}
          isSelected={row === model.selected || pairs.resultsOf.get(row)?.has(model.selected) === true}
        />
      ))}
      {isWhole && to < rows.length && (
        <Further
          key={`after-${to}`}
          text={`${rows.length - to} after`}
          onReached={() => setRange({ from, to: to + STEP })}
        />
      )}
    </div>
  );
}

interface TakenEntry {
  row: number;
  entry: Entry;
}

async function entriesOf(model: SessionModel, rows: readonly number[]): Promise<TakenEntry[]> {
  const entries = await model.entries(rows);
  return entries.map((entry, at) => ({ row: rows[at]!, entry }));
}

/** Joins results with their calls. A result without a call, and a further result of a call, are shown alone. */
function pairResults(taken: readonly TakenEntry[]) {
  const results = new Map<string, FoundResult>();
  const resultsOf = new Map<number, Set<number>>();
  const callers = new Map<string, number>();
  const entries = taken.filter(({ row, entry }) => {
    const said = saidIn(entry);
    if (said) for (const { id } of toolCalls(said)) callers.set(id, row);
    if (said?.role !== "toolResult") return true;
    const caller = callers.get(said.toolCallId);
    if (caller === undefined || results.has(said.toolCallId)) return true;
    results.set(said.toolCallId, { row, message: said });
    resultsOf.set(caller, (resultsOf.get(caller) ?? new Set()).add(row));
    return false;
  });
  return { entries, results, resultsOf };
}

/** Maximum number of printed entries; browsers need seconds for more. */
const MOST_PRINTED = 3_000;

/** Prints when all entries are rendered and unfolded. */
function usePrint(
  scroller: RefObject<HTMLDivElement | null>,
  isWhole: boolean,
  onPrinted?: () => void,
): void {
  useEffect(() => {
    if (!onPrinted || !isWhole) return;
    for (const details of scroller.current!.querySelectorAll("details")) details.open = true;
    // The page is rendered once more before the browser prints it.
    const frame = requestAnimationFrame(() => {
      print();
      onPrinted();
    });
    return () => cancelAnimationFrame(frame);
  }, [isWhole]);
}

/** Scrolls a newly selected entry into view when it is rendered. Further entries leave the user where they scrolled to. */
function useScrollTo(scroller: RefObject<HTMLDivElement | null>, row: number, isThere: boolean): void {
  const shown = useRef(-1);
  useLayoutEffect(() => {
    if (!isThere || shown.current === row) return;
    shown.current = row;
    const box = scroller.current?.getBoundingClientRect();
    const found = scroller.current?.querySelector(`[data-row="${row}"]`)?.getBoundingClientRect();
    if (!box || !found) return;
    if (found.top >= box.top && found.top < box.bottom - 80) return;
    scroller.current!.scrollTop += found.top - box.top - 12;
  }, [row, isThere]);
}

/** Marks an end of the rendered entries; more are rendered when it comes into view. */
function Further({ text, onReached }: { text: string; onReached: () => void }) {
  const element = useRef<HTMLButtonElement>(null);
  useLayoutEffect(() => {
    const watch = new IntersectionObserver(([seen]) => seen?.isIntersecting && onReached(), {
      rootMargin: "400px",
    });
    watch.observe(element.current!);
    return () => watch.disconnect();
  }, []);
  return (
    <button type="button" class="more" ref={element} onClick={onReached}>
      {text}
    </button>
  );
}

interface EntryCardProps {
  row: number;
  entry: Entry;
  results: ReadonlyMap<string, FoundResult>;
  isSelected: boolean;
}

function EntryCard(props: EntryCardProps) {
  const { row, entry, isSelected } = props;
  const { model: session, select } = useViewer();
  const kind = session.rows.kind(row);
  const label = session.labels.get(row);
  // A compaction replaces it, or an edit leaves it out.
  const [isHidden, isLeftOut] = [session.isHidden(row), session.leftOut.has(row)];
  const said = saidIn(entry);
  const cost = costOf(usageOf(entry));
  const model = said?.role === "assistant" ? said.model : undefined;
  const name = kind === "?" ? `${ROW_KINDS[kind]}: ${fieldText(entry.type)}` : ROW_KINDS[kind];
  const classes = ["entry", `kind-${kind === "?" ? "unknown" : kind}`];
  if (isSelected) classes.push("selected");
  if (isHidden || isLeftOut) classes.push("hidden-from-model");
  if (BRIEF.has(kind)) classes.push("brief");
  return (
    // biome-ignore lint/a11y/useKeyWithClickEvents: the tree has the keys for choosing an entry
    <article
      class={classes.join(" ")}
      data-row={row}
      aria-label={name}
      onClick={() => {
        if (!isSelected && String(getSelection()) === "") select(row);
      }}
    >
      <header>
        <span class="role">{name}</span>
        {label !== undefined && <span class="tag">{label}</span>}
        {model && <span class="quiet model">{fieldText(model)}</span>}
        {isHidden && !BRIEF.has(kind) && <span class="quiet">· no longer read by the model</span>}
        {isLeftOut && !isHidden && <span class="quiet">· hidden from the model</span>}
        {!model && <span class="grow" />}
        {cost > 0 && <span class="quiet">{formatDollars(cost)}</span>}
        <time class="quiet" dateTime={entry.timestamp}>
          {formatTime(entry.timestamp)}
        </time>
        <EntryTools row={row} id={entry.id} kind={kind} isSaid={!BRIEF.has(kind)} isLeftOut={isLeftOut} />
      </header>
      <EntryBody {...props} />
    </article>
  );
}

/** Kinds that are shown on one line. */
const BRIEF = new Set<RowKind>(["m", "h", "d", "e", "l", "n", "g", "j", "?"]);

function EntryBody({ entry, row, results }: EntryCardProps) {
  const { inspect } = useViewer();
  const said = saidIn(entry);
  if (said) return <MessageView message={said} results={results} />;
  if (compaction.is(entry) || branchSummary.is(entry)) {
    return (
      <>
        <details class="summary-text" open={branchSummary.is(entry)}>
          <summary>
            {compaction.is(entry)
              ? "The summary that replaces the earlier part"
              : "Conclusion of the other branch"}
          </summary>
          <Markdown text={fieldText(entry.summary)} />
        </details>
        {compaction.is(entry) && (
          <button type="button" onClick={() => inspect(row)}>
            Inspect this compaction
          </button>
        )}
      </>
    );
  }
  if (contextEdit.is(entry)) {
    const { targetId, replacement } = entry;
    if (replacement === null) return <PlainText text={`From here on the model does not read ${targetId}.`} />;
    return (
      <>
        <PlainText text={`From here on the model reads ${targetId} as:`} />
        <MessageView message={{ role: "user", content: replacement.content, timestamp: 0 }} />
      </>
    );
  }
  if (customMessage.is(entry)) {
    const { customType, content, display } = entry;
    return <MessageView message={{ role: "custom", customType, content, display, timestamp: 0 }} />;
  }
  const fields = <PlainText text={briefly(entryFields(entry))} />;
  const title = custom.is(entry) ? titleIn(entry.data) : "";
  if (title === "") return fields;
  return (
    <details class="summary-text">
      <summary>{title}</summary>
      {fields}
    </details>
  );
}

function briefly(fields: Readonly<Record<string, unknown>>): string {
  return Object.entries(fields)
    .map(([name, value]) => `${name}: ${typeof value === "string" ? value : jsonText(value)}`)
    .join("\n");
}

interface EntryToolsProps {
  row: number;
  id: string;
  kind: RowKind;
  /** True if the model reads such entries. */
  isSaid: boolean;
  /** True: an edit hides the entry from the model. */
  isLeftOut: boolean;
}

function EntryTools({ row, id, kind, isSaid, isLeftOut }: EntryToolsProps) {
  const { canWrite, open, compareWith, linkTo, inspect, order } = useViewer();
  const [copied, setCopied] = useState("");
  const copy = () => {
    navigator.clipboard.writeText(linkTo(id)).then(
      () => setCopied("Copied"),
      () => setCopied("The browser does not allow copying"),
    );
  };
  const begin = (act: Order["act"]) => () => order({ act, id, row });
  const tools: [isThere: boolean, name: string, title: string, act: () => void][] = [
    [true, "Reads", "What the model reads here", () => open("context", row)],
    [true, "Compare", "Compare the shown path with the one that ends here", () => compareWith(row, id)],
    [true, copied || "Link", `Copy the address of entry ${id}`, copy],
    [
      kind === "c",
      "Inspect",
      "Show the replaced and kept entries and the cost of this compaction",
      () => inspect(row),
    ],
    [canWrite, "Go here", "Move the leaf here: the session continues from this entry", begin("navigate")],
    [canWrite, "Fork", "Start a new session with the path to this entry", begin("fork")],
    [canWrite, "Label", "Give this entry a name in the tree", begin("label")],
    [
      canWrite && isSaid,
      isLeftOut ? "Show" : "Hide",
      isLeftOut ? "Let the model read this again" : "Hide this from the model",
      begin(isLeftOut ? "show" : "hide"),
    ],
  ];
  return (
    // biome-ignore lint/a11y/noStaticElementInteractions: keeps a press on a tool from choosing the entry behind it
    // biome-ignore lint/a11y/useKeyWithClickEvents: keeps a press on a tool from choosing the entry behind it
    <span class="entry-tools" onClick={(event) => event.stopPropagation()}>
      {tools.map(
        ([isThere, name, title, act], place) =>
          isThere && (
            // The button keeps its focus when its name changes, as from "Hide" to "Show".
            <button type="button" key={place} title={title} onClick={act}>
              {name}
            </button>
          ),
      )}
    </span>
  );
}

/** Name of the highlight in the style sheet. */
const HIGHLIGHT = "found";

/** Maximum number of highlighted places. */
const MOST = 2_000;

/** Milliseconds in which a newly selected entry is rendered and scrolled to its first hit. */
const COMING = 2_000;

/**
 * Highlights a text everywhere on the page, at most 2,000 times, without changing elements. When another entry is selected,
 * its first hit is scrolled into view and unfolded. Does nothing in browsers without the highlight interface.
 */
export function useFoundTexts(wanted: string, selected: number): void {
  useEffect(() => {
    if (wanted === "" || !("highlights" in CSS)) return;
    const root = document.getElementById("app")!;
    const until = performance.now() + COMING;
    let isShown = false;
    let frame = 0;
    const mark = () => {
      frame = 0;
      CSS.highlights.set(HIGHLIGHT, new Highlight(...rangesIn(root, wanted)));
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
      CSS.highlights.delete(HIGHLIGHT);
    };
  }, [wanted, selected]);
}

/** Finds a text below an element, ignoring case. A text that spans several elements is not found. */
function rangesIn(root: Node, wanted: string): Range[] {
  const ranges: Range[] = [];
  const low = wanted.toLowerCase();
  const texts = document.createTreeWalker(root, NodeFilter.SHOW_TEXT);
  for (let node = texts.nextNode(); node; node = texts.nextNode()) {
    const text = node.textContent?.toLowerCase() ?? "";
    // If the lower-case text has another length, its offsets do not fit.
    if (text.length !== node.textContent?.length) continue;
    for (let at = text.indexOf(low); at >= 0; at = text.indexOf(low, at + low.length)) {
      const range = new Range();
      range.setStart(node, at);
      range.setEnd(node, at + low.length);
      if (ranges.push(range) === MOST) return ranges;
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
