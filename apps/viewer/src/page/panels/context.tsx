import { messageText, toolCalls } from "@espalier/session-tree";
import { useState } from "preact/hooks";
import { type ContextPiece, tokensOf } from "../../model/context.ts";
import { oneLine } from "../../model/entry-gist.ts";
import type { ViewerActions } from "../app/address.ts";
import { MessageView } from "../entry/message-view.tsx";
import { useAnswer } from "../source/observe.ts";
import type { SessionModel } from "../source/session-model.ts";
import { formatCount, formatTokens } from "../text/numbers.ts";
import { visibleControls } from "../text/visible-controls.ts";
import { ASSUMED_WINDOW, TokenBar } from "./timeline.tsx";

/** Number of messages that are listed at first, the newest ones. */
const FIRST_SHOWN = 200;

interface ContextPanelProps {
  model: SessionModel;
  /** Context window in tokens that the user chose; undefined: the model's. */
  chosenWindow: number | undefined;
  actions: ViewerActions;
}

/** Panel of the context at the selected entry: its messages with their tokens. */
export function ContextPanel({ model, chosenWindow, actions }: ContextPanelProps) {
  const { answer, error } = useAnswer(() => model.reader.context(model.selected), [model, model.selected]);
  const [shown, setShown] = useState(FIRST_SHOWN);
  if (error) return <p class="failure">{error.message}</p>;
  if (!answer) return <p class="quiet padded">Reading…</p>;
  const { pieces, total, tokens, model: named, thinkingLevel } = answer;
  const largest = pieces.reduce((most, piece) => Math.max(most, piece.tokens), 1);
  const window = chosenWindow ?? answer.window ?? ASSUMED_WINDOW;
  const left = Math.max(0, pieces.length - shown);
  return (
    <div class="panel">
      <h2>What the model reads here</h2>
      <p class="quiet">
        {formatCount(pieces.length, "message")}, about {formatTokens(total)} tokens
        {named ? ` · ${named.provider}/${named.modelId}` : ""} · thinking {thinkingLevel}
      </p>
      <TokenBar tokens={tokens} window={window} named />
      {left > 0 && (
        <button type="button" class="more" onClick={() => setShown(pieces.length)}>
          Show {formatCount(left, "older message")}
        </button>
      )}
      <ol class="pieces" start={left + 1}>
        {pieces.slice(left).map((piece, at) => (
          <Piece key={`${piece.row}-${at}`} piece={piece} largest={largest} actions={actions} />
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

interface PieceProps {
  piece: ContextPiece;
  largest: number;
  actions: ViewerActions;
}

function Piece({ piece, largest, actions }: PieceProps) {
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
            <button type="button" onClick={() => actions.open("conversation", row)}>
              Show the entry
            </button>
          </>
        )}
      </details>
    </li>
  );
}

/** Panel of the user's rules that apply at the selected entry; each links to its message. */
export function RulesPanel({ model, actions }: { model: SessionModel; actions: ViewerActions }) {
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
              <button type="button" class="link" onClick={() => actions.openId(from.entryId)}>
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
