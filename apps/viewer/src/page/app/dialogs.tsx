import { cacheSentence } from "@espalier/engine/reading";
import type { ComponentChildren } from "preact";
import { useLayoutEffect, useRef, useState } from "preact/hooks";
import type { NextActs, PlansView, PlanView } from "../../server/open-sessions.ts";
import { EntryList } from "../panels/context.tsx";
import { useAnswer } from "../source/observe.ts";
import { ask, order as send } from "../source/page-source.ts";
import { formatDollars, formatMany, formatTime, formatTokens } from "../text/numbers.ts";
import { visibleControls } from "../text/visible-controls.ts";
import { type Order, useViewer } from "./viewer.ts";

interface DialogProps {
  title: string;
  onClose: () => void;
  isWide?: boolean;
  children: ComponentChildren;
}

/** A dialog above the page. Escape closes it. The focus returns to the element that had it. */
export function Dialog({ title, onClose, isWide = false, children }: DialogProps) {
  const dialog = useRef<HTMLDialogElement>(null);
  useLayoutEffect(() => {
    const shown = dialog.current!;
    shown.showModal();
    // Closed before it is removed: the browser restores the focus only then.
    return () => shown.close();
  }, []);
  return (
    <dialog ref={dialog} class={`order${isWide ? " wide" : ""}`} aria-label={title} onClose={onClose}>
      <h2>{title}</h2>
      {children}
    </dialog>
  );
}

const KEYS: readonly [keys: string, meaning: string, writes?: boolean][] = [
  ["↑ ↓  j k", "the previous entry, the next entry"],
  ["← →", "the parent of this entry; into a folded run"],
  ["[  ]", "the previous compaction, the next one"],
  ["PgUp  PgDn", "a screen up, a screen down"],
  ["Home  End", "the first entry, the last"],
  ["Ctrl + wheel", "zoom the tree"],
  ["1 … 6", "conversation, what the model reads, compactions, usage, compare, rules"],
  ["/", "find in this session"],
  ["n  N", "the next entry that was found, the one before"],
  ["Esc", "end the search"],
  ["u  U", "undo your last change, redo it", true],
  ["Ctrl + P", "print the whole path"],
  ["?", "this list"],
];

/** Dialog with the keys of the page. */
export function KeyHelp({ onClose }: { onClose: () => void }) {
  const { canWrite } = useViewer();
  return (
    <Dialog title="Keys" onClose={onClose}>
      <dl class="keys">
        {KEYS.filter(([, , writes]) => canWrite || !writes).map(([keys, meaning]) => (
          <div key={keys}>
            <dt>
              <kbd>{keys}</kbd>
            </dt>
            <dd>{meaning}</dd>
          </div>
        ))}
      </dl>
      <div class="buttons">
        <button type="button" onClick={onClose}>
          Close
        </button>
      </div>
    </Dialog>
  );
}

const ORDER_TITLES: Readonly<Record<Order["act"], string>> = {
  navigate: "Continue from this entry",
  fork: "Fork a new session here",
  label: "Label this entry",
  hide: "Hide this entry from the model",
  show: "Let the model read this entry again",
  compact: "Compact this session",
  undo: "Undo",
  redo: "Redo",
};

interface OrderState {
  running?: AbortController;
  /** Tokens that the model has written so far. */
  tokens: number;
  /** Message for the user; empty for none. */
  said: string;
  /** True after the act, which is not repeated. */
  isDone?: boolean;
}

const BEFORE: OrderState = { tokens: 0, said: "" };

/** Returns a message that keeps the dialog open after an act; empty if the page shows the change. */
function saidOf(act: Order["act"], result: Readonly<Record<string, unknown>>): string {
  if (act === "compact" && result["eligible"] === false)
    return `Nothing was changed: ${String(result["reason"])}`;
  if (act === "fork") return `The fork is ${String(result["file"])}`;
  return "";
}

interface DialogEnds {
  /** Called when an act has ended without a message. */
  onDone: () => void;
  onClose: () => void;
}

interface ActDialogProps extends DialogEnds {
  act: Order["act"];
  /** Parameters of the act. */
  body: object;
  isPossible: boolean;
  isWide?: boolean;
  progress: [state: OrderState, setState: (state: OrderState) => void];
  children: ComponentChildren;
}

/** Dialog of an act: runs it once, and shows its progress. */
function ActDialog({ act, body, isPossible, isWide = false, progress, ...props }: ActDialogProps) {
  const { onDone, onClose, children } = props;
  const [state, setState] = progress;
  const { canWrite, served } = useViewer();
  const title = canWrite ? ORDER_TITLES[act] : "Plan of a compaction";
  const run = async (event: Event) => {
    event.preventDefault();
    const running = new AbortController();
    setState({ ...BEFORE, running });
    try {
      const result = await send<Record<string, unknown>>(
        `${served}/${act}`,
        body,
        (tokens) => setState({ running, tokens, said: "" }),
        running.signal,
      );
      const said = saidOf(act, result);
      if (said === "") onDone();
      else setState({ tokens: 0, said, isDone: true });
    } catch (error) {
      setState({ tokens: 0, said: error instanceof Error ? error.message : String(error) });
    }
  };
  const stop = () => state.running?.abort();
  // Escape closes a dialog at once, so the running act is stopped, as by its button.
  const close = () => {
    stop();
    onClose();
  };
  return (
    <Dialog title={title} onClose={close} isWide={isWide}>
      <form onSubmit={run}>
        {children}
        {state.running && (
          <p role="status">
            <progress aria-label="Working" />{" "}
            {state.tokens > 0 ? `${formatMany(state.tokens, "token")} written` : "Working…"}
          </p>
        )}
        {state.said !== "" && <p role="alert">{state.said}</p>}
        <div class="buttons">
          <button type="button" onClick={state.running ? stop : close}>
            {state.running ? "Stop" : "Close"}
          </button>
          {canWrite && (
            <button
              type="submit"
              class="primary"
              disabled={state.running !== undefined || state.isDone || !isPossible}
            >
              {title}
            </button>
          )}
        </div>
      </form>
    </Dialog>
  );
}

interface WordsProps {
  label: string;
  words: string;
  setWords: (words: string) => void;
}

function Words({ label, words, setWords }: WordsProps) {
  return (
    <label class="wide">
      {label}
      <input value={words} onInput={(event) => setWords(event.currentTarget.value)} />
    </label>
  );
}

const FOCUS = "What the summary should focus on (optional)";

/** Acts that abandon a branch, which can be summarized. */
const LEAVES: ReadonlySet<Order["act"]> = new Set(["navigate", "fork"]);

/** Dialog of a change: asks for its parameters, runs it, and shows its progress. */
export function OrderDialog({ order: { act, id, row }, ...ends }: DialogEnds & { order: Order }) {
  const { model, served } = useViewer();
  const [words, setWords] = useState("");
  const [summarize, setSummarize] = useState(false);
  const progress = useState(BEFORE);
  const isReversal = act === "undo" || act === "redo";
  const { answer: acts, error } = useAnswer(
    async () => (isReversal ? ask<NextActs>(`${served}/act`) : undefined),
    [served, model.rows.length, progress[0].said],
  );
  const reversed = isReversal ? acts?.[act] : undefined;
  const body =
    act === "label"
      ? { id, label: words }
      : reversed
        ? { expected: reversed.entryId }
        : { id, summarize, ...(words === "" ? {} : { instructions: words }) };
  const isPossible = !isReversal || Boolean(reversed);
  return (
    <ActDialog act={act} body={body} isPossible={isPossible} progress={progress} {...ends}>
      {act === "navigate" && <NavigationForecast row={row} />}
      {error && <p class="failure">{error.message}</p>}
      {isReversal && !error && <ReversedAct direction={act} act={reversed} />}
      {LEAVES.has(act) && (
        <label>
          <input
            type="checkbox"
            checked={summarize}
            onChange={(event) => setSummarize(event.currentTarget.checked)}
          />{" "}
          Summarize the abandoned branch
        </label>
      )}
      {(act === "label" || summarize) && (
        <Words
          label={act === "label" ? "Label (leave empty to remove the label)" : FOCUS}
          words={words}
          setWords={setWords}
        />
      )}
    </ActDialog>
  );
}

function NavigationForecast({ row }: { row: number }) {
  const { model } = useViewer();
  const { answer } = useAnswer(() => model.reader.forecast(row), [model, row, model.rows.length]);
  return answer ? <p>{cacheSentence(answer)}</p> : null;
}

const ACT_NAMES: Readonly<Record<NonNullable<NextActs["undo"]>["kind"], string>> = {
  prompt: "your prompt",
  navigation: "your navigation to another entry",
  summary: "your navigation to another branch, with its summary",
  compaction: "your compaction",
  edit: "your hiding or showing of an entry",
  label: "your label",
  name: "your name for the session",
  pin: "your pin",
};

interface ReversedActProps {
  direction: "undo" | "redo";
  /** Undefined until it has been read; null if there is none. */
  act: NextActs["undo"] | undefined;
}

/** Shows the act that an undo would revert, or that a redo would restore. */
function ReversedAct({ direction, act }: ReversedActProps) {
  if (act === undefined) return <p class="quiet">Reading…</p>;
  if (act === null) return <p>There is nothing to {direction}.</p>;
  const { kind, text, timestamp } = act;
  return (
    <>
      <p>
        {direction === "undo" ? "Undoes" : "Restores"} {ACT_NAMES[kind]} ({formatTime(timestamp)})
        {text === "" ? "" : ":"}
      </p>
      {text !== "" && <blockquote class="undone">{visibleControls(text)}</blockquote>}
      {direction === "undo" && <p class="quiet">It stays in the file, and Redo restores it.</p>}
    </>
  );
}

/** Plan of a compaction at the leaf by each policy, with a button that runs it if the session can be changed. */
export function PlanDialog(ends: DialogEnds) {
  const { model, canWrite, served } = useViewer();
  const { answer: plans, error } = useAnswer(
    () => ask<PlansView>(`${served}/plans`),
    [served, model.rows.length],
  );
  const [chosen, setChosen] = useState<string>();
  const [words, setWords] = useState("");
  const progress = useState(BEFORE);
  const policy = chosen ?? plans?.policy;
  const { answer: plan, error: refused } = useAnswer(
    async () => (policy === undefined ? undefined : ask<PlanView>(`${served}/plan`, { policy })),
    [served, policy, model.rows.length],
  );
  const trouble = error ?? refused;
  const body = { policy, ...(words === "" ? {} : { instructions: words }) };
  const isPossible = plans !== undefined;
  return (
    <ActDialog act="compact" body={body} isPossible={isPossible} isWide progress={progress} {...ends}>
      <p class="quiet">
        The effect of a compaction at the leaf, by policy. Each policy counts tokens in its own way. No model
        is called, and nothing is written.
      </p>
      {!plans && !trouble && <p class="quiet">Planning…</p>}
      {plans && policy !== undefined && <PolicyTable plans={plans} chosen={policy} choose={setChosen} />}
      {plan?.policy === policy && plan && <PlanDetails plan={plan} />}
      {trouble && <p class="failure">{trouble.message}</p>}
      {canWrite && <Words label={FOCUS} words={words} setWords={setWords} />}
    </ActDialog>
  );
}

const POLICY_COLUMNS: readonly [name: string, title?: string][] = [
  ["Policy"],
  ["Tokens", "Size of the context before and after, as the policy counts"],
  ["Summarized", "Messages that a summary would replace"],
  ["Kept", "Messages that would stay as they are"],
  ["Cache write", "Tokens that the next request would write to the prompt cache"],
  ["Price", "Extra cost of writing these tokens, compared with reading them from the cache"],
  ["Pays back", "Number of calls after which smaller requests have saved that cost"],
];

interface PolicyTableProps {
  plans: PlansView;
  chosen: string;
  choose: (policy: string) => void;
}

function PolicyTable({ plans, chosen, choose }: PolicyTableProps) {
  return (
    <table class="policies">
      <thead>
        <tr>
          {POLICY_COLUMNS.map(([name, title]) => (
            <th scope="col" key={name} title={title}>
              {name}
            </th>
          ))}
        </tr>
      </thead>
      <tbody>
        {plans.policies.map((row) => (
          <tr key={row.policy} class={row.policy === chosen ? "chosen" : ""}>
            <th scope="row">
              <label>
                <input
                  type="radio"
                  name="policy"
                  checked={row.policy === chosen}
                  onChange={() => choose(row.policy)}
                />
                {row.policy}
              </label>
            </th>
            {row.eligible ? (
              <>
                <td>
                  {formatTokens(row.tokensBefore)} → {formatTokens(row.tokensAfter)}
                </td>
                <td>{row.summarised}</td>
                <td>{Math.max(0, row.messagesAfter - 1)}</td>
                <td>{formatTokens(row.cache?.anew ?? 0)}</td>
                <td>{row.cache?.cost ? formatDollars(row.cache.cost) : "–"}</td>
                <td>{row.cache?.paysBackAfter ? formatMany(row.cache.paysBackAfter, "call") : "–"}</td>
              </>
            ) : (
              <td colSpan={6} class="quiet">
                nothing to compact
              </td>
            )}
          </tr>
        ))}
      </tbody>
    </table>
  );
}

function PlanDetails({ plan }: { plan: PlanView }) {
  if (plan.reason !== null) return <p class="plan">{plan.reason}</p>;
  const { tokensBefore, tokensAfter, contextTokens, summarized, kept, edited, isSplitTurn, cache } = plan;
  const ownCount =
    formatTokens(contextTokens) === formatTokens(tokensBefore)
      ? ""
      : `, as this policy counts; as the session counts, it has ${formatTokens(contextTokens)}`;
  return (
    <section class="plan" aria-label="The plan">
      <p>
        The context goes from <b>{formatTokens(tokensBefore)}</b> to about <b>{formatTokens(tokensAfter)}</b>{" "}
        tokens{ownCount}.
        {isSplitTurn ? " The cut is inside a turn: the beginning of that turn is summarized too." : ""}
        {edited > 0
          ? ` ${formatMany(edited, "message")} of the kept ones would be left out or shortened.`
          : ""}
      </p>
      {cache && <p>{cacheSentence(cache)}</p>}
      <EntryList title="Summarized" rows={summarized} />
      <EntryList title="Kept" rows={kept} />
    </section>
  );
}
