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
  type UserTurn,
  validToolName,
} from "./format.ts";
import { wellFormed } from "./json.ts";
import { bashExecutionText, branchSummaryText, compactionSummaryText } from "./wording.ts";

/** Options of building a request. */
export interface RequestOptions<Request> {
  format: RequestFormat<Request>;
  /** The model that will read it; the context's own by default. Thinking of any other model is left out. */
  model?: SessionContext["model"] | undefined;
  /** Goes before what the session's own system messages say. */
  system?: string | undefined;
  /** Go before the tools that the session's own system messages declare, and replace those of the same name. */
  tools?: readonly ToolDefinition[] | undefined;
}

/**
 * The request for one provider, valid whatever the session went through (T7): messages, and system prompt and tools
 * where there are any. What else a request has (model, limits, thinking budget) is the caller's to add. The log is not
 * touched; arguments of calls and schemas of tools may be the stored objects themselves, so add to the request, and
 * change nothing inside those.
 *
 * @throws EspalierError `empty-context` when nothing in the context says anything to a model; `bad-tool`
 */
export function buildRequest<Request>(context: SessionContext, options: RequestOptions<Request>): Request {
  const { format, model = context.model, system, tools } = options;
  const { callIdLength, toolNameLength } = format;
  refuseEmptySchemas(tools);
  const prepared = format.prepare?.(context, model) ?? context;
  const turns = heal(prepared, {
    model,
    callIdLength,
    toolNameLength,
    acceptsThinking: (block, answer) => format.acceptsThinking(block, answer),
    ...(format.opaque && { opaque: (part, source) => format.opaque?.(part, source) }),
  });
  if (turns.length === 0) {
    throw new EspalierError(
      "empty-context",
      "There is nothing to send: no message at this place of the session says anything to a model. Append a user message first, or choose a later entry.",
    );
  }
  return format.render({ ...foldSystem(prepared.messages, { system, tools, toolNameLength }), turns });
}

/** Result of a tool call for which the session has none. */
export const NO_RESULT = "No result was recorded.";

/** Text of an empty result: providers refuse an error without text. */
export const NO_OUTPUT = "(no output)";

/** User's text before an answer that begins a conversation. */
export const OPENING = "(start of the conversation)";

/** The model of a request and the rules of its format. */
export interface HealOptions
  extends Pick<RequestFormat<unknown>, "callIdLength" | "toolNameLength" | "acceptsThinking"> {
  /** Returns a block as only this provider knows it; see `RequestFormat.opaque`. */
  opaque?: NonNullable<RequestFormat<unknown>["opaque"]>;
  /** Thinking of other models is left out; null: all of it. */
  model: SessionContext["model"];
}

/**
 * The context as a conversation that every provider accepts, in one pass over what was paired before. Rules, in the
 * words of T7: it begins with a user turn and roles alternate; each call is followed by exactly its results; failed and
 * aborted answers are out with the results of their calls; thinking of the same model is sent untouched, all of an answer,
 * while everything before it is what it was, and in a loop of tools that still runs in any case; else it is left out.
 * Nothing else that was said is lost.
 *
 * Each turn depends on the messages up to it alone, so a growing conversation keeps its beginning byte for byte. Three
 * things change what was sent before: a message that joins the last turn, a result that comes late, and the end of a loop
 * of tools before which something changed.
 */
export function heal(
  context: Pick<SessionContext, "messages" | "prefixChanged">,
  options: HealOptions,
): Turn[] {
  const { messages, prefixChanged } = context;
  const { results, overtaken } = pairTools(messages);
  const callId = createCallIds(options.callIdLength);
  const turns: Turn[] = [];
  const loopFrom = runningLoop(messages);

  for (let index = 0; index < messages.length; index++) {
    const message = messages[index];
    if (!message) continue;
    if (message.role !== "assistant") {
      const said = saidByUser(message, options);
      if (said.length > 0) append(userTurn(turns).content, said);
      continue;
    }
    if (isFailedAnswer(message)) continue;
    const { model } = options;
    const sendsThinking =
      (prefixChanged[index] === false || index >= loopFrom) &&
      overtaken[index] === 0 &&
      model !== null &&
      message.provider === model.provider &&
      message.model === model.modelId;
    const blocks = answerBlocks(message, options, callId, sendsThinking);
    appendAnswer(turns, blocks, results.get(index) ?? [], options);
  }
  return turns;
}

/**
 * Returns the index of the first answer of a tool loop that still runs: after the last words of the user that are not
 * among results. The end of the list where the last answer calls nothing. A provider that thinks asks for the
 * thinking of these answers, whatever was compacted or edited before them ("a final `assistant` message must start
 * with a thinking block").
 */
export function runningLoop(messages: readonly ContextMessage[]): number {
  let words = -1;
  let isRunning = false;
  for (let at = messages.length - 1; at >= 0; at--) {
    const message = messages[at];
    if (!message) continue;
    if (message.role !== "assistant") {
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

/** Opaque form of a block or a result in well-formed Unicode; undefined where it has none. */
function opaqueValue(
  part: ContentBlock | ToolResultMessage,
  answer: AssistantMessage | undefined,
  { opaque, model }: Pick<HealOptions, "opaque" | "model">,
): Record<string, unknown> | undefined {
  if (!opaque) return undefined;
  const value = wellFormed(opaque(part, { answer, model }));
  return isRecord(value) ? value : undefined;
}

function appendAnswer(
  turns: Turn[],
  blocks: AnswerBlock[],
  recorded: readonly (ToolResultMessage | undefined)[],
  options: HealOptions,
): void {
  if (blocks.length === 0) return;
  if (turns.length === 0) userTurn(turns).content.push({ type: "text", text: OPENING });
  const last = turns.at(-1);
  if (last?.role === "assistant") append(last.content, blocks);
  else turns.push({ role: "assistant", content: blocks });

  let position = 0;
  for (const block of blocks) {
    if (block.type === "call")
      userTurn(turns).results.push(healedResult(block.id, recorded[position++], options));
  }
}

function healedResult(
  callId: string,
  recorded: ToolResultMessage | undefined,
  options: HealOptions,
): HealedResult {
  if (!recorded) return { callId, isError: true, content: [{ type: "text", text: NO_RESULT }] };
  const content = healedContent(recorded, options);
  const opaque = opaqueValue(recorded, undefined, options);
  return {
    callId,
    isError: recorded.isError === true,
    content: content.length > 0 ? content : [{ type: "text", text: NO_OUTPUT }],
    ...(opaque && { opaque }),
  };
}

/** The user turn at the end, begun if the last turn is an answer. */
function userTurn(turns: Turn[]): UserTurn {
  const last = turns.at(-1);
  if (last?.role === "user") return last;
  const turn: UserTurn = { role: "user", results: [], content: [] };
  turns.push(turn);
  return turn;
}

/** Without spreading into a call: lists of blocks can be longer than a call stack. */
function append<Block>(list: Block[], added: readonly Block[]): void {
  for (const block of added) list.push(block);
}

/**
 * The blocks of an answer as a request can carry them; none when nothing is left of it.
 * Calls are last, since nothing may come between a call and its result: text after a call moves before the first one.
 * Thinking is sent whole or not at all: all of it, where each block of it may go, stays in its place, and is not the
 * last block ("The final block in an assistant message cannot be `thinking`"). A provider refuses a part of what it signed.
 * Blocks that no answer has are left out.
 *
 * @param callId gives the id of the next call
 */
function answerBlocks(
  answer: AssistantMessage,
  options: HealOptions,
  callId: (id: unknown) => string,
  sendsThinking: boolean,
): AnswerBlock[] {
  const blocks: AnswerBlock[] = [];
  const calls: AnswerBlock[] = []; // from the first call on
  let textMoved = false;
  let thoughtInCalls = false;
  let leftOut = false;
  let isWhole = true;
  for (const block of contentBlocks(answer)) {
    const opaque = block.type === "thinking" ? undefined : opaqueValue(block, answer, options);
    if (block.type === "toolCall") {
      calls.push({
        type: "call",
        id: callId(block.id),
        name: validToolName(block.name, options.toolNameLength),
        input: toolInput(block.arguments),
        ...(opaque && { opaque }),
      });
    } else if (opaque || block.type === "text") {
      for (const said of healedBlock(block, opaque)) {
        blocks.push(said as HealedText | OpaqueBlock);
        textMoved ||= calls.length > 0;
      }
    } else {
      leftOut ||= block.type !== "thinking";
      if (block.type !== "thinking") continue;
      isWhole &&= sendsThinking && !leftOut && options.acceptsThinking(block, answer);
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

/** Results matched with their calls. */
interface ToolPairs {
  /** For the index of each answer that counts and has calls: their results, in the order of the calls. */
  results: Map<number, (ToolResultMessage | undefined)[]>;
  /**
   * For each message, 1 when a result that was recorded after it belongs to a call before it: pulled up to its call,
   * that result changes what this message follows.
   */
  overtaken: Uint8Array;
}

interface OpenCall {
  answer: number;
  /** Receives the result; undefined when the answer failed and is left out with the results of its calls. */
  slots: (ToolResultMessage | undefined)[] | undefined;
  position: number;
}

/**
 * Matches each result with the nearest call before it that has its id and no result yet; within one answer the first.
 * Results without a call, and results of failed answers, are left out.
 */
function pairTools(messages: readonly ContextMessage[]): ToolPairs {
  const open = new Map<string, OpenCall[]>();
  const results = new Map<number, (ToolResultMessage | undefined)[]>();
  const changes = new Int32Array(messages.length + 1);

  for (let index = 0; index < messages.length; index++) {
    const message = messages[index];
    if (message?.role === "assistant") {
      const calls = toolCalls(message);
      if (calls.length === 0) continue;
      const slots = isFailedAnswer(message) ? undefined : new Array<undefined>(calls.length).fill(undefined);
      if (slots) results.set(index, slots);
      for (let position = calls.length - 1; position >= 0; position--) {
        pushTo(open, idOf(calls[position]?.id), { answer: index, slots, position });
      }
    } else if (message?.role === "toolResult") {
      const call = open.get(idOf(message.toolCallId))?.pop();
      if (!call?.slots) continue;
      call.slots[call.position] = message;
      changes[call.answer + 1]! += 1;
      changes[index]! -= 1;
    }
  }
  return { results, overtaken: covered(changes) };
}

/** Marks the indexes in at least one of the ranges, given by +1 at the beginning and -1 at the end of each. */
function covered(changes: Int32Array): Uint8Array {
  const marks = new Uint8Array(changes.length - 1);
  let depth = 0;
  for (let index = 0; index < marks.length; index++) {
    depth += changes[index]!;
    marks[index] = depth > 0 ? 1 : 0;
  }
  return marks;
}

/** Files where ids are missing still pair: what has none belongs to what has none. */
const idOf = (id: unknown): string => (typeof id === "string" ? id : "");

function pushTo(lists: Map<string, OpenCall[]>, key: string, call: OpenCall): void {
  const list = lists.get(key);
  if (list) list.push(call);
  else lists.set(key, [call]);
}

/**
 * Returns the content that a message has in the user's name. Empty for answers, tool results and system messages,
 * which a request carries elsewhere, for runs that were kept out of the context, and for roles that nobody here
 * knows.
 */
function saidByUser(message: ContextMessage, options?: HealOptions): UserBlock[] {
  switch (message.role) {
    case "user":
    case "custom":
      return healedContent(message, options);
    case "bashExecution":
      return message.excludeFromContext ? [] : healedText(bashExecutionText(message));
    case "compactionSummary":
      return typeof message.summary === "string" ? healedText(compactionSummaryText(message.summary)) : [];
    case "branchSummary":
      return typeof message.summary === "string" ? healedText(branchSummaryText(message.summary)) : [];
    default:
      return [];
  }
}

const TYPE_NAME = /^[\w.-]{1,64}$/;

/** Text as a request can carry it; none when there is nothing to read in it. */
function healedText(text: unknown): { type: "text"; text: string }[] {
  return typeof text === "string" && !isBlank(text) ? [{ type: "text", text: text.toWellFormed() }] : [];
}

/** Content of a user message, custom message or tool result, which in a file may have any shape. */
function healedContent(message: { content?: unknown }, options?: HealOptions): UserBlock[] {
  return contentBlocks(message).flatMap((block) =>
    healedBlock(block, options && opaqueValue(block, undefined, options)),
  );
}

/** A block as a request can carry it. A type that is unknown here becomes a word, so that the model knows of the gap. */
function healedBlock(block: ContentBlock, opaque: Record<string, unknown> | undefined): UserBlock[] {
  if (opaque) return [{ type: "opaque", value: opaque }];
  if (block.type === "text") return healedText(block.text);
  if (block.type === "image") return [healedImage(block)];
  const name = TYPE_NAME.test(block.type) ? `Content of type ${block.type}` : "Content";
  return [{ type: "text", text: `[${name} left out]` }];
}

const READABLE: ReadonlySet<string> = new Set<PictureType>([
  "image/png",
  "image/jpeg",
  "image/gif",
  "image/webp",
]);
const isReadable = (mediaType: string): mediaType is PictureType => READABLE.has(mediaType);

/** Beginnings of the base64 of each type. WebP is `RIFF`, four bytes of length, `WEBP`. */
const BEGINNINGS: [RegExp, PictureType][] = [
  [/^iVBORw0KGgo/, "image/png"],
  [/^\/9j\//, "image/jpeg"],
  [/^R0lGOD/, "image/gif"],
  [/^UklGR.{6}XRUJQ/, "image/webp"],
];
const MEDIA_TYPE = /^[\w.+-]{1,40}\/[\w.+-]{1,80}$/;

/**
 * Makes a stored picture valid for a request. Known first bytes decide its media type, since a wrong media type
 * fails the whole request. Missing padding is added. A picture that no provider reads, or whose data is not
 * base64, is replaced by a text.
 */
export function healedImage(image: { data?: unknown; mimeType?: unknown }): UserBlock {
  const declared = typeof image.mimeType === "string" ? image.mimeType.toLowerCase() : "";
  const data = padded(typeof image.data === "string" ? image.data : "");
  const mediaType = mediaTypeOf(data) ?? (declared === "image/jpg" ? "image/jpeg" : declared);
  if (isReadable(mediaType) && data.length % 4 === 0 && isBase64(data))
    return { type: "image", mediaType, data };
  return {
    type: "text",
    text: MEDIA_TYPE.test(declared) ? `[Image left out: ${declared}]` : "[Image left out]",
  };
}

/** By single characters: a pattern that repeats one over megabytes may run out of the engine's stack. */
function isBase64(data: string): boolean {
  const padding = data.indexOf("=");
  const end = padding < 0 ? data.length : padding;
  const isPadded = end >= data.length - 2 && !/[^=]/.test(data.slice(end));
  return end > 0 && isPadded && !/[^A-Za-z0-9+/=]/.test(data);
}

/** Base64 with its padding, which some encoders leave out. */
function padded(data: string): string {
  const rest = data.endsWith("=") ? 0 : data.length % 4;
  return rest < 2 ? data : data + "=".repeat(4 - rest);
}

function mediaTypeOf(data: string): PictureType | undefined {
  return BEGINNINGS.find(([beginning]) => beginning.test(data))?.[1];
}

/** Note in a result that its pictures are after the results. */
const IMAGES_FOLLOW = "(see the images that follow)";

/**
 * A result without its pictures, for where a provider reads only text in results, and the blocks that follow all
 * results instead: the pictures, named by their call.
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
