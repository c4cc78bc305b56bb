import { type ContentBlock, isRecord } from "@espalier/session-tree";
import { answerFacts } from "../formats/anthropic-answer.ts";
import { blocksOf, readAnswerBlock } from "../formats/anthropic-blocks.ts";
import type { EntryBody } from "../import-entry.ts";
import { NO_COST } from "../import-usage.ts";
import type { Hearing, Line } from "./hearing.ts";

/** What stands in place of a model where the agent itself wrote the answer. */
const SYNTHETIC = "<synthetic>";

/**
 * An answer out of all its lines, in file order. Each line repeats what the answer as a whole says: the last one knows
 * best.
 *
 * @param counts whether its tokens are counted here, or were already
 */
export function answerBody(
  lines: readonly Line[],
  place: string,
  timestamp: number,
  hearing: Hearing,
  counts: boolean,
): EntryBody {
  const messages = lines.map(messageOf);
  const content = inOrder(lines, messages).flatMap((message) =>
    readAnswer(message["content"], place, hearing),
  );
  const { role: _role, content: _content, ...facts } = messages.at(-1) ?? {};
  const { said, unread } = answerFacts(facts);
  hearing.content.dropped(unread, place);
  const { model = hearing.model, usage, ...ended } = said;
  return {
    type: "message",
    message: {
      role: "assistant",
      content,
      api: "anthropic-messages",
      provider: "anthropic",
      model: model === SYNTHETIC ? hearing.model : model,
      ...(typeof facts["id"] === "string" ? { responseId: facts["id"] } : {}),
      ...(usage && counts ? { usage: { ...usage, cost: NO_COST } } : {}),
      stopReason: content.some((block) => block.type === "toolCall") ? "toolUse" : "stop",
      ...ended,
      ...(lines.some(isFailure) ? { stopReason: "error", errorMessage: textOf(content) } : {}),
      timestamp,
    },
    ...(lines.length > 1 ? { sourceLines: lines.length } : {}),
  };
}

const messageOf = (line: Line): Line => (isRecord(line["message"]) ? line["message"] : {});

const isFailure = (line: Line): boolean => line["isApiErrorMessage"] === true;

function readAnswer(content: unknown, place: string, { content: issues }: Hearing): ContentBlock[] {
  if (typeof content === "string") return [{ type: "text", text: content }];
  return blocksOf(content, place, issues).flatMap(([block, at]) => readAnswerBlock(block, at, issues));
}

/** By the number that the provider gave each block, where all have one and thinking comes first; else thinking first. */
function inOrder(lines: readonly Line[], messages: readonly Line[]): Line[] {
  const parts = messages.map((message, at) => ({ message, number: lines[at]!["apiBlockIndex"] }));
  if (parts.every(({ number }) => typeof number === "number"))
    parts.sort((a, b) => (a.number as number) - (b.number as number));
  const ordered = parts.map(({ message }) => message);
  if (ordered[0] && isThinking(ordered[0])) return ordered;
  return [...ordered.filter(isThinking), ...ordered.filter((message) => !isThinking(message))];
}

function isThinking({ content }: Line): boolean {
  const first: unknown = Array.isArray(content) ? content[0] : undefined;
  return isRecord(first) && (first["type"] === "thinking" || first["type"] === "redacted_thinking");
}

const textOf = (content: readonly ContentBlock[]): string =>
  content.flatMap((block) => (block.type === "text" ? [block.text] : [])).join("\n");
