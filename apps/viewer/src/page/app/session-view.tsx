import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { CompactionPanel } from "../panels/compaction.tsx";
import { ComparePanel } from "../panels/compare.tsx";
import { ContextPanel, RulesPanel } from "../panels/context.tsx";
import { Conversation } from "../panels/conversation.tsx";
import { Timeline } from "../panels/timeline.tsx";
import { UsagePanel } from "../panels/usage.tsx";
import { useAddressText, useKeys, useObserved } from "../source/observe.ts";
import { embeddedLeftOut } from "../source/page-source.ts";
import type { SessionModel } from "../source/session-model.ts";
import { formatCount } from "../text/numbers.ts";
import { TreePanel } from "../tree/tree-panel.tsx";
import {
  type Address,
  formatAddress,
  goTo,
  type Order,
  parseAddress,
  TABS,
  type Tab,
  type ViewerActions,
} from "./address.ts";
import { KeyHelp, OrderDialog, PlanDialog } from "./dialogs.tsx";
import { ExportDialog } from "./export-dialog.tsx";
import { FindBox, useFinder } from "./find-box.tsx";

const TITLES: Readonly<Record<Tab, readonly [title: string, tip: string]>> = {
  conversation: ["Conversation", "The messages on the path to the selected entry"],
  context: ["What the model reads", "The messages of a request at the selected entry"],
  compactions: ["Compactions", "The replaced entries, kept entries and cost of each compaction"],
  usage: ["Usage", "Tokens and cost, over time and by model"],
  compare: ["Compare", "Two branches side by side"],
  rules: ["Rules", "The user's rules that apply at the selected entry"],
};

interface SessionViewProps {
  model: SessionModel;
  address: Address;
  theme: string;
  /** Key of the session on the server; undefined without a server. */
  served: string | undefined;
  /** True if the server changes sessions. */
  canWrite: boolean;
}

/** The open dialog. */
type Opened = { order: Order } | "plan" | "export" | "keys";

/** View of a session: its tree, its panels, and a slider over its history. */
export function SessionView({ model, address, theme, served, canWrite }: SessionViewProps) {
  useObserved(model);
  const [chosenWindow, chooseWindow] = useState<number>();
  const [inspected, setInspected] = useState(-1);
  const [other, setOther] = useState<Place>();
  const [dialog, setDialog] = useState<Opened>();
  const [showsTree, setShowsTree] = useState(false);
  const [showsMenu, setShowsMenu] = useState(false);
  const [prints, setPrints] = useState(false);
  const { tab } = address;
  const { facts } = model;
  const leftOut = embeddedLeftOut(facts.id);
  const writeFind = (find: string) => amendAddress(address, { find });
  const [query, setQuery] = useAddressText(address.find, writeFind);
  const go = (next: Tab, second = other, entry: Partial<Address> = {}) => {
    goTo({ ...address, tab: next, ...addressOf(model, second), find: query, ...entry });
    setShowsTree(false);
  };
  const actions: ViewerActions = {
    canWrite: canWrite && served !== undefined,
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
  const showHit = (row: number) => actions.open("conversation", row);
  const finder = useFinder(model, query, showHit);
  const close = () => {
    setQuery("");
    (document.activeElement as HTMLElement | null)?.blur();
  };

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
    else if (event.key === "u" && actions.canWrite) order("undo");
    else if (event.key === "U" && actions.canWrite) order("redo");
    else if (event.key === "/") document.getElementById("find")?.focus();
    else return;
    event.preventDefault();
  });
  return (
    <div class={`session-view${showsTree ? " shows-tree" : ""}${prints ? " prints" : ""}`}>
      <header class="bar-top">
        <a href="#/" class="brand" aria-label="All sessions" title="All sessions">
          <Mark />
        </a>
        <h1 title={facts.title}>
          <bdi>{facts.title || "Session"}</bdi>
        </h1>
        <span class="quiet wide-only">
          {formatCount(facts.length, "entry", "entries")}
          {facts.issues > 0 ? ` · ${formatCount(facts.issues, "damaged line")}` : ""}
          {leftOut > 0 ? ` · one path, without ${formatCount(leftOut, "other entry", "other entries")}` : ""}
        </span>
        <span class="grow" />
        <FindBox finder={finder} query={query} setQuery={setQuery} close={close} select={showHit} />
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
          {actions.canWrite && (
            <>
              <button type="button" title="Undo your last change (u)" onClick={() => order("undo")}>
                Undo
              </button>
              <button type="button" title="Redo the change that was undone (U)" onClick={() => order("redo")}>
                Redo
              </button>
            </>
          )}
          {served !== undefined && (
            <button
              type="button"
              title="Plan a compaction at the leaf, by each policy"
              onClick={() => setDialog("plan")}
            >
              {actions.canWrite ? "Compact" : "Plan"}
            </button>
          )}
          <button
            type="button"
            title="Save as Markdown, HTML or JSON, or print"
            onClick={() => setDialog("export")}
          >
            Export
          </button>
          <button type="button" aria-label="Keys" title="Keys (?)" onClick={() => setDialog("keys")}>
            ?
          </button>
        </div>
      </header>
      <TreePanel model={model} theme={theme} select={actions.select} />
      <main class="reading">
        <Tabs tab={tab} open={(name) => go(name)} />
        {/* biome-ignore lint/a11y/noNoninteractiveTabindex: it scrolls, by keys too */}
        <div id="panel" class="tab-panel" role="tabpanel" tabIndex={0} aria-labelledby={`tab-${tab}`}>
          {tab === "conversation" && (
            <Conversation
              key={prints ? "printed" : "read"}
              model={model}
              rows={model.shownPath}
              actions={actions}
              {...(prints ? { onPrinted: () => setPrints(false) } : {})}
            />
          )}
          {tab === "context" && <ContextPanel model={model} chosenWindow={chosenWindow} actions={actions} />}
          {tab === "compactions" && (
            <CompactionPanel model={model} row={inspected} inspect={setInspected} actions={actions} />
          )}
          {tab === "usage" && <UsagePanel model={model} served={served} />}
          {tab === "compare" && <ComparePanel model={model} other={other?.row ?? -1} actions={actions} />}
          {tab === "rules" && <RulesPanel model={model} actions={actions} />}
        </div>
      </main>
      <Timeline model={model} chosenWindow={chosenWindow} chooseWindow={chooseWindow} />
      <Dialogs
        model={model}
        served={served}
        dialog={dialog}
        actions={actions}
        print={print}
        // A dialog that ends late does not close the one that the user has opened since.
        close={() => setDialog((opened) => (opened === dialog ? undefined : opened))}
      />
    </div>
  );
}

interface DialogsProps {
  model: SessionModel;
  served: string | undefined;
  dialog: Opened | undefined;
  actions: ViewerActions;
  print: () => void;
  close: () => void;
}

/** The open dialog. */
function Dialogs({ model, served, dialog, actions, print, close }: DialogsProps) {
  /** Shows the leaf after an act that moved it, else the entry of the act. */
  const done = (row = -1) => {
    close();
    if (row >= 0) model.select(row);
    // A failure needs no handling: the next event, sent when the server is back, reads the same entries.
    model.growTo(row < 0 ? "leaf" : "selected").catch(() => undefined);
  };
  if (dialog === "keys") return <KeyHelp canWrite={actions.canWrite} onClose={close} />;
  if (dialog === "export")
    return <ExportDialog model={model} served={served} print={print} onClose={close} />;
  if (dialog === undefined || served === undefined) return null;
  if (dialog === "plan")
    return (
      <PlanDialog session={served} model={model} actions={actions} onDone={() => done()} onClose={close} />
    );
  const { order } = dialog;
  return (
    <OrderDialog
      session={served}
      order={order}
      model={model}
      onDone={() => done(MOVES.has(order.act) ? -1 : order.row)}
      onClose={close}
    />
  );
}

/** Acts that move the leaf. */
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

/**
 * Uses the page's own print function for the browser's print key, because only this function loads the whole path
 * first.
 */
function usePrintKey(print: () => void): void {
  const newest = useRef(print);
  newest.current = print;
  useEffect(() => {
    const listen = (event: KeyboardEvent) => {
      if (!(event.ctrlKey || event.metaKey) || event.key.toLowerCase() !== "p") return;
      event.preventDefault();
      newest.current();
    };
    addEventListener("keydown", listen);
    return () => removeEventListener("keydown", listen);
  }, []);
}

/**
 * Changes parts of the browser's address. Its other parts may be newer than those of the last drawing, which `drawn`
 * has.
 */
function amendAddress(drawn: Address, changes: Partial<Address>): void {
  const newest = parseAddress(location.hash);
  if (newest.session === null || newest.session === drawn.session)
    goTo({ ...newest, session: drawn.session, ...changes }, "replace");
}

/** An entry with its id. */
interface Place {
  row: number;
  id: string;
}

/** Returns the address of the selected entry within the session; undefined while the id of an entry is loaded. */
function addressOf(model: SessionModel, other: Place | undefined): SessionAddress | undefined {
  const { selected, tip, end, facts } = model;
  const idOf = (row: number, isNamed: boolean) => (isNamed ? model.gist(row)?.id : "");
  const [entry, branch] = [idOf(selected, selected !== end), idOf(tip, tip !== facts.leafRow)];
  return entry === undefined || branch === undefined ? undefined : { entry, branch, other: other?.id ?? "" };
}

/** Entries in an address; empty strings if absent. */
type SessionAddress = Required<Pick<Address, "entry" | "branch" | "other">>;

/**
 * Milliseconds before the address is updated for an entry that was not clicked; browsers limit the number of changes
 * per second.
 */
const SETTLED = 250;

/**
 * Keeps the address and the selection equal: goes to the entry in a new address, and writes the address of a new
 * selection, whether it comes from keys, the slider, or a growing session.
 */
function useAddress(
  model: SessionModel,
  address: Address,
  second: Place | undefined,
  setOther: (place: Place | undefined) => void,
): void {
  const { branch = "", entry = "", other = "" } = address;
  /** The way to the entry of the address; it ends when the user selects another entry. */
  const going = useRef<{ since: number } | undefined>(undefined);
  // Before the next key: a selection that is newer than the address would be taken back.
  useLayoutEffect(() => {
    const here = addressOf(model, second);
    const isHere = here?.entry === entry && here.branch === branch;
    const find = async (id: string) => (id === "" ? -1 : model.reader.rowOf(id));
    const way = { since: model.selections };
    going.current = way;
    const go = async () => {
      if ((second?.id ?? "") !== other) {
        const row = await find(other);
        if (going.current === way) setOther(row < 0 ? undefined : { row, id: other });
      }
      if (isHere) return;
      const rows = await Promise.all([find(branch), find(entry)]);
      if (going.current === way && model.selections === way.since) goToRows(model, ...rows);
    };
    // If the server does not answer, the page does not move, and its panels show the error.
    void go()
      .catch(() => undefined)
      .finally(() => {
        if (going.current === way) going.current = undefined;
      });
  }, [model, branch, entry, other]);
  useEffect(() => {
    const timer = setTimeout(() => {
      const place = addressOf(model, second);
      const isGoing = going.current?.since === model.selections || (going.current && place?.other !== other);
      if (!isGoing && place && isDrawn(address)) amendAddress(address, place);
    }, SETTLED);
    return () => clearTimeout(timer);
  });
}

/** Returns false if the browser has another place in its address already, by Back for example, which is drawn next. */
function isDrawn({ entry, branch, other }: Address): boolean {
  const newest = parseAddress(location.hash);
  return newest.entry === entry && newest.branch === branch && newest.other === other;
}

/** Shows the path to `end` and selects `row`; -1 means the leaf for `end`, and the end of the path for `row`. */
function goToRows(model: SessionModel, end: number, row: number): void {
  if (row >= 0 && model.isFolded(row)) model.setBookkeeping(true);
  const { leafRow } = model.facts;
  if (end >= 0) model.show(end, row);
  else if (row < 0 || model.rows.path(leafRow).includes(row)) model.show(leafRow, row);
  else model.select(row);
}
