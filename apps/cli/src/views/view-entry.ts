import type { Session } from "@espalier/engine";
import { addBill, nothingBilled, type UsageTotals } from "@espalier/engine/reading";
import { jsonText } from "@espalier/jsonl-stream";
import {
  type Entry,
  entryFields,
  estimateTokens,
  isOnPath,
  isRecord,
  message,
  type StoredMessage,
  type Usage,
} from "@espalier/session-tree";
import { formatCost, formatMany, formatTime } from "../numbers.ts";
import { fieldText, plainLine, plainText } from "../plain-text.ts";
import type { Shell } from "../shell.ts";
import { allLines } from "./message-block.ts";

/** One entry for people: what it is and where it hangs, then what it says. */
export function* viewEntry(
  session: Session,
  entry: Entry,
  { colours }: Pick<Shell, "colours">,
): Generator<string> {
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
    const { calls, input, output, cost } = billed(said);
    if (calls > 0) facts.push(`${input} in, ${output} out${cost ? `, ${formatCost(cost)}` : ""}`);
  }
  if (said.role === "toolResult")
    facts.push(`${fieldText(said.toolName)}${said.isError ? ", an error" : ""}`);
  return facts;
}

/** What a provider billed for an answer, in numbers alone. */
function billed({ usage }: { usage?: unknown }): UsageTotals {
  const bill = nothingBilled();
  if (isRecord(usage)) addBill(bill, usage as unknown as Usage);
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
