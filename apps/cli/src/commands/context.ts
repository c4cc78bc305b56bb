import { archivedRows, type Session } from "@espalier/engine";
import { addBill, nothingBilled, type UsageTotals } from "@espalier/engine/reading";
import { nativeFormats } from "@espalier/interop";
import { jsonText } from "@espalier/jsonl-stream";
import {
  type AssistantMessage,
  buildRequest,
  type ContextMessage,
  DAMAGED,
  type Entry,
  entryFields,
  estimateTokens,
  isFailedAnswer,
  isOnPath,
  isRecord,
  message,
  type SessionContext,
  type StoredMessage,
  type Usage,
} from "@espalier/session-tree";
import { Option } from "commander";
import { type SessionCall, sessionCommand } from "../command.ts";
import { allLines, firstLines } from "../entry-preview.ts";
import { entryNamed, existingEntry } from "../entry-reference.ts";
import { CommandError } from "../failure.ts";
import { formatBill, formatCount, formatMany, formatTime, isUnpriced } from "../numbers.ts";
import { printJson, printLines, type Shell } from "../shell.ts";
import { fieldText, plainLine, plainText } from "../text.ts";

const NEUTRAL = "neutral";

interface ContextOptions {
  at?: string;
  format: typeof NEUTRAL | keyof typeof nativeFormats;
}

export const context = sessionCommand({
  usage: "context <session>",
  description: "show the context that the model reads, at the leaf or at another entry",
  options: [
    ["--at <id>", "at this entry instead of the leaf"],
    new Option("--format <format>", "print the request for a provider, as JSON")
      .choices([NEUTRAL, ...Object.keys(nativeFormats)])
      .default(NEUTRAL),
  ],
  examples: [
    "espalier context session.jsonl",
    "espalier context session.jsonl --at before-cache",
    "espalier context session.jsonl --format anthropic > request.json",
  ],
  use: "read",
  // For people the view counts the entries behind a compaction, and only the whole tree has them.
  isContextEnough: ({ at, format }: ContextOptions, shell) =>
    at === undefined && (shell.json || format !== NEUTRAL),
  async run({ session, shell, options: { at, format } }: SessionCall<ContextOptions>) {
    const named = at === undefined ? session.leafId : entryNamed(session, at);
    const context = at === undefined ? await session.contextToSend() : session.contextAt(named);
    if (format !== NEUTRAL) {
      await printJson(shell, buildRequest<object>(context, { format: nativeFormats[format] }));
      return undefined;
    }
    const leafId = at === undefined ? named : session.placeOf(named);
    return { value: contextValue(leafId, context), lines: viewContext(session, leafId, context, shell) };
  },
});

function contextValue(leafId: Session["leafId"], context: SessionContext): object {
  const { tokens, messages, sources, model, thinkingLevel } = context;
  return { leafId, tokens, messages, sources, model, thinkingLevel };
}

/** Lines of a message that are shown. */
const SHOWN = 3;
const INDENT = "  ";

/** A context for people: what it comes to, what a compaction hides, then each message with where it comes from. */
export function* viewContext(
  session: Session,
  leafId: string | null,
  context: SessionContext,
  { colours, columns }: Pick<Shell, "colours" | "columns">,
): Generator<string> {
  yield colours.bold(contextHeading(leafId, context));
  const hidden = hiddenBy(session, leafId, context);
  if (hidden) yield colours.magenta(hidden);
  for (const [at, message] of context.messages.entries()) {
    yield "";
    const tokens = colours.dim(
      `${plainLine(context.sources[at] ?? "")} · ${formatMany(estimateTokens(message), "token")}${noteOf(message)}`,
    );
    yield `${colours.cyan(plainLine(message.role))} ${tokens}`;
    for (const line of firstLines(message, SHOWN, columns - INDENT.length)) yield `${INDENT}${line}`;
  }
}

/** Sums of a context, as one line. */
function contextHeading(
  leafId: string | null,
  { messages, tokens, model, thinkingLevel }: SessionContext,
): string {
  const place = leafId === null ? "before the first entry" : `at ${leafId}`;
  const reader = model ? ` · ${plainLine(model.modelId)}` : "";
  const thinking = thinkingLevel === "off" ? "" : ` · thinking ${plainLine(thinkingLevel)}`;
  return `What the model reads ${plainLine(place)}: ${formatMany(messages.length, "message")}, ${formatMany(tokens, "token")}${reader}${thinking}`;
}

/** Counts the entries that a compaction hides from the model, in one line; undefined without one. */
export function hiddenBy(
  { tree }: Pick<Session, "tree">,
  leafId: string | null,
  context: SessionContext,
): string | undefined {
  if (!context.messages.some(({ role }) => role === "compactionSummary")) return undefined;
  const { compactionRow, count } = archivedRows({ tree, leafId });
  if (compactionRow < 0) return undefined;
  const stands =
    count === 1
      ? "1 older entry of this path that is"
      : `${formatCount(count)} older entries of this path that are`;
  return `The compaction ${plainLine(tree.idAt(compactionRow))} stands for ${stands} still in the file.`;
}

function noteOf(message: ContextMessage): string {
  if (isFailedAnswer(message))
    return ` · ${(message as { stopReason: string }).stopReason}, left out of requests`;
  if (message.role === "bashExecution" && message.excludeFromContext) return " · kept from the model";
  return "";
}

export const show = sessionCommand({
  usage: "show <session> <id>",
  description: "show one whole entry; with --json its line as it is on disk",
  examples: [
    "espalier show session.jsonl before-cache",
    "espalier show session.jsonl vPdD --json | jq .message.usage",
  ],
  use: "read",
  async run({ session, shell, ref }: SessionCall<object>, reference: string) {
    const id = existingEntry(session, reference);
    const { tree } = session;
    const row = tree.row(id);
    const entry = tree.entryAt(row);
    if (entry.type === DAMAGED)
      throw new CommandError(
        "damaged",
        `The line of ${id} cannot be read any more; \`espalier doctor ${ref}\` tells its position.`,
      );
    if (shell.json) await shell.output.writeBytes(tree.bytesAt(row));
    else await printLines(shell, viewEntry(session, entry, shell));
  },
});

/** An entry for people: its kind and parent, then its content. */
function* viewEntry(session: Session, entry: Entry, { colours }: Pick<Shell, "colours">): Generator<string> {
  const said = message.is(entry) ? entry.message : undefined;
  const kind = said ? `${entry.type} · ${said.role}` : entry.type;
  yield colours.bold(plainLine(`${kind} · ${entry.id}`));
  yield colours.dim(plainLine(placeOf(session, entry).join(" · ")));
  if (said) {
    const facts = factsOf(said);
    if (facts.length > 0) yield colours.dim(plainLine(facts.join(" · ")));
  }
  yield "";
  yield* said ? allLines(said) : fieldLines(entry);
}

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
    const bill = billOf(said);
    const { calls, input, output } = bill;
    if (calls > 0) facts.push(`${input} in, ${output} out${isUnpriced(bill) ? "" : `, ${formatBill(bill)}`}`);
  }
  if (said.role === "toolResult")
    facts.push(`${fieldText(said.toolName)}${said.isError ? ", an error" : ""}`);
  return facts;
}

/** The bill of an answer, in numbers alone. */
function billOf({ usage, provider, model }: AssistantMessage): UsageTotals {
  const bill = nothingBilled();
  if (isRecord(usage)) addBill(bill, usage as unknown as Usage, { provider, model });
  return bill;
}

/** The fields of an entry that is no message, texts as text. */
function* fieldLines(entry: Entry): Generator<string> {
  for (const [key, value] of Object.entries(entryFields(entry))) {
    if (typeof value === "string" && value.includes("\n")) {
      yield `${key}:`;
      for (const line of plainText(value).split("\n")) yield `  ${line}`;
    } else yield plainText(`${key}: ${typeof value === "string" ? value : jsonText(value, 2)}`);
  }
}
