// Separate from session-view.tsx: each panel has a file.
import type { BranchSide } from "@espalier/engine/reading";
import { useState } from "preact/hooks";
import type { BranchEnd } from "../../model/tree-reader.ts";
import { useViewer } from "../app/viewer.ts";
import { useAnswer } from "../source/observe.ts";
import type { SessionModel } from "../source/session-model.ts";
import { formatBill, formatMany, formatTime, formatTokens } from "../text/numbers.ts";
import { Conversation } from "./conversation.tsx";

/**
 * Two branches side by side, from their fork.
 *
 * @param other last row of the other branch; -1 if none is chosen
 */
export function ComparePanel({ other }: { other: number }) {
  const { model, compareWith } = useViewer();
  const { answer, error } = useAnswer(() => model.reader.branches(), [model, model.rows.length]);
  const ends = (answer ?? []).filter(({ row }) => row !== model.tip);
  return (
    <div class="compare">
      <div class="compare-head">
        <h2>Compare</h2>
        {error && <p class="failure">{error.message}</p>}
        {ends.length > 0 && <BranchPicker ends={ends} other={other} choose={compareWith} />}
      </div>
      {other < 0 || other === model.tip ? (
        <p class="quiet padded">
          {answer && ends.length === 0
            ? "This session has only one branch."
            : other < 0
              ? "Choose another branch to see both side by side."
              : "The chosen entry is on the compared branch itself. Choose another branch to see both side by side."}
        </p>
      ) : (
        <Sides key={other} other={other} />
      )}
    </div>
  );
}

/** Number of branches that are listed at once; typing finds others. */
const MOST = 60;

interface BranchPickerProps {
  ends: readonly BranchEnd[];
  /** Chosen end; -1 for none. */
  other: number;
  choose: (row: number, id: string) => void;
}

/** A field that lists the branches whose label, text and id together contain every typed word. */
function BranchPicker({ ends, other, choose }: BranchPickerProps) {
  const [typed, setTyped] = useState<string>();
  // The list may change while it is open, so the marked branch is kept by its row.
  const [marked, setMarked] = useState(-1);
  const chosen = ends.find(({ row }) => row === other);
  const words = (typed ?? "").toLowerCase().split(/\s+/);
  const fitting = ends.filter((end) => words.every((word) => wordsOf(end).includes(word)));
  const listed = fitting.slice(0, MOST);
  const at = Math.max(
    0,
    listed.findIndex(({ row }) => row === marked),
  );
  const isOpen = typed !== undefined;
  const take = (end: BranchEnd | undefined) => {
    if (!end) return;
    choose(end.row, end.id);
    setTyped(undefined);
  };
  const press = (event: KeyboardEvent) => {
    const step = event.key === "ArrowDown" ? 1 : event.key === "ArrowUp" ? -1 : 0;
    if (step !== 0) {
      setTyped(typed ?? "");
      setMarked(listed[Math.max(0, Math.min(listed.length - 1, at + step))]?.row ?? -1);
    } else if (event.key === "Enter") take(listed[at]);
    else if (event.key === "Escape") setTyped(undefined);
    else return;
    event.preventDefault();
  };
  return (
    <div class="picker" onFocusOut={() => setTyped(undefined)}>
      <input
        role="combobox"
        aria-label="The other branch"
        aria-expanded={isOpen}
        aria-controls="branches"
        aria-autocomplete="list"
        aria-activedescendant={isOpen && listed[at] ? `branch-${listed[at].row}` : undefined}
        placeholder={
          ends.length === 1
            ? "Choose the other branch"
            : `Type to choose one of ${formatMany(ends.length, "other branch", "other branches")}`
        }
        value={typed ?? (chosen ? titleOf(chosen) : "")}
        onFocus={(event) => event.currentTarget.select()}
        onClick={() => setTyped(typed ?? "")}
        onInput={(event) => {
          setTyped(event.currentTarget.value);
          setMarked(-1);
        }}
        onKeyDown={press}
      />
      {isOpen && (
        <div class="branches">
          <div id="branches" class="listed" role="listbox" aria-label="Branches">
            {listed.map((end, place) => (
              // biome-ignore lint/a11y/useKeyWithClickEvents: the field has the keys
              // biome-ignore lint/a11y/useFocusableInteractive: the field keeps the focus and names the branch
              <div
                key={end.row}
                id={`branch-${end.row}`}
                role="option"
                aria-selected={place === at}
                // Runs before the field loses the focus, which would close the list.
                onMouseDown={(event) => event.preventDefault()}
                onClick={() => take(end)}
              >
                {end.label !== "" && <span class="tag">{end.label}</span>} <bdi>{end.text || end.id}</bdi>{" "}
                <span class="quiet">{formatTime(end.timestamp)}</span>
              </div>
            ))}
          </div>
          <p class="quiet" role="status">
            {fitting.length > listed.length
              ? `${listed.length} of ${formatMany(fitting.length, "branch", "branches")}; type more to see others`
              : formatMany(fitting.length, "branch", "branches")}
          </p>
        </div>
      )}
    </div>
  );
}

const wordsOf = ({ label, text, id }: BranchEnd): string => `${label} ${text} ${id}`.toLowerCase();
const titleOf = ({ label, text, id }: BranchEnd): string => [label, text || id].filter(Boolean).join(": ");

function Sides({ other }: { other: number }) {
  const { model } = useViewer();
  const { answer, error } = useAnswer(
    () => model.reader.compare(model.tip, other),
    [model, model.tip, other, model.rows.length],
  );
  if (error) return <p class="failure">{error.message}</p>;
  if (!answer) return <p class="quiet padded">Reading…</p>;
  return (
    <div class="sides">
      <Side title="This branch" side={answer.a} rows={ownRows(model, model.tip, other)} />
      <Side title="Compared branch" side={answer.b} rows={ownRows(model, other, model.tip)} />
    </div>
  );
}

/** Returns the rows on the path of a row that are not on the path of the other row, without folded ones. */
function ownRows(model: SessionModel, row: number, other: number): number[] {
  const { rows } = model;
  const shared = new Set(rows.path(other));
  return rows.path(row).filter((at) => !shared.has(at) && !model.isFolded(at));
}

interface SideProps {
  title: string;
  side: BranchSide;
  /** Rows that only this branch has, oldest first. */
  rows: readonly number[];
}

function Side({ title, side, rows }: SideProps) {
  const { entryIds, messages, tokens, cost, estimated, files } = side;
  return (
    <section class="side" aria-label={title}>
      <header>
        <h3>{title}</h3>
        <p class="quiet">
          {formatMany(entryIds.length, "entry", "entries")} since they parted ·{" "}
          {formatMany(messages, "message")}, {formatTokens(tokens)} tokens{" "}
          {cost ? `· ${formatBill({ cost, estimated })}` : ""}
        </p>
        {files.length > 0 && (
          <details class="quiet">
            <summary>{formatMany(files.length, "file")}</summary>
            {files.join(", ")}
          </details>
        )}
      </header>
      {rows.length === 0 ? (
        <p class="quiet padded">
          {entryIds.length === 0 ? "It ends where they part." : "Only bookkeeping, which is folded."}
        </p>
      ) : (
        <Conversation rows={rows} />
      )}
    </section>
  );
}
