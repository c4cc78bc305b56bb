import { useState } from "preact/hooks";
import { useAnswer } from "./observe.ts";
import type { SessionModel } from "./session-model.ts";
import type { ViewerActions } from "./viewer-actions.ts";
import { visibleControls } from "./visible-controls.ts";

interface SummaryLinesProps {
  model: SessionModel;
  /** The compaction. */
  row: number;
  text: string;
  actions: ViewerActions;
}

/** A summary line by line; each tells where it came from when it is chosen. */
export function SummaryLines({ model, row, text, actions }: SummaryLinesProps) {
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
