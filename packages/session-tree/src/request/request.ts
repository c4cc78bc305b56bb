import { EspalierError } from "@espalier/jsonl-stream";
import type { SessionContext } from "../context/context.ts";
import {
  type AssistantMessage,
  type ContentBlock,
  type ContextMessage,
  contentBlocks,
  isFailedAnswer,
  isRecord,
  type ToolDefinition,
  type ToolResultMessage,
  toolCalls,
} from "../entry/message.ts";
import {
  type AnswerBlock,
  createCallIds,
  foldSystem,
  type HealedResult,
  type HealedText,
  isBlank,
  isTextBlock,
  type OpaqueBlock,
  type PictureType,
  type RequestFormat,
  refuseEmptySchemas,
  type Turn,
  type UserBlock,
  validToolName,
} from "./format.ts";
import { wellFormed } from "./json.ts";
import { wording } from "./wording.ts";

/** Options for building a request. */
export interface RequestOptions<Request> {
  /** Format of the provider's API. */
  format: RequestFormat<Request>;
  /**
   * Model that will read the request. Default: the context's. Thinking of other models is left out; all of it for null.
   */
  model?: SessionContext["model"] | undefined;
  /** System prompt of the caller. It is put before the text of the session's system messages. */
  system?: string | undefined;
  /**
   * Tools of the caller. They are put before the tools that the session's system messages declare, and replace those
   * with the same name.
   */
  tools?: readonly ToolDefinition[] | undefined;
}

/**
 * Returns the request for one provider: the messages, and the system prompt and tools if there are any. The request is
 * valid for every possible session (T7). The caller adds the rest (model, limits, thinking budget). The log is not
 * changed. Arguments of calls and schemas of tools can be the stored objects themselves: add fields to the request, and
 * do not change these objects.
 *
 * @throws EspalierError `empty-context` when no message of the context has content for a model; `bad-tool` when a tool
 * of the caller would be sent with an empty schema
 */
export function buildRequest<Request>(context: SessionContext, options: RequestOptions<Request>): Request {
  const { format, model = context.model, system, tools } = options;
  refuseEmptySchemas(tools);
  const sent = format.prepare?.(context, model) ?? context;
  const turns = heal(sent, { format, model });
  if (turns.length === 0)
    throw new EspalierError(
      "empty-context",
      "There is nothing to send: no message up to this entry has content for a model. Append a user message first, or choose a later entry.",
    );
  const { toolNameLength } = format;
  return format.render({ ...foldSystem(sent.messages, { system, tools, toolNameLength }), turns });
}

/** Text of the result of a tool call that has no result in the session. */
export const NO_RESULT = "No result was recorded.";

/** Text of an empty result. Providers refuse an error without a text. */
const NO_OUTPUT = "(no output)";

/** Text of the user turn that is added before an answer at the beginning of the conversation. */
export const OPENING = "(start of the conversation)";

/** The model of a request and its format. */
export interface HealOptions {
  format: Omit<RequestFormat<unknown>, "prepare" | "render">;
  /** Model that will read the request. Thinking of other models is left out; null leaves out all thinking. */
  model: SessionContext["model"];
}

/**
 * Returns the context as a conversation that every provider accepts. Rules (T7):
 *
 * - the first turn is the user's, and roles alternate
 * - each call is followed by exactly one result
 * - failed and aborted answers are left out, with the results of their calls
 * - thinking is sent unchanged when the same model wrote it and everything before the answer is unchanged, and always
 *   in a tool loop that is still running; all thinking of an answer is sent, or none
 * - all other content is kept
 *
 * Each turn depends only on the messages up to it, so the beginning of a growing conversation stays the same byte for
 * byte. There are three exceptions: a message that joins the last turn, a late result, and the end of a tool loop whose
 * prefix changed.
 */
export function heal(
  { messages, prefixChanged }: Pick<SessionContext, "messages" | "prefixChanged">,
  options: HealOptions,
): Turn[] {
  const { results, overtaken } = pairTools(messages);
  const loop = runningLoop(messages);
  const callId = createCallIds(options.format.callIdLength);
  const turns: Turn[] = [];
  messages.forEach((message, at) => {
    const recorded = results.get(at);
    if (message?.role !== "assistant") extend(turns, "user", saidByUser(message, options));
    else if (recorded) {
      const isUnchanged = overtaken[at] === 0 && (prefixChanged[at] === false || at >= loop);
      const blocks = answerBlocks(message, options, callId, isUnchanged);
      if (turns.length === 0 && blocks.length > 0) extend(turns, "user", healedText(OPENING));
      extend(turns, "assistant", blocks);
      const calls = blocks.filter((block) => block.type === "call");
      if (calls.length > 0)
        turns.push({
          role: "user",
          results: calls.map(({ id }, nth) => healedResult(id, recorded[nth], options)),
          content: [],
        });
    }
  });
  return turns;
}

/** Adds blocks to the last turn if it has this role, and in a new turn, which keeps the array, otherwise. */
function extend(turns: Turn[], role: Turn["role"], blocks: (UserBlock | AnswerBlock)[]): void {
  if (blocks.length === 0) return;
  const turn = turns.at(-1);
  // Without spreading, because a list of blocks can be longer than the call stack allows.
  if (turn?.role === role) for (const block of blocks) (turn.content as (typeof block)[]).push(block);
  else
    turns.push(
      (role === "user" ? { role, results: [], content: blocks } : { role, content: blocks }) as Turn,
    );
}

/**
 * Returns the index at which a tool loop that is still running begins: after the user's message that started the loop.
 * Messages of the user between the loop's answers do not start another one. Returns the length of the list when no loop
 * is running: the last answer has no calls. Failed answers are ignored. A provider with thinking requires the thinking
 * of the loop's answers, even after a compaction or an edit before them ("a final `assistant` message must start with a
 * thinking block").
 */
export function runningLoop(messages: readonly ContextMessage[]): number {
  let words = -1;
  let isRunning = false;
  for (let at = messages.length - 1; at >= 0; at--) {
    const message = messages[at];
    if (message?.role !== "assistant") {
      if (words < 0 && saidByUser(message).length > 0) words = at;
    } else if (!isFailedAnswer(message)) {
      if (toolCalls(message).length > 0) {
        isRunning = true;
        words = -1;
      } else if (!isRunning || words >= 0) break;
    }
  }
  return isRunning ? words + 1 : messages.length;
}

/** Returns the opaque form of a block or a result, in well-formed Unicode; undefined when it has none. */
function opaqueValue(
  part: ContentBlock | ToolResultMessage,
  answer: AssistantMessage | undefined,
  { format, model }: HealOptions,
): Record<string, unknown> | undefined {
  const value = format.opaque && wellFormed(format.opaque(part, { answer, model }));
  return isRecord(value) ? value : undefined;
}

function healedResult(
  callId: string,
  recorded: ToolResultMessage | undefined,
  options: HealOptions,
): HealedResult {
  if (!recorded) return { callId, isError: true, content: healedText(NO_RESULT) };
  const content = healedContent(recorded, options);
  const opaque = opaqueValue(recorded, undefined, options);
  return {
    callId,
    isError: recorded.isError === true,
    content: content.length > 0 ? content : healedText(NO_OUTPUT),
    ...(opaque && { opaque }),
  };
}

/**
 * Returns the blocks of an answer for a request; none when nothing is left of the answer. Calls are last, because
 * nothing can be between a call and its result: text after a call is moved before the first call. Blocks of a type that
 * answers do not have are left out. Thinking is sent whole or not at all, because a provider refuses a part of the
 * thinking that it signed. It is sent when all of these are true:
 *
 * - the same model wrote it after the same messages, so `isUnchanged`
 * - the provider accepts each thinking block
 * - each thinking block keeps its position
 * - the last block is not thinking ("The final block in an assistant message cannot be `thinking`")
 *
 * @param callId returns the id of the next call
 */
function answerBlocks(
  answer: AssistantMessage,
  options: HealOptions,
  callId: (id: unknown) => string,
  isUnchanged: boolean,
): AnswerBlock[] {
  const { format, model } = options;
  const blocks: AnswerBlock[] = [];
  const calls: AnswerBlock[] = []; // from the first call on
  let sendsThinking = isUnchanged && answer.provider === model?.provider && answer.model === model?.modelId;
  let textMoved = false;
  let leftOut = false;
  for (const block of contentBlocks(answer)) {
    const opaque = block.type === "thinking" ? undefined : opaqueValue(block, answer, options);
    if (block.type === "toolCall") {
      const name = validToolName(block.name, format.toolNameLength);
      const input = toolInput(block.arguments);
      calls.push({ type: "call", id: callId(block.id), name, input, ...(opaque && { opaque }) });
    } else if (block.type === "thinking") {
      sendsThinking &&= !leftOut && format.acceptsThinking(block, answer);
      (calls.length > 0 ? calls : blocks).push({ type: "thinking", block });
    } else if (opaque || block.type === "text") {
      for (const text of healedBlock(block, opaque)) {
        blocks.push(text as HealedText | OpaqueBlock);
        textMoved ||= calls.length > 0;
      }
    } else leftOut = true;
  }
  sendsThinking &&= !(textMoved && calls.some(isThinking));
  for (const block of calls) blocks.push(block);
  return sendsThinking && !isThinking(blocks.at(-1)) ? blocks : blocks.filter((block) => !isThinking(block));
}

const isThinking = (block: AnswerBlock | undefined): boolean => block?.type === "thinking";

/**
 * Returns arguments as the object that providers require. Missing arguments become `{}`; a value that is not an object
 * becomes `{value}`; arguments nested too deeply for `JSON.stringify` become `{value}` with a note.
 */
export function toolInput(stored: unknown): Record<string, unknown> {
  const value = wellFormed(stored ?? {}) ?? "[Arguments left out: nested too deeply]";
  return isRecord(value) ? value : { value };
}

/** Tool results, matched with their calls. */
export interface ToolPairs {
  /**
   * Results of each answer, in the order of its calls, by the index of the answer. Failed answers are not included.
   */
  results: Map<number, (ToolResultMessage | undefined)[]>;
  /**
   * 1 for each message between a call and its recorded result. Healing moves the result up to its call, and so changes
   * the prefix of these messages.
   */
  overtaken: Uint8Array;
}

/** A call without a result. `slots` receive the results of its answer; undefined for a failed one, which is left out. */
interface OpenCall {
  answer: number;
  slots: (ToolResultMessage | undefined)[] | undefined;
  nth: number;
}

/**
 * Matches each result with the nearest call before it that has the same id and no result yet; within one answer, the
 * first such call. Results without a call and results of failed answers are left out.
 */
export function pairTools(messages: readonly (ContextMessage | undefined)[]): ToolPairs {
  const results: ToolPairs["results"] = new Map();
  const open = new Map<string, OpenCall[]>();
  const answerOf = new Int32Array(messages.length).fill(messages.length);
  for (let at = 0; at < messages.length; at++) {
    const message = messages[at];
    if (message?.role === "assistant") {
      const calls = toolCalls(message);
      const slots = isFailedAnswer(message) ? undefined : new Array<undefined>(calls.length).fill(undefined);
      if (slots) results.set(at, slots);
      for (let nth = calls.length - 1; nth >= 0; nth--) {
        const id = idOf(calls[nth]!.id);
        const same = open.get(id);
        if (same) same.push({ answer: at, slots, nth });
        else open.set(id, [{ answer: at, slots, nth }]);
      }
    } else if (message?.role === "toolResult") {
      const call = open.get(idOf(message.toolCallId))?.pop();
      if (!call?.slots) continue;
      call.slots[call.nth] = message;
      answerOf[at] = call.answer;
    }
  }
  const overtaken = new Uint8Array(messages.length);
  let earliest = messages.length;
  for (let at = messages.length - 1; at >= 0; at--) {
    if (earliest < at) overtaken[at] = 1;
    earliest = Math.min(earliest, answerOf[at]!);
  }
  return { results, overtaken };
}

/** Returns an id; an empty text for a missing one, so that a result without an id matches a call without an id. */
const idOf = (id: unknown): string => (typeof id === "string" ? id : "");

/**
 * Returns the content that a message adds to a user turn. Empty for answers, tool results and system messages, which
 * have their own place in a request; for shell runs that are excluded from the context; and for unknown roles.
 */
function saidByUser(message: ContextMessage | undefined, options?: HealOptions): UserBlock[] {
  if (!message || message.role === "toolResult") return [];
  if (message.role === "user" || message.role === "custom") return healedContent(message, options);
  return healedText(wording(message));
}

const TYPE_NAME = /^[\w.-]{1,64}$/;

/** Returns a text for a request; an empty list when the text is blank. */
function healedText(text: unknown): { type: "text"; text: string }[] {
  if (typeof text !== "string" || isBlank(text)) return [];
  return [{ type: "text", text: text.toWellFormed() }];
}

/** Returns the content of a user message, custom message or tool result. In a file it can have any shape. */
function healedContent(message: { content?: unknown }, options?: HealOptions): UserBlock[] {
  return contentBlocks(message).flatMap((block) =>
    healedBlock(block, options && opaqueValue(block, undefined, options)),
  );
}

/**
 * Returns a block for a request. A block of an unknown type becomes a short text, so that the model knows that content
 * is missing.
 */
function healedBlock(block: ContentBlock, opaque: Record<string, unknown> | undefined): UserBlock[] {
  if (opaque) return [{ type: "opaque", value: opaque }];
  if (block.type === "text") return healedText(block.text);
  if (block.type === "image") return [healedImage(block)];
  const name = TYPE_NAME.test(block.type) ? `Content of type ${block.type}` : "Content";
  return healedText(`[${name} left out]`);
}

/** Images that providers read, by the beginning of their base64. WebP is `RIFF`, four bytes of length, `WEBP`. */
const BEGINNINGS: Record<PictureType, RegExp> = {
  "image/png": /^iVBORw0KGgo/,
  "image/jpeg": /^\/9j\//,
  "image/gif": /^R0lGOD/,
  "image/webp": /^UklGR.{6}XRUJQ/,
};
const MEDIA_TYPE = /^[\w.+-]{1,40}\/[\w.+-]{1,80}$/;

/**
 * Makes a stored image valid for a request. Known first bytes decide its media type, because a wrong media type fails
 * the whole request. Missing padding is added. An image of a type that no provider reads, or whose data is not base64,
 * is replaced by a text.
 */
export function healedImage(image: { data?: unknown; mimeType?: unknown }): UserBlock {
  const declared = typeof image.mimeType === "string" ? image.mimeType.toLowerCase() : "";
  const data = padded(typeof image.data === "string" ? image.data : "");
  const mediaType = mediaTypeOf(data) ?? (declared === "image/jpg" ? "image/jpeg" : declared);
  if (isReadable(mediaType) && isBase64(data)) return { type: "image", mediaType, data };
  return { type: "text", text: `[Image left out${MEDIA_TYPE.test(declared) ? `: ${declared}` : ""}]` };
}

const isReadable = (mediaType: string): mediaType is PictureType => Object.hasOwn(BEGINNINGS, mediaType);

function mediaTypeOf(data: string): string | undefined {
  return Object.keys(BEGINNINGS).find((mediaType) => BEGINNINGS[mediaType as PictureType].test(data));
}

/**
 * Returns whether data is base64. Tests single characters: one repeating pattern over megabytes can overflow the
 * regular expression engine's stack.
 */
const isBase64 = (data: string): boolean =>
  data !== "" && data.length % 4 === 0 && !/[^A-Za-z0-9+/=]|=(?!=?$)/.test(data);

/** Returns base64 with its padding, which some encoders leave out. */
const padded = (data: string): string => data.padEnd(Math.ceil(data.length / 4) * 4, "=");

/** Text of a result whose images come after the results. */
const IMAGES_FOLLOW = "(see the images that follow)";

/**
 * Splits a result for providers that accept only text in results. `texts` are its texts, or a note about the images
 * when it has only images. `following` are the blocks to put after all results: a text that names the call, then the
 * images; empty for a result without images.
 */
export function detachImages(result: HealedResult): {
  texts: (HealedText | OpaqueBlock)[];
  following: UserBlock[];
} {
  const texts = result.content.filter(isTextBlock);
  const images = result.content.filter((block) => !isTextBlock(block));
  if (images.length === 0) return { texts, following: [] };
  return {
    texts: texts.length > 0 ? texts : [{ type: "text", text: IMAGES_FOLLOW }],
    following: [{ type: "text", text: `Images of the result of ${result.callId}:` }, ...images],
  };
}
