import { type AssistantMessage, contentBlocks, type ThinkingBlock } from "../message.ts";
import { validToolName } from "./call-ids.ts";
import { healedText } from "./content.ts";
import { isRecord } from "./record.ts";
import type { AnswerBlock } from "./turn.ts";
import { wellFormed } from "./well-formed.ts";

/** What an answer's blocks need from the request around them. */
export interface AnswerOptions {
  /** Gives the next call its id. */
  callId(id: unknown): string;
  toolNameLength: number;
  /** Whether this block may be sent as it is. */
  acceptsThinking(block: ThinkingBlock): boolean;
}

/**
 * The blocks of an answer as a request can carry them; none when nothing is left of it.
 * Calls stand last, since nothing may come between a call and its result: text after a call moves before the first one.
 * Thinking is sent whole or not at all: all of it, where each block of it may go, stands where it stood, and is not the
 * last block ("The final block in an assistant message cannot be `thinking`"). A provider refuses a part of what it signed.
 * Blocks that no answer has are left out.
 */
export function answerBlocks(answer: AssistantMessage, options: AnswerOptions): AnswerBlock[] {
  const blocks: AnswerBlock[] = [];
  const calls: AnswerBlock[] = []; // from the first call on
  let textMoved = false;
  let thoughtInCalls = false;
  let leftOut = false;
  let isWhole = true;
  for (const block of contentBlocks(answer)) {
    if (block.type === "text") {
      for (const text of healedText(block.text)) {
        blocks.push(text);
        textMoved ||= calls.length > 0;
      }
    } else if (block.type === "toolCall") {
      calls.push({
        type: "call",
        id: options.callId(block.id),
        name: validToolName(block.name, options.toolNameLength),
        input: toolInput(block.arguments),
      });
    } else {
      leftOut ||= block.type !== "thinking";
      if (block.type !== "thinking") continue;
      isWhole &&= !leftOut && options.acceptsThinking(block);
      thoughtInCalls ||= calls.length > 0;
      (calls.length > 0 ? calls : blocks).push({ type: "thinking", block });
    }
  }
  for (const block of calls) blocks.push(block);
  isWhole &&= !(textMoved && thoughtInCalls) && blocks.at(-1)?.type !== "thinking";
  return isWhole ? blocks : blocks.filter(({ type }) => type !== "thinking");
}

/** Arguments as the object that providers ask for: missing ones are `{}`, anything else becomes `{value}`. */
function toolInput(stored: unknown): Record<string, unknown> {
  const input = wellFormed(stored ?? {});
  return isRecord(input) ? input : { value: input ?? "[Arguments left out: nested too deeply]" };
}
