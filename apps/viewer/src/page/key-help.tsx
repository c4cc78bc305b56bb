import { useEffect, useRef } from "preact/hooks";

const KEYS: readonly [string, string][] = [
  ["↑ ↓  j k", "the entry before, the one after"],
  ["← →", "the entry that this one follows; into a run"],
  ["[  ]", "the compaction before, the one after"],
  ["PgUp  PgDn", "a screen up, a screen down"],
  ["Home  End", "the first entry, the last"],
  ["Ctrl + wheel", "zoom the tree"],
  ["1 … 5", "conversation, what the model reads, compactions, usage, compare"],
  ["/", "find in this session"],
  ["?", "this list"],
];

/** The keys of the page. */
export function KeyHelp({ onClose }: { onClose: () => void }) {
  const dialog = useRef<HTMLDialogElement>(null);
  useEffect(() => dialog.current!.showModal(), []);
  return (
    <dialog ref={dialog} class="order" aria-label="Keys" onClose={onClose}>
      <h2>Keys</h2>
      <dl class="keys">
        {KEYS.map(([keys, meaning]) => (
          <div key={keys}>
            <dt>
              <kbd>{keys}</kbd>
            </dt>
            <dd>{meaning}</dd>
          </div>
        ))}
      </dl>
      <div class="buttons">
        <button type="button" onClick={() => dialog.current!.close()}>
          Close
        </button>
      </div>
    </dialog>
  );
}
