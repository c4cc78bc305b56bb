import type { BranchSide } from "@espalier/engine/reading";
import type { ViewerActions } from "../app/address.ts";
import { useAnswer } from "../source/observe.ts";
import type { SessionModel } from "../source/session-model.ts";
import { formatCount, formatDollars, formatTokens } from "../text/numbers.ts";
import { Conversation } from "./conversation.tsx";

interface ComparePanelProps {
  model: SessionModel;
  /** The end of the other branch; -1 while none is chosen. */
  other: number;
  actions: ViewerActions;
}

/** Two branches side by side, from where they part. */
export function ComparePanel({ model, other, actions }: ComparePanelProps) {
  const ends = branchEnds(model);
  return (
    <div class="compare">
      <div class="compare-head">
        <h2>Compare</h2>
        <label>
          with the branch that ends in{" "}
          <select value={other} onChange={(event) => actions.compareWith(Number(event.currentTarget.value))}>
            <option value={-1}>…</option>
            {other >= 0 && !ends.includes(other) && <option value={other}>{nameOf(model, other)}</option>}
            {ends.map((row) => (
              <option key={row} value={row}>
                {nameOf(model, row)}
              </option>
            ))}
          </select>
        </label>
      </div>
      {other < 0 ? (
        <p class="quiet padded">
          {ends.length === 0
            ? "This session has one branch only."
            : "Choose another branch to see both side by side."}
        </p>
      ) : (
        <Sides key={other} model={model} other={other} actions={actions} />
      )}
    </div>
  );
}

/** Branches that can be chosen. */
const MOST = 300;

function branchEnds({ layout, rows, tip }: SessionModel): number[] {
  const ends: number[] = [];
  for (let line = layout.rows.length - 1; line >= 0 && ends.length < MOST; line--) {
    const row = layout.rows[line]!;
    if (layout.goesOn[line] === 0 && row !== tip && rows.kindAt(row).movesLeaf) ends.push(row);
  }
  return ends;
}

function nameOf(model: SessionModel, row: number): string {
  const label = model.labels.get(row);
  const gist = model.gist(row);
  return `${label ? `[${label}] ` : ""}${gist ? gist.text.slice(0, 60) || gist.id : "…"}`;
}

function Sides({ model, other, actions }: ComparePanelProps) {
  const { answer, error } = useAnswer(
    () => model.reader.compare(model.tip, other),
    [model, model.tip, other, model.rows.length],
  );
  if (error) return <p class="failure">{error.message}</p>;
  if (!answer) return <p class="quiet padded">Reading…</p>;
  return (
    <div class="sides">
      <Side
        title="This branch"
        side={answer.a}
        rows={ownRows(model, model.tip, other)}
        model={model}
        actions={actions}
      />
      <Side
        title="The other one"
        side={answer.b}
        rows={ownRows(model, other, model.tip)}
        model={model}
        actions={actions}
      />
    </div>
  );
}

/** Entries on the path of a row and not on that of another. */
function ownRows({ rows }: SessionModel, row: number, other: number): number[] {
  const shared = new Set(rows.path(other));
  return rows.path(row).filter((at) => !shared.has(at));
}

interface SideProps {
  title: string;
  side: BranchSide;
  /** Its own rows, oldest first. */
  rows: readonly number[];
  model: SessionModel;
  actions: ViewerActions;
}

function Side({ title, side, rows, model, actions }: SideProps) {
  const { messages, tokens, cost, estimated, files } = side;
  return (
    <section class="side" aria-label={title}>
      <header>
        <h3>{title}</h3>
        <p class="quiet">
          {formatCount(rows.length, "entry", "entries")} since they parted ·{" "}
          {formatCount(messages, "message")}, {formatTokens(tokens)} tokens{" "}
          {cost ? `· ${estimated > 0 ? "≈ " : ""}${formatDollars(cost)}` : ""}
        </p>
        {files.length > 0 && (
          <details class="quiet">
            <summary>{formatCount(files.length, "file")}</summary>
            {files.join(", ")}
          </details>
        )}
      </header>
      {rows.length === 0 ? (
        <p class="quiet padded">It ends where they part.</p>
      ) : (
        <Conversation model={model} rows={rows} actions={actions} />
      )}
    </section>
  );
}
