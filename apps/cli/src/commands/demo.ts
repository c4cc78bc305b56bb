// Separate from program.ts: each group of commands has a file.
import { copyFileSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { basename, join, resolve } from "node:path";
import { setTimeout } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import type { NothingToCompact } from "@espalier/compaction";
import { copySession, DEFAULT_SETTINGS, openSession, type Session } from "@espalier/engine";
import { importSessions } from "@espalier/interop/node";
import { EspalierError } from "@espalier/jsonl-stream";
import { digestOf, withView } from "@espalier/jsonl-stream/node";
import {
  branchSummary,
  type ContextMessage,
  createId,
  FORMAT_VERSION,
  isMessage,
  isOnPath,
  labelsInForce,
  pathRows,
  type SessionContext,
  type SessionStore,
} from "@espalier/session-tree";
import { fileStore } from "@espalier/session-tree/node";
import { command } from "../command.ts";
import { allLines, previewMessage } from "../entry-preview.ts";
import { CommandError } from "../failure.ts";
import { formatCount, formatMany } from "../numbers.ts";
import { foreignAgentOf, storeOf, summarizerOf, withLog, withSession } from "../opening.ts";
import { interruptible } from "../progress.ts";
import { jsonLine, printLine, printLines, type Shell } from "../shell.ts";
import { cutToColumns, padToColumns, plainLine, plainText } from "../text.ts";
import { hiddenBy } from "./context.ts";
import { sessionHeading, treeLines } from "./tree.ts";

export const demo = command({
  usage: "demo [file]",
  description: "show the features on a copy of a session, yours or the bundled one",
  examples: ["espalier demo", "espalier demo session.jsonl"],
  async run({ shell }, named) {
    const { colours, output, json } = shell;
    let step = 0;
    for await (const { title, notice, facts, lines } of demoSteps(shell, named)) {
      step++;
      if (json) {
        await output.writeLine(jsonLine({ step, title, ...facts }));
        continue;
      }
      if (step > 1 && Number.isFinite(shell.columns)) await setTimeout(PAUSE);
      await printLine(shell, `\n${colours.bold(colours.cyan(`${step}. ${title}`))}`);
      await printLine(shell, `   ${colours.italic(notice)}\n`);
      await printLines(shell, lines);
      await output.flush();
    }
  },
});

/** Pause in milliseconds after each step on a terminal. */
const PAUSE = 1_200;

/** A step of the demo: its title, one sentence for newcomers, facts for programs, lines for people. */
interface DemoStep {
  title: string;
  notice: string;
  facts: object;
  lines: readonly string[];
}

/**
 * Plays the demo on a copy of a session, in the store of --store if one is given. At the end it proves that the
 * original is unchanged.
 *
 * @param named a file, or a session of the store; undefined: the session that comes with the command
 * @throws CommandError `changed` if another program changed the original meanwhile
 */
async function* demoSteps(shell: Shell, named: string | undefined): AsyncGenerator<DemoStep> {
  const copies = await (shell.store
    ? copiesInStore(shell.store, named)
    : copiesInFolder(shell, named ?? BUNDLED));
  const called = named === undefined ? "the session that comes with espalier" : copies.called;
  const before = await copies.original();
  if (!shell.json) await printLine(shell, `The demo works on a copy of ${plainLine(called)}.`);
  let isPlayed = false;
  try {
    yield* sessionSteps(shell, copies);
    isPlayed = true;
  } finally {
    if (!isPlayed) await copies.discard();
  }
  const after = await copies.original();
  const original = plainLine(named === undefined ? called : copies.path);
  if (after.sha256 !== before.sha256)
    throw new CommandError("changed", `Another program changed ${original} during the demo.`);
  yield {
    title: "Your turn",
    notice: "The session is unchanged, byte for byte. The copies are yours: try things on them.",
    facts: { file: { path: copies.path, ...after, untouched: true }, ...copies.facts },
    lines: [
      `untouched   ${original} (SHA-256 ${after.sha256.slice(0, 16)}…, as before)`,
      `the copies  ${copies.place}`,
      "",
      "Try these with a session of your own:",
      `  ${COMMAND} tree <file>`,
      `  ${COMMAND} context <file> --format anthropic`,
      `  ${COMMAND} navigate <file> <id> --summarize`,
      `  ${COMMAND} open <file>`,
    ],
  };
}

/** Session that comes with the command. The file is in the folder of the bundle. */
const BUNDLED = fileURLToPath(new URL("assets/demo-session.jsonl", import.meta.url));

/** Name of the command for the user. In a clone, npm runs the demo, and `espalier` is not on the PATH. */
const COMMAND = process.env["npm_lifecycle_event"] === "demo" ? "npm run -s espalier --" : "espalier";

/** Copies that the demo changes, and the original, which it never writes. */
interface DemoCopies {
  /** Name of the original, for people. */
  called: string;
  path: string;
  copy: string;
  /** File of the fork; undefined: the store chooses the name. */
  fork: string | undefined;
  /** Location of the copy and the fork, for people. */
  place: string;
  /** The same location, for programs. */
  facts: object;
  /** Current size of the original in bytes, and its SHA-256. */
  original(): Promise<{ bytes: number; sha256: string }>;
  discard(): Promise<void>;
}

/** Copies a file into a new folder. A file of another agent is imported, and the copy is the imported session. */
async function copiesInFolder(shell: Shell, named: string): Promise<DemoCopies> {
  const path = resolve(named);
  const agent = foreignAgentOf(path);
  // Reports an unreadable file before a copy is made.
  if (agent === undefined) await withSession(shell, "read", path, async () => undefined);
  const folder = mkdtempSync(join(tmpdir(), "espalier-demo-"));
  const discard = async () => rmSync(folder, { recursive: true });
  let copy = join(folder, basename(path));
  try {
    if (agent === undefined) copyFileSync(path, copy);
    else copy = await importFile(path, folder);
  } catch (error) {
    await discard();
    throw error;
  }
  return {
    called: agent === undefined ? path : `an import of ${path}, a session of ${agent}`,
    path,
    copy,
    fork: join(folder, "fork.jsonl"),
    place: folder,
    facts: { folder },
    original: async () => withView(path, (view) => ({ bytes: view.size, sha256: digestOf(view) })),
    discard,
  };
}

/**
 * Imports another agent's file below a folder; returns the file of its first session.
 * @throws CommandError `foreign` if nothing could be imported
 */
async function importFile(file: string, folder: string): Promise<string> {
  for await (const { file: ref } of importSessions(file, { store: fileStore({ home: folder }) }))
    if (ref !== null) return ref;
  throw new CommandError(
    "foreign",
    `Nothing in ${file} could be imported; \`espalier import ${file}\` shows the reason.`,
  );
}

/**
 * Copies a session into a store: one of its own sessions, or the file that comes with the command.
 * @throws EspalierError `damaged`, and errors of the stores
 */
async function copiesInStore(store: SessionStore, named: string | undefined): Promise<DemoCopies> {
  const source = named === undefined ? fileStore({ home: tmpdir() }) : store;
  const path = named ?? BUNDLED;
  const copy = await withLog(source, { file: path }, (log) => copySession(log, store, `demo-${createId()}`));
  return {
    called: path,
    path,
    copy: copy.file,
    fork: undefined,
    place: `${copy.file}, and its fork, in the store`,
    facts: { copy: copy.file },
    original: () =>
      withLog(source, { file: path }, async (log) => {
        const view = await log.load();
        return { bytes: view.size, sha256: digestOf(view) };
      }),
    discard: async () => void (await store.delete({ file: copy.file })),
  };
}

async function* sessionSteps(shell: Shell, { copy, fork }: DemoCopies): AsyncGenerator<DemoStep> {
  // Settings are ignored, so that the demo shows the defaults.
  const session = await openSession(
    { file: copy },
    { ...summarizerOf(shell, DEFAULT_SETTINGS), ...storeOf(shell) },
  );
  try {
    await session.load();
    yield treeStep(session, shell);
    yield contextStep(session, shell);
    const place = demoPlace(session);
    if (!place) return;
    yield await navigationStep(session, place, shell);
    yield await summaryStep(session, place, shell);
    yield await forkStep(session, place, fork);
    yield await compactionStep(session, shell);
  } finally {
    await session.close();
  }
}

/** Maximum number of summary lines that a step shows. */
const SUMMARY_LINES = 12;
const sizeOf = ({ messages, tokens }: SessionContext) => ({ messages: messages.length, tokens });

/** Width in columns when stdout is not a terminal. */
const PAGE = 100;
const widthOf = ({ columns }: Shell): number => (Number.isFinite(columns) ? columns : PAGE);

const treeStep = (session: Session, shell: Shell): DemoStep => ({
  title: "A session is a tree",
  notice: "Each branch is one way the conversation went. The bright branch leads to the leaf (*).",
  facts: { entries: session.tree.length, branches: session.branches().length, leafId: session.leafId },
  lines: [...sessionHeading(session, shell.colours), "", ...screenfulTree(session, shell)],
});

function contextStep(session: Session, shell: Shell): DemoStep {
  const { context, leafId } = session;
  const hidden = hiddenBy(session, leafId, context);
  return {
    title: "The model reads one path of it",
    notice: "Other branches are left out. A summary replaces the messages that a compaction covers.",
    facts: { leafId, ...sizeOf(context) },
    lines: [...contextOutline(context, widthOf(shell) - 1), ...(hidden ? ["", hidden] : [])],
  };
}

async function navigationStep(session: Session, { id, label }: DemoPlace, shell: Shell): Promise<DemoStep> {
  const { leafId: from, header, context: before } = session;
  const wasOld = header !== undefined && header.version < FORMAT_VERSION;
  const bytes = bytesOf(session);
  await session.navigate(id);
  const bytesAppended = bytesOf(session) - bytes;
  const { leafId: to, context: after } = session;
  await session.undo();
  return {
    title: `Go back to ${label === undefined ? id : `“${plainText(label)}”`}`,
    notice: "This appends one line and removes nothing, so you can go back again.",
    facts: { from, to, before: sizeOf(before), after: sizeOf(after), bytesAppended },
    lines: [
      ...sideBySide(shell, [`before: ${from}`, before], [`after: ${to}`, after]),
      "",
      wasOld
        ? "The copy had an old format. It was upgraded first; the old version is in a file next to it."
        : `The file grew by ${formatMany(bytesAppended, "byte")}.`,
    ],
  };
}

async function summaryStep(session: Session, { id }: DemoPlace, shell: Shell): Promise<DemoStep> {
  const without = session.contextAt(id);
  const { summaryEntryId } = await interruptible(shell, "The summary", (act) =>
    session.navigate(id, { summarize: true, ...act }),
  );
  const { context } = session;
  const entry = summaryEntryId === null ? undefined : session.getEntry(summaryEntryId);
  const summary = entry && branchSummary.is(entry) ? entry.summary : "";
  return {
    title: "Go there again, with a summary of the abandoned branch",
    notice: "The summary tells the model what was learned on that branch, so no work is repeated.",
    facts: { summaryEntryId, without: sizeOf(without), with: sizeOf(context), summary },
    lines: [
      ...sideBySide(shell, ["without a summary", without], ["with a summary", context]),
      "",
      ...beginningOf(summary, shell),
    ],
  };
}

/** Largest number of entries whose steps are verified. The cost of one step grows with the length of the path. */
const VERIFIED = 2_000;

async function forkStep(session: Session, place: DemoPlace, out: string | undefined): Promise<DemoStep> {
  const { file, id, leafId } = await session.fork(place.id, out === undefined ? {} : { out });
  const copy = await openSession({ file }, { mode: "read", store: session.store });
  try {
    await copy.load();
    const verify = copy.tree.length <= VERIFIED;
    const steps = [...copy.replay({ verify })];
    const verified = verify ? steps.every((step) => step.verified !== false) : null;
    const proof = `${verified ? "each equal to" : "some differ from"} a context built from scratch`;
    const unproven = "too many to verify here; `espalier replay --verify` verifies each";
    return {
      title: "Fork there, and replay the fork",
      notice: "A fork is a separate file. Its replay shows how the context grew.",
      facts: { file, id, leafId, steps: steps.length, verified },
      lines: [
        `the fork    ${file}`,
        `its size    ${formatMany(bytesOf(copy), "byte")} (its parent: ${formatCount(bytesOf(session))})`,
        `the context ${formatCount(steps.at(-1)?.contextTokens ?? 0)} tokens`,
        `replayed    ${formatMany(steps.length, "step")}, ${verified === null ? unproven : proof}`,
      ],
    };
  } finally {
    await copy.close();
  }
}

async function compactionStep(session: Session, shell: Shell): Promise<DemoStep> {
  // Undoes the navigation, so that the session is where it was at the start.
  await session.undo();
  const before = session.context;
  const keepRecentTokens = Math.min(20_000, Math.floor(before.tokens / 3));
  const result = await interruptible(shell, "The compaction", (act) =>
    session.compact({ settings: { keepRecentTokens }, ...act }).catch(notWorthIt),
  );
  const step = {
    title: "Compact it",
    notice: "A summary replaces the older part in the context. The older part stays in the file.",
  };
  if (!result.eligible) {
    const { eligible, reason } = result;
    return { ...step, facts: { eligible, reason }, lines: [reason] };
  }
  const { entryId, summary, source, firstKeptEntryId } = result;
  const { context } = session;
  return {
    ...step,
    facts: { entryId, firstKeptEntryId, source, before: sizeOf(before), after: sizeOf(context), summary },
    lines: [
      ...sideBySide(shell, ["before", before], [`after (summary by ${source})`, context]),
      "",
      ...beginningOf(summary, shell),
    ],
  };
}

/** Returns the reason why a short session was not compacted (`no-smaller`), for the demo; throws any other error. */
function notWorthIt(error: unknown): NothingToCompact {
  if (error instanceof EspalierError && error.code === "no-smaller")
    return { eligible: false, reason: error.message };
  throw error;
}

/** Size in bytes of a session whose tree is loaded. */
const bytesOf = ({ tree }: Session): number => tree.view.size;

function beginningOf(summary: string, shell: Shell): string[] {
  const lines = allLines({ role: "branchSummary", summary, fromId: "", timestamp: 0 }).filter(
    (line) => line.trim() !== "",
  );
  const shown = lines.slice(0, SUMMARY_LINES).map((line) => cutToColumns(line, widthOf(shell) - 3));
  const left = lines.length - shown.length;
  return [...shown, ...(left > 0 ? [`… ${formatMany(left, "more line")}`] : [])].map((line) => `  ${line}`);
}

/** Target of the demo: an entry, and its label if it has one. */
type DemoPlace = NonNullable<ReturnType<typeof demoPlace>>;

/**
 * Returns the entry to navigate to: the first labelled entry on the leaf's path before the leaf. Without a label it is
 * the end of a turn in the middle of the path. Undefined when the path has no earlier entry.
 */
function demoPlace({ tree, leafId }: Session) {
  if (leafId === null) return undefined;
  const leafRow = tree.row(leafId);
  for (const [id, { label }] of labelsInForce(tree)) {
    if (tree.has(id) && tree.row(id) < leafRow && isOnPath(tree, tree.row(id), leafRow)) return { id, label };
  }
  const path = pathRows(tree, leafRow);
  const middle = Math.floor(path.length / 2);
  const turnEnds = path.flatMap((row, at) =>
    at > 0 && isMessage(tree.entryAt(row), "user") ? [path[at - 1]!] : [],
  );
  const row = turnEnds.find((end) => end >= path[middle]!) ?? turnEnds.at(-1) ?? path[middle]!;
  return row < leafRow ? { id: tree.idAt(row), label: undefined } : undefined;
}

/** Maximum number of lines of a drawing. */
const SCREEN = 40;

/** Draws a session's tree on one screen: labels, summaries, forks and branch ends; the rest is folded. */
function screenfulTree(session: Session, shell: Shell): string[] {
  const options = { fold: 1, foldPrompts: true, width: widthOf(shell) };
  const lines = [...treeLines(session, shell.colours, options)];
  const left = lines.length - SCREEN;
  return left > 0 ? [...lines.slice(0, SCREEN), `… ${left} more lines`] : lines;
}

const GAP = " │ ";

/** Maximum width in columns of two contexts side by side. */
const WIDEST = 140;

/** Two contexts side by side, each under its title. */
function* sideBySide(shell: Shell, ...pair: [title: string, context: SessionContext][]): Generator<string> {
  const width = Math.max(16, Math.floor((Math.min(widthOf(shell) - 1, WIDEST) - GAP.length) / 2));
  const columns = pair.map(([title, context]) => [title, ...contextOutline(context, width)]);
  const row = (at: number) =>
    columns
      .map((lines) => padToColumns(cutToColumns(lines[at] ?? "", width), width))
      .join(GAP)
      .trimEnd();
  yield row(0);
  yield `${"─".repeat(width)}─┼─${"─".repeat(width)}`;
  for (let at = 1; at < Math.max(...columns.map(({ length }) => length)); at++) yield row(at);
}

/** Number of messages that an outline shows at its beginning, and at its end. */
const ENDS = 4;

/** A context in a few lines: its size, its first and its last messages. */
function contextOutline({ messages, tokens }: SessionContext, width: number): string[] {
  const outline = (said: readonly ContextMessage[]) =>
    said.map((message) => {
      const role = ROLES[message.role] ?? plainLine(message.role);
      return cutToColumns(`${role.padEnd(9)} ${previewMessage(message)}`, width);
    });
  const size = `${formatMany(messages.length, "message")}, ${formatMany(tokens, "token")}`;
  const left = messages.length - 2 * ENDS;
  if (left <= 1) return [size, ...outline(messages)];
  const [first, last] = [messages.slice(0, ENDS), messages.slice(-ENDS)];
  return [size, ...outline(first), `… ${formatMany(left, "more message")}`, ...outline(last)];
}

/** Short role names for a narrow column. */
const ROLES: Record<string, string> = {
  compactionSummary: "summary",
  branchSummary: "branch",
  toolResult: "result",
  bashExecution: "shell",
};
