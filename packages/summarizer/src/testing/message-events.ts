import type { MessageReply, ReplyBlock } from "./reply.ts";

/** A server-sent event of the Messages API. */
export interface MessageEvent {
  event: string;
  data: Record<string, unknown>;
}

/** A whole answer, as it is sent without streaming. */
export function messageBody(
  reply: MessageReply,
  id: string,
  model: unknown,
  usage: Readonly<Record<string, number>>,
): Record<string, unknown> {
  return {
    id,
    type: "message",
    role: "assistant",
    model,
    content: identified(reply, id).map((block) =>
      block.type === "text" ? { ...block, citations: null } : block,
    ),
    stop_reason: stopReason(reply),
    stop_sequence: null,
    usage,
  };
}

/** The events of a streamed answer, in order, with the pieces of each block as deltas. */
export function* messageEvents(
  reply: MessageReply,
  id: string,
  model: unknown,
  usage: Readonly<Record<string, number>>,
): Generator<MessageEvent> {
  const whole = messageBody(reply, id, model, usage);
  const started = { ...whole, content: [], stop_reason: null, usage: { ...usage, output_tokens: 1 } };
  yield named("message_start", { message: started });
  yield named("ping", {});
  for (const [index, block] of identified(reply, id).entries()) {
    yield named("content_block_start", { index, content_block: emptied(block) });
    for (const delta of deltas(block, reply.deltaLength ?? 20)) {
      yield named("content_block_delta", { index, delta });
    }
    yield named("content_block_stop", { index });
  }
  const end = { stop_reason: stopReason(reply), stop_sequence: null };
  yield named("message_delta", { delta: end, usage: { output_tokens: usage["output_tokens"] ?? 0 } });
  yield named("message_stop", {});
}

/** The error event that ends a stream when the provider is overloaded meanwhile. */
export const overloadedEvent = (): MessageEvent =>
  named("error", { error: { type: "overloaded_error", message: "Overloaded" } });

const named = (event: string, data: Record<string, unknown>): MessageEvent => ({
  event,
  data: { type: event, ...data },
});

function stopReason({ stopReason, content }: MessageReply): string {
  return stopReason ?? (content.some(({ type }) => type === "tool_use") ? "tool_use" : "end_turn");
}

/** The blocks, every call with an id. */
function identified({ content }: MessageReply, id: string): ReplyBlock[] {
  return content.map((block, index) =>
    block.type === "tool_use" ? { ...block, id: block.id ?? `toolu_${id}_${index}` } : block,
  );
}

function emptied(block: ReplyBlock): Record<string, unknown> {
  if (block.type === "text") return { type: "text", text: "" };
  if (block.type === "thinking") return { type: "thinking", thinking: "", signature: "" };
  return block.type === "tool_use" ? { ...block, input: {} } : block;
}

function* deltas(block: ReplyBlock, length: number): Generator<Record<string, unknown>> {
  if (block.type === "text")
    for (const text of pieces(block.text, length)) yield { type: "text_delta", text };
  else if (block.type === "thinking") {
    for (const thinking of pieces(block.thinking, length)) yield { type: "thinking_delta", thinking };
    yield { type: "signature_delta", signature: block.signature };
  } else if (block.type === "tool_use") {
    const json = JSON.stringify(block.input);
    for (const partial of pieces(json, length)) yield { type: "input_json_delta", partial_json: partial };
  }
}

/** A text in pieces of whole code points. */
function* pieces(text: string, length: number): Generator<string> {
  const points = [...text];
  for (let start = 0; start < points.length; start += length)
    yield points.slice(start, start + length).join("");
}
