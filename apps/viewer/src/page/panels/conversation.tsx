import { type Entry, toolCalls } from "@espalier/session-tree";
import { useLayoutEffect, useRef, useState } from "preact/hooks";
import { saidIn } from "../../model/entry-gist.ts";
import type { ViewerActions } from "../app/address.ts";
import { EntryCard } from "../entry/entry-card.tsx";
import type { FoundResult } from "../entry/tool-call.tsx";
import { useAnswer } from "../source/observe.ts";
import type { SessionModel } from "../source/session-model.ts";

/** Entries that are there at first, before and after the one that is looked at; and with each step further. */
const BEFORE = 12;
const AFTER = 24;
const STEP = 24;

interface ConversationProps {
  model: SessionModel;
  /** Rows that are told, in order. */
  rows: readonly number[];
  actions: ViewerActions;
}

/** What was said along a path: the part around the entry that is looked at, and more of it as one scrolls. */
export function Conversation({ model, rows, actions }: ConversationProps) {
  const scroller = useRef<HTMLDivElement>(null);
  const at = Math.max(0, rows.indexOf(model.selected));
  const [range, setRange] = useState({ from: at - BEFORE, to: at + AFTER });
  const isOutside = at < range.from || at >= range.to;
  const from = Math.max(0, isOutside ? at - BEFORE : range.from);
  const to = Math.min(rows.length, isOutside ? at + AFTER : range.to);
  if (isOutside) setRange({ from, to });
  const name = `${from} ${to} ${rows[from]} ${rows[to - 1]}`;
  const { answer, error } = useAnswer(
    async () => ({ name, taken: await entriesOf(model, rows.slice(from, to)) }),
    [name, model],
  );
  // What is there stays until the rest has come; only then more is asked for.
  const isWhole = answer?.name === name;
  useScrollTo(scroller, model.selected, isWhole);
  if (error) return <p class="failure">{error.message}</p>;
  const pairs = pairResults(answer?.taken ?? []);
  return (
    <div class="conversation" ref={scroller} role="log" aria-label="Conversation" aria-live="off">
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
          kind={model.rows.kind(row)}
          label={model.labels.get(row)}
          results={pairs.results}
          isSelected={row === model.selected || pairs.resultsOf.get(row)?.has(model.selected) === true}
          isHidden={model.isHidden(row)}
          isLeftOut={model.leftOut.has(row)}
          actions={actions}
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

/** Results go to their calls; those whose call is not there stand alone. */
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

/** Brings the entry that is looked at into sight, once it is there. */
function useScrollTo(scroller: { current: HTMLDivElement | null }, row: number, isThere: boolean): void {
  useLayoutEffect(() => {
    if (!isThere) return;
    const box = scroller.current?.getBoundingClientRect();
    const found = scroller.current?.querySelector(`[data-row="${row}"]`)?.getBoundingClientRect();
    if (!box || !found) return;
    if (found.top >= box.top && found.top < box.bottom - 80) return;
    scroller.current!.scrollTop += found.top - box.top - 12;
  }, [row, isThere]);
}

/** The end of what is there: coming near it brings more. */
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
