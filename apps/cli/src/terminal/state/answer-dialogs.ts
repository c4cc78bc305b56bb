import type { CompactionPreparation } from "@espalier/compaction";
import type { BranchComparison, BranchSide } from "@espalier/engine";
import { viewPlan } from "../../commands/compact.ts";
import { previewEntry } from "../../entry-preview.ts";
import { wrapped } from "../../markdown/markdown.ts";
import { formatCount, formatMany, formatShortCost } from "../../numbers.ts";
import { cutToColumns, plainLine } from "../../text.ts";
import { beginAct } from "../keys/act-bindings.ts";
import { beside, EMPTY, type Line, line, span } from "../screen/frame.ts";
import { askText, dialog } from "./dialog.ts";
import {
  type Act,
  type Choice,
  type Dialog,
  next,
  type Question,
  type TerminalState,
  type TreeState,
} from "./state.ts";
import { textField } from "./text-field.ts";

const leave: Choice = { key: "n", title: "leave it", run: (closed) => next(closed) };

/** What a compaction would do, entry by entry, and whether to do it. */
export function planDialog(tree: TreeState, plan: CompactionPreparation, instructions?: string): Dialog {
  const billed = tree.writer.isBilled ? ", which is billed" : "";
  const run = (rest: { instructions?: string }) => (closed: TerminalState) =>
    beginAct(closed, { name: "compact", ...rest });
  const body = (columns: number): Line[] => [
    ...[...viewPlan(plan)].flatMap((text) => wrapped(text, columns)).map((text) => line(text.trimStart())),
    EMPTY,
    ...idLines(tree, [...plan.historyIds, ...plan.turnPrefixIds], "goes ", columns),
    ...idLines(tree, plan.keptIds, "stays", columns),
  ];
  return dialog("Compact", body, [
    {
      key: "y",
      title: `compact; ${plainLine(tree.writer.name)} writes the summary${billed}`,
      run: run(instructions === undefined ? {} : { instructions }),
    },
    {
      key: "f",
      title: "compact, and say what the summary shall attend to",
      run: (closed) =>
        next({
          ...closed,
          dialog: askText("What shall the summary attend to?", textField(instructions), (again, text) =>
            run(text.trim() === "" ? {} : { instructions: text.trim() })(again),
          ),
        }),
    },
    leave,
  ]);
}

/** Entries that are named at the beginning and at the end of a list. */
const FIRST = 6;
const LAST = 4;

function idLines(
  { view: { model } }: TreeState,
  ids: readonly string[],
  what: "goes " | "stays",
  columns: number,
): Line[] {
  const lineOf = (id: string): Line => {
    const entry = model.tree.getEntry(id);
    const text = entry ? (previewEntry(entry) ?? entry.type) : "";
    return line(
      span(`${what} `, what === "goes " ? "summary" : "leaf"),
      span(cutToColumns(plainLine(text), Math.max(10, columns - 6)), what === "goes " ? "dim" : "plain"),
    );
  };
  const left = ids.length - FIRST - LAST;
  if (left <= 1) return ids.map(lineOf);
  const between = line(span(`      … ${formatMany(left, "message")} more`, "dim"));
  return [...ids.slice(0, FIRST).map(lineOf), between, ...ids.slice(-LAST).map(lineOf)];
}

/** Two branches beside each other, from where they part. */
export function comparisonDialog(tree: TreeState, { commonAncestorId, a, b }: BranchComparison): Dialog {
  const { model } = tree.view;
  const ancestor = commonAncestorId === null ? undefined : model.tree.getEntry(commonAncestorId);
  const parting = ancestor ? plainLine(previewEntry(ancestor) ?? ancestor.type) : "before the first entry";
  return dialog("Two branches, from where they part", (columns) => {
    const width = Math.floor((columns - 3) / 2);
    const [left, right] = [sideLines(tree, a, width), sideLines(tree, b, width)];
    while (left.length < right.length) left.push(EMPTY);
    return [
      line(span("they part behind: ", "dim"), span(cutToColumns(parting, Math.max(10, columns - 18)))),
      EMPTY,
      ...beside(left, width, span(" │ ", "dim"), right),
    ];
  });
}

function sideLines({ view: { model } }: TreeState, side: BranchSide, columns: number): Line[] {
  const { leafId, messages, tokens, cost, files, entryIds } = side;
  const cut = (text: string) => cutToColumns(text, columns);
  const name = leafId === null ? undefined : model.labels.get(model.tree.row(leafId));
  const spoken = entryIds.flatMap((id) => {
    const row = model.tree.row(id);
    const kind = model.kinds.of(row);
    if (kind === "toolResult" || kind === "beside" || kind === "other") return [];
    const style = kind === "user" ? "user" : kind === "assistant" ? "plain" : "summary";
    return [line(span(cut(plainLine(previewEntry(model.tree.entryAt(row)) ?? "")), style))];
  });
  return [
    line(span(cut(plainLine(`${leafId ?? "the start"}${name ? ` [${name}]` : ""}`)), "strong")),
    line(cut(`${formatMany(messages, "message")}, ${formatMany(tokens, "token")}, ${formatShortCost(cost)}`)),
    line(span(cut(`${formatMany(files.length, "file")}${files.length > 0 ? ":" : ""}`), "dim")),
    ...files.slice(0, FILES_SHOWN).map((file) => line(span(cut(plainLine(`  ${file}`)), "code"))),
    ...(files.length > FILES_SHOWN
      ? [line(span(`  … ${formatCount(files.length - FILES_SHOWN)} more`, "dim"))]
      : []),
    EMPTY,
    ...spoken,
  ];
}

const FILES_SHOWN = 8;

/** Somebody else writes the session: what to do about it. */
export function busyDialog(act: Act, holder: string): Dialog {
  const again = (onBusy: "fork" | "share") => (closed: TerminalState) =>
    beginAct(
      onBusy === "share" && closed.tree ? { ...closed, tree: { ...closed.tree, onBusy } } : closed,
      act,
      onBusy,
    );
  return dialog(
    "Somebody else writes this session",
    (columns) => wrapped(plainLine(holder), columns).map((text) => line(text)),
    [
      { key: "w", title: "wait: leave it for now", run: (closed) => next(closed) },
      {
        key: "r",
        title: "read only: change nothing here from now on",
        run: (closed) =>
          next(
            closed.tree
              ? {
                  ...closed,
                  tree: {
                    ...closed.tree,
                    readOnly: "You chose to read this session only; open it again to change it.",
                  },
                }
              : closed,
          ),
      },
      { key: "f", title: "fork: do it in a session of your own", run: again("fork") },
      { key: "s", title: "share: write beside the other, each on a branch of its own", run: again("share") },
    ],
  );
}

/** A text that came back to be written anew. */
export function editorDialog(text: string): Dialog {
  return dialog("Write it anew (Ctrl-S appends it here, Esc leaves it)", () => [], [], {
    field: textField(text),
    hasLines: true,
    accept: (closed, written) =>
      written.trim() === "" ? next(closed) : beginAct(closed, { name: "append", text: written }),
  });
}

/** A session was made: go there, or stay. */
export function madeDialog(message: string, ref: string, editorText: string | undefined): Dialog {
  return dialog("Forked", (columns) => wrapped(plainLine(message), columns).map((text) => line(text)), [
    {
      key: "o",
      title: "open the fork",
      run: (closed) =>
        next(closed, { type: "open", ref, ...(editorText === undefined ? {} : { editorText }) }),
    },
    { key: "s", title: "stay here", run: (closed) => next(closed) },
  ]);
}

/** Keys of the choices of a question, in order. */
const CHOICE_KEYS = "123456789abcdefghilmnoprstuvwxyz";

/** A question of an extension. Escape closes it without an answer. */
export function questionDialog({ id, title, message, choices }: Question): Dialog {
  const answered = (answer: string | undefined) => (closed: TerminalState) =>
    next(closed, { type: "answer", question: id, answer });
  const body = (columns: number) =>
    message === "" ? [] : wrapped(plainLine(message), columns).map((text) => line(text));
  const rest = { question: id, cancel: answered(undefined) };
  if (choices.length === 0)
    return {
      ...askText(plainLine(title), textField(), (closed, text) => answered(text)(closed), body),
      ...rest,
    };
  return dialog(
    plainLine(title),
    body,
    choices.map((choice, at) => ({
      key: CHOICE_KEYS[at] ?? "",
      title: plainLine(choice),
      run: answered(choice),
    })),
    rest,
  );
}
