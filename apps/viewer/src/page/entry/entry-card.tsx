import { jsonText } from "@espalier/jsonl-stream";
import {
  branchSummary,
  compaction,
  contextEdit,
  customMessage,
  type Entry,
  entryFields,
  fieldText,
} from "@espalier/session-tree";
import { useState } from "preact/hooks";
import { billOf, saidIn } from "../../model/entry-gist.ts";
import { ROW_KINDS, type RowKind } from "../../model/outline.ts";
import type { ViewerActions } from "../app/address.ts";
import { Markdown, PlainText } from "../text/markdown.tsx";
import { formatDollars, formatTime } from "../text/numbers.ts";
import { MessageView } from "./message-view.tsx";
import type { FoundResult } from "./tool-call.tsx";

interface EntryCardProps {
  row: number;
  entry: Entry;
  kind: RowKind;
  label: string | undefined;
  results: ReadonlyMap<string, FoundResult>;
  isSelected: boolean;
  /** A compaction stands for it. */
  isHidden: boolean;
  /** An edit keeps it from the model. */
  isLeftOut: boolean;
  actions: ViewerActions;
}

/** An entry of the conversation. */
export function EntryCard(props: EntryCardProps) {
  const { row, entry, kind, label, isSelected, isHidden, isLeftOut, actions } = props;
  const said = saidIn(entry);
  const cost = billOf(entry)?.cost ?? 0;
  const model = said?.role === "assistant" ? said.model : undefined;
  const classes = ["entry", `kind-${kind === "?" ? "unknown" : kind}`];
  if (isSelected) classes.push("selected");
  if (isHidden || isLeftOut) classes.push("hidden-from-model");
  if (BRIEF.has(kind)) classes.push("brief");
  return (
    // biome-ignore lint/a11y/useKeyWithClickEvents: the tree has the keys for choosing an entry
    <article
      class={classes.join(" ")}
      data-row={row}
      aria-label={ROW_KINDS[kind]}
      onClick={() => {
        if (!isSelected && String(getSelection()) === "") actions.select(row);
      }}
    >
      <header>
        <span class="role">{ROW_KINDS[kind]}</span>
        {label !== undefined && <span class="tag">{label}</span>}
        {model && <span class="quiet">{fieldText(model)}</span>}
        {isHidden && <span class="quiet">· not read by the model any more</span>}
        {isLeftOut && !isHidden && <span class="quiet">· hidden from the model</span>}
        <span class="grow" />
        {cost > 0 && <span class="quiet">{formatDollars(cost)}</span>}
        <time class="quiet" dateTime={entry.timestamp}>
          {formatTime(entry.timestamp)}
        </time>
        <EntryTools
          row={row}
          id={entry.id}
          kind={kind}
          isSaid={!BRIEF.has(kind)}
          isLeftOut={isLeftOut}
          actions={actions}
        />
      </header>
      <EntryBody {...props} />
    </article>
  );
}

/** Kinds that are told on one line. */
const BRIEF = new Set<RowKind>(["m", "h", "d", "e", "l", "n", "g", "j", "?"]);

function EntryBody({ entry, row, results, actions }: EntryCardProps) {
  const said = saidIn(entry);
  if (said) return <MessageView message={said} results={results} />;
  if (compaction.is(entry) || branchSummary.is(entry)) {
    return (
      <>
        <details class="summary-text" open={branchSummary.is(entry)}>
          <summary>
            {compaction.is(entry)
              ? "The summary that stands for what came before"
              : "What the other branch had learnt"}
          </summary>
          <Markdown text={fieldText(entry.summary)} />
        </details>
        {compaction.is(entry) && (
          <button type="button" onClick={() => actions.inspect(row)}>
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
        <PlainText text={`From here on ${targetId} says to the model:`} />
        <MessageView message={{ role: "user", content: replacement.content, timestamp: 0 }} />
      </>
    );
  }
  if (customMessage.is(entry)) {
    const { customType, content, display } = entry;
    return <MessageView message={{ role: "custom", customType, content, display, timestamp: 0 }} />;
  }
  return <PlainText text={briefly(entryFields(entry))} />;
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
  /** Whether such an entry says something to the model. */
  isSaid: boolean;
  /** An edit keeps it from the model. */
  isLeftOut: boolean;
  actions: ViewerActions;
}

/** What can be done with an entry. */
function EntryTools({ row, id, kind, isSaid, isLeftOut, actions }: EntryToolsProps) {
  const [copied, setCopied] = useState("");
  const copy = () => {
    navigator.clipboard.writeText(actions.linkTo(id)).then(
      () => setCopied("Copied"),
      () => setCopied("The browser forbids it"),
    );
  };
  const stop = (event: Event) => event.stopPropagation();
  return (
    // biome-ignore lint/a11y/noStaticElementInteractions: keeps a press on a tool from choosing the entry behind it
    // biome-ignore lint/a11y/useKeyWithClickEvents: keeps a press on a tool from choosing the entry behind it
    <span class="entry-tools" onClick={stop}>
      <button type="button" title="What the model reads here" onClick={() => actions.open("context", row)}>
        Reads
      </button>
      <button type="button" title="Compare this branch with another" onClick={() => actions.compareWith(row)}>
        Compare
      </button>
      <button type="button" title={`Copy the address of entry ${id}`} onClick={copy}>
        {copied || "Link"}
      </button>
      {kind === "c" && (
        <button type="button" onClick={() => actions.inspect(row)}>
          Inspect
        </button>
      )}
      {actions.canWrite && (
        <>
          <button type="button" onClick={() => actions.order({ act: "navigate", id, row })}>
            Go here
          </button>
          <button type="button" onClick={() => actions.order({ act: "fork", id, row })}>
            Fork
          </button>
          <button type="button" onClick={() => actions.order({ act: "label", id, row })}>
            Label
          </button>
          {isSaid && (
            <button
              type="button"
              onClick={() => actions.order({ act: isLeftOut ? "show" : "hide", id, row })}
            >
              {isLeftOut ? "Show" : "Hide"}
            </button>
          )}
        </>
      )}
    </span>
  );
}
