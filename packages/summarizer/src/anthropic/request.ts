import { type ContextMessage, isRecord, messageText, toolCalls } from "@espalier/session-tree";
import { type SummaryRequest, summaryPrompt, summaryTask } from "../summarizer.ts";
import { renderMessage } from "../transcript.ts";

/** A Messages API request: the fields that this package reads, all others as they are. */
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

/** The request that a session sent last: what its provider still has in its cache. */
export interface LastRequest {
  /** The body as it was sent, markers of the cache included. */
  body: SentBody;
  /** Tokens of its prompt as the provider counted them (input, cache reads and writes); bounded where absent. */
  inputTokens?: number;
}

/** A standalone request: the transcript, then the task. Nothing of it is worth a cache. */
export function standaloneBody(request: SummaryRequest, model: string, maxTokens: number): MessagesBody {
  const { system, user } = summaryPrompt(request);
  return { model, max_tokens: maxTokens, system, messages: [{ role: "user", content: user }] };
}

/**
 * The last request again, and one instruction more. System prompt, tools, messages, thinking and the choice of tools
 * stay as they were, byte for byte, since a cache serves nothing after the first difference.
 */
export function extendedBody(
  request: SummaryRequest,
  last: LastRequest,
  model: string,
  maxTokens: number,
): MessagesBody {
  const instruction = { role: "user", content: [{ type: "text", text: extendingInstruction(request) }] };
  return { ...last.body, model, max_tokens: maxTokens, messages: [...last.body.messages, instruction] };
}

/** The instruction that turns a running conversation into a request for a summary of a part of it. */
export function extendingInstruction(request: SummaryRequest): string {
  return [
    "The conversation stops here. This message is not part of it: it asks for a summary of what stands above. Do not continue the work, do not answer anything above, and do not call tools; answer with the text of the summary alone, and copy paths, identifiers, commands, numbers and error messages exactly.",
    ...partToSummarize(request),
    ...summaryTask(request),
  ].join("\n\n");
}

/** Names the part to summarise by the beginnings of its first and last message: the conversation may hold more. */
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
 * Returns whether a last request can be extended. An answer with open tool calls at its end must be followed by their
 * results, and a request to another model finds nothing in the cache.
 */
export function canExtend(last: LastRequest, model: string): boolean {
  const { messages } = last.body;
  if (last.body.model !== undefined && last.body.model !== model) return false;
  const end: unknown = Array.isArray(messages) ? messages.at(-1) : undefined;
  if (!isRecord(end)) return false;
  const blocks = Array.isArray(end["content"]) ? end["content"] : [];
  const isOpen = blocks.some((block) => isRecord(block) && block["type"] === "tool_use");
  return end["role"] === "user" || !isOpen;
}

/**
 * Returns whether a last request holds the messages to summarise, by their ends and by what users and tools said, in
 * this order: the answer to it is not in it, and neither is what was said on another branch.
 */
export function holdsMessages({ body }: LastRequest, { messages }: SummaryRequest): boolean {
  const sent = JSON.stringify(body.messages);
  let at = 0;
  for (const [place, message] of messages.entries()) {
    const isEnd = place === 0 || place === messages.length - 1;
    // An answer in between may have failed, and be in no request.
    if (!isEnd && message.role !== "user" && message.role !== "toolResult") continue;
    const mark = markOf(message);
    const found = sent.indexOf(mark, at);
    if (found < 0) return false;
    at = found + mark.length;
  }
  return true;
}

/** Characters of a message that it is recognised by. */
const MARK = 200;

/** Returns the beginning in JSON of a message's text, or else of its first call; empty for pictures alone. */
function markOf(message: ContextMessage): string {
  const text = messageText(message).trim() || (toolCalls(message)[0]?.id ?? "");
  // Half a character would be written as an escape.
  const whole = text.slice(0, MARK).replace(/[\ud800-\udbff]$/, "");
  return JSON.stringify(whole).slice(1, -1);
}

/** The thinking budget that fields of a request fix, in tokens; `max_tokens` must be larger than it. */
export function thinkingBudget(fields: Readonly<Record<string, unknown>>): number {
  const { thinking } = fields;
  const budget = isRecord(thinking) ? thinking["budget_tokens"] : undefined;
  return typeof budget === "number" && budget > 0 ? budget : 0;
}

/**
 * The `max_tokens` of a request: what is wanted, no more than the model gives, no more than the window leaves beside
 * the prompt; 0 when it leaves nothing. Whole tokens.
 */
export function clampOutput(requested: number, modelMaxOutput: number, windowLeft: number): number {
  return Math.max(0, Math.floor(Math.min(requested, modelMaxOutput, windowLeft)));
}
