import { useState } from "preact/hooks";
import type { ChangedLine } from "./file-change.ts";
import { visibleControls } from "./visible-controls.ts";

/** Lines that are shown at first. */
const FIRST_SHOWN = 60;

/** What a change took out of a file and put in. */
export function DiffView({ lines }: { lines: readonly ChangedLine[] }) {
  const [shown, setShown] = useState(FIRST_SHOWN);
  return (
    <div class="diff">
      <pre>
        {lines.slice(0, shown).map(({ sign, text }, at) => (
          <div key={at} class={sign === "+" ? "added" : sign === "-" ? "removed" : "stayed"}>
            <span class="sign">{sign}</span>
            {visibleControls(text)}
          </div>
        ))}
      </pre>
      {lines.length > shown && (
        <button type="button" class="more" onClick={() => setShown(lines.length)}>
          Show all {lines.length} lines
        </button>
      )}
    </div>
  );
}
