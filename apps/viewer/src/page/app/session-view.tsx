import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import type { FoundText } from "../../model/facts.ts";
import { CompactionPanel } from "../panels/compaction.tsx";
import { ComparePanel } from "../panels/compare.tsx";
import { ContextPanel } from "../panels/context.tsx";
import { Conversation } from "../panels/conversation.tsx";
import { RulesPanel } from "../panels/rules.tsx";
import { Timeline } from "../panels/timeline.tsx";
import { UsagePanel } from "../panels/usage.tsx";
import { TYPING, useAnswer, useObserved } from "../source/observe.ts";
import { order as send } from "../source/page-source.ts";
import type { SessionModel } from "../source/session-model.ts";
import { formatCount } from "../text/numbers.ts";
import { TreePanel } from "../tree/tree-panel.tsx";
import { type Address, formatAddress, type Order, TABS, type Tab, type ViewerActions } from "./address.ts";

const TITLES: Readonly<Record<Tab, string>> = {
  conversation: "Conversation",
  context: "What the model reads",
  compactions: "Compactions",
  usage: "Usage",
  compare: "Compare",
  rules: "Rules",
};

interface SessionViewProps {
  model: SessionModel;
  address: Address;
  theme: string;
  /** Names the session to the server that can change it; undefined where nothing can. */
  writableAs: string | undefined;
}

/** A session: its tree, what it says, and its past as a slider. */
export function SessionView({ model, address, theme, writableAs }: SessionViewProps) {
  useObserved(model);
  const [chosenWindow, chooseWindow] = useState<number>();
  const [inspected, setInspected] = useState(-1);
  const [other, setOther] = useState(-1);
  const [order, setOrder] = useState<Order>();
  const [helps, setHelps] = useState(false);
  const [showsTree, setShowsTree] = useState(false);
  const { tab } = address;
  const open = (next: Tab, second = other) => {
    location.hash = formatAddress({ ...addressOf(model, address.session, second), tab: next });
    setShowsTree(false);
  };
  const actions: ViewerActions = useMemo(
    () => ({
      canWrite: writableAs !== undefined,
      select: (row) => model.select(row),
      open: (next, row) => {
        if (row !== undefined) model.select(row);
        open(next);
      },
      inspect: (row) => {
        setInspected(row);
        open("compactions");
      },
      compareWith: (row) => {
        setOther(row);
        open("compare", row);
      },
      linkTo: (id) =>
        new URL(formatAddress({ session: address.session, tab: "conversation", entry: id }), location.href)
          .href,
      order: setOrder,
    }),
    [model, writableAs, address.session, other],
  );

  useAddress(model, address, setOther);
  useKeys(
    (next) => open(next),
    () => setHelps(true),
  );
  const { facts } = model;
  return (
    <div class={`session-view${showsTree ? " shows-tree" : ""}`}>
      <header class="bar-top">
        <a href="#/" class="brand" aria-label="All sessions">
          <Mark />
        </a>
        <h1>
          <bdi>{facts.title || "Session"}</bdi>
        </h1>
        <span class="quiet wide-only">
          {formatCount(facts.length, "entry", "entries")}
          {facts.issues > 0 ? ` · ${formatCount(facts.issues, "damaged line")}` : ""}
        </span>
        <span class="grow" />
        <FindBox model={model} select={actions.select} />
        {actions.canWrite && (
          <button
            type="button"
            class="wide-only"
            onClick={() => setOrder({ act: "compact", id: facts.leafId ?? "", row: facts.leafRow })}
          >
            Compact
          </button>
        )}
        <button
          type="button"
          class="narrow-only"
          aria-pressed={showsTree}
          onClick={() => setShowsTree(!showsTree)}
        >
          Tree
        </button>
        <button type="button" aria-label="Keys" class="wide-only" onClick={() => setHelps(true)}>
          ?
        </button>
      </header>
      <TreePanel model={model} theme={theme} />
      <div class="reading">
        <div class="tabs" role="tablist" aria-label="What is shown">
          {TABS.map((name) => (
            <button
              type="button"
              key={name}
              role="tab"
              id={`tab-${name}`}
              aria-selected={name === tab}
              aria-controls="panel"
              onClick={() => open(name)}
            >
              {TITLES[name]}
            </button>
          ))}
        </div>
        <div id="panel" class="tab-panel" role="tabpanel" aria-labelledby={`tab-${tab}`}>
          {tab === "conversation" && <Conversation model={model} rows={model.path} actions={actions} />}
          {tab === "context" && <ContextPanel model={model} chosenWindow={chosenWindow} actions={actions} />}
          {tab === "compactions" && (
            <CompactionPanel model={model} row={inspected} inspect={setInspected} actions={actions} />
          )}
          {tab === "usage" && <UsagePanel model={model} />}
          {tab === "compare" && <ComparePanel model={model} other={other} actions={actions} />}
          {tab === "rules" && <RulesPanel model={model} actions={actions} />}
        </div>
      </div>
      <Timeline model={model} chosenWindow={chosenWindow} chooseWindow={chooseWindow} />
      {order && writableAs !== undefined && (
        <OrderDialog
          session={writableAs}
          order={order}
          onDone={async (done, result) => {
            setOrder(undefined);
            if (!result) return;
            await model.grow();
            if (done.act === "navigate" || done.act === "compact") model.show(model.facts.leafRow);
          }}
        />
      )}
      {helps && <KeyHelp onClose={() => setHelps(false)} />}
    </div>
  );
}

/** A tree on its trellis. */
function Mark() {
  return (
    <svg class="mark" viewBox="0 0 24 24" aria-hidden="true">
      <path d="M12 22V3M12 16H5V10M12 16h7V10M12 9H8V4M12 9h4V4" />
    </svg>
  );
}

/** The address of what is looked at. */
function addressOf(model: SessionModel, session: string | null, other: number): Omit<Address, "tab"> {
  const name = (row: number) => model.gist(row)?.id;
  const entry = model.selected === model.facts.leafRow ? undefined : name(model.selected);
  const branch = model.tip === model.facts.leafRow ? undefined : name(model.tip);
  const second = other < 0 ? undefined : name(other);
  return {
    session,
    ...(entry === undefined ? {} : { entry }),
    ...(branch === undefined ? {} : { branch }),
    ...(second === undefined ? {} : { other: second }),
  };
}

/** Goes to what the address names, whenever it names something else than what is looked at. */
function useAddress(model: SessionModel, address: Address, setOther: (row: number) => void): void {
  const { branch, entry, other } = address;
  useEffect(() => {
    const find = async (id: string | undefined) => (id === undefined ? -1 : model.reader.rowOf(id));
    const here = addressOf(model, null, -1);
    const isHere = here.entry === entry && here.branch === branch;
    const go = async () => {
      const [end, row, second] = await Promise.all([
        isHere ? -1 : find(branch),
        isHere ? -1 : find(entry),
        find(other),
      ]);
      if (end >= 0) model.show(end, row >= 0 ? row : end);
      else if (row >= 0) model.select(row);
      if (second >= 0) setOther(second);
    };
    // Where the server does not answer, the page stays where it is; its panels say so.
    go().catch(() => undefined);
  }, [model, branch, entry, other]);
}

/** Keys that work everywhere except in text fields. */
function useKeys(open: (tab: Tab) => void, help: () => void): void {
  useEffect(() => {
    const press = (event: KeyboardEvent) => {
      const target = event.target as HTMLElement;
      if (event.ctrlKey || event.metaKey || event.altKey || /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName))
        return;
      const tab = TABS[Number(event.key) - 1];
      if (tab) open(tab);
      else if (event.key === "?") help();
      else if (event.key === "/") {
        event.preventDefault();
        document.getElementById("find")?.focus();
      }
    };
    addEventListener("keydown", press);
    return () => removeEventListener("keydown", press);
  }, [open, help]);
}

const KEYS: readonly [string, string][] = [
  ["↑ ↓  j k", "the entry before, the one after"],
  ["← →", "the entry that this one follows; into a run"],
  ["[  ]", "the compaction before, the one after"],
  ["PgUp  PgDn", "a screen up, a screen down"],
  ["Home  End", "the first entry, the last"],
  ["Ctrl + wheel", "zoom the tree"],
  ["1 … 6", "conversation, what the model reads, compactions, usage, compare, rules"],
  ["/", "find in this session"],
  ["?", "this list"],
];

/** The keys of the page. */
function KeyHelp({ onClose }: { onClose: () => void }) {
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

interface FindBoxProps {
  model: SessionModel;
  select: (row: number) => void;
}

/** Finds entries of the session by what they say. */
function FindBox({ model, select }: FindBoxProps) {
  const [query, setQuery] = useState("");
  const wanted = query.trim();
  const { answer, error } = useAnswer<{ query: string; found: FoundText[] }>(
    async () => ({ query: wanted, found: wanted.length < 2 ? [] : await model.reader.find(wanted) }),
    [model, wanted, model.rows.length],
    TYPING,
  );
  // What was found for the letters before stays in sight until more is known.
  const found = wanted.length < 2 ? [] : (answer?.found ?? []);
  const isFresh = answer?.query === wanted;
  return (
    <search class="find">
      <input
        type="search"
        id="find"
        placeholder="Find in this session  /"
        aria-label="Find in this session"
        value={query}
        onInput={(event) => setQuery(event.currentTarget.value)}
        onKeyDown={(event) => {
          if (event.key === "Escape") setQuery("");
          const [first] = found;
          if (event.key === "Enter" && first && isFresh) select(first.row);
        }}
      />
      {wanted.length >= 2 && (answer || error) && (
        <ul class="found">
          {found.map(({ row, snippet }) => (
            <li key={row}>
              <button
                type="button"
                class="link"
                onClick={() => {
                  select(row);
                  setQuery("");
                }}
              >
                <bdi>{snippet}</bdi>
              </button>
            </li>
          ))}
          {error && <li class="failure">{error.message}</li>}
          {isFresh && found.length === 0 && <li class="quiet">Nothing here says this.</li>}
        </ul>
      )}
    </search>
  );
}

interface OrderDialogProps {
  /** Names the session to the server. */
  session: string;
  order: Order;
  onDone: (order: Order, result: Readonly<Record<string, unknown>> | undefined) => void;
}

const ORDER_TITLES: Readonly<Record<Order["act"], string>> = {
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
  /** Message for the user; empty for none. */
  said: string;
  /** True once the act is done; it is not done again. */
  isDone?: boolean;
}

/** Acts that leave a branch, which can be summarized. */
const LEAVES: ReadonlySet<Order["act"]> = new Set(["navigate", "fork"]);

/** Asks what a change still needs, carries it out, and says how far it is. */
function OrderDialog({ session, order, onDone }: OrderDialogProps) {
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
    <dialog ref={dialog} class="order" aria-label={ORDER_TITLES[act]} onClose={close}>
      <form onSubmit={run}>
        <h2>{ORDER_TITLES[act]}</h2>
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
            {ORDER_TITLES[act]}
          </button>
        </div>
      </form>
    </dialog>
  );
}

/** Message before the dialog closes; empty where the page shows the change by itself. */
function saidOf(act: Order["act"], result: Readonly<Record<string, unknown>>): string {
  if (act === "compact" && result["eligible"] === false)
    return `Nothing was done: ${String(result["reason"])}`;
  if (act === "fork") return `The fork is ${String(result["file"])}`;
  return "";
}
