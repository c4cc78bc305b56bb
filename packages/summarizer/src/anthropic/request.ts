import { type ContextMessage, isRecord, messageText, toolCalls } from "@espalier/session-tree";
import { type SummaryRequest, summaryPrompt, summaryTask } from "../summarizer.ts";
import { renderMessage } from "../transcript.ts";

/** A Messages API request: the fields that this package reads, and all others unchanged. */
export interface MessagesBody extends SentBody {
  model: string;
  max_tokens: number;
}

/** A request as a session sent it. */
export interface SentBody {
  model?: string;
  max_tokens?: number;
  system?: unknown;
  tools?: unknown;
  messages: readonly unknown[];
  [field: string]: unknown;
}

/** Last request of a session, which its provider still has in its cache. */
export interface LastRequest {
  /** Body as it was sent, including cache markers. */
  body: SentBody;
  /**
   * Tokens of its prompt as the provider counted them (input, cache reads and writes). Absent: an upper bound is used.
   */
  inputTokens?: number;
}

/**
 * Returns the body of a standalone request: the transcript, then the task. It has no cache markers, because no later
 * request shares its beginning.
 */
export function standaloneBody(request: SummaryRequest, model: string, maxTokens: number): MessagesBody {
  const { system, user } = summaryPrompt(request);
  return { model, max_tokens: maxTokens, system, messages: [{ role: "user", content: user }] };
}

/**
 * Returns the last request with one more instruction. System prompt, tools, messages, thinking and the choice of tools
 * are unchanged byte for byte, because a cache is only used up to the first difference. A stop sequence, which could cut
 * the summary, is left out: the cache does not depend on it.
 */
export function extendedBody(
  request: SummaryRequest,
  last: LastRequest,
  model: string,
  maxTokens: number,
): MessagesBody {
  const instruction = { role: "user", content: [{ type: "text", text: extendingInstruction(request) }] };
  const { stop_sequences, ...body } = last.body;
  return { ...body, model, max_tokens: maxTokens, messages: [...body.messages, instruction] };
}

/** Returns the instruction that asks within a running conversation for a summary of a part of it. */
export function extendingInstruction(request: SummaryRequest): string {
  return [
    "The conversation stops here. This message is not part of it: it asks for a summary of what stands above. Do not continue the work, do not answer anything above, and do not call tools; answer with the text of the summary alone, and copy paths, identifiers, commands, numbers and error messages exactly.",
    ...partToSummarize(request),
    ...summaryTask(request),
  ].join("\n\n");
}

/**
 * Identifies the part to summarise by the beginnings of its first and last message: the conversation may have further
 * messages.
 */
function partToSummarize(request: SummaryRequest): string[] {
  const shown = request.messages.map(
    (message) => renderMessage(message, { toolResultLimit: 200, textLimit: 200 }).text,
  );
  const said = shown.filter((text) => text !== "");
  const first = said[0];
  const last = said.at(-1);
  if (first === undefined || last === undefined) return [];
  return [
    "Summarise only the part of the conversation that begins and ends with the two messages below (both belong to it; long texts are shortened here, and `<` is written `&lt;`). What follows that part stays in the conversation.",
    `<begins-with>\n${first}\n</begins-with>`,
    `<ends-with>\n${last}\n</ends-with>`,
  ];
}

/**
 * Returns whether a last request can be extended. It cannot when it ends in an answer with open tool calls, which their
 * results must follow, when it went to another model, whose cache is separate, or when it forces a call or JSON.
 */
export function canExtend(last: LastRequest, model: string): boolean {
  const { messages } = last.body;
  if (last.body.model !== undefined && last.body.model !== model) return false;
  if (allowsNoText(last.body)) return false;
  const end: unknown = Array.isArray(messages) ? messages.at(-1) : undefined;
  if (!isRecord(end)) return false;
  const blocks = Array.isArray(end["content"]) ? end["content"] : [];
  const isOpen = blocks.some((block) => isRecord(block) && block["type"] === "tool_use");
  return end["role"] === "user" || !isOpen;
}

/** Returns whether a request forces a call of a tool, or an answer in JSON. */
function allowsNoText({ tool_choice, output_config, output_format }: SentBody): boolean {
  const choice = isRecord(tool_choice) ? tool_choice["type"] : undefined;
  const format = output_format ?? (isRecord(output_config) ? output_config["format"] : undefined);
  return choice === "any" || choice === "tool" || isRecord(format);
}

/**
 * Returns whether a last request has the messages to summarise, by their ends and by the texts of users and tools, in
 * this order. The answer to the request is not in it, and neither are messages of other branches.
 */
export function holdsMessages({ body }: LastRequest, { messages }: SummaryRequest): boolean {
  const sent = JSON.stringify(body.messages);
  let at = 0;
  for (const [place, message] of messages.entries()) {
    const isEnd = place === 0 || place === messages.length - 1;
    // Failed answers in between are in no request.
    if (!isEnd && message.role !== "user" && message.role !== "toolResult") continue;
    const mark = markOf(message);
    const found = sent.indexOf(mark, at);
    if (found < 0) return false;
    at = found + mark.length;
  }
  return true;
}

/** Number of characters by which a message is recognised. */
const MARK = 200;

/** Returns the beginning in JSON of a message's text, or else of its first call; empty for pictures alone. */
function markOf(message: ContextMessage): string {
  const text = messageText(message).trim() || (toolCalls(message)[0]?.id ?? "");
  // Half a surrogate pair would be written as an escape.
  const whole = text.slice(0, MARK).replace(/[\ud800-\udbff]$/, "");
  return JSON.stringify(whole).slice(1, -1);
}

/** Returns the thinking budget that a request sets, in tokens; `max_tokens` must be larger. */
export function thinkingBudget(fields: Readonly<Record<string, unknown>>): number {
  const { thinking } = fields;
  const budget = isRecord(thinking) ? thinking["budget_tokens"] : undefined;
  return typeof budget === "number" && budget > 0 ? budget : 0;
}

/**
 * Returns the `max_tokens` of a request: the requested number, limited by the model and by the room that the prompt
 * leaves in the window; 0 when it leaves none. A whole number.
 */
export function clampOutput(requested: number, modelMaxOutput: number, windowLeft: number): number {
  return Math.max(0, Math.floor(Math.min(requested, modelMaxOutput, windowLeft)));
}
