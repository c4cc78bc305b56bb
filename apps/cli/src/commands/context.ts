import type { Session } from "@espalier/engine";
import { addBill, archivedRows, type HistoryHit, historyOf, nothingBilled } from "@espalier/engine/reading";
import { nativeFormats } from "@espalier/interop";
import { jsonText } from "@espalier/jsonl-stream";
import {
  buildRequest,
  type ContextMessage,
  DAMAGED,
  type Entry,
  entryFields,
  estimateTokens,
  isBookkeeping,
  isFailedAnswer,
  isOnPath,
  isRecord,
  message,
  type SessionContext,
  type StoredMessage,
  spokenRow,
  type Usage,
} from "@espalier/session-tree";
import { sessionCommand } from "../command.ts";
import { allLines, firstLines } from "../entry-preview.ts";
import { entryName, entryNamed, existingEntry } from "../entry-reference.ts";
import { CommandError } from "../failure.ts";
import { formatBill, formatCount, formatMany, formatTime, isUnpriced, parseCount } from "../numbers.ts";
import { given } from "../options.ts";
import {
  type Colours,
  jsonLine,
  type Look,
  pick,
  printJson,
  printLines,
  printWrapped,
  type Shell,
} from "../shell.ts";
import { aroundMatch, fieldText, plainLine, plainText } from "../text.ts";

const NEUTRAL = "neutral";

export const context = sessionCommand({
  usage: "context <session>",
  description: "show the context that the model reads, at the leaf or at another entry",
  options: [
    ["--at <id>", "show the context at this entry instead of the leaf"],
    [
      "--format <format>",
      "print the request for a provider, as JSON",
      [NEUTRAL, ...(Object.keys(nativeFormats) as (keyof typeof nativeFormats)[])],
      { default: NEUTRAL },
    ],
    ["--all", "show bookkeeping messages too; by default they are only counted (JSON has them all)"],
  ],
  examples: [
    "espalier context session.jsonl",
    "espalier context session.jsonl --at before-cache",
    "espalier context session.jsonl --format anthropic > request.json",
  ],
  use: "read",
  // The text for people counts the entries behind a compaction, which needs the whole tree.
  isContextEnough: ({ at, format }, shell) => at === undefined && (shell.json || format !== NEUTRAL),
  async run({ session, shell, options: { at, format, all = false } }) {
    const named = at === undefined ? session.leafId : entryNamed(session, at);
    const context = at === undefined ? await session.contextToSend() : session.contextAt(named);
    if (format !== NEUTRAL) {
      await printJson(shell, buildRequest<object>(context, { format: nativeFormats[format] }));
      return undefined;
    }
    const leafId = at === undefined ? named : session.placeOf(named);
    return {
      value: { leafId, ...pick(context, "tokens", "messages", "sources", "model", "thinkingLevel") },
      lines: viewContext(session, leafId, context, shell, { all }),
    };
  },
});

/** Maximum number of lines per message. */
const SHOWN = 3;
const INDENT = "  ";

interface ViewContextOptions {
  /** False: bookkeeping messages are counted, not shown. Default true. */
  all?: boolean;
  /** Tokens of the next request, as its agent counts them. Default: an estimate for the messages only. */
  tokens?: number;
}

/** Draws a context for people: totals, entries that a compaction replaced, then each message with its entry. */
export function* viewContext(
  session: Session,
  leafId: string | null,
  context: SessionContext,
  { colours, columns }: Look,
  { all = true, tokens }: ViewContextOptions,
): Generator<string> {
  yield colours.bold(contextHeading(leafId, context, tokens));
  const hidden = hiddenBy(session, leafId, context);
  if (hidden) yield colours.magenta(hidden);
  const folded = { messages: 0, tokens: 0 };
  for (const [at, message] of context.messages.entries()) {
    const entry = session.getEntry(context.sources[at] ?? "");
    if (!all && entry && isBookkeeping(entry)) {
      folded.messages++;
      folded.tokens += estimateTokens(message);
      continue;
    }
    yield* foldedLines(folded, colours);
    yield "";
    const size = colours.dim(
      `${plainLine(context.sources[at] ?? "")} · ${formatMany(estimateTokens(message), "token")}${noteOf(message)}`,
    );
    yield `${colours.cyan(plainLine(message.role))} ${size}`;
    for (const line of firstLines(message, SHOWN, columns - INDENT.length)) yield `${INDENT}${line}`;
  }
  yield* foldedLines(folded, colours);
}

/** Draws a run of bookkeeping messages as one line, and resets the count. */
function* foldedLines(folded: { messages: number; tokens: number }, colours: Colours): Generator<string> {
  const { messages, tokens } = folded;
  Object.assign(folded, { messages: 0, tokens: 0 });
  if (messages === 0) return;
  const size = `${formatMany(messages, "message")} of bookkeeping, ${formatMany(tokens, "token")}`;
  yield "";
  yield colours.dim(`… ${size}; --all shows ${messages === 1 ? "it" : "them"}`);
}

/** Totals of a context, as one line. */
function contextHeading(
  leafId: string | null,
  { messages, tokens, model, thinkingLevel }: SessionContext,
  requestTokens: number | undefined,
): string {
  const place = leafId === null ? "before the first entry" : `at ${leafId}`;
  const reader = model ? ` · ${plainLine(model.modelId)}` : "";
  const thinking = thinkingLevel === "off" ? "" : ` · thinking ${plainLine(thinkingLevel)}`;
  const size =
    requestTokens === undefined
      ? formatMany(tokens, "token")
      : `${formatMany(requestTokens, "token")} with system prompt and tools`;
  return `What the model reads ${plainLine(place)}: ${formatMany(messages.length, "message")}, ${size}${reader}${thinking}`;
}

/** Counts the entries that a compaction hides from the model, as one line; undefined without a compaction. */
export function hiddenBy({ tree }: Pick<Session, "tree">, leafId: string | null, context: SessionContext) {
  if (!context.messages.some(({ role }) => role === "compactionSummary")) return undefined;
  const { compactionRow, count } = archivedRows({ tree, leafId });
  if (compactionRow < 0) return undefined;
  const stands =
    count === 1
      ? "1 older entry of this path that is"
      : `${formatCount(count)} older entries of this path that are`;
  return `The compaction ${plainLine(tree.idAt(compactionRow))} replaces ${stands} still in the file.`;
}

function noteOf(message: ContextMessage): string {
  if (isFailedAnswer(message))
    return ` · ${(message as { stopReason: string }).stopReason}, left out of requests`;
  if (message.role === "bashExecution" && message.excludeFromContext) return " · kept from the model";
  return "";
}

export const show = sessionCommand({
  usage: "show <session> [id]",
  description: "show one whole entry, by default the last message; with --json its line as it is on disk",
  options: [["--all", "show the agent's reminders inside messages too; by default they are folded"]],
  examples: [
    "espalier show session.jsonl",
    "espalier show session.jsonl before-cache",
    "espalier show session.jsonl vPdD --json | jq .message.usage",
  ],
  use: "read",
  async run({ session, shell, ref, options }, reference) {
    const { tree } = session;
    const row = reference === undefined ? lastSaidRow(session) : tree.row(existingEntry(session, reference));
    const id = tree.idAt(row);
    const entry = tree.entryAt(row);
    if (entry.type === DAMAGED)
      throw new CommandError(
        "damaged",
        `The line of ${id} is no longer readable; \`espalier doctor ${ref}\` shows its position.`,
      );
    if (shell.json) await shell.output.writeBytes(tree.bytesAt(row));
    else await printLines(shell, viewEntry(session, entry, shell, options.all));
  },
});

/** Returns the row of the last message on the leaf's path. @throws CommandError `not-found` if there is none */
function lastSaidRow({ tree, leafId, file }: Session): number {
  const row = leafId === null ? -1 : spokenRow(tree, tree.row(leafId));
  if (row >= 0) return row;
  throw new CommandError(
    "not-found",
    `${file} has no messages yet; \`espalier tree ${file}\` shows its entries.`,
  );
}

/**
 * Draws an entry for people: kind and id; label, time, parent and place; for a message, its tokens, model and cost;
 * then its content. Reminders of the agent in a message are folded unless `all` is true.
 */
function* viewEntry(session: Session, entry: Entry, { colours }: Pick<Shell, "colours">, all = false) {
  const said = message.is(entry) ? entry.message : undefined;
  const kind = said ? `${entry.type} · ${said.role}` : entry.type;
  yield colours.bold(plainLine(`${kind} · ${entry.id}`));
  yield colours.dim(plainLine(placeOf(session, entry).join(" · ")));
  if (said) {
    const facts = factsOf(said);
    if (facts.length > 0) yield colours.dim(plainLine(facts.join(" · ")));
  }
  yield "";
  if (!said) yield* fieldLines(entry);
  else yield* all || isBookkeeping(entry) ? allLines(said) : withoutReminders(allLines(said), colours);
}

/** Replaces each reminder of the agent in a message with one line. */
function* withoutReminders(lines: readonly string[], colours: Colours): Generator<string> {
  let hidden: string[] = [];
  for (const line of lines) {
    if (hidden.length === 0 && !line.startsWith(REMINDER.start)) {
      yield line;
      continue;
    }
    hidden.push(line);
    if (!line.endsWith(REMINDER.end)) continue;
    yield colours.dim(`(a reminder of the agent, ${formatMany(hidden.length, "line")}; --all shows it)`);
    hidden = [];
  }
  yield* hidden;
}

const REMINDER = { start: "<system-reminder>", end: "</system-reminder>" };

function placeOf(session: Session, { id, timestamp }: Entry): string[] {
  const { tree, leafId } = session;
  const row = tree.row(id);
  const parentId = tree.parentIdAt(row);
  const label = session.getLabel(id);
  const onPath = leafId !== null && isOnPath(tree, row, tree.row(leafId));
  return [
    ...(label === undefined ? [] : [`[${label}]`]),
    formatTime(timestamp),
    parentId === null ? "a root" : `under ${parentId}`,
    id === leafId ? "the leaf" : onPath ? "on the path of the leaf" : "on another branch",
  ].filter((fact) => fact !== "");
}

function factsOf(said: StoredMessage): string[] {
  const facts = [formatMany(estimateTokens(said), "token")];
  if (said.role === "assistant") {
    const { model, stopReason, errorMessage } = said;
    facts.push(`${fieldText(model) || "no model"}, ended by ${fieldText(stopReason) || "nothing"}`);
    if (errorMessage) facts.push(fieldText(errorMessage));
    const bill = nothingBilled();
    if (isRecord(said.usage)) addBill(bill, said.usage as unknown as Usage, said);
    const { calls, input, output } = bill;
    if (calls > 0) facts.push(`${input} in, ${output} out${isUnpriced(bill) ? "" : `, ${formatBill(bill)}`}`);
  }
  if (said.role === "toolResult")
    facts.push(`${fieldText(said.toolName)}${said.isError ? ", an error" : ""}`);
  return facts;
}

/** Lists the fields of an entry that is not a message; strings are printed without quotes. */
function* fieldLines(entry: Entry): Generator<string> {
  for (const [key, value] of Object.entries(entryFields(entry))) {
    if (typeof value === "string" && value.includes("\n")) {
      yield `${key}:`;
      for (const line of plainText(value).split("\n")) yield `  ${line}`;
    } else yield plainText(`${key}: ${typeof value === "string" ? value : jsonText(value, 2)}`);
  }
}

export const history = sessionCommand({
  usage: "history <session> <query>",
  description: "search the original messages, including those that a summary replaces in the context",
  options: [["--limit <count>", "show at most this many, the newest", parseCount]],
  notes: `A message matches if it contains all words of the query, in any case and order. Messages that a compaction covers and
messages of other branches are searched too, and marked. The tool query_history gives a model the same search.`,
  examples: [
    'espalier history session.jsonl "cache key"',
    "espalier history session.jsonl etag --limit 3 --json | jq -r .text",
  ],
  use: "read",
  async run({ session, shell, options: { limit } }, query) {
    const hits = historyOf(session, { query, ...given({ limit }) });
    if (!shell.json) return printWrapped(shell, viewHistory(session, hits, query, shell));
    for (const hit of hits)
      await shell.output.writeLine(jsonLine(pick(hit, "entryId", "text", "covered", "onPath")));
  },
});

/** Maximum number of lines of a found message, and of columns of a line. */
const FOUND_LINES = 6;
const LINE_LENGTH = 200;

/**
 * Draws original messages for people: role, id, time, marks for covered messages and other branches, and their first
 * lines. If the line with the most words of the query is not among these, the lines around it are drawn instead.
 */
function* viewHistory(
  { tree }: Session,
  hits: readonly HistoryHit[],
  query: string,
  { colours }: Pick<Shell, "colours">,
): Generator<string> {
  if (hits.length === 0) yield "No message matches.";
  const words = query.toLowerCase().split(/\s+/).filter(Boolean);
  const wordsIn = (line: string) => words.filter((word) => line.toLowerCase().includes(word));
  for (const [at, { entryId, role, text, timestamp, covered, onPath }] of hits.entries()) {
    if (at > 0) yield "";
    const facts = [
      entryName(tree, entryId),
      formatTime(timestamp),
      covered ? "covered by a summary" : "",
      onPath ? "" : "on another branch",
    ].filter((fact) => fact !== "");
    yield `${colours.cyan(plainLine(role))} ${colours.dim(plainLine(facts.join(" · ")))}`;
    const lines = plainText(text)
      .replace(/^(?:[ \t]*\n)+/, "")
      .split("\n");
    const found = lines.map((line) => wordsIn(line).length);
    const best = found.indexOf(found.reduce((most, count) => Math.max(most, count), 0));
    const from = best < FOUND_LINES ? 0 : best - 1;
    if (from > 0) yield colours.dim(`  … ${formatMany(from, "line")} before`);
    for (const line of lines.slice(from, from + FOUND_LINES))
      yield `  ${aroundMatch(line, wordsIn(line)[0] ?? "", LINE_LENGTH)}`;
    const after = lines.length - from - FOUND_LINES;
    if (after > 0) yield colours.dim(`  … ${formatMany(after, "more line")}`);
  }
}
