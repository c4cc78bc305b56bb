// Separate from app.tsx: the page shows one session or the list.
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import type { FoundTexts } from "../../model/tree-reader.ts";
import { ComparePanel } from "../panels/compare.tsx";
import { CompactionPanel, ContextPanel, RulesPanel } from "../panels/context.tsx";
import { Conversation, useFoundTexts } from "../panels/conversation.tsx";
import { Timeline } from "../panels/timeline.tsx";
import { UsagePanel } from "../panels/usage.tsx";
import {
  followEvents,
  TYPING,
  useAddressText,
  useAnswer,
  useKeys,
  useObserved,
  usePrintKey,
} from "../source/observe.ts";
import { embeddedLeftOut, type PageSource, sessionAddress } from "../source/page-source.ts";
import { SessionModel } from "../source/session-model.ts";
import { formatMany } from "../text/numbers.ts";
import { visibleControls } from "../text/visible-controls.ts";
import { TreePanel } from "../tree/tree-panel.tsx";
import {
  type Address,
  addressOf,
  amendAddress,
  formatAddress,
  goTo,
  type Place,
  TABS,
  type Tab,
  useAddress,
} from "./address.ts";
import { KeyHelp, OrderDialog, PlanDialog } from "./dialogs.tsx";
import { ExportDialog } from "./export-dialog.tsx";
import { type Order, ShownViewer, useViewer, type Viewer } from "./viewer.ts";

const TITLES: Readonly<Record<Tab, readonly [title: string, tip: string]>> = {
  conversation: ["Conversation", "The messages on the path to the selected entry"],
  context: ["What the model reads", "The messages of a request at the selected entry"],
  compactions: ["Compactions", "The replaced entries, kept entries and cost of each compaction"],
  usage: ["Usage", "Tokens and cost, over time and by model"],
  compare: ["Compare", "Two branches side by side"],
  rules: ["Rules", "The user's rules that apply at the selected entry"],
};

interface SessionViewProps {
  source: PageSource;
  session: string;
  address: Address;
  /** Shows a message above the session. */
  report: (trouble: string) => void;
}

/** Opens a session and shows it. A served session is followed while it grows. */
export function SessionView({ source, session, address, report }: SessionViewProps) {
  const [model, setModel] = useState<SessionModel>();
  const [trouble, setTrouble] = useState("");
  const [replaced, setReplaced] = useState(0);
  useEffect(() => {
    let ended = false;
    let end = () => {};
    void (async () => {
      try {
        const opened = await SessionModel.open(await source.open(session));
        if (ended) return;
        setModel(opened);
        const readAgain = () => {
          setModel(undefined);
          setReplaced(replaced + 1);
        };
        if (source.isServed) end = followSession(session, opened, readAgain);
        // The session is in use by then, so a failure does not take its place.
        opened.readCosts().catch((error: Error) => !ended && report(error.message));
      } catch (error) {
        setTrouble(error instanceof Error ? error.message : String(error));
      }
    })();
    return () => {
      ended = true;
      end();
    };
  }, [source, session, replaced]);
  if (trouble !== "") {
    return (
      <main class="session-list">
        <p class="failure" role="alert">
          {trouble}
        </p>
        <p>
          <a href="#/">All sessions</a>
        </p>
      </main>
    );
  }
  if (!model) return <p class="quiet padded">Opening…</p>;
  return (
    <LoadedSession
      model={model}
      address={address}
      served={source.isServed ? sessionAddress(session) : undefined}
      canWrite={source.canWrite}
    />
  );
}

/** Reads new entries of a session when the server reports them. Returns a function that ends the connection. */
function followSession(session: string, model: SessionModel, onReplaced: () => void): () => void {
  let known: string | undefined;
  return followEvents(`${sessionAddress(session)}/events`, "pulse", (data) => {
    const { length, file } = JSON.parse(data) as { length: number; file: string };
    known ??= file;
    if (file !== known || length < model.facts.length) onReplaced();
    // A failure needs no handling: the next event, sent when the server is back, reads the same entries.
    else if (length > model.facts.length) model.grow().catch(() => undefined);
  });
}

interface LoadedSessionProps extends Pick<Viewer, "model" | "served" | "canWrite"> {
  address: Address;
}

type Opened = { order: Order } | "plan" | "export" | "keys";

function LoadedSession({ model, address, served, canWrite }: LoadedSessionProps) {
  useObserved(model);
  const [inspected, setInspected] = useState(-1);
  const [other, setOther] = useState<Place>();
  const [dialog, setDialog] = useState<Opened>();
  const [showsTree, setShowsTree] = useState(false);
  const [showsMenu, setShowsMenu] = useState(false);
  const [prints, setPrints] = useState(false);
  const { tab } = address;
  const { facts } = model;
  const leftOut = embeddedLeftOut(facts.id);
  const [query, setQuery] = useAddressText(address.find, (find) => amendAddress(address, { find }));
  const go = (next: Tab, second = other, entry: Partial<Address> = {}) => {
    goTo({ ...address, tab: next, ...addressOf(model, second), find: query, ...entry });
    setShowsTree(false);
  };
  const viewer: Viewer = {
    model,
    served,
    canWrite,
    select: (row) => {
      model.select(row);
      go(tab);
    },
    open: (next, row) => {
      if (row !== undefined) model.select(row);
      go(next);
    },
    openId: (entry) => go("conversation", other, { entry }),
    inspect: (row) => {
      setInspected(row);
      go("compactions");
    },
    compareWith: (row, id) => {
      setOther({ row, id });
      go("compare", { row, id });
    },
    linkTo: (id) =>
      new URL(formatAddress({ session: address.session, tab: "conversation", entry: id }), location.href)
        .href,
    order: (order) => setDialog({ order }),
  };
  const order = (act: Order["act"]) =>
    setDialog({ order: { act, id: facts.leafId ?? "", row: facts.leafRow } });
  const print = () => (tab === "conversation" ? setPrints(true) : globalThis.print());
  const close = () => {
    setQuery("");
    (document.activeElement as HTMLElement | null)?.blur();
  };
  const show = (row: number) => viewer.open("conversation", row);
  const finder = useFinder(model, { query, setQuery, show, close });

  useEffect(() => {
    document.title = `${visibleControls(facts.title)} · Espalier`;
  }, [facts.title]);
  // What is printed is the conversation; a user who leaves it before it is complete prints nothing.
  useEffect(() => setPrints(false), [tab]);
  useAddress(model, address, other, setOther);
  usePrintKey(print);
  useKeys((event) => {
    const next = TABS[Number(event.key) - 1];
    if (next) go(next);
    else if (event.key === "?") setDialog("keys");
    else if (event.key === "n") finder.step(1);
    else if (event.key === "N") finder.step(-1);
    else if (event.key === "Escape") close();
    else if (event.key === "u" && canWrite) order("undo");
    else if (event.key === "U" && canWrite) order("redo");
    else if (event.key === "/") document.getElementById("find")?.focus();
    else return;
    event.preventDefault();
  });
  const acts: [isThere: boolean, name: string, title: string, act: () => void][] = [
    [canWrite, "Undo", "Undo your last change (u)", () => order("undo")],
    [canWrite, "Redo", "Redo the change that was undone (U)", () => order("redo")],
    [
      served !== undefined,
      canWrite ? "Compact" : "Plan",
      "Plan a compaction at the leaf, by each policy",
      () => setDialog("plan"),
    ],
    [true, "Export", "Save as Markdown, HTML or JSON, or print", () => setDialog("export")],
    [true, "?", "Keys (?)", () => setDialog("keys")],
  ];
  return (
    <ShownViewer value={viewer}>
      <div class={`session-view${showsTree ? " shows-tree" : ""}${prints ? " prints" : ""}`}>
        <header class="bar-top">
          <a href="#/" class="brand" aria-label="All sessions" title="All sessions">
            <Mark />
          </a>
          <h1 title={facts.title}>
            <bdi>{facts.title || "Session"}</bdi>
          </h1>
          <span class="quiet wide-only">
            {formatMany(facts.length, "entry", "entries")}
            {facts.issues > 0 ? ` · ${formatMany(facts.issues, "damaged line")}` : ""}
            {leftOut > 0 ? ` · one path, without ${formatMany(leftOut, "other entry", "other entries")}` : ""}
          </span>
          <span class="grow" />
          <FindBox finder={finder} />
          <button
            type="button"
            class="narrow-only"
            aria-pressed={showsTree}
            onClick={() => setShowsTree(!showsTree)}
          >
            Tree
          </button>
          <button
            type="button"
            class="narrow-only"
            aria-label="Acts"
            aria-expanded={showsMenu}
            onClick={() => setShowsMenu(!showsMenu)}
          >
            ⋯
          </button>
          {/* biome-ignore lint/a11y/noStaticElementInteractions: closes the menu behind a press of one of its buttons */}
          {/* biome-ignore lint/a11y/useKeyWithClickEvents: the buttons inside have the keys */}
          <div class={`acts${showsMenu ? " opened" : ""}`} onClick={() => setShowsMenu(false)}>
            {acts.map(
              ([isThere, name, title, act]) =>
                isThere && (
                  <button
                    type="button"
                    key={title}
                    title={title}
                    aria-label={name === "?" ? "Keys" : undefined}
                    onClick={act}
                  >
                    {name}
                  </button>
                ),
            )}
          </div>
        </header>
        <TreePanel />
        <main class="reading">
          <Tabs tab={tab} open={(name) => go(name)} />
          {/* biome-ignore lint/a11y/noNoninteractiveTabindex: it scrolls, by keys too */}
          <div id="panel" class="tab-panel" role="tabpanel" tabIndex={0} aria-labelledby={`tab-${tab}`}>
            {tab === "conversation" && (
              <Conversation
                key={prints ? "printed" : "read"}
                rows={model.shownPath}
                {...(prints ? { onPrinted: () => setPrints(false) } : {})}
              />
            )}
            {tab === "context" && <ContextPanel />}
            {tab === "compactions" && <CompactionPanel row={inspected} inspect={setInspected} />}
            {tab === "usage" && <UsagePanel />}
            {tab === "compare" && <ComparePanel other={other?.row ?? -1} />}
            {tab === "rules" && <RulesPanel />}
          </div>
        </main>
        <Timeline />
        <Dialogs
          dialog={dialog}
          print={print}
          // A dialog that ends late does not close the one that the user has opened since.
          close={() => setDialog((opened) => (opened === dialog ? undefined : opened))}
        />
      </div>
    </ShownViewer>
  );
}

interface DialogsProps {
  dialog: Opened | undefined;
  print: () => void;
  close: () => void;
}

function Dialogs({ dialog, print, close }: DialogsProps) {
  const { model, served } = useViewer();
  /** Shows the leaf after an act that moved it, else the entry of the act. */
  const done = (row = -1) => {
    close();
    if (row >= 0) model.select(row);
    // A failure needs no handling: the next event, sent when the server is back, reads the same entries.
    model.growTo(row < 0 ? "leaf" : "selected").catch(() => undefined);
  };
  if (dialog === "keys") return <KeyHelp onClose={close} />;
  if (dialog === "export") return <ExportDialog print={print} onClose={close} />;
  if (dialog === undefined || served === undefined) return null;
  if (dialog === "plan") return <PlanDialog onDone={() => done()} onClose={close} />;
  const { order } = dialog;
  return (
    <OrderDialog order={order} onDone={() => done(MOVES.has(order.act) ? -1 : order.row)} onClose={close} />
  );
}

const MOVES: ReadonlySet<Order["act"]> = new Set(["navigate", "undo", "redo"]);

/** Logo: a tree on its trellis. */
function Mark() {
  return (
    <svg class="mark" viewBox="0 0 24 24" aria-hidden="true">
      <path d="M12 22V3M12 16H5V10M12 16h7V10M12 9H8V4M12 9h4V4" />
    </svg>
  );
}

/** Names of the panels. The selected one is scrolled into view; arrow keys move between them. */
function Tabs({ tab, open }: { tab: Tab; open: (tab: Tab) => void }) {
  const list = useRef<HTMLDivElement>(null);
  useEffect(() => {
    list.current
      ?.querySelector("[aria-selected=true]")
      ?.scrollIntoView({ block: "nearest", inline: "center" });
  }, [tab]);
  const press = (event: KeyboardEvent) => {
    const step = event.key === "ArrowRight" ? 1 : event.key === "ArrowLeft" ? -1 : 0;
    if (step === 0) return;
    event.preventDefault();
    const next = TABS[(TABS.indexOf(tab) + step + TABS.length) % TABS.length]!;
    open(next);
    document.getElementById(`tab-${next}`)?.focus();
  };
  return (
    <div class="tabs" role="tablist" aria-label="Panels" ref={list} onKeyDown={press}>
      {TABS.map((name, at) => (
        <button
          type="button"
          key={name}
          role="tab"
          id={`tab-${name}`}
          title={`${TITLES[name][1]} (${at + 1})`}
          tabIndex={name === tab ? 0 : -1}
          aria-selected={name === tab}
          aria-controls="panel"
          onClick={() => open(name)}
        >
          {TITLES[name][0]}
        </button>
      ))}
    </div>
  );
}

interface Finder {
  query: string;
  setQuery(query: string): void;
  /** Hits of the search; undefined before its result, and for a query of fewer than two characters. */
  found: FoundTexts | undefined;
  error: Error | undefined;
  /** Number of the selected entry among the hits, from 1; 0 if it is not a hit. */
  at: number;
  /** Shows the next hit in the drawing of the tree, with -1 the previous one; from the last hit, the first. */
  step(by: 1 | -1): void;
  /** Selects an entry and opens the conversation at it. */
  show(row: number): void;
  close(): void;
}

function useFinder(model: SessionModel, field: Omit<Finder, "found" | "error" | "at" | "step">): Finder {
  const { query, show } = field;
  const wanted = query.trim();
  const isWanted = wanted.length > 1;
  const { answer, error, of } = useAnswer(
    async (signal) => (isWanted ? model.reader.find(wanted, signal) : undefined),
    [wanted, model, model.rows.length],
    TYPING,
  );
  // Hits of an earlier query are not stepped through.
  const found = of === wanted ? answer : undefined;
  const { layout, selected } = model;
  const lineOf = (row: number) => layout.lineOf[row] ?? -1;
  const inOrder = useMemo(
    () => (found?.rows ?? []).toSorted((a, b) => lineOf(a) - lineOf(b) || a - b),
    [found, layout],
  );
  useFoundTexts(isWanted ? wanted : "", selected);
  return {
    ...field,
    found,
    error: isWanted ? error : undefined,
    at: inOrder.indexOf(selected) + 1,
    step(by) {
      const isBehind = (row: number) => (lineOf(row) - lineOf(selected) || row - selected) * by > 0;
      const next =
        by > 0 ? (inOrder.find(isBehind) ?? inOrder[0]) : (inOrder.findLast(isBehind) ?? inOrder.at(-1));
      if (next !== undefined) show(next);
    },
  };
}

/** Search field, with the number of hits, and a list of them from typing until a hit is shown. */
function FindBox({ finder }: { finder: Finder }) {
  const [listed, setListed] = useState(false);
  const box = useRef<HTMLElement>(null);
  const { query, setQuery, found, error, at, step, show, close } = finder;
  const isWanted = query.trim().length > 1;
  // The list would cover the entry that a step shows.
  const go = (by: 1 | -1) => {
    setListed(false);
    step(by);
  };
  const press = (event: KeyboardEvent) => {
    if (event.key === "Escape") close();
    else if (event.key === "Enter" || event.key === "ArrowDown") go(event.shiftKey ? -1 : 1);
    else if (event.key === "ArrowUp") go(-1);
    else return;
    event.preventDefault();
  };
  const buttons: [name: string, keys: string, sign: string, act: () => void][] = [
    ["Previous hit", "N, Shift+Enter", "↑", () => go(-1)],
    ["Next hit", "n, Enter", "↓", () => go(1)],
    ["End the search", "Esc", "✕", close],
  ];
  return (
    <search
      class={`find${isWanted ? " searches" : ""}`}
      ref={box}
      onFocusOut={(event) => {
        if (!box.current?.contains(event.relatedTarget as Node | null)) setListed(false);
      }}
    >
      <input
        type="search"
        id="find"
        placeholder="Find in this session  /"
        aria-label="Find in this session"
        value={query}
        onFocus={() => setListed(true)}
        onClick={() => setListed(true)}
        onInput={(event) => {
          setListed(true);
          setQuery(event.currentTarget.value);
        }}
        onKeyDown={press}
      />
      {isWanted && (
        <>
          <output aria-label="Found">
            {found ? (at > 0 ? `${at} of ${found.rows.length}` : `${found.rows.length}`) : "…"}
          </output>
          {buttons.map(([name, keys, sign, act]) => (
            <button type="button" key={name} aria-label={name} title={`${name} (${keys})`} onClick={act}>
              {sign}
            </button>
          ))}
        </>
      )}
      {isWanted && listed && (found || error) && (
        <ul class="found">
          {found?.newest.map(({ row, snippet }) => (
            <li key={row}>
              <button
                type="button"
                class="link"
                onClick={() => {
                  show(row);
                  setListed(false);
                }}
              >
                <bdi>{snippet}</bdi>
              </button>
            </li>
          ))}
          {error && <li class="failure">{error.message}</li>}
          {found?.rows.length === 0 && <li class="quiet">No entry of this session has this text.</li>}
          {found && found.rows.length > found.newest.length && (
            <li class="quiet">These are the newest {found.newest.length}; ↓ and ↑ go through all of them.</li>
          )}
        </ul>
      )}
    </search>
  );
}
