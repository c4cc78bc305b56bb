import { rulesOn } from "@espalier/compaction";
import { lastAct } from "@espalier/engine";
import { cacheSentence, forecastNavigation } from "@espalier/engine/reading";
import { nativeAgents } from "@espalier/interop";
import { jsonText } from "@espalier/jsonl-stream";
import { message, messageText, pathOf, promptText } from "@espalier/session-tree";
import { actName } from "../../entry-preview.ts";
import { given } from "../../options.ts";
import { ACTS, type Act } from "../effects/acts.ts";
import { line, span } from "../screen/frame.ts";
import { agentChoices, CANCEL, openDialog, openField } from "../state/dialog.ts";
import {
  type Choice,
  effect,
  say,
  type TerminalEffect,
  type TerminalState,
  type TreeState,
  withTree,
} from "../state/state.ts";
import { textField } from "../state/text-field.ts";
import { branchMeantBy } from "../tree/tree-model.ts";

type ActBinding = Binding<TreeState>;

/** Returns the state while an act runs. */
export function begin(state: TerminalState, title: string, started: TerminalEffect): TerminalState {
  const work = { title, started: state.now, tokens: 0, detail: "", isAborting: false };
  return effect({ ...state, work }, started);
}

export const beginAct = (state: TerminalState, act: Act, onBusy?: "fork" | "share"): TerminalState => {
  const choice = onBusy ?? state.tree?.onBusy;
  const begun = withTree(state, (tree) => ({ ...tree, awaits: tree.cursor }));
  return begin(begun, ACTS[act.name].title, { type: "act", act, ...given({ onBusy: choice }) });
};

/** Asks about a session that another program writes. */
export function askBusy(state: TerminalState, act: Act, holder: string): TerminalState {
  const shares = (closed: TerminalState) => withTree(closed, (tree) => ({ ...tree, onBusy: "share" }));
  const readOnly = "You chose to read this session only; open it again to change it.";
  return openDialog(state, "Another process writes this session", holder, [
    { key: "w", title: "cancel, and try again later", run: (closed) => closed },
    {
      key: "r",
      title: "read only: change nothing here from now on",
      run: (closed) => withTree(closed, (tree) => ({ ...tree, readOnly })),
    },
    {
      key: "f",
      title: "fork: make the change in a new session",
      run: (closed) => beginAct(closed, act, "fork"),
    },
    {
      key: "s",
      title: "share: both write, each on its own branch",
      run: (closed) => beginAct(shares(closed), act, "share"),
    },
  ]);
}

/** Makes the function of a key that begins work at the entry; without one, or during other work, it shows a message. */
const begins =
  (run: (state: TerminalState, tree: TreeState, entryId: string) => TerminalState): ActBinding["run"] =>
  (state, tree) => {
    if (state.work) return say(state, `Still ${state.work.title}. Esc aborts it.`, true);
    const entryId = idAtCursor(tree);
    return entryId === undefined ? say(state, "There is no entry here.", true) : run(state, tree, entryId);
  };

/** Makes the function of a key that changes the session, like {@link begins}. If it is read-only, shows the reason. */
const changes = (run: Parameters<typeof begins>[0]): ActBinding["run"] =>
  begins((state, tree, entryId) =>
    tree.readOnly === undefined ? run(state, tree, entryId) : say(state, tree.readOnly, true),
  );

const idAtCursor = ({ cursor, view }: TreeState): string | undefined =>
  cursor < 0 ? undefined : view.model.tree.idAt(cursor);

/** Returns the end of the branch that a row represents. The first row of a side branch represents the whole branch. */
const branchAt = ({ view: { model } }: TreeState, row: number): string =>
  model.tree.idAt(branchMeantBy(model, row));

/** Makes a choice that has a summary written. It asks once more when the summary is billed. */
function withSummary(
  tree: TreeState,
  key: string,
  title: string,
  run: (state: TerminalState) => TerminalState,
): Choice {
  if (!tree.writer.isBilled) return { key, title, run };
  const text = `${tree.writer.name} writes the summary, and its provider bills the call.`;
  const choices: Choice[] = [{ key: "y", title: "write the summary", run }, CANCEL];
  return { key, title, run: (state) => openDialog(state, "The summary costs money", text, choices) };
}

/** Makes the answer that asks for the focus of a summary. */
export const withFocus =
  (accept: (state: TerminalState, instructions: string) => TerminalState) =>
  (state: TerminalState): TerminalState =>
    openField(state, "What should the summary focus on?", textField(), accept);

/** Maximum number of entries of a session whose cache forecast is computed while a key is handled. */
const ROWS_FORECAST = 20_000;

const navigate = changes((state, tree, entryId) => {
  const { model } = tree.view;
  const isPrompt = promptText(model.tree.entryAt(tree.cursor)) !== null;
  if (tree.cursor === model.leafRow && !isPrompt)
    return say(state, "The session already continues from here.");
  const go = (rest: { summarize: boolean; instructions?: string }) => (closed: TerminalState) =>
    beginAct(closed, { name: "navigate", entryId, ...rest });
  const where = isPrompt
    ? "The leaf moves before this message, and you can edit its text."
    : "The leaf moves here; nothing of the other branch is lost.";
  const target = isPrompt ? model.tree.index.parent(tree.cursor) : tree.cursor;
  const isSmall = model.tree.length <= ROWS_FORECAST;
  const cache = isSmall ? forecastNavigation(model.tree, model.leafRow, target) : undefined;
  const text = cache && cache.anew > 0 ? `${where} ${cacheSentence(cache)}` : where;
  return openDialog(state, "Continue from here", text, [
    { key: "n", title: "without a summary", run: go({ summarize: false }) },
    withSummary(tree, "s", "with a summary of the abandoned branch", go({ summarize: true })),
    withSummary(
      tree,
      "f",
      "with a summary and a focus of your choice",
      withFocus((closed, instructions) => go({ summarize: true, instructions })(closed)),
    ),
  ]);
});

const fork = changes((state, tree, entryId) => {
  const isPrompt = promptText(tree.view.model.tree.entryAt(tree.cursor)) !== null;
  const at = (position: "at" | "before") => (closed: TerminalState) =>
    beginAct(closed, { name: "fork", entryId, position });
  if (!isPrompt) return at("at")(state);
  return openDialog(state, "Fork to a session of its own", "", [
    { key: "w", title: "ending with this message", run: at("at") },
    { key: "b", title: "ending before it, with its text for editing", run: at("before") },
  ]);
});

const setLabel = changes((state, tree, entryId) =>
  openField(
    state,
    "Label of this entry (leave empty to remove the label)",
    textField(tree.view.model.labels.get(tree.cursor)),
    (closed, text) => beginAct(closed, { name: "label", entryId, text: text.trim() }),
  ),
);

const hide = changes((state, tree, entryId) =>
  beginAct(state, { name: "hide", entryId, hidden: !tree.view.model.hiddenRows.has(tree.cursor) }),
);

const rename = changes((state, tree) =>
  openField(state, "Name of this session", textField(tree.view.model.name), (closed, text) =>
    text.trim() === "" ? closed : beginAct(closed, { name: "rename", text: text.trim() }),
  ),
);

/** Keys of the rules, in order; further rules have no key. */
const RULE_KEYS = "123456789";

const rules = begins((state, tree, entryId) => {
  const { isFinding, view } = tree;
  const { model } = view;
  const held = rulesOn(pathOf(model.tree, entryId), { isFinding });
  const isLeaf = tree.readOnly === undefined && tree.cursor === model.leafRow;
  const body =
    held.length === 0
      ? "The user has set no rule on this path."
      : held.map(({ text, kind }, at) => `${at + 1} ${text} (${kind})`);
  const add: Choice = {
    key: "a",
    title: "add a rule",
    run: (closed) =>
      openField(closed, "New rule", textField(), (asked, text) =>
        text.trim() === "" ? asked : beginAct(asked, { name: "rules", add: text }),
      ),
  };
  const drops = held.slice(0, RULE_KEYS.length).map(({ id }, at): Choice => {
    const run: Choice["run"] = (closed) => beginAct(closed, { name: "rules", drop: id });
    return { key: RULE_KEYS[at]!, title: `remove rule ${at + 1}`, run };
  });
  const choices = isLeaf ? [add, ...drops, { ...CANCEL, title: "close" }] : [];
  return openDialog(state, "Rules that apply here", body, choices);
});

const compact = changes((state) => begin(state, "planning a compaction", { type: "plan" }));

const merge = changes((state, tree) => {
  const { model } = tree.view;
  if (model.order.shape.isActive(tree.cursor))
    return say(state, "This entry is already on the current path; choose an entry of another branch.", true);
  const choice = withSummary(tree, "m", "append its conclusion at the leaf", (closed) =>
    beginAct(closed, { name: "merge", fromId: branchAt(tree, tree.cursor) }),
  );
  const text = "Its conclusion is appended at the leaf, as a branch summary; both branches stay.";
  return openDialog(state, "Merge this branch", text, [choice, CANCEL]);
});
const undo = changes((state, tree) =>
  tree.undoes || tree.view.model.isPartial ? beginAct(state, { name: "undo" }) : askToUndo(state, tree),
);

/** Asks again after another process has acted: `message` says that nothing was undone. */
export function askAgainToUndo(state: TerminalState, message: string): TerminalState {
  const asked = withTree(state, (tree) => ({ ...tree, undoes: false }));
  return asked.tree ? askToUndo(asked, asked.tree, `${message} `) : asked;
}

/** Asks whether to undo the newest action, by name. `before` is shown before the question. */
function askToUndo(state: TerminalState, tree: TreeState, before = ""): TerminalState {
  const { model } = tree.view;
  const act = lastAct(model.tree, model.leafId);
  if (!act) return say(state, "There is nothing to undo.", true);
  const text = `${before}Undo ${actName(act)}? It stays in the file, and U restores it.`;
  const run = (closed: TerminalState) =>
    beginAct(
      withTree(closed, (undone) => ({ ...undone, undoes: true })),
      { name: "undo", expected: act.entryId },
    );
  return openDialog(state, "Undo", text, [{ key: "u", title: "undo it", run }, CANCEL]);
}

const redo = changes((state) => beginAct(state, { name: "redo" }));

const compare: ActBinding["run"] = (state, tree) => {
  const { model } = tree.view;
  const here = tree.cursor < 0 ? undefined : branchAt(tree, tree.cursor);
  const row = tree.mark ?? model.leafRow;
  const other = row < 0 ? undefined : branchAt(tree, row);
  if (here === undefined || other === undefined || here === other)
    return say(state, "Mark one entry with m, then press d on another to compare them.", true);
  return effect(state, { type: "compare", a: here, b: other });
};

const mark: ActBinding["run"] = (state, tree) => ({
  ...state,
  tree: { ...tree, mark: tree.mark === tree.cursor || tree.cursor < 0 ? undefined : tree.cursor },
});

const copy: ActBinding["run"] = (state, { cursor, view }) => {
  if (cursor < 0) return say(state, "There is nothing to copy.", true);
  const entry = view.model.tree.entryAt(cursor);
  const said = message.is(entry) ? messageText(entry.message) : undefined;
  const { summary } = entry as { summary?: unknown };
  const text = said ?? (typeof summary === "string" ? summary : jsonText(entry, 2));
  return effect(state, { type: "copy", text, what: "the text" });
};

const copyId: ActBinding["run"] = (state, tree) => {
  const id = idAtCursor(tree);
  return id === undefined ? state : effect(state, { type: "copy", text: id, what: id });
};

const exportHere = begins((state, _, entryId) => {
  const written = (format: "markdown" | "json") => (closed: TerminalState) =>
    begin(closed, "exporting", { type: "export", entryId, format });
  return openDialog(
    state,
    "Export to a file in this folder",
    () => [line(span("Only your user account can read the file.", "dim"))],
    [
      { key: "m", title: "the path that ends here, as markdown", run: written("markdown") },
      { key: "j", title: "the whole session, as JSON", run: written("json") },
    ],
  );
});

/** Shows the id, file and folder of the session, and offers to continue it in another agent. */
const about: ActBinding["run"] = (state, tree) => {
  const { header } = tree.view.model.tree;
  const entryId = state.work ? undefined : idAtCursor(tree);
  const facts = [
    header?.id ? `id: ${header.id}` : "",
    `file: ${tree.ref}`,
    tree.cwd === "" ? "" : `folder: ${tree.cwd}`,
  ];
  const copyIt: Choice = {
    key: "y",
    title: "copy the id",
    run: (closed) => effect(closed, { type: "copy", text: header!.id, what: header!.id }),
  };
  const close: Choice = { ...CANCEL, title: "close" };
  const agents = entryId === undefined ? [] : nativeAgents;
  const elsewhere = agentChoices(agents, [copyIt, close], (agent, title) => ({
    title: `continue from this entry in ${title}`,
    run: (closed) =>
      begin(closed, `writing a session of ${title}`, { type: "continue", entryId: entryId!, agent }),
  }));
  return openDialog(state, "This session", facts, [...(header?.id ? [copyIt] : []), ...elsewhere, close]);
};

/** Shows the command that continues a session in another agent, after the agent's file was written. */
export function showContinued(state: TerminalState, lines: readonly string[], command: string | null) {
  const run = (closed: TerminalState) =>
    effect(closed, { type: "copy", text: command ?? "", what: "the command" });
  const copyIt: Choice = { key: "y", title: "copy the command", run };
  const choices = [...(command === null ? [] : [copyIt]), { ...CANCEL, title: "close" }];
  return openDialog(state, "Continue in another agent", lines, choices);
}

/** Keys in the order of the help: they change a session, mark, compare, copy, export, or describe the session. */
export const ACT_BINDINGS: readonly ActBinding[] = [
  {
    keys: ["g"],
    title: "continue from this entry, with or without a summary",
    hint: "go here",
    run: navigate,
  },
  {
    keys: ["u"],
    title: "undo the newest prompt, navigation, compaction, hiding, label or name",
    hint: "undo",
    run: undo,
  },
  { keys: ["U"], title: "redo what was undone", run: redo },
  { keys: ["F"], title: "fork to a session of its own", hint: "fork", run: fork },
  { keys: ["l"], title: "label this entry", hint: "label", run: setLabel },
  { keys: ["H"], title: "hide this entry from the model, or show it again", run: hide },
  { keys: ["R"], title: "name the session", run: rename },
  {
    keys: ["r"],
    title: "show the user's rules that apply here; at the leaf, add and remove rules",
    run: rules,
  },
  { keys: ["c"], title: "compact: the plan first, then the summary", hint: "compact", run: compact },
  { keys: ["M"], title: "append the conclusion of this branch to the current path", run: merge },
  { keys: ["m"], title: "mark this entry", run: mark },
  { keys: ["d"], title: "compare with the marked entry, or the leaf", hint: "compare", run: compare },
  { keys: ["y"], title: "copy the text of this entry", run: copy },
  { keys: ["Y"], title: "copy the id of the entry", run: copyId },
  { keys: ["e"], title: "export to a file", run: exportHere },
  { keys: ["i"], title: "show the session's id and file; continue it in another agent", run: about },
];

/** A key and its function. The help and the bottom line are made from the lists of all keys. */
export interface Binding<Shown> {
  keys: readonly string[];
  /** Keys as the help shows them. Default: the first one. Empty: not in the help. */
  shown?: string;
  title: string;
  /** One or two words for the bottom line; keys without a hint are only in the help. */
  hint?: string;
  run: (state: TerminalState, shown: Shown) => TerminalState;
}

export const shownKeys = ({ keys, shown = keys[0]! }: Pick<Binding<never>, "keys" | "shown">): string =>
  shown;

export const bindingOf = <Shown>(
  bindings: readonly Binding<Shown>[],
  key: string,
): Binding<Shown> | undefined => bindings.find(({ keys }) => keys.includes(key));

/** Keys that move by rows on every screen. `move` gets a distance; it is infinite for both ends. */
export function movingBindings<Shown>(
  page: (state: TerminalState) => number,
  move: (state: TerminalState, shown: Shown, by: number) => TerminalState,
): Binding<Shown>[] {
  const by =
    (count: number, unit: typeof page = () => 1): Binding<Shown>["run"] =>
    (state, shown) =>
      move(state, shown, count * unit(state));
  return [
    { keys: ["up", "k"], shown: "↑ k", title: "up", run: by(-1) },
    { keys: ["down", "j"], shown: "↓ j", title: "down", run: by(1) },
    { keys: ["wheel-up"], shown: "wheel", title: "up and down", run: by(-3) },
    { keys: ["wheel-down"], shown: "", title: "", run: by(3) },
    { keys: ["pageup", "ctrl-b"], shown: "PgUp", title: "a screen up", run: by(-1, page) },
    { keys: ["pagedown", "ctrl-f"], shown: "PgDn", title: "a screen down", run: by(1, page) },
    { keys: ["home", "<"], shown: "Home <", title: "to the beginning", run: by(Number.NEGATIVE_INFINITY) },
    { keys: ["end", ">"], shown: "End >", title: "to the end", run: by(Number.POSITIVE_INFINITY) },
  ];
}
