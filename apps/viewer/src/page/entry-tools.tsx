import { useState } from "preact/hooks";
import type { RowKind } from "../model/outline.ts";
import type { ViewerActions } from "./viewer-actions.ts";

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
export function EntryTools({ row, id, kind, isSaid, isLeftOut, actions }: EntryToolsProps) {
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
