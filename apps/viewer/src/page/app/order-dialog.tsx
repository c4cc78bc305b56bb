import { useEffect, useRef, useState } from "preact/hooks";
import { order as send } from "../source/page-source.ts";
import type { Order } from "./address.ts";

interface OrderDialogProps {
  /** Names the session to the server. */
  session: string;
  order: Order;
  onDone: (order: Order, result: Readonly<Record<string, unknown>> | undefined) => void;
}

const TITLES: Readonly<Record<Order["act"], string>> = {
  navigate: "Go on from this entry",
  fork: "Fork a new session here",
  label: "Label this entry",
  hide: "Hide this entry from the model",
  show: "Let the model read this entry again",
  compact: "Compact this session",
};

interface OrderState {
  running?: AbortController;
  /** Written by a model so far. */
  tokens: number;
  /** What is to be read; empty for nothing. */
  said: string;
  /** It was carried out: once is enough. */
  isDone?: boolean;
}

/** Acts that leave a branch, which a summary can tell of. */
const LEAVES: ReadonlySet<Order["act"]> = new Set(["navigate", "fork"]);

/** Asks what a change still needs, carries it out, and says how far it is. */
export function OrderDialog({ session, order, onDone }: OrderDialogProps) {
  const { act, id } = order;
  const dialog = useRef<HTMLDialogElement>(null);
  const [words, setWords] = useState("");
  const [summarize, setSummarize] = useState(false);
  const [state, setState] = useState<OrderState>({ tokens: 0, said: "" });
  useEffect(() => dialog.current!.showModal(), []);
  const run = async (event: Event) => {
    event.preventDefault();
    const running = new AbortController();
    setState({ running, tokens: 0, said: "" });
    const told =
      act === "label" ? { label: words } : { summarize, ...(words ? { instructions: words } : {}) };
    try {
      const result = await send<Record<string, unknown>>(
        `api/sessions/${encodeURIComponent(session)}/${act}`,
        { id, ...told },
        (tokens) => setState({ running, tokens, said: "" }),
        running.signal,
      );
      const said = saidOf(act, result);
      if (said === "") onDone(order, result);
      else setState({ tokens: 0, said, isDone: true });
    } catch (error) {
      setState({ tokens: 0, said: error instanceof Error ? error.message : String(error) });
    }
  };
  // Escape closes a dialog without asking: what runs in it then stops, as by its button.
  const close = () => {
    state.running?.abort();
    onDone(order, undefined);
  };
  return (
    <dialog ref={dialog} class="order" aria-label={TITLES[act]} onClose={close}>
      <form onSubmit={run}>
        <h2>{TITLES[act]}</h2>
        {LEAVES.has(act) && (
          <label>
            <input
              type="checkbox"
              checked={summarize}
              onChange={(event) => setSummarize(event.currentTarget.checked)}
            />{" "}
            Summarise what is left behind
          </label>
        )}
        {(act === "label" || act === "compact" || summarize) && (
          <label class="wide">
            {act === "label" ? "Label; none takes it away" : "What the summary shall attend to"}
            <input value={words} onInput={(event) => setWords(event.currentTarget.value)} />
          </label>
        )}
        {state.running && (
          <p role="status">
            <progress /> {state.tokens > 0 ? `${state.tokens} tokens written` : "Working…"}
          </p>
        )}
        {state.said !== "" && <p role="alert">{state.said}</p>}
        <div class="buttons">
          <button type="button" onClick={() => (state.running ? state.running.abort() : close())}>
            {state.running ? "Stop" : "Close"}
          </button>
          <button type="submit" class="primary" disabled={state.running !== undefined || state.isDone}>
            {TITLES[act]}
          </button>
        </div>
      </form>
    </dialog>
  );
}

/** What is to be read before the dialog closes; empty where the page shows the change by itself. */
function saidOf(act: Order["act"], result: Readonly<Record<string, unknown>>): string {
  if (act === "compact" && result["eligible"] === false)
    return `Nothing was done: ${String(result["reason"])}`;
  if (act === "fork") return `The fork is ${String(result["file"])}`;
  return "";
}
