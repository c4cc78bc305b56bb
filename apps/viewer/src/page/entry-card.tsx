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
import { billOf } from "../model/entry-bill.ts";
import { saidIn } from "../model/entry-gist.ts";
import { ROW_KINDS, type RowKind } from "../model/outline.ts";
import { EntryTools } from "./entry-tools.tsx";
import { formatDollars, formatTime } from "./format-numbers.ts";
import { Markdown, PlainText } from "./markdown.tsx";
import { MessageView } from "./message-view.tsx";
import type { FoundResult } from "./tool-call.tsx";
import type { ViewerActions } from "./viewer-actions.ts";

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
