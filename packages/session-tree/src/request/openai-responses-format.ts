import type { AssistantMessage, ThinkingBlock } from "../message.ts";
import { parsedItem } from "./parsed-item.ts";
import { isRecord } from "./record.ts";
import type { RequestFormat } from "./request-format.ts";
import type { AnswerBlock, HealedResult, Turn, UserBlock } from "./turn.ts";

/** The part of a Responses request that the conversation decides. */
export interface OpenaiResponsesRequest {
  instructions?: string;
  input: OpenaiResponsesItem[];
  tools?: OpenaiResponsesTool[];
}

/** One item. Calls, results and reasoning are items of their own beside the messages; `arguments` is JSON as a text. */
export type OpenaiResponsesItem =
  | { type: "message"; role: "user"; content: OpenaiResponsesPart[] }
  | { type: "message"; role: "assistant"; content: string }
  | {
      type: "reasoning";
      id: string;
      summary: { type: "summary_text"; text: string }[];
      encrypted_content: string;
    }
  | { type: "function_call"; call_id: string; name: string; arguments: string }
  | { type: "function_call_output"; call_id: string; output: string | OpenaiResponsesPart[] };

/** A part of what a user says or a result shows; `image_url` is a `data:` address. */
export type OpenaiResponsesPart =
  | { type: "input_text"; text: string }
  | { type: "input_image"; image_url: string; detail: "auto" };

/** A tool that may be called; `parameters` is a JSON Schema. */
export interface OpenaiResponsesTool {
  type: "function";
  name: string;
  description?: string;
  parameters: Record<string, unknown>;
  /** The API would else rewrite the schema. */
  strict: false;
}

/**
 * The Responses API of OpenAI. Call ids and names have at most 64 characters. No message and no call carries its id: ids
 * make the API look for items it has not stored and for neighbours they once had. Reasoning has the id that the API's
 * reference requires of it, and its encrypted content, so that no stored item is looked for ("Item with id 'rs_…' not
 * found"); reasoning without either is left out. The API has no mark for a failed result: its text says so.
 */
export const openaiResponsesFormat: RequestFormat<OpenaiResponsesRequest> = {
  callIdLength: 64,
  toolNameLength: 64,
  acceptsThinking: (block, answer) => isResponsesAnswer(answer) && reasoningItem(block) !== undefined,
  render({ system, tools, turns }) {
    const input: OpenaiResponsesItem[] = [];
    for (const turn of turns) renderTurn(turn, input);
    return {
      ...(system === undefined ? {} : { instructions: system }),
      input,
      ...(tools.length === 0
        ? {}
        : { tools: tools.map((tool) => ({ type: "function", ...tool, strict: false })) }),
    };
  },
};

const isResponsesAnswer = ({ api }: AssistantMessage): boolean =>
  typeof api === "string" && /^openai.*responses/.test(api);

/** What a signature of this API is: the reasoning item as JSON. Undefined for any other, and for one that cannot go back. */
function reasoningItem({ thinkingSignature }: ThinkingBlock): OpenaiResponsesItem | undefined {
  const item = parsedItem(thinkingSignature);
  if (item?.["type"] !== "reasoning" || !thinkingSignature?.isWellFormed()) return undefined;
  const { id, encrypted_content } = item;
  const summary: unknown[] = Array.isArray(item["summary"]) ? item["summary"] : [];
  if (typeof id !== "string" || id === "" || !summary.every(isSummaryText)) return undefined;
  if (typeof encrypted_content !== "string" || encrypted_content === "") return undefined;
  return { type: "reasoning", id, summary, encrypted_content };
}

const isSummaryText = (part: unknown): part is { type: "summary_text"; text: string } =>
  isRecord(part) && part["type"] === "summary_text" && typeof part["text"] === "string";

function renderTurn(turn: Turn, input: OpenaiResponsesItem[]): void {
  if (turn.role === "assistant") {
    for (const block of turn.content) renderAnswerBlock(block, input);
    return;
  }
  for (const result of turn.results) {
    input.push({ type: "function_call_output", call_id: result.callId, output: renderOutput(result) });
  }
  if (turn.content.length > 0) {
    input.push({ type: "message", role: "user", content: turn.content.map(renderPart) });
  }
}

function renderAnswerBlock(block: AnswerBlock, input: OpenaiResponsesItem[]): void {
  if (block.type === "text") {
    input.push({ type: "message", role: "assistant", content: block.text });
  } else if (block.type === "call") {
    const { id: call_id, name } = block;
    input.push({ type: "function_call", call_id, name, arguments: JSON.stringify(block.input) });
  } else {
    const item = reasoningItem(block.block);
    if (item) input.push(item);
  }
}

function renderOutput({ content }: HealedResult): string | OpenaiResponsesPart[] {
  const texts = content.filter((block) => block.type === "text");
  return texts.length === content.length
    ? texts.map(({ text }) => text).join("\n\n")
    : content.map(renderPart);
}

function renderPart(block: UserBlock): OpenaiResponsesPart {
  if (block.type === "text") return { type: "input_text", text: block.text };
  return { type: "input_image", image_url: `data:${block.mediaType};base64,${block.data}`, detail: "auto" };
}
