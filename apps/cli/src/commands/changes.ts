import { existsSync } from "node:fs";
import { buffer } from "node:stream/consumers";
import {
  type ActOptions,
  addRule,
  createSession,
  dropRule,
  type ForkOptions,
  type ForkResult,
  fillMessage,
  forecastAct,
  hasSession,
  lastAct,
  type MergeOptions,
  type MessageDraft,
  type NavigateOptions,
  rulesOf,
  type Session,
} from "@espalier/engine";
import { cacheSentence, forecastNavigation } from "@espalier/engine/reading";
import { nativeAgents } from "@espalier/interop";
import { bytesView, EspalierError, parseLine, scanLines } from "@espalier/jsonl-stream";
import {
  contextOfPath,
  type ForkPosition,
  pathRows,
  promptText,
  roleAt,
  type SessionContext,
  type StoredMessage,
} from "@espalier/session-tree";
import { type AddCommand, type Answer, command, sessionCommand } from "../command.ts";
import { actName } from "../entry-preview.ts";
import { entryName, entryNamed, existingEntry } from "../entry-reference.ts";
import { CommandError } from "../failure.ts";
import { formatCount, formatMany } from "../numbers.ts";
import { optionsFor, withSession } from "../opening.ts";
import { interruptible } from "../progress.ts";
import { print, type Shell } from "../shell.ts";
import { plainLine, plainText } from "../text.ts";

/** Result of a change, for its command and for the terminal's interface. */
export interface Change {
  /** JSON that the command prints. */
  value: object;
  sentences: readonly string[];
  /** Entry to show after the change; null: the position before the first entry, undefined: none. */
  entryId?: string | null;
  /** Text of a reopened user message. */
  editorText?: string | null;
  ref?: string;
}

const placeName = (leafId: string | null): string =>
  plainLine(leafId === null ? "before the first entry" : `at ${leafId}`);

const leafSentence = (
  { context: { messages, tokens: estimate } }: Session,
  leafId: string | null,
  tokens = estimate,
): string =>
  `The leaf is ${placeName(leafId)}: the model reads ${formatMany(messages.length, "message")}, ${formatMany(tokens, "token")}.`;

/** Plans a navigation: the context at the target, and the effect on the prompt cache. */
function planNavigation(session: Session, entryId: string | null): Answer {
  const { leafId, options, tree } = session;
  const entry = entryId === null ? undefined : session.getEntry(entryId);
  // A user message is opened for editing, so the leaf moves before it.
  const target = session.placeOf(entry && promptText(entry) !== null ? entry.parentId : entryId);
  const rowOf = (id: string | null) => (id === null ? -1 : tree.row(id));
  const cache = forecastNavigation(tree, rowOf(leafId), rowOf(target), options.prices);
  const { messages, tokens } = session.contextAt(target);
  const size = `${formatMany(messages.length, "message")}, ${formatMany(tokens, "token")}`;
  return {
    value: { leafId: target, messages: messages.length, tokens, cache },
    lines: [`The leaf would be ${placeName(target)}: the model would read ${size}.`, cacheSentence(cache)],
  };
}

/** @param requestTokens tokens of the next request, as its agent counts them; default: an estimate for the messages */
export async function navigate(
  session: Session,
  { entryId, ...options }: NavigateOptions & { entryId: string | null },
  act: ActOptions,
  requestTokens: () => number | undefined = () => undefined,
): Promise<Change> {
  const { context } = session;
  // Appends to the context change it in place, so its arrays are copied.
  const before = { ...context, messages: [...context.messages], prefixChanged: [...context.prefixChanged] };
  const arrival = await session.navigate(entryId, { ...options, ...act });
  const { leafId, summaryEntryId, editorText } = arrival;
  const cache = forecastAct(session, before);
  const summary = summaryEntryId && `The abandoned branch is summarized in ${plainLine(summaryEntryId)}.`;
  const anew = cache.anew > 0 ? [cacheSentence(cache)] : [];
  const sentences = [leafSentence(session, leafId, requestTokens()), ...(summary ? [summary] : []), ...anew];
  return { value: { ...arrival, cache }, sentences, entryId: leafId, editorText };
}

/** Undoes the last action, or redoes the last undone one. With `expected`, fails unless it is that of this entry. */
export async function revert(session: Session, way: "undo" | "redo", expected?: string): Promise<Change> {
  const arrival = await session[way](expected === undefined ? {} : { expected });
  const { leafId, act, editorText } = arrival;
  const sentences = [
    `${way === "undo" ? "Undone" : "Redone"}: ${actName(act)}.`,
    leafSentence(session, leafId),
  ];
  return { value: arrival, sentences, entryId: leafId, editorText: way === "undo" ? editorText : null };
}

export async function fork(
  session: Session,
  { entryId, ...options }: ForkOptions & { entryId: string; position: ForkPosition },
  act: ActOptions,
): Promise<Change> {
  const made = await session.fork(entryId, { ...options, ...act });
  const { id, file, leafId, summaryEntryId, selectedText } = made;
  const place = plainLine(leafId ?? "before the first entry");
  const row = session.tree.row(entryId);
  const end = options.position === "before" ? session.tree.index.parent(row) : row;
  const count = formatMany(pathRows(session.tree, end).length, "entry", "entries");
  const sentences = [
    `The fork ${plainLine(id)} is in ${file}, with a copy of ${count}; its leaf is ${place}.`,
    ...(summaryEntryId ? [`The rest is summarized in ${plainLine(summaryEntryId)}.`] : []),
  ];
  return { value: made, sentences, ref: file, editorText: selectedText };
}

export async function merge(
  session: Session,
  { fromId, ...options }: MergeOptions & { fromId: string },
  act: ActOptions,
): Promise<Change> {
  const merged = await session.merge(fromId, { ...options, ...act });
  const { entryId, leafId } = merged;
  const leaf = plainLine(leafId ?? "before the first entry");
  const sentence = `The conclusion of the branch of ${plainLine(fromId)} is in ${plainLine(entryId)}; the leaf is ${leaf}.`;
  return { value: merged, sentences: [sentence], entryId };
}

export async function label(
  session: Session,
  { entryId, text }: { entryId: string; text: string | undefined },
): Promise<Change> {
  const value = { entryId: await session.label(entryId, text) };
  const label = session.getLabel(entryId);
  const state = label === undefined ? "has no label" : `is labelled ${plainLine(label)}`;
  return { value, sentences: [`${plainLine(entryId)} ${state}.`], entryId };
}

export async function rename(session: Session, { text }: { text: string }): Promise<Change> {
  const value = { entryId: await session.rename(text) };
  return { value, sentences: [`The session is named ${plainLine(session.name ?? "")}.`] };
}

export async function hide(
  session: Session,
  { entryId, hidden }: { entryId: string; hidden: boolean },
): Promise<Change> {
  const value = { entryId: await session.hide(entryId, hidden) };
  const state = `${value.entryId === null ? "already " : ""}${hidden ? "hidden" : "read by the model"}`;
  const reads = `the model reads ${formatCount(session.context.tokens)} tokens`;
  return { value, sentences: [`${plainLine(entryId)} is ${state}; ${reads}.`], entryId };
}

const answer = ({ value, sentences, editorText }: Change): Answer => ({
  value,
  lines: [...sentences, ...(editorText ? ["The reopened message, for editing:", ""] : [])],
  ...(editorText ? { text: plainText(editorText) } : {}),
});

/** Opens the target of an append. A path without a file creates a session, but not with `at`; an unknown id fails. */
async function withTarget(
  shell: Shell,
  ref: string,
  at: string | undefined,
  change: (session: Session) => Promise<void>,
): Promise<void> {
  const isNew =
    at === undefined &&
    /[/\\]|\.jsonl$/.test(ref) &&
    !(shell.store ? await hasSession(shell.store, { file: ref }) : existsSync(ref));
  if (!isNew) return withSession(shell, "change", ref, change, at === undefined);
  const session = await createSession({ ...optionsFor.change(shell), file: ref });
  try {
    return await change(session);
  } finally {
    await session.close();
  }
}

/** A JSON value from stdin, and the number of its line. */
interface StdinLine {
  /** Line number, from 1. */
  lineNumber: number;
  value: unknown;
}

/**
 * Reads all lines of stdin that are not blank, as JSON.
 * @throws CommandError `bad-input` with the number of the first line that is not JSON
 */
async function readStdinLines(): Promise<StdinLine[]> {
  const view = bytesView(await buffer(process.stdin));
  const lines: StdinLine[] = [];
  for (const { bytes, lineNumber } of scanLines(view)) {
    const parsed = parseLine(bytes);
    if (parsed.ok) lines.push({ lineNumber, value: parsed.value });
    else if (parsed.problem.kind !== "blank") throw badLine(lineNumber, parsed.problem.message);
  }
  return lines;
}

/** Error for a line of stdin: the line's number, then the sentence. */
function badLine(lineNumber: number, message: string, cause?: unknown): CommandError {
  return new CommandError("bad-input", `Line ${lineNumber} of stdin: ${message}`, { cause });
}

/** Makes message entries from lines of stdin. @throws CommandError `bad-input` with the line's number */
function filledMessages(lines: readonly StdinLine[], context: SessionContext) {
  const said: StoredMessage[] = [];
  return lines.map(({ lineNumber, value }) => {
    try {
      const entry = fillMessage(value as MessageDraft, context, said);
      said.push(entry.message);
      return entry;
    } catch (error) {
      if (error instanceof EspalierError) throw badLine(lineNumber, error.message, error);
      throw error;
    }
  });
}

async function appendLines(session: Session, lines: readonly StdinLine[], at: string | undefined) {
  if (at === undefined) return session.append(filledMessages(lines, session.context));
  const parentId = session.placeOf(entryNamed(session, at));
  const [first, ...rest] = filledMessages(lines, session.contextAt(parentId));
  return session.append([{ ...first!, parentId }, ...rest]);
}

/** Adds the rule with the text `add`, then removes the rule with the id `drop`; each only if given. */
export async function changeRules(
  session: Session,
  { add, drop }: { add?: string | undefined; drop?: string | undefined },
): Promise<Change> {
  if (add !== undefined) await addRule(session, add);
  if (drop !== undefined) await dropRule(session, drop);
  const rules = rulesOf(session);
  const sentence = rules.length === 1 ? "One rule applies." : `${rules.length} rules apply.`;
  return { value: { rules }, sentences: [sentence], entryId: session.leafId };
}

const INSTRUCTIONS = ["--instructions <text>", "focus of the summary, in your words"] as const;

/** @throws CommandError `usage` for the position `before` a root that is not a user message: the fork would be empty */
function refuseEmptyFork({ tree }: Session, ref: string, entryId: string, position: ForkPosition): void {
  const row = tree.row(entryId);
  if (position === "at" || tree.parentIdAt(row) !== null || roleAt(tree, row) === "user") return;
  throw new CommandError(
    "usage",
    `Nothing comes before ${entryName(tree, entryId)} on its path, so the fork would be empty. Name the last entry to keep: \`espalier tree ${ref}\` shows them.`,
  );
}

/** Names the commands that continue a fork: in the agent from which the source was imported, if any, and here. */
function nextOfFork({ header }: Session, { id, file }: ForkResult, out: string | undefined): string {
  const name = plainLine(out === undefined ? id : file);
  const agent = nativeAgents.find((each) => each === header?.importedFrom?.agent);
  const elsewhere = agent ? `\`espalier continue ${name} --in ${agent}\`, or here with ` : "";
  return `Continue it with ${elsewhere}\`espalier chat ${name}\`.`;
}

/** Commands that append to a session, or move its leaf. */
export const changeCommands: readonly AddCommand[] = [
  command({
    usage: "append <session>",
    description: "append messages, read from stdin as JSON Lines; a file that does not exist is created",
    options: [
      ["--at <id>", "under this entry instead of the leaf; this starts a branch if the entry has children"],
    ],
    notes: `A line is a message: {"role","content"} and the other fields of its role; the rest is filled in. Roles are user,
assistant, toolResult (with the toolCallId of its call), bashExecution (command, output), custom and system. Either all
lines are appended or none.`,
    examples: [
      `echo '{"role":"user","content":"Hello"}' | espalier append new.jsonl`,
      `echo '{"role":"user","content":"And without it?"}' | espalier append session.jsonl --at before-cache`,
    ],
    async run({ shell, options: { at } }, ref) {
      if (shell.interactive)
        shell.complain("Reading messages from the terminal, one a line; Ctrl-D ends them.");
      const lines = await readStdinLines();
      if (lines.length === 0)
        throw new CommandError("bad-input", "There is no message on stdin; nothing was appended.");
      // A bad line is reported before a new file is created.
      filledMessages(lines, contextOfPath([]));
      return withTarget(shell, ref, at, async (session) => {
        const ids = (await appendLines(session, lines, at)).map(({ id }) => id);
        const { file, leafId } = session;
        const place = plainLine(leafId ?? "before the first entry");
        // Printed before the session is closed, because a policy may compact it then, which takes long.
        await print(shell, { file, leafId, ids }, [
          `Appended ${formatMany(ids.length, "message")} to ${file}; the leaf is ${place}.`,
        ]);
      });
    },
  }),
  sessionCommand({
    usage: "label <session> <id> [text]",
    description: "label an entry; without a text, remove its label",
    examples: ['espalier label session.jsonl leaf "tests pass"'],
    use: "annotate",
    run: async ({ session }, reference, text) =>
      answer(await label(session, { entryId: existingEntry(session, reference), text })),
  }),
  sessionCommand({
    usage: "name <session> <text>",
    description: "name the session",
    examples: ['espalier name session.jsonl "Offline tide tables"'],
    use: "annotate",
    run: async ({ session }, text) => answer(await rename(session, { text })),
  }),
  sessionCommand({
    usage: "pin <session> <id>",
    description: "keep an entry in the context, word for word, after every compaction",
    options: [["--off", "remove the pin"]],
    examples: ["espalier pin session.jsonl GH5p"],
    use: "annotate",
    async run({ session, options: { off = false } }, reference) {
      const id = existingEntry(session, reference);
      const entryId = await session.pin(id, !off);
      const state = off ? "is not pinned" : "stays in the context after compactions";
      return { value: { entryId }, lines: [`${plainLine(id)} ${state}.`] };
    },
  }),
  sessionCommand({
    usage: "rules <session>",
    description: "show the user's rules, which every compaction keeps; add or remove one",
    options: [
      ["--add <text>", "add a rule, and send it to the model"],
      ["--drop <id>", "remove a rule, and inform the model"],
      ["--at <id>", "show the rules at this entry instead of the leaf"],
    ],
    notes: `Rules are clauses of the user's messages that apply to later turns ("never push"). They are found by their words, and apply on
their branch until the user withdraws them. The setting \`rules\` turns the search off.`,
    examples: [
      "espalier rules session.jsonl",
      'espalier rules session.jsonl --add "never push"',
      "espalier rules session.jsonl --drop HZ5vGm2x0QbT",
    ],
    use: ({ add, drop }) => (add === undefined && drop === undefined ? "plan" : "change"),
    async run({ session, options: { add, drop, at } }) {
      if ([add, drop, at].filter((given) => given !== undefined).length > 1)
        throw new CommandError("usage", "--add, --drop and --at exclude each other; use one of them.");
      await changeRules(session, { add, drop });
      const rules = rulesOf(session, at === undefined ? session.leafId : existingEntry(session, at));
      const width = Math.max(0, ...rules.map(({ kind }) => kind.length));
      return {
        value: { rules },
        lines:
          rules.length === 0
            ? ["No rules apply here."]
            : rules.map(
                ({ id, kind, text }) => `${plainLine(id)}  ${kind.padEnd(width)}  ${plainLine(text)}`,
              ),
      };
    },
  }),
  sessionCommand({
    usage: "hide <session> <id>",
    description: "hide an entry from the model from now on; it stays in the file",
    options: [["--off", "show it again"]],
    notes: `For an entry that misleads the model or makes every request fail: an image that no provider accepts, a result that fills the
window, a wrong answer. The entry stays hidden in forks and after compactions, but not on other branches;
undo reverts it. To hide an entry that a compaction has summarized, hide the compaction.`,
    examples: ["espalier hide session.jsonl GH5p"],
    use: "change",
    run: async ({ session, options: { off = false } }, reference) =>
      answer(await hide(session, { entryId: existingEntry(session, reference), hidden: !off })),
  }),
  sessionCommand({
    usage: "navigate <session> <id>",
    description: "continue from another entry; the entries after it stay in the file, as a branch",
    options: [
      ["--summarize", "summarize the abandoned branch into the target"],
      INSTRUCTIONS,
      ["--label <text>", "label the target"],
      ["--dry-run", "print the size of the context there and the cost for the prompt cache; write nothing"],
    ],
    notes: "For a user message, the leaf moves before the message, and its text is printed for editing.",
    examples: [
      "espalier navigate session.jsonl before-cache --summarize",
      "espalier navigate session.jsonl before-cache --dry-run",
      "espalier navigate session.jsonl start",
    ],
    use: ({ summarize, dryRun }) => (dryRun ? "plan" : summarize ? "summarize" : "change"),
    async run({ session, shell, options: { dryRun = false, ...options } }, reference) {
      const entryId = entryNamed(session, reference);
      if (dryRun) return planNavigation(session, entryId);
      return answer(
        await interruptible(shell, "The summary", (act) => navigate(session, { entryId, ...options }, act)),
      );
    },
  }),
  sessionCommand({
    usage: "undo <session>",
    description:
      "undo the newest prompt, navigation, compaction, hiding, label, name or pin; repeat to undo older ones",
    options: [
      ["--dry-run", "print what would be undone; write nothing"],
      ["--expect <id>", "undo nothing but the action of this entry: `act.entryId` of --dry-run --json"],
    ],
    notes: `Nothing is removed: the leaf moves back, and the undone entries stay as a branch; \`redo\` restores them. An automatic
compaction is undone together with the prompt before it.`,
    examples: ["espalier undo session.jsonl", "espalier undo session.jsonl --dry-run"],
    use: ({ dryRun }) => (dryRun ? "read" : "change"),
    async run({ session, options: { dryRun, expect } }) {
      if (!dryRun) return answer(await revert(session, "undo", expect && existingEntry(session, expect)));
      const act = lastAct(session.tree, session.leafId) ?? null;
      return { value: { act }, lines: [act ? `Would undo ${actName(act)}.` : "There is nothing to undo."] };
    },
  }),
  sessionCommand({
    usage: "redo <session>",
    description: "restore what undo reverted, unless the session has changed since",
    options: [
      ["--expect <id>", "restore nothing but the action of this entry: `act.entryId` of undo --json"],
    ],
    examples: ["espalier redo session.jsonl"],
    use: "change",
    run: async ({ session, options: { expect } }) =>
      answer(await revert(session, "redo", expect && existingEntry(session, expect))),
  }),
  sessionCommand({
    usage: "fork <session> <id>",
    description: "start a new session from the path of an entry: the same lines, the same ids",
    options: [
      [
        "--position <position>",
        "end the path with the entry (at), or before it",
        ["at", "before"],
        { default: "at" },
      ],
      ["--out <file>", "file of the fork (in a store: its name); by default below ~/.espalier/sessions"],
      ["--summarize", "summarize the rest of this session into the fork"],
      INSTRUCTIONS,
    ],
    examples: [
      "espalier fork session.jsonl before-cache --out other-way.jsonl",
      "espalier fork session.jsonl LDY0 --position before --summarize",
    ],
    // A fork without a summary bills nothing, so nothing is written to the session itself.
    use: ({ summarize }) => (summarize ? "summarize" : "read"),
    async run({ session, shell, ref, options }, reference) {
      const entryId = existingEntry(session, reference);
      refuseEmptyFork(session, ref, entryId, options.position);
      const made = await interruptible(shell, "The fork", (act) =>
        fork(session, { entryId, ...options }, act),
      );
      const sentences = [...made.sentences, nextOfFork(session, made.value as ForkResult, options.out)];
      return answer({ ...made, sentences });
    },
  }),
  sessionCommand({
    usage: "merge <session> <from>",
    description: "append a summary of another branch's conclusion; both branches stay",
    options: [["--into <id>", "append below this entry instead of the leaf"], INSTRUCTIONS],
    examples: ["espalier merge session.jsonl http-cache-dead-end"],
    use: "summarize",
    async run({ session, shell, options: { into, ...rest } }, from) {
      const fromId = existingEntry(session, from);
      const place = into === undefined ? {} : { into: existingEntry(session, into) };
      return answer(
        await interruptible(shell, "The merge", (act) => merge(session, { fromId, ...rest, ...place }, act)),
      );
    },
  }),
];
