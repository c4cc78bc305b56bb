import { useState } from "preact/hooks";
import type { CompactionView } from "../../model/compaction.ts";
import { sumTokens } from "../../model/context.ts";
import type { ViewerActions } from "../app/address.ts";
import { useAnswer } from "../source/observe.ts";
import type { SessionModel } from "../source/session-model.ts";
import { PlainText } from "../text/markdown.tsx";
import { formatCount, formatDollars, formatTime, formatTokens } from "../text/numbers.ts";
import { visibleControls } from "../text/visible-controls.ts";
import { TokenBar } from "./timeline.tsx";
import { Facts } from "./usage.tsx";

interface CompactionPanelProps {
  model: SessionModel;
  /** The compaction that is inspected; -1 for the newest of the path. */
  row: number;
  inspect: (row: number) => void;
  actions: ViewerActions;
}

/** Compactions: what each replaced, what it kept, who wrote it, what it cost. */
export function CompactionPanel({ model, row, inspect, actions }: CompactionPanelProps) {
  const { compactions } = model.facts;
  const onPath = compactions.filter((mark) => model.layout.active[mark.row] === 1);
  const shown = row >= 0 ? row : (onPath.at(-1)?.row ?? compactions.at(-1)?.row ?? -1);
  if (shown < 0) {
    return (
      <div class="panel">
        <h2>Compactions</h2>
        <p class="quiet">This session was never compacted: the model reads all of its path.</p>
      </div>
    );
  }
  return (
    <div class="panel">
      <h2>Compactions</h2>
      {compactions.length > 1 && (
        <nav class="chips" aria-label="Compactions">
          {compactions.map((mark, at) => (
            <button
              type="button"
              key={mark.row}
              aria-pressed={mark.row === shown}
              class={model.layout.active[mark.row] === 1 ? "" : "aside"}
              onClick={() => inspect(mark.row)}
            >
              {at + 1} · {formatTokens(mark.tokensBefore)}
            </button>
          ))}
        </nav>
      )}
      <Inspection key={shown} model={model} row={shown} actions={actions} />
    </div>
  );
}

function Inspection({ model, row, actions }: { model: SessionModel; row: number; actions: ViewerActions }) {
  const { answer, error } = useAnswer(() => model.reader.compaction(row), [model, row]);
  if (error) return <p class="failure">{error.message}</p>;
  if (!answer) return <p class="quiet">Reading…</p>;
  const [before, after] = [sumTokens(answer.before), sumTokens(answer.after)];
  return (
    <>
      <h3>Before: {formatTokens(before)} tokens</h3>
      <TokenBar tokens={answer.before} window={before} named />
      <h3>After: {formatTokens(after)} tokens</h3>
      <TokenBar tokens={answer.after} window={before} named />
      <Facts facts={factsOf(answer)} />
      <h3>The summary</h3>
      <p class="quiet">Choose a line to find the entries it came from.</p>
      <SummaryLines model={model} row={row} text={answer.summary} actions={actions} />
      {answer.prompts && (
        <details>
          <summary>The built-in prompt</summary>
          <p class="quiet">
            What was sent is not in the session. This is what a model is asked with, unless an extension or
            the person who compacted says more.
          </p>
          {answer.prompts.map((prompt) => (
            <PlainText key={prompt} text={prompt} />
          ))}
        </details>
      )}
      <EntryList title="Covered" rows={answer.covered} model={model} actions={actions} />
      <EntryList title="Kept" rows={answer.kept} model={model} actions={actions} />
    </>
  );
}

function factsOf({
  details,
  timestamp,
  cost,
  usage,
  cache,
  covered,
  kept,
}: CompactionView): [string, string][] {
  const { reason, policy, source, model, durationMs } = details;
  return [
    ["When", formatTime(timestamp)],
    ["Why", textIn(reason)],
    ["Policy", textIn(policy)],
    ["Written by", textIn(source)],
    ["Model", model?.modelId ? `${textIn(model.provider)}/${textIn(model.modelId)}` : ""],
    ["Cost", cost === null ? "" : formatDollars(cost)],
    ["Billed", usage ? `${formatTokens(usage.input)} in, ${formatTokens(usage.output)} out` : ""],
    ["Written anew", cacheText(cache)],
    ["Took", typeof durationMs === "number" ? `${(durationMs / 1_000).toFixed(1)} s` : ""],
    ["Covered", formatCount(covered.length, "entry", "entries")],
    ["Kept", formatCount(kept.length, "entry", "entries")],
    ["Cut", details.isSplitTurn ? "inside a turn" : ""],
  ];
}

/** Effect of a compaction on the prompt cache: tokens that the next request wrote anew, and the calls until that has paid. */
function cacheText({ anew, cost, paysBackAfter }: CompactionView["cache"]): string {
  const paid = paysBackAfter ? `, paid back after ${formatCount(paysBackAfter, "call")}` : "";
  return `about ${formatTokens(anew)} tokens${cost ? ` (${formatDollars(cost)})` : ""}${paid}`;
}

/** Any program may have written the details: other values than texts are ignored. */
const textIn = (value: unknown): string => (typeof value === "string" ? visibleControls(value) : "");

interface EntryListProps {
  title: string;
  rows: readonly number[];
  model: SessionModel;
  actions: ViewerActions;
}

/** Entries that a list shows at first. */
const FIRST_SHOWN = 30;

function EntryList({ title, rows, model, actions }: EntryListProps) {
  const [shown, setShown] = useState(FIRST_SHOWN);
  const [open, setOpen] = useState(false);
  return (
    <details onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary>
        {title}: {formatCount(rows.length, "entry", "entries")}
      </summary>
      {open && (
        <ul class="entry-list">
          {rows.slice(0, shown).map((row) => (
            <li key={row}>
              <button type="button" class="link" onClick={() => actions.select(row)}>
                <bdi>{model.gist(row)?.text ?? "…"}</bdi>
              </button>
            </li>
          ))}
        </ul>
      )}
      {open && rows.length > shown && (
        <button type="button" class="more" onClick={() => setShown(shown + 500)}>
          Show more of {rows.length}
        </button>
      )}
    </details>
  );
}

interface SummaryLinesProps {
  model: SessionModel;
  /** The compaction. */
  row: number;
  text: string;
  actions: ViewerActions;
}

/** A summary line by line; each tells where it came from when it is chosen. */
function SummaryLines({ model, row, text, actions }: SummaryLinesProps) {
  const [chosen, setChosen] = useState(-1);
  return (
    <ol class="summary-lines">
      {visibleControls(text)
        .split("\n")
        .map((line, at) =>
          line.trim() === "" ? null : (
            <li key={at} class={/^#/.test(line) ? "heading" : ""}>
              <button
                type="button"
                class="link"
                aria-expanded={chosen === at}
                disabled={/^#|^<\/?[\w-]+>$/.test(line.trim())}
                onClick={() => setChosen(chosen === at ? -1 : at)}
              >
                <bdi>{line}</bdi>
              </button>
              {chosen === at && <Origins model={model} row={row} line={line} actions={actions} />}
            </li>
          ),
        )}
    </ol>
  );
}

interface OriginsProps {
  model: SessionModel;
  row: number;
  line: string;
  actions: ViewerActions;
}

function Origins({ model, row, line, actions }: OriginsProps) {
  const { answer, error } = useAnswer(() => model.reader.origins(row, line), [model, row, line]);
  if (error) return <p class="failure">{error.message}</p>;
  if (!answer) return <p class="quiet">Looking…</p>;
  if (answer.length === 0) return <p class="quiet">No covered entry shares the words of this line.</p>;
  return (
    <ul class="origins" aria-label="Entries it may have come from">
      {answer.map((origin) => (
        <li key={origin.row}>
          <button type="button" class="link" onClick={() => actions.open("conversation", origin.row)}>
            <span class="number">{Math.round(origin.score * 100)} %</span> <bdi>{origin.snippet}</bdi>
          </button>
        </li>
      ))}
    </ul>
  );
}
