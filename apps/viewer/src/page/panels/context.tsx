import { cacheSentence } from "@espalier/engine/reading";
import { messageText, toolCalls } from "@espalier/session-tree";
import { useMemo, useState } from "preact/hooks";
import { readMarkdown } from "../../markdown/read-markdown.ts";
import { type CompactionView, type ContextPiece, sumTokens, tokensOf } from "../../model/context.ts";
import { oneLine } from "../../model/entry-gist.ts";
import { useViewer } from "../app/viewer.ts";
import { MessageView } from "../entry/message-view.tsx";
import { useAnswer } from "../source/observe.ts";
import { Markdown, PlainText } from "../text/markdown.tsx";
import { formatDollars, formatMany, formatTime, formatTokens } from "../text/numbers.ts";
import { visibleControls } from "../text/visible-controls.ts";
import { ASSUMED_WINDOW, TokenBar } from "./timeline.tsx";
import { Facts } from "./usage.tsx";

/** Number of messages that are listed at first, the newest ones. */
const FIRST_SHOWN = 200;

/** Panel of the context at the selected entry: its messages with their tokens. */
export function ContextPanel() {
  const { model } = useViewer();
  const { selected } = model;
  const { answer, error, of } = useAnswer(() => model.reader.context(selected), [selected, model]);
  const [shown, setShown] = useState(FIRST_SHOWN);
  if (error) return <p class="failure">{error.message}</p>;
  if (!answer) return <p class="quiet padded">Reading…</p>;
  const { pieces, total, tokens, model: named, thinkingLevel } = answer;
  const largest = pieces.reduce((most, piece) => Math.max(most, piece.tokens), 1);
  const window = answer.window ?? ASSUMED_WINDOW;
  const left = Math.max(0, pieces.length - shown);
  return (
    // A message of the entry before takes no click: it disappears when the answer arrives.
    <div class="panel" aria-busy={of !== selected}>
      <h2>What the model reads here</h2>
      <p class="quiet">
        {formatMany(pieces.length, "message")}, about {formatTokens(total)} tokens
        {named ? ` · ${named.provider}/${named.modelId}` : ""} · thinking {thinkingLevel}
      </p>
      <TokenBar tokens={tokens} window={window} named />
      {left > 0 && (
        <button type="button" class="more" onClick={() => setShown(pieces.length)}>
          Show {formatMany(left, "older message")}
        </button>
      )}
      <ol class="pieces" start={left + 1}>
        {pieces.slice(left).map((piece, at) => (
          <Piece key={`${piece.row}-${at}`} piece={piece} largest={largest} />
        ))}
      </ol>
    </div>
  );
}

const ROLES = new Map(
  Object.entries<string>({
    compactionSummary: "summary",
    branchSummary: "branch summary",
    toolResult: "tool result",
    bashExecution: "shell",
    assistant: "answer",
  }),
);

function Piece({ piece, largest }: { piece: ContextPiece; largest: number }) {
  const { open: show } = useViewer();
  const [open, setOpen] = useState(false);
  const { message, row, tokens } = piece;
  const calls = toolCalls(message).map(({ name }) => name);
  return (
    <li>
      <details onToggle={(event) => setOpen(event.currentTarget.open)}>
        <summary>
          <span class="role">{ROLES.get(message.role) ?? message.role}</span>
          <bdi class="gist">{oneLine([messageText(message), ...calls].join(" "))}</bdi>
          <span class="number">{formatTokens(tokens)}</span>
          <span class="weight">
            <TokenBar tokens={tokensOf([message])} window={largest} />
          </span>
        </summary>
        {open && (
          <>
            <MessageView message={message} />
            <button type="button" onClick={() => show("conversation", row)}>
              Show the entry
            </button>
          </>
        )}
      </details>
    </li>
  );
}

/** Panel of the user's rules that apply at the selected entry; each links to its message. */
export function RulesPanel() {
  const { model, openId } = useViewer();
  const row = model.selected;
  const { answer, error } = useAnswer(() => model.reader.rules(row), [model, row]);
  if (error) return <p class="failure">{error.message}</p>;
  if (!answer) return <p class="quiet padded">Reading…</p>;
  return (
    <div class="panel">
      <h2>Rules that apply here</h2>
      <p class="quiet">
        {answer.length === 0
          ? "The user has set no rule on this path."
          : "Instructions of the user, kept by every compaction. Select one to see its message."}
      </p>
      {answer.length > 0 && (
        <ul class="rules">
          {answer.map(({ id, kind, text, from }) => (
            <li key={id}>
              <button type="button" class="link" onClick={() => openId(from.entryId)}>
                {visibleControls(text)}
              </button>{" "}
              <span class="rule-kind">{kind}</span>
            </li>
          ))}
        </ul>
      )}
    </div>
  );
}

interface CompactionPanelProps {
  /** Row of the shown compaction; -1 for the newest on the path, or of the session if the path has none. */
  row: number;
  inspect: (row: number) => void;
}

/** Panel of compactions: replaced entries, kept entries, writer, cost. */
export function CompactionPanel({ row, inspect }: CompactionPanelProps) {
  const { model } = useViewer();
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
        <select
          class="compaction-choice"
          aria-label="Compaction"
          value={shown}
          onChange={(event) => inspect(Number(event.currentTarget.value))}
        >
          {compactions.map((mark, at) => (
            <option key={mark.row} value={mark.row}>
              {at + 1} of {compactions.length}, at {formatTokens(mark.tokensBefore)} tokens
              {model.layout.active[mark.row] === 1 ? "" : ", on another branch"}
            </option>
          ))}
        </select>
      )}
      <Inspection key={shown} row={shown} />
    </div>
  );
}

/** Ratio of the agent's count to the estimate above which the panel explains the difference. */
const NOTICED = 1.1;

function Inspection({ row }: { row: number }) {
  const { model } = useViewer();
  const { answer, error } = useAnswer(() => model.reader.compaction(row), [model, row]);
  if (error) return <p class="failure">{error.message}</p>;
  if (!answer) return <p class="quiet">Reading…</p>;
  const [before, after] = [sumTokens(answer.before), sumTokens(answer.after)];
  const counted = model.facts.compactions.find((mark) => mark.row === row)?.tokensBefore ?? 0;
  return (
    <>
      <h3>Before: {formatTokens(before)} tokens</h3>
      <TokenBar tokens={answer.before} window={before} named />
      {counted > before * NOTICED && (
        <p class="quiet">
          The agent counted {formatTokens(counted)} tokens. Its system prompt and tools are not in the
          session, and the figures here are estimates.
        </p>
      )}
      <h3>After: {formatTokens(after)} tokens</h3>
      <TokenBar tokens={answer.after} window={before} named />
      <Facts facts={factsOf(answer)} />
      {before > 0 && <p>{cacheSentence(answer.cache)}</p>}
      <h3>The summary</h3>
      <SummaryParts row={row} text={answer.summary} />
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
      <EntryList title="Covered" rows={answer.covered} />
      <EntryList title="Kept" rows={answer.kept} />
    </>
  );
}

function factsOf({ details, timestamp, cost, usage, covered, kept }: CompactionView): [string, string][] {
  const { reason, policy, source, model, durationMs } = details;
  return [
    ["When", formatTime(timestamp)],
    ["Why", textIn(reason)],
    ["Policy", textIn(policy)],
    ["Written by", textIn(source)],
    ["Model", model?.modelId ? `${textIn(model.provider)}/${textIn(model.modelId)}` : ""],
    ["Cost", cost === null ? "" : formatDollars(cost)],
    ["Billed", usage ? `${formatTokens(usage.input)} in, ${formatTokens(usage.output)} out` : ""],
    ["Took", typeof durationMs === "number" ? `${(durationMs / 1_000).toFixed(1)} s` : ""],
    ["Covered", formatMany(covered.length, "entry", "entries")],
    ["Kept", formatMany(kept.length, "entry", "entries")],
    ["Cut", details.isSplitTurn ? "inside a turn" : ""],
  ];
}

/** Any program may have written the details, so values other than strings are ignored. */
const textIn = (value: unknown): string => (typeof value === "string" ? visibleControls(value) : "");

/** Number of entries that a list shows at first. */
const FIRST_LISTED = 30;

export function EntryList({ title, rows }: { title: string; rows: readonly number[] }) {
  const { model, open: show } = useViewer();
  const [shown, setShown] = useState(FIRST_LISTED);
  const [open, setOpen] = useState(false);
  return (
    <details onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary>
        {title}: {formatMany(rows.length, "entry", "entries")}
      </summary>
      {open && (
        <ul class="entry-list">
          {rows.slice(0, shown).map((row) => (
            <li key={row}>
              <button type="button" class="link" onClick={() => show("conversation", row)}>
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

/** Summary of the compaction of a row, in parts. Selecting a part shows the entries that it may come from. */
function SummaryParts({ row, text }: { row: number; text: string }) {
  const [chosen, setChosen] = useState(-1);
  const parts = useMemo(() => summaryParts(visibleControls(text)), [text]);
  return (
    <div class="summary-parts">
      {parts.map(({ markdown, words, level, isHeading }, at) => (
        <div key={at} class="summary-part" style={{ marginLeft: `${level * 1.4}em` }}>
          <Markdown text={markdown} />
          {!isHeading && (
            <button
              type="button"
              class="origin"
              aria-expanded={chosen === at}
              aria-label={`Where this came from: ${words.slice(0, 60)}`}
              title="Find the entries that this text came from"
              onClick={() => setChosen(chosen === at ? -1 : at)}
            >
              from?
            </button>
          )}
          {chosen === at && <Origins row={row} line={words} />}
        </div>
      ))}
    </div>
  );
}

/** A block of a summary: a heading, a paragraph, a list item, a code fence. */
interface SummaryPart {
  /** Source lines as markdown. */
  markdown: string;
  /** Text without the markup. */
  words: string;
  /** Number of lists around it, minus one. */
  level: number;
  isHeading: boolean;
}

/** Splits a text into blocks by its lines; a text that {@link readMarkdown} does not parse is one block. */
function summaryParts(text: string): SummaryPart[] {
  const tokens = readMarkdown(text);
  const whole = { markdown: text, words: text, level: 0, isHeading: false };
  if (!tokens) return [whole];
  const lines = text.split("\n");
  const parts: SummaryPart[] = [];
  let lists = 0;
  let from = -1;
  for (const { type, map, nesting, level } of tokens) {
    if (/^(bullet|ordered)_list/.test(type)) lists += nesting;
    const isLeaf = /^(heading_open|paragraph_open|fence|code_block|hr)$/.test(type);
    const isTable = type === "table_open" || type === "blockquote_open";
    if (!map || !(isLeaf || isTable) || map[0] < from) continue;
    from = map[1];
    // A list item begins on the line of its first paragraph, so the list marker is added to that paragraph.
    const taken = lines.slice(map[0], map[1]);
    const indent = Math.min(...taken.map((line) => /^ */.exec(line)![0].length));
    const markdown = taken.map((line) => line.slice(indent)).join("\n");
    const words = markdown.replace(/^(?:[#>*+\s-]|\d+[.)]|\[[ xX]\])+/gm, "");
    parts.push({
      markdown,
      words,
      level: Math.max(0, lists - 1),
      isHeading: type === "heading_open" && level === 0,
    });
  }
  return parts.length > 0 ? parts : [whole];
}

function Origins({ row, line }: { row: number; line: string }) {
  const { model, open } = useViewer();
  const { answer, error } = useAnswer(() => model.reader.origins(row, line), [model, row, line]);
  if (error) return <p class="failure">{error.message}</p>;
  if (!answer) return <p class="quiet">Looking…</p>;
  if (answer.length === 0) return <p class="quiet">No covered entry shares the words of this line.</p>;
  return (
    <ul class="origins" aria-label="Entries it may have come from">
      {answer.map((origin) => (
        <li key={origin.row}>
          <button type="button" class="link" onClick={() => open("conversation", origin.row)}>
            <span class="number">{Math.round(origin.score * 100)} %</span> <bdi>{origin.snippet}</bdi>
          </button>
        </li>
      ))}
    </ul>
  );
}
