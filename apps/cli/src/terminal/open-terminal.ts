import { setImmediate } from "node:timers/promises";
import { formatMany } from "../numbers.ts";
import type { Shell } from "../shell.ts";
import { columnsOf, cutToColumns, NO_PROMPT, plainLine, projectOf } from "../text.ts";
import { actEffects } from "./effects/acts.ts";
import { listEffects, sessionEffects } from "./effects/readings.ts";
import type { Performers } from "./effects/task.ts";
import { ACT_BINDINGS, shownKeys } from "./keys/act-bindings.ts";
import { GENERAL_BINDINGS, SESSIONS_BINDINGS } from "./keys/sessions-bindings.ts";
import { hitCount, TREE_BINDINGS } from "./keys/tree-bindings.ts";
import {
  EMPTY,
  type Frame,
  fitLine,
  fitLines,
  type Line,
  line,
  lineWidth,
  type Span,
  selectLine,
  span,
} from "./screen/frame.ts";
import { readInput } from "./screen/keys.ts";
import { handleSignals, Screen } from "./screen/screen.ts";
import {
  type Dialog,
  firstState,
  type TerminalEffect,
  type TerminalState,
  type TreeState,
} from "./state/state.ts";
import { fieldLines, type TextField } from "./state/text-field.ts";
import { coveredAbove } from "./state/tree-cursor.ts";
import { type TerminalEvent, update } from "./state/update.ts";
import { FILTERS } from "./tree/tree-model.ts";
import { bodyHeight, frameHeight, noticeTexts } from "./view/layout.ts";
import { filterWords, shownSessions, viewSessions } from "./view/sessions.ts";
import { viewTreeScreen } from "./view/tree.ts";

interface TerminalOptions {
  /** Session that is opened first; by default the list is shown. */
  ref?: string;
  /** True: draw with ASCII only. */
  ascii?: boolean;
}

/** Milliseconds between two clock events. */
const TICK = 1_000;

/** Minimum number of milliseconds between two frames: at most 60 frames per second. */
const FRAME = 16;

/**
 * Opens the terminal's interface; resolves when the user quits. The state is changed and side effects are started here;
 * the rest of the terminal is pure.
 */
export async function openTerminal(shell: Shell, { ref, ascii = false }: TerminalOptions): Promise<void> {
  const { stdin, stdout } = process;
  const isColoured = shell.colours.isColorSupported;
  const screen = new Screen(stdin, stdout, { colours: isColoured, ascii });
  let state = firstState(screen.size, { now: Date.now(), isColoured });
  let shownAt = 0;
  let drawing: NodeJS.Timeout | undefined;
  const draw = () => {
    clearTimeout(drawing);
    drawing = undefined;
    screen.draw(view(state), state.size.columns);
    shownAt = performance.now();
  };
  const redraw = () => {
    screen.clear();
    draw();
  };
  const perform = (effect: TerminalEffect) =>
    (performers[effect.type] as (effect: TerminalEffect) => void)(effect);
  const dispatch = (event: TerminalEvent) => {
    // The list is read until a session has opened, because opening it can fail.
    if (event.type === "opened") lists.end();
    const before = state;
    const next = update(before, event);
    state = next.state;
    for (const effect of next.effects) perform(effect);
    // One frame shows several events in a short time.
    if (state !== before) drawing ??= setTimeout(draw, shownAt + FRAME - performance.now());
  };
  const lists = listEffects(shell, dispatch);
  const sessions = sessionEffects(shell, dispatch);
  const acts = actEffects(shell, dispatch, { ref: () => state.tree?.ref ?? "", refresh: sessions.refresh });
  const signals = handleSignals(screen, draw);
  let quit = () => {};
  const ended = new Promise<void>((resolve) => {
    quit = resolve;
  });
  const performers: Performers = {
    ...lists.performers,
    ...sessions.performers,
    ...acts.performers,
    copy({ text, what }) {
      screen.copy(text);
      dispatch({ type: "warned", message: `Copied ${what}.` });
    },
    suspend: signals.suspend,
    redraw,
    quit,
  };
  const input = readInput(stdin, dispatch);
  const clock = setInterval(() => dispatch({ type: "tick", now: Date.now() }), TICK);
  const resized = () => {
    screen.clear();
    dispatch({ type: "resize", ...screen.size });
  };
  stdout.on("resize", resized);
  try {
    screen.enter();
    perform(ref === undefined ? { type: "list-sessions", filter: {} } : { type: "open", ref });
    // A short session is read before this resolves, so the list is not drawn first.
    await setImmediate();
    draw();
    await ended;
  } finally {
    clearInterval(clock);
    stdout.off("resize", resized);
    input.end();
    sessions.performers.close({ type: "close" });
    await acts.end();
    // An aborted import begins to read the list again.
    lists.end();
    screen.leave();
    signals.forget();
  }
}

/** Draws the screen of a state: heading, body, and the keys. */
export function view(state: TerminalState): Frame {
  const { tree, dialog, size } = state;
  const body = fitLines(tree ? viewTreeScreen(state, tree) : viewSessions(state), bodyHeight(state));
  if (dialog)
    return fitFrame(state, [heading(state), ...overBody(body, dialog, size.columns), footer(state)]);
  const texts = noticeTexts(state);
  const look = state.notice?.isError ? "error" : "label";
  const foot = texts.length > 0 ? texts.map((text) => line(span(` ${text}`, look))) : [footer(state)];
  const above = coveredAbove(state);
  const shown = body.slice(above, above + body.length - foot.length + 1);
  return fitFrame(state, [heading(state), ...shown, ...foot]);
}

const fitFrame = (state: TerminalState, frame: readonly Line[]): Frame =>
  fitLines(frame, frameHeight(state)).map((one) => fitLine(one, state.size.columns));

function heading(state: TerminalState): Line {
  const { size, sessions, tree } = state;
  if (tree) return treeHeading(tree, size.columns);
  const facts = [
    formatMany(shownSessions(sessions).length, "session"),
    ...filterWords(sessions.filter),
    `by ${sessions.sort}`,
    ...(sessions.query && sessions.hits.length > 0
      ? [`${formatMany(sessions.hits.length, "place")}${sessions.isSearching ? " so far" : ""}`]
      : []),
    ...(sessions.isListing || sessions.isSearching ? ["…"] : []),
  ];
  return between([span(" Espalier", "heading")], [span(`${facts.join(" · ")} `, "dim")], size.columns);
}

/** Maximum number of shown characters of the session's id; every command accepts the beginning of an id. */
const WHOLE_ID = 12;

/** Maximum share of the heading for facts. */
const FACTS_SHARE = 0.6;

function treeHeading(tree: TreeState, columns: number): Line {
  const { view: shown, cwd, readOnly } = tree;
  const { model, filter } = shown;
  const title = plainLine(model.title ?? "") || (model.isPartial ? "" : NO_PROMPT);
  const facts = [
    model.isPartial ? "reading …" : formatMany(model.length, "entry", "entries"),
    ...(model.isPartial ? [] : [formatMany(model.order.branchStarts.length + 1, "branch", "branches")]),
    FILTERS.find(({ name }) => name === filter)?.title ?? filter,
    ...(readOnly === undefined ? [] : ["read only"]),
    ...(tree.query === "" || tree.search ? [] : [`${hitCount(tree)} with ${plainLine(tree.query)}`]),
  ];
  // In a narrow terminal the title is more important than the facts.
  while (facts.length > 1 && columnsOf(facts.join(" · ")) > columns * FACTS_SHARE) facts.splice(-2, 1);
  const right = span(`${facts.join(" · ")} `, "dim");
  const room = Math.max(10, columns - columnsOf(right.text) - 2);
  const name = cutToColumns(title, room);
  // Parts that do not fit are left out, from the last one on.
  const parts = [projectOf(cwd), plainLine(model.tree.header?.id ?? "").slice(0, WHOLE_ID)];
  const rest: Span[] = [];
  for (const part of parts.filter((text) => text !== "")) {
    if (columnsOf(name) + lineWidth({ spans: rest }) + columnsOf(part) + 2 > room) break;
    rest.push(span(`  ${part}`, "dim"));
  }
  return between([span(` ${name}`, "heading"), ...rest], [right], columns);
}

function between(left: readonly Span[], right: readonly Span[], columns: number): Line {
  const gap = columns - lineWidth({ spans: left }) - lineWidth({ spans: right });
  return { spans: [...left, span(" ".repeat(Math.max(1, gap))), ...right] };
}

/** Draws the last line: the running work, the last notice, or the keys. */
function footer(state: TerminalState): Line {
  const { notice, work, dialog, tree, now, sessions } = state;
  if (tree?.search && !dialog) return searchLine(tree, tree.search.field);
  if (notice) return line(span(` ${plainLine(notice.text)}`, notice.isError ? "error" : "label"));
  if (work) {
    const seconds = Math.max(0, Math.round((now - work.started) / 1_000));
    const tokens = work.tokens > 0 ? `, ${formatMany(work.tokens, "token")}` : "";
    const end = work.isAborting ? "is being aborted …" : "Esc aborts it";
    const detail = work.detail === "" ? "" : ` (${work.detail})`;
    return line(span(` ${work.title}${detail} … ${seconds} s${tokens}  `, "label"), span(end, "dim"));
  }
  if (dialog?.field) return keys([dialog.hasLines ? "Ctrl-S" : "Enter", "confirm"], ["Esc", "cancel"]);
  if (dialog && dialog.choices.length > 0)
    return keys(["Enter", "choose"], ["↑↓", "move"], ["Esc", "cancel"]);
  if (dialog) return keys(["↑↓", "scroll"], ["Esc", "back"]);
  if (!tree && sessions.query) return keys(["Enter", "open"], ["↑↓", "choose"], ["Esc", "end the search"]);
  if (tree?.isReading) return keys(...READING_KEYS);
  const own = tree ? [...ACT_BINDINGS, ...TREE_BINDINGS] : SESSIONS_BINDINGS;
  const hinted = [...own, ...GENERAL_BINDINGS].flatMap((binding): [string, string][] =>
    // The list is the first screen, so there is no way back.
    binding.hint && (tree || binding.hint !== "back")
      ? [[shownKeys(binding).split(" ")[0]!, binding.hint]]
      : [],
  );
  return fitKeys(hinted, state.size.columns);
}

/** Draws the query of a search while it is typed, and the number of hits. */
function searchLine(tree: TreeState, field: TextField): Line {
  const count = tree.query === "" ? "Enter stays here, Esc goes back" : `${hitCount(tree)} · ↑↓`;
  return line(span(" /", "heading"), ...(fieldLines(field)[0]?.spans ?? []), span(`  ${count}`, "dim"));
}

/** Keys of the reading pane. Acts are not listed, because they need the tree. */
const READING_KEYS = [
  ["↑↓", "scroll"],
  ["←→", "other rows"],
  ["z", "in full"],
  ["Tab", "preview"],
  ["Esc", "back"],
  ["?", "help"],
  ["q", "quit"],
] as const;

const keys = (...pairs: readonly (readonly [string, string])[]): Line => ({
  spans: pairs.flatMap(([key, title]) => [span(` ${key} `, "heading"), span(title, "dim"), span(" ")]),
});

/** Draws as many keys as fit; help and quit, the last ones, are always shown. */
function fitKeys(pairs: readonly [string, string][], columns: number): Line {
  const last = pairs.slice(-2);
  let first = pairs.slice(0, -2);
  while (first.length > 0 && lineWidth(keys(...first, ...last)) > columns) first = first.slice(0, -1);
  return keys(...first, ...last);
}

/** Maximum width of a dialog in columns, since longer lines are hard to read. */
const WIDEST = 100;

/** Draws a dialog over the lower end of a body: the title, its text, the field, the choices. */
function overBody(body: readonly Line[], shown: Dialog, columns: number): Line[] {
  const width = Math.min(columns, WIDEST);
  const field = shown.field ? fieldLines(shown.field) : [];
  const choices = shown.choices.map(({ key, title }, at): Line => {
    const isChosen = at === shown.chosen;
    const drawn = line(span(isChosen ? " ▸ " : "   ", "leaf"), span(key.padEnd(3), "heading"), span(title));
    return isChosen ? selectLine(drawn, columns) : drawn;
  });
  const said = shown.body(width - 2);
  const around = field.length + choices.length + (field.length > 0 ? 2 : 1);
  const room = Math.max(1, body.length - 1 - around);
  const scroll = Math.min(shown.scroll, Math.max(0, said.length - room));
  const window = said.slice(scroll, scroll + room);
  const left = said.length - scroll - window.length;
  const more = said.length > room ? ` ${scroll > 0 ? "↑" : ""}${left > 0 ? `${left} more, PgDn ↓` : ""}` : "";
  const lines: Line[] = [
    titleLine(shown.title, more, columns),
    ...window.map((one): Line => ({ spans: [span(" "), ...one.spans] })),
    ...(field.length > 0 ? [EMPTY, ...lastLines(field, room).map(inField)] : []),
    ...choices,
  ].slice(0, body.length);
  return [...body.slice(0, body.length - lines.length), ...fitLines(lines, lines.length)];
}

const inField = (one: Line): Line => ({ spans: [span(" > ", "leaf"), ...one.spans] });

/** Last lines of a long text, where the user mostly types. */
const lastLines = (lines: readonly Line[], most: number): readonly Line[] => {
  const at = lines.findIndex(({ spans }) => spans.some(({ style }) => style === "cursor"));
  const from = Math.max(0, Math.min(at - most + 1, lines.length - most));
  return lines.slice(from, from + Math.max(1, most));
};

function titleLine(title: string, more: string, columns: number): Line {
  const text = `── ${title} `;
  const rest = Math.max(0, columns - text.length - more.length - 1);
  return fitLine(line(span(text, "heading"), span("─".repeat(rest), "dim"), span(more, "dim")), columns);
}
