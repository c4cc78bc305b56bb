import { createHash } from "node:crypto";
import { copyFileSync, createReadStream, mkdtempSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { basename, join, resolve } from "node:path";
import { pipeline } from "node:stream/promises";
import { setTimeout } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import type { NothingToCompact } from "@espalier/compaction";
import { copySession, DEFAULT_SETTINGS, openSession, type Session } from "@espalier/engine";
import { EspalierError } from "@espalier/jsonl-stream";
import {
  branchSummary,
  type ContextMessage,
  compaction,
  createId,
  type Entry,
  FORMAT_VERSION,
  isMessage,
  isOnPath,
  labelsInForce,
  pathRows,
  rowsOf,
  type SessionContext,
  type SessionStore,
} from "@espalier/session-tree";
import { fileStore } from "@espalier/session-tree/node";
import { hiddenBy } from "./commands/context.ts";
import { sessionHeading, treeLines } from "./commands/tree.ts";
import { allLines, previewMessage } from "./entry-preview.ts";
import { CommandError } from "./failure.ts";
import { formatCount, formatMany } from "./numbers.ts";
import { foreignAgentOf, storeOf, summarizerOf, withSession } from "./opening.ts";
import { interruptible } from "./progress.ts";
import { type Colours, jsonLine, printLine, printLines, type Shell } from "./shell.ts";
import { cutToColumns, padToColumns, plainLine, plainText } from "./text.ts";

/**
 * Plays the demo on a copy of a session, in the store of --store if one is given. At the end it proves that the
 * original is unchanged.
 *
 * @param named a file, or a session of the store; undefined: the session that comes with the command
 */
export async function playDemo(shell: Shell, named: string | undefined): Promise<void> {
  const copies = await (shell.store
    ? copiesInStore(shell.store, named)
    : copiesInFolder(shell, named ?? BUNDLED));
  const called = named === undefined ? "the session that comes with espalier" : copies.called;
  const before = await copies.original();
  if (!shell.json) await printLine(shell, `The demo works on a copy of ${plainLine(called)}.`);
  const stage = openStage(shell);
  try {
    await playSteps(stage, copies);
  } catch (error) {
    await copies.discard();
    throw error;
  }
  const after = await copies.original();
  const original = plainLine(named === undefined ? called : copies.path);
  if (after.sha256 !== before.sha256)
    throw new CommandError("changed", `Another program changed ${original} during the demo.`);
  await stage.show(
    "Your turn",
    "The session is unchanged, byte for byte. The copies are yours: try things on them.",
    { file: { path: copies.path, ...after, untouched: true }, ...copies.facts },
    [
      `untouched   ${original} (SHA-256 ${after.sha256.slice(0, 16)}…, as before)`,
      `the copies  ${copies.place}`,
      "",
      "Try these with a session of your own:",
      `  ${COMMAND} tree <file>`,
      `  ${COMMAND} context <file> --format anthropic`,
      `  ${COMMAND} navigate <file> <id> --summarize`,
      `  ${COMMAND} open <file>`,
    ],
  );
}

/** Session that comes with the command. The file is in the folder of the bundle. */
const BUNDLED = fileURLToPath(new URL("assets/demo-session.jsonl", import.meta.url));

/** Name of the command for the user. In a clone, npm runs the demo, and `espalier` is not on the PATH. */
const COMMAND = process.env["npm_lifecycle_event"] === "demo" ? "npm run -s espalier --" : "espalier";

/** Copies that the demo changes, and the original, which it never writes. */
interface DemoCopies {
  /** Name of the original, for people. */
  called: string;
  /** Path of the original. */
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
  /** Removes the copies. */
  discard(): Promise<void>;
}

/** Copies a file into a new folder. A file of another agent is imported, and the copy is the imported session. */
async function copiesInFolder(shell: Shell, named: string): Promise<DemoCopies> {
  const path = resolve(named);
  const agent = await foreignAgentOf(path);
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
    async original() {
      const hash = createHash("sha256");
      await pipeline(createReadStream(path), hash);
      return { bytes: statSync(path).size, sha256: hash.digest("hex") };
    },
    discard,
  };
}

/** Imports another agent's file below a folder; returns the file of its first session. */
async function importFile(file: string, folder: string): Promise<string> {
  const { importSessions } = await import("@espalier/interop/node");
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
  const reading = async <Result>(
    read: (log: Awaited<ReturnType<SessionStore["open"]>>) => Promise<Result>,
  ) => {
    const log = await source.open({ file: path }, "read");
    return read(log).finally(() => log.close());
  };
  const copy = await reading((log) => copySession(log, store, `demo-${createId()}`));
  return {
    called: path,
    path,
    copy: copy.file,
    fork: undefined,
    place: `${copy.file}, and its fork, in the store`,
    facts: { copy: copy.file },
    original: () =>
      reading(async (log) => {
        const view = await log.load();
        const sha256 = createHash("sha256").update(view.read(0, view.size)).digest("hex");
        return { bytes: view.size, sha256 };
      }),
    discard: async () => void (await store.delete({ file: copy.file })),
  };
}

async function playSteps(stage: DemoStage, { copy, fork }: DemoCopies): Promise<void> {
  // Settings are ignored, so that the demo shows the defaults.
  const session = await openSession(
    { file: copy },
    { ...summarizerOf(stage.shell, DEFAULT_SETTINGS), ...storeOf(stage.shell) },
  );
  try {
    await session.load();
    await showTree(stage, session);
    await showContext(stage, session);
    const place = demoPlace(session);
    if (!place) return;
    await showNavigation(stage, session, place);
    await showSummary(stage, session, place);
    await showFork(stage, session, place, fork);
    await showCompaction(stage, session);
  } finally {
    await session.close();
  }
}

/** Maximum number of summary lines that a step shows. */
const SUMMARY_LINES = 12;
const isWritten = (line: string): boolean => line.trim() !== "";
const sizeOf = ({ messages, tokens }: SessionContext) => ({ messages: messages.length, tokens });

async function showTree(stage: DemoStage, session: Session): Promise<void> {
  const { colours } = stage.shell;
  await stage.show(
    "A session is a tree",
    "Each branch is one way the conversation went. The bright branch leads to the leaf (*).",
    { entries: session.tree.length, branches: session.branches().length, leafId: session.leafId },
    [...sessionHeading(session, colours), "", ...screenfulTree(session, colours, stage.columns)],
  );
}

async function showContext(stage: DemoStage, session: Session): Promise<void> {
  const { context, leafId } = session;
  const hidden = hiddenBy(session, leafId, context);
  await stage.show(
    "The model reads one path of it",
    "Other branches are left out. A summary replaces the messages that a compaction covers.",
    { leafId, ...sizeOf(context) },
    [...contextOutline(context, stage.columns - 1), ...(hidden ? ["", hidden] : [])],
  );
}

async function showNavigation(stage: DemoStage, session: Session, place: DemoPlace): Promise<void> {
  const { leafId, header } = session;
  const wasOld = header !== undefined && header.version < FORMAT_VERSION;
  const before = session.context;
  const bytes = bytesOf(session);
  await session.navigate(place.id);
  const grown = bytesOf(session) - bytes;
  await stage.show(
    `Go back to ${place.label === undefined ? place.id : `“${plainText(place.label)}”`}`,
    "This appends one line and removes nothing, so you can go back again.",
    {
      from: leafId,
      to: session.leafId,
      before: sizeOf(before),
      after: sizeOf(session.context),
      bytesAppended: grown,
    },
    [
      ...sideBySide(stage, [`before: ${leafId}`, before], [`after: ${session.leafId}`, session.context]),
      "",
      wasOld
        ? "The copy had an old format. It was upgraded first; the old version is in a file next to it."
        : `The file grew by ${formatMany(grown, "byte")}.`,
    ],
  );
  await session.undo();
}

async function showSummary(stage: DemoStage, session: Session, place: DemoPlace): Promise<void> {
  const without = session.contextAt(place.id);
  const arrival = await interruptible(stage.shell, "The summary", (act) =>
    session.navigate(place.id, { summarize: true, ...act }),
  );
  const { context } = session;
  const entry = arrival.summaryEntryId === null ? undefined : session.getEntry(arrival.summaryEntryId);
  const summary = entry && branchSummary.is(entry) ? entry.summary : "";
  await stage.show(
    "Go there again, with a summary of the abandoned branch",
    "The summary tells the model what was learned on that branch, so no work is repeated.",
    { summaryEntryId: arrival.summaryEntryId, without: sizeOf(without), with: sizeOf(context), summary },
    [
      ...sideBySide(stage, ["without a summary", without], ["with a summary", context]),
      "",
      ...beginningOf(summary, stage.columns),
    ],
  );
}

/** Largest number of entries whose steps are verified. The cost of one step grows with the length of the path. */
const VERIFIED = 2_000;

async function showFork(stage: DemoStage, session: Session, place: DemoPlace, out?: string): Promise<void> {
  const fork = await session.fork(place.id, out === undefined ? {} : { out });
  const copy = await openSession({ file: fork.file }, { mode: "read", store: session.store });
  try {
    await copy.load();
    const verify = copy.tree.length <= VERIFIED;
    const tokens: number[] = [];
    let differing = 0;
    for (const step of copy.replay({ verify })) {
      if (step.verified === false) differing++;
      tokens.push(step.contextTokens);
    }
    const verified = verify ? differing === 0 : null;
    const proof = `${verified ? "each equal to" : "some differ from"} a context built from scratch`;
    const unproven = "too many to verify here; `espalier replay --verify` verifies each";
    await stage.show(
      "Fork there, and replay the fork",
      "A fork is a separate file. Its replay shows how the context grew.",
      { file: fork.file, id: fork.id, leafId: fork.leafId, steps: tokens.length, verified },
      [
        `the fork    ${fork.file}`,
        `its size    ${formatMany(bytesOf(copy), "byte")} (its parent: ${formatCount(bytesOf(session))})`,
        `the context ${sparkline(tokens, Math.min(60, stage.columns - 40))}  ${formatCount(tokens.at(-1) ?? 0)} tokens`,
        `replayed    ${formatMany(tokens.length, "step")}, ${verified === null ? unproven : proof}`,
      ],
    );
  } finally {
    await copy.close();
  }
}

async function showCompaction(stage: DemoStage, session: Session): Promise<void> {
  // Undoes the navigation, so that the session is where it was at the start.
  await session.undo();
  const before = session.context;
  const keepRecentTokens = Math.min(20_000, Math.floor(before.tokens / 3));
  const result = await interruptible(stage.shell, "The compaction", (act) =>
    session.compact({ settings: { keepRecentTokens }, ...act }).catch(notWorthIt),
  );
  const title = "Compact it";
  const notice = "A summary replaces the older part in the context. The older part stays in the file.";
  if (!result.eligible)
    return stage.show(title, notice, { eligible: false, reason: result.reason }, [result.reason]);
  const { entryId, summary, source, firstKeptEntryId } = result;
  await stage.show(
    title,
    notice,
    { entryId, firstKeptEntryId, source, before: sizeOf(before), after: sizeOf(session.context), summary },
    [
      ...sideBySide(stage, ["before", before], [`after (summary by ${source})`, session.context]),
      "",
      ...beginningOf(summary, stage.columns),
    ],
  );
}

/** Returns the reason why a short session was not compacted; the demo shows this reason. */
function notWorthIt(error: unknown): NothingToCompact {
  if (error instanceof EspalierError && error.code === "no-smaller")
    return { eligible: false, reason: error.message };
  throw error;
}

/** Size in bytes of a session whose tree is loaded. */
const bytesOf = ({ tree }: Session): number => tree.view.size;

function beginningOf(summary: string, columns: number): string[] {
  const lines = allLines({ role: "branchSummary", summary, fromId: "", timestamp: 0 }).filter(isWritten);
  const shown = lines.slice(0, SUMMARY_LINES).map((line) => cutToColumns(line, columns - 3));
  const left = lines.length - shown.length;
  return [...shown, ...(left > 0 ? [`… ${formatMany(left, "more line")}`] : [])].map((line) => `  ${line}`);
}

/** Target of the demo: an entry, and its label. */
interface DemoPlace {
  id: string;
  /** Label of the entry; undefined when the session has no suitable label. */
  label: string | undefined;
}

/**
 * Returns the entry to navigate to: the first labelled entry on the leaf's path before the leaf. Without a label it is
 * the end of a turn in the middle of the path. Undefined when the path has no earlier entry.
 */
function demoPlace({ tree, leafId }: Session): DemoPlace | undefined {
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

/** Pause in milliseconds after each step on a terminal. */
const PAUSE = 1_200;

/** Output of the demo's steps. */
interface DemoStage {
  readonly shell: Shell;
  /** Width of the output in columns. */
  readonly columns: number;
  /** Shows a step: its title, one sentence for newcomers, facts for programs, lines for people. */
  show(title: string, notice: string, facts: object, lines: Iterable<string>): Promise<void>;
}

/** Width in columns when stdout is not a terminal. */
const PAGE = 100;

function openStage(shell: Shell): DemoStage {
  const { colours, output, json } = shell;
  const isTerminal = Number.isFinite(shell.columns);
  const columns = isTerminal ? shell.columns : PAGE;
  let step = 0;
  return {
    shell,
    columns,
    async show(title, notice, facts, lines) {
      step++;
      if (json) return output.writeLine(jsonLine({ step, title, ...facts }));
      if (step > 1 && isTerminal) await setTimeout(PAUSE);
      await printLine(shell, `\n${colours.bold(colours.cyan(`${step}. ${title}`))}`);
      await printLine(shell, `   ${colours.italic(notice)}\n`);
      await printLines(shell, lines);
      await output.flush();
    },
  };
}

/** A drawing with fewer lines also shows prompts of the user. */
const SPARSE = 16;

/** Maximum number of lines of a drawing. */
const SCREEN = 40;

/**
 * Draws a session's tree on one screen: labels, summaries, forks and branch ends; the rest is folded. An almost empty
 * drawing, as of a session without branches, also shows some prompts of the user.
 */
function screenfulTree(session: Session, colours: Colours, width: number): string[] {
  const draw = (standsOut: (entry: Entry) => boolean) => [
    ...treeLines(session, colours, { fold: 1, standsOut, width }),
  ];
  let lines = draw(isSummary);
  const room = SPARSE - lines.length;
  if (room > 0) {
    const users = [...rowsOf(session.tree, "message")].flatMap(([, entry]) =>
      isMessage(entry, "user") ? [entry.id] : [],
    );
    const stride = Math.max(1, Math.ceil(users.length / room));
    const said = new Set(users.filter((_, at) => at % stride === 0));
    lines = draw((entry) => isSummary(entry) || said.has(entry.id));
  }
  const left = lines.length - SCREEN;
  return left > 0 ? [...lines.slice(0, SCREEN), `… ${left} more lines`] : lines;
}

const isSummary = (entry: Entry): boolean => compaction.is(entry) || branchSummary.is(entry);

const GAP = " │ ";

/** Maximum width in columns of two contexts side by side. */
const WIDEST = 140;

/** Two contexts side by side, each under its title. */
function* sideBySide(
  { columns }: DemoStage,
  ...pair: readonly [[title: string, context: SessionContext], [title: string, context: SessionContext]]
): Generator<string> {
  const width = Math.max(16, Math.floor((Math.min(columns - 1, WIDEST) - GAP.length) / 2));
  const [left, right] = pair.map(([title, context]) => [title, ...contextOutline(context, width)]);
  const row = (at: number) =>
    `${padToColumns(cutToColumns(left![at] ?? "", width), width)}${GAP}${cutToColumns(right![at] ?? "", width)}`.trimEnd();
  yield row(0);
  yield `${"─".repeat(width)}─┼─${"─".repeat(width)}`;
  for (let at = 1; at < Math.max(left!.length, right!.length); at++) yield row(at);
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
  const left = messages.length - 2 * ENDS;
  const ends = [
    ...outline(messages.slice(0, ENDS)),
    `… ${formatMany(left, "more message")}`,
    ...outline(messages.slice(-ENDS)),
  ];
  return [
    `${formatMany(messages.length, "message")}, ${formatMany(tokens, "token")}`,
    ...(left > 1 ? ends : outline(messages)),
  ];
}

/** Short role names for a narrow column. */
const ROLES: Record<string, string> = {
  compactionSummary: "summary",
  branchSummary: "branch",
  toolResult: "result",
  bashExecution: "shell",
};

const BARS = "▁▂▃▄▅▆▇█";

/** Draws numbers as a row of at most `width` bars. */
function sparkline(numbers: readonly number[], width: number): string {
  const count = Math.max(1, Math.min(numbers.length, width));
  const most = numbers.reduce((larger, number) => Math.max(larger, number), 1);
  const bar = (_: unknown, at: number) => {
    const number = numbers[Math.floor(((at + 1) * numbers.length) / count) - 1] ?? 0;
    return BARS[Math.min(BARS.length - 1, Math.floor((number / most) * BARS.length))];
  };
  return Array.from({ length: count }, bar).join("");
}
