import { detachImages } from "./detached-images.ts";
import type { RequestFormat } from "./request-format.ts";
import type { AnswerBlock, HealedText, Turn, UserBlock } from "./turn.ts";

/** The part of a Chat Completions request that the conversation decides; the system prompt is its first message. */
export interface OpenaiChatRequest {
  messages: OpenaiChatMessage[];
  tools?: OpenaiChatTool[];
}

/** One message. Behind an answer stands a `tool` message for each of its calls; `content` is null where it only calls. */
export type OpenaiChatMessage =
  | { role: "system"; content: string }
  | { role: "user"; content: string | OpenaiChatPart[] }
  | { role: "assistant"; content: string | null; tool_calls?: OpenaiChatToolCall[] }
  | { role: "tool"; tool_call_id: string; content: string };

/** A part of what a user says; `url` is a `data:` address. */
export type OpenaiChatPart =
  | { type: "text"; text: string }
  | { type: "image_url"; image_url: { url: string } };

/** A call to a tool; `arguments` is JSON as a text. */
export interface OpenaiChatToolCall {
  id: string;
  type: "function";
  function: { name: string; arguments: string };
}

/** A tool that may be called; `parameters` is a JSON Schema. */
export interface OpenaiChatTool {
  type: "function";
  function: { name: string; description?: string; parameters: Record<string, unknown> };
}

/**
 * The Chat Completions API of OpenAI and of the many servers that speak it. Call ids have at most 40 characters, names
 * 64. There is no place for thinking. Texts of one turn are one string, with a blank line between, as servers that read
 * only strings ask for; a turn with pictures is a list of parts. Pictures of tool results follow the results, in the
 * user's name. The API has no mark for a failed result: its text says so.
 */
export const openaiChatFormat: RequestFormat<OpenaiChatRequest> = {
  callIdLength: 40,
  toolNameLength: 64,
  acceptsThinking: () => false,
  render({ system, tools, turns }) {
    const messages: OpenaiChatMessage[] = system === undefined ? [] : [{ role: "system", content: system }];
    for (const turn of turns) renderTurn(turn, messages);
    return {
      messages,
      ...(tools.length === 0 ? {} : { tools: tools.map((tool) => ({ type: "function", function: tool })) }),
    };
  },
};

function renderTurn(turn: Turn, messages: OpenaiChatMessage[]): void {
  if (turn.role === "assistant") {
    messages.push(renderAnswer(turn.content));
    return;
  }
  const said: UserBlock[] = [];
  for (const result of turn.results) {
    const { texts, following } = detachImages(result);
    messages.push({ role: "tool", tool_call_id: result.callId, content: joined(texts) });
    for (const block of following) said.push(block);
  }
  for (const block of turn.content) said.push(block);
  if (said.length > 0) messages.push({ role: "user", content: renderContent(said) });
}

function renderAnswer(blocks: AnswerBlock[]): OpenaiChatMessage {
  const texts = blocks.filter((block) => block.type === "text");
  const calls = blocks
    .filter((block) => block.type === "call")
    .map(({ id, name, input }) => ({
      id,
      type: "function" as const,
      function: { name, arguments: JSON.stringify(input) },
    }));
  return {
    role: "assistant",
    content: texts.length > 0 ? joined(texts) : null,
    ...(calls.length > 0 ? { tool_calls: calls } : {}),
  };
}

function renderContent(blocks: UserBlock[]): string | OpenaiChatPart[] {
  const texts = blocks.filter((block) => block.type === "text");
  if (texts.length === blocks.length) return joined(texts);
  return blocks.map((block) =>
    block.type === "text"
      ? block
      : { type: "image_url", image_url: { url: `data:${block.mediaType};base64,${block.data}` } },
  );
}

const joined = (texts: HealedText[]): string => texts.map(({ text }) => text).join("\n\n");
