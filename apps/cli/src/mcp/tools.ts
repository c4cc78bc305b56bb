// Separate from server.ts: the tools know no protocol.
import { type Rule, rulesOn } from "@espalier/compaction";
import {
  type ListedSession,
  lastTimeOf,
  type OriginalEntry,
  quotedData,
  readEntries,
  recall,
  resolveSettings,
  type SearchHit,
} from "@espalier/engine";
import { type BranchSide, compareBranches, statsOf } from "@espalier/engine/reading";
import { agentNames, otherAgents } from "@espalier/interop";
import { EspalierError } from "@espalier/jsonl-stream";
import {
  buildSessionContext,
  CHARS_PER_TOKEN,
  drawTreeLines,
  isBookkeepingAt,
  isOnPath,
  pathOf,
  tipRows,
  titleOf,
} from "@espalier/session-tree";
import { escapeText } from "@espalier/summarizer";
import { z } from "zod";
import { describeEntry } from "../commands/tree.ts";
import { previewEntry } from "../entry-preview.ts";
import { entryNamed, existingEntry } from "../entry-reference.ts";
import { formatBill, formatCount, formatMany, formatPrice, formatTime } from "../numbers.ts";
import { given } from "../options.ts";
import { cutLine, plainLine, titleOf as titleOfListed } from "../text.ts";
import type { HostSessions, ReadSession, RequestMeta } from "./server.ts";

interface ToolCall {
  sessions: HostSessions;
  meta: RequestMeta;
  signal: AbortSignal;
}

/** A tool as data, with the function that answers a call. */
export interface McpTool<Input extends z.ZodType = z.ZodType> {
  name: string;
  title: string;
  description: string;
  input: Input;
  /** True for a tool that writes. Default: false, the tool only reads. */
  writes?: boolean;
  /** @throws CommandError, EspalierError: one sentence for the model */
  run(input: z.infer<Input>, call: ToolCall): Promise<string>;
}

const tool = <Input extends z.ZodType>(shape: McpTool<Input>): McpTool => shape as unknown as McpTool;

/** A tool that reads one session and answers with its texts. */
const sessionTool = <Input extends z.ZodType<{ session?: string | undefined; max_tokens?: number }>>({
  run,
  between,
  ...shape
}: Omit<McpTool<Input>, "run" | "writes"> & {
  /** Separator of the texts in the answer. Default: an empty line. */
  between?: string;
  run(input: z.infer<Input>, read: ReadSession, answer: Answer): string | Promise<string>;
}): McpTool =>
  tool({
    ...shape,
    run: (input, { sessions, meta }) =>
      sessions.read(input.session, meta, (read) =>
        run(input, read, new Answer(input.max_tokens ?? 1_000, read, between)),
      ),
  });

const session = z
  .string()
  .min(1)
  .max(200)
  .optional()
  .describe(
    "Id of a session, or its beginning. Default: the session that asks, else the newest of this project.",
  );
const maxTokens = (least: number) =>
  z.int().min(200).max(10_000).default(least).describe("Maximum length of the answer, in estimated tokens.");
const query = z.string().trim().min(1).max(500);
const cursor = z
  .string()
  .max(60)
  .optional()
  .describe("Cursor at the end of an earlier answer, which this call continues.");
const entry = z.string().min(1).max(200).describe("An entry: its id, the beginning of its id, or its label.");

/** Maximum number of hits per session in a search over all sessions. */
const HITS_A_SESSION = 3;

const search = tool({
  name: "search_sessions",
  title: "Search all sessions",
  description: `Finds entries by words in all recorded sessions of this machine (${[...otherAgents.map(({ title }) => title), "Espalier"].join(", ")}), those of this project first, the newest first. All words must be in one entry, in any order. A hit names its session and its entry; read_entries reads the whole entry.`,
  input: z.strictObject({
    query: query.describe("Words that must all be in an entry; case does not matter."),
    session: session.describe("Only this session: its id, or the beginning of its id."),
    agent: z.enum(agentNames).optional().describe("Only sessions of this agent."),
    cursor,
    max_tokens: maxTokens(1_000),
  }),
  async run({ query, session, agent, cursor, max_tokens }, { sessions, meta, signal }) {
    const [start] = numbersIn(cursor, 0);
    if (session !== undefined) {
      const listed = await sessions.list({ subAgents: true });
      const one = await sessions.read(session, meta, ({ ref }) => listed.find((each) => each.ref === ref));
      // One more than an answer lists, to see whether more follow.
      const hits = one ? await sessions.search(query, one, { limit: start + MOST_HITS + 1, signal }) : [];
      const answer = new Answer(max_tokens, undefined, "\n");
      if (!one || hits.length <= start)
        return start > 0
          ? "No more entries match."
          : "This session has no entry with all these words; try fewer or other words.";
      const lines = hits.slice(start, start + MOST_HITS).map(viewHit);
      // In one part, so that even a small answer gets beyond its cursor.
      lines[0] = `${headingOf(one, sessions)}\n${lines[0]}`;
      const end = start + answer.addAll(lines);
      const more =
        end < hits.length ? `More entries match: search_sessions with this session and cursor "${end}".` : "";
      return answer.end("Found in this session:", more);
    }
    const listed = await sessions.list();
    const chosen = listed.filter((each) => agent === undefined || each.agent === agent);
    const answer = new Answer(max_tokens);
    let at = start;
    for (; at < chosen.length; at++) {
      const hits = await sessions.search(query, chosen[at]!, { limit: HITS_A_SESSION + 1, signal });
      if (hits.length > 0 && !answer.add(viewHits(chosen[at]!, hits, sessions))) break;
    }
    if (answer.isEmpty)
      return start > 0
        ? "No more sessions have an entry with all these words."
        : "No session has an entry with all these words; try fewer or other words.";
    const more = at < chosen.length ? `More sessions follow: search_sessions with cursor "${at}".` : "";
    return answer.end(`Found in these sessions, of ${formatCount(chosen.length)}:`, more);
  },
});

/** Maximum number of hits of one session in an answer. */
const MOST_HITS = 200;

function headingOf(session: ListedSession, sessions: HostSessions): string {
  const where = sessions.isOfProject(session) ? "this project" : plainLine(session.cwd);
  return `session ${plainLine(session.id)} · ${session.agent} · ${where} · ${formatTime(lastTimeOf(session))} · ${cutLine(titleOfListed(session), 80)}`;
}

function viewHit({ entryId, role, snippet, onPath }: SearchHit): string {
  const mark = onPath ? "" : " (abandoned branch)";
  return `  [${plainLine(entryId)}] ${plainLine(role)}${mark}: ${plainLine(snippet)}`;
}

function viewHits(session: ListedSession, hits: readonly SearchHit[], sessions: HostSessions): string {
  const lines = hits.slice(0, HITS_A_SESSION).map(viewHit);
  if (hits.length > HITS_A_SESSION)
    lines.push("  … more in this session: name it in `session` to see them all");
  return [headingOf(session, sessions), ...lines].join("\n");
}

const recallTool = sessionTool({
  name: "recall",
  title: "Recall what compactions took away",
  description:
    "Finds entries of this session that the model no longer reads: those that a compaction replaced by a summary, and those of abandoned branches. Give a few exact words: names, paths, parts of commands or errors. The best matches come first, with the text around the words.",
  input: z.strictObject({
    query: query.describe("Words to look for; the more and rarer ones an entry has, the better."),
    session,
    cursor,
    max_tokens: maxTokens(1_000),
  }),
  async run({ query, cursor, max_tokens }, read, answer) {
    const [skip] = numbersIn(cursor, 0);
    const found = await recall(read, query, {
      skip,
      limit: RECALLED,
      characters: Math.min(900, max_tokens * 2),
    });
    const count = answer.addAll(found.entries.map(viewEntry));
    if (answer.isEmpty)
      return answer.alone(
        skip > 0
          ? "No more entries match."
          : `Nothing that left the context of session ${read.id} has one of these words; search_sessions looks in all sessions and in what is still read.`,
      );
    const hasMore = found.hasMore || count < found.entries.length;
    const more = hasMore ? `More entries match: recall with cursor "${skip + count}". ` : "";
    return answer.end("Best matches first:", `${more}read_entries reads a whole entry, and those around it.`);
  },
});

/** Maximum number of entries in an answer of `recall`. */
const RECALLED = 6;

const read = sessionTool({
  name: "read_entries",
  title: "Read entries",
  description:
    "Reads original entries of a session in order, with their whole text, including entries that a compaction removed from the context and entries of abandoned branches. Without `from`, reads the newest ones.",
  input: z.strictObject({
    from: entry.optional().describe("First entry: its id, the beginning of its id, or its label."),
    to: entry.optional().describe("Last entry; default: the end of the branch."),
    session,
    cursor,
    max_tokens: maxTokens(2_000),
  }),
  run({ from, to, cursor }, read, answer) {
    const range = given({
      from: from === undefined ? undefined : existingEntry(read, from),
      to: to === undefined ? undefined : existingEntry(read, to),
      cursor: cursor === undefined ? undefined : cursorIn(cursor, read),
    });
    // The heading and escapes make a text longer. Characters that are cut here are not in a later answer.
    let characters = answer.room;
    let { entries, next } = readEntries(read, { ...range, characters });
    for (let over = answer.overflow(entries); over > 1; over = answer.overflow(entries)) {
      characters = Math.max(1, Math.floor((characters / over) * 0.95));
      ({ entries, next } = readEntries(read, { ...range, characters }));
    }
    if (entries.length === 0) return answer.alone("No entry in this range has text.");
    const left = entries[answer.addAll(entries.map(viewEntry))];
    const place = left ? { row: left.row, offset: 0, to: next?.to ?? entries.at(-1)!.row } : next;
    const more = place
      ? `More follows: read_entries with cursor "${place.row}.${place.offset}.${place.to}".`
      : "";
    return answer.end("Original entries, oldest first:", more);
  },
});

function cursorIn(cursor: string, { tree }: ReadSession) {
  const [row, offset, to] = numbersIn(cursor, 0, 0, 0) as [number, number, number];
  if (row >= tree.length || to >= tree.length) throw badCursor();
  return { row, offset, to };
}

/** Tag of an entry's place; entries in the context, which the model reads anyway, have none. */
const TAG = { context: "", hidden: " (hidden)", compacted: " (compacted)", abandoned: " (abandoned branch)" };

const viewEntry = ({ entryId, role, timestamp, place, text }: OriginalEntry): string =>
  `[${nameOf(entryId)}] ${nameOf(role)}, ${nameOf(formatTime(timestamp))}${TAG[place]}\n${text}`;

/** Shortens an id or a role for a heading, since other programs may write very long ones. */
const nameOf = (name: string): string => cutLine(plainLine(name), 100);

const tree = sessionTool({
  name: "tree",
  title: "Draw the tree of a session",
  description:
    "Draws a session as a tree: the path without indentation, down to the *, is the current one; indented branches are abandoned. Shows prompts, compactions, labels and entry ids; runs of other entries are folded.",
  input: z.strictObject({ session, cursor, max_tokens: maxTokens(1_500) }),
  between: "\n",
  run({ cursor }, read, answer) {
    const [start, detail = -1] = numbersIn(cursor, 0, -1);
    const withPrompts = detail < 0 ? fitsWithPrompts(read, answer.room) : detail === 1;
    // A drawing of a long session is cut off at the first line that does not fit.
    let [at, isCut] = [0, false];
    for (const line of treeLines(read, withPrompts)) {
      isCut = at >= start && !answer.add(line);
      if (isCut) break;
      at++;
    }
    if (answer.isEmpty) return answer.alone("The session has no entries.");
    const more = isCut ? `More lines follow: tree with cursor "${at}.${withPrompts ? 1 : 0}".` : "";
    const folded = withPrompts ? "" : " Prompts are folded too: read_entries reads them.";
    const { length } = tipRows(read.tree);
    const facts = `${formatMany(read.tree.length, "entry", "entries")}, ${formatMany(length, "branch", "branches")}.`;
    return answer.end(`${facts}${folded}`, more);
  },
});

/** Returns whether a drawing with all prompts fits. Draws no line after the first one that does not fit. */
function fitsWithPrompts(read: ReadSession, room: number): boolean {
  let left = room;
  for (const line of treeLines(read, true)) {
    left -= line.length + 1;
    if (left < 0) return false;
  }
  return true;
}

/** Lines of a drawing without bookkeeping of agents. */
const treeLines = (read: ReadSession, withPrompts: boolean): Iterable<string> =>
  drawTreeLines(read, {
    describe: (entry) => describeEntry(read.tree, entry),
    width: 120,
    fold: withPrompts ? 2 : 0,
    leaveOut: isBookkeepingAt,
    foldPrompts: !withPrompts,
  });

const diff = sessionTool({
  name: "diff_branches",
  title: "Compare two branches",
  description:
    "Compares two branches of a session from their last common entry: entries, messages, tokens, cost, files, and what was said on each.",
  input: z.strictObject({
    a: entry.describe("An entry of the one branch: its id, the beginning of it, its label, or `leaf`."),
    b: entry.describe("An entry of the other branch, in the same forms."),
    session,
    max_tokens: maxTokens(1_500),
  }),
  between: "\n",
  run({ a, b }, read, answer) {
    const compared = compareBranches(read.tree, entryNamed(read, a), entryNamed(read, b));
    answer.add(`last common entry: ${compared.commonAncestorId ?? "none"}`);
    const half = Math.floor(answer.room / 2);
    for (const side of [compared.a, compared.b]) addSide(answer, read, side, half);
    return answer.end("Two branches:", "read_entries with from and to reads a branch in full.");
  },
});

function addSide(answer: Answer, read: ReadSession, side: BranchSide, room: number): void {
  const { tree } = read;
  const { leafId, entryIds, messages, tokens, files } = side;
  const facts = [
    formatMany(entryIds.length, "entry", "entries"),
    formatMany(messages, "message"),
    formatMany(tokens, "token"),
    `cost ${formatPrice(side)}`,
  ];
  const isCurrent =
    leafId !== null && read.leafId !== null && isOnPath(tree, tree.row(leafId), tree.row(read.leafId));
  answer.add(`branch of ${leafId ?? "start"}${isCurrent ? "" : " (abandoned branch)"}: ${facts.join(", ")}`);
  if (files.length > 0) answer.add(cutLine(`  files: ${files.map(plainLine).join(", ")}`, 400));
  let used = 0;
  for (const [at, id] of entryIds.entries()) {
    const line = `  [${plainLine(id)}] ${cutLine(previewEntry(tree.entryAt(tree.row(id))) ?? "", 100)}`;
    used += line.length + 1;
    if (used > room || !answer.add(line)) {
      answer.add(`  … ${formatCount(entryIds.length - at)} more`);
      return;
    }
  }
}

const rules = sessionTool({
  name: "rules",
  title: "Rules of the user",
  description:
    'Lists the rules that the user set in a session and that apply at its end ("never push", "always run the tests"), including those from before a compaction.',
  input: z.strictObject({ session, max_tokens: maxTokens(1_000) }),
  between: "\n",
  async run(_, read, answer) {
    const { values } = await resolveSettings();
    const isFinding = values.rules;
    const held: readonly Rule[] =
      read.leafId === null ? [] : rulesOn(pathOf(read.tree, read.leafId), { isFinding });
    // If not all rules fit, the newest ones are listed.
    for (const { text, kind, from } of held.toReversed())
      if (!answer.add(`[${plainLine(from.entryId)}] ${kind}: ${cutLine(plainLine(text), 400)}`)) break;
    if (answer.isEmpty) return answer.alone("No rules of the user hold in this session.");
    return answer.end(`${formatMany(held.length, "rule")} of the user, newest first:`);
  },
});

const stats = sessionTool({
  name: "stats",
  title: "Figures of a session",
  description:
    "Shows the size of a session, the part that the model reads, its compactions, and its cost by model.",
  input: z.strictObject({ session }),
  between: "\n",
  run(_, read, answer) {
    const { tree, leafId } = read;
    const context = buildSessionContext(read, leafId);
    const { total, path, models, compactions } = statsOf(read);
    answer.add(`session ${plainLine(read.id)}: ${cutLine(plainLine(titleOf(tree) ?? ""), 100)}`);
    answer.add(`folder: ${plainLine(tree.header?.cwd ?? "")}`);
    answer.add(`entries: ${formatCount(tree.length)}; branches: ${formatCount(tipRows(tree).length)}`);
    answer.add(
      `the model reads ${formatMany(context.messages.length, "message")}, about ${formatMany(context.tokens, "token")}`,
    );
    answer.add(`cost: ${formatBill(total)}, of that on the current path ${formatBill(path)}`);
    for (const bill of models.slice(0, 5))
      answer.add(
        `  ${plainLine(`${bill.provider}/${bill.model}`)}: ${formatBill(bill)}, ${formatMany(bill.calls, "call")}`,
      );
    answer.add(`compactions: ${formatCount(compactions.length)}`);
    for (const { entryId, timestamp, tokensBefore, onPath } of compactions.slice(-5))
      answer.add(
        `  [${plainLine(entryId)}] ${plainLine(formatTime(timestamp))}, at ${formatMany(tokensBefore, "token")}${onPath ? "" : TAG.abandoned}`,
      );
    return answer.end("Figures:");
  },
});

const label = tool({
  name: "label",
  title: "Label an entry",
  description:
    "Labels an entry of a session, so that people and tools find it again; an empty text removes the label. The only tool that writes: it adds one line to the session's file, and does not change the conversation.",
  writes: true,
  input: z.strictObject({
    entry,
    text: z.string().max(100).describe("The label, one line; empty to remove it."),
    session,
  }),
  async run({ entry, text, session }, { sessions, meta, signal }) {
    return sessions.annotate(session, meta, async (open) => {
      const id = existingEntry(open, entry);
      signal.throwIfAborted();
      await open.label(id, text);
      return text === "" ? "The label is removed." : "The entry is labelled.";
    });
  },
});

/** All tools, in the order of their list. */
export const mcpTools: readonly McpTool[] = [recallTool, search, read, tree, diff, rules, stats, label];

const badCursor = () =>
  new EspalierError("bad-input", "This cursor is of no earlier answer; call the tool again without one.");

/** Parses the whole numbers of a cursor, as many as in the default `first`. @throws EspalierError `bad-input` */
function numbersIn(cursor: string | undefined, ...first: [number, ...number[]]): number[] & { 0: number } {
  if (cursor === undefined) return first;
  if (!new RegExp(`^\\d{1,12}(\\.\\d{1,12}){${first.length - 1}}$`).test(cursor)) throw badCursor();
  return cursor.split(".").map(Number) as [number];
}

/** Tokens of an answer that are not texts of a session. */
const FRAME_TOKENS = 90;

/** An answer of limited size: texts of a session in one data block, outside of it only our sentences and numbers. */
export class Answer {
  readonly #parts: string[] = [];
  readonly #read: ReadSession | undefined;
  readonly #between: string;
  #left: number;
  /** Maximum number of characters of all texts. */
  readonly room: number;

  /** @param between separator of two parts */
  constructor(maxTokens: number, read?: ReadSession, between = "\n\n") {
    this.room = (maxTokens - FRAME_TOKENS) * CHARS_PER_TOKEN;
    this.#left = this.room;
    this.#read = read;
    this.#between = between;
  }

  get isEmpty(): boolean {
    return this.#parts.length === 0;
  }

  /** Length of the first entry divided by `room`; 0 without an entry. */
  overflow([first]: readonly OriginalEntry[]): number {
    return first ? this.#sizeOf(viewEntry(first)) / this.room : 0;
  }

  #sizeOf(text: string): number {
    return escapeText(text).length + this.#between.length;
  }

  /** Adds a text of a session; false if it does not fit. The first text is cut instead. */
  add(text: string): boolean {
    const size = this.#sizeOf(text);
    if (size > this.#left && !this.isEmpty) return false;
    this.#parts.push(size > this.#left ? cutLine(text, Math.floor((this.#left * text.length) / size)) : text);
    this.#left -= size;
    return true;
  }

  /** Adds texts until one does not fit. Returns the number of added texts. */
  addAll(texts: readonly string[]): number {
    const left = texts.findIndex((text) => !this.add(text));
    return left < 0 ? texts.length : left;
  }

  /** Returns the whole answer: the remark on the session, `before`, the texts as quoted data, `after`. */
  end(before: string, after = ""): string {
    const remark = this.#read?.remark;
    return [remark, before, quotedData(this.#parts.join(this.#between)), after]
      .filter((part) => part !== undefined && part !== "")
      .join("\n");
  }

  /** Returns an answer without texts of a session: the remark on the session, and one sentence. */
  alone(sentence: string): string {
    return [this.#read?.remark, sentence].filter((part) => part !== undefined).join("\n");
  }
}
