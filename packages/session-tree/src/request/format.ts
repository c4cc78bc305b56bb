import { EspalierError } from "@espalier/jsonl-stream";
import type { SessionContext } from "../context/context.ts";
import {
  type AssistantMessage,
  type ContentBlock,
  type ContextMessage,
  isRecord,
  messageText,
  type ThinkingBlock,
  type ToolDefinition,
  type ToolResultMessage,
} from "../entry/message.ts";
import { wellFormed } from "./json.ts";

/** A healed conversation with its system prompt and tools: the complete input of a format. */
export interface Conversation {
  /** System prompt; undefined when there is none. */
  system: string | undefined;
  tools: HealedTool[];
  /** Turns of the conversation, at least one. */
  turns: Turn[];
}

/** Writer of requests for one provider. A new provider is a value of this shape. */
export interface RequestFormat<Request> {
  /** Maximum length of a call's id, in characters. The alphabet of every provider is `A-Z a-z 0-9 _ -`. */
  readonly callIdLength: number;
  /** Maximum length of a tool's name, in characters, with the same alphabet. */
  readonly toolNameLength: number;
  /**
   * Returns whether the provider can read this thinking block. With false, all thinking of the answer is left out.
   * Called only for answers of the same model whose prefix is unchanged or that belong to a running tool loop.
   */
  acceptsThinking(block: ThinkingBlock, answer: AssistantMessage): boolean;
  /** Returns the context that is healed and sent in place of `context`. Default: `context` itself. */
  prepare?(context: SessionContext, model: SessionContext["model"]): SessionContext;
  /** Returns the request. Pure. Each turn except the last one is written the same way, whatever turns follow it. */
  render(conversation: Conversation): Request;
  /**
   * Returns data that only this provider knows, in the form of its API: the whole block for a block, the additional
   * fields for a call or a result. Undefined when there is no such data. Without this function, unknown blocks become
   * short texts and additional fields are left out.
   */
  opaque?(part: ContentBlock | ToolResultMessage, source: OpaqueSource): object | undefined;
}

/** Origin of a block or a result that can be opaque. */
export interface OpaqueSource {
  /** Answer that contains the block. Undefined for a block of a user or of a result, and for a result. */
  answer: AssistantMessage | undefined;
  /** The model that will read the request. */
  model: SessionContext["model"];
}

/**
 * A block that only one provider knows. Healing keeps its position: in an answer it counts as text, elsewhere as an
 * image unless its own type is `text`.
 */
export interface OpaqueBlock {
  type: "opaque";
  /** The block in the form of the provider's API, in well-formed Unicode. */
  value: Record<string, unknown>;
}

/** Returns whether a block is a text, or an opaque block that the provider's API also writes as a text. */
export const isTextBlock = (block: UserBlock | AnswerBlock): block is HealedText | OpaqueBlock =>
  block.type === "text" || (block.type === "opaque" && block.value["type"] === "text");

/** Text that is not blank, in well-formed Unicode. */
export interface HealedText {
  type: "text";
  text: string;
}

/** Types of images that every supported provider reads. */
export type PictureType = "image/png" | "image/jpeg" | "image/gif" | "image/webp";

/** An image that providers read. */
export interface HealedImage {
  type: "image";
  mediaType: PictureType;
  /** Base64, without a `data:` prefix. */
  data: string;
}

/** Block of a user turn or of a tool result. */
export type UserBlock = HealedText | HealedImage | OpaqueBlock;

/** A model's reasoning that can be sent back unchanged. */
export interface HealedThinking {
  type: "thinking";
  block: ThinkingBlock;
}

/** A tool call with an id and a name that the provider accepts. The id is unique within the request. */
export interface HealedCall {
  type: "call";
  id: string;
  name: string;
  input: Record<string, unknown>;
  /** Additional fields in the form of the provider's API. */
  opaque?: Record<string, unknown>;
}

/** Block of an assistant turn. Calls are last, and thinking is never last. */
export type AnswerBlock = HealedText | HealedThinking | HealedCall | OpaqueBlock;

/** Result of one tool call. Its content is never empty. */
export interface HealedResult {
  callId: string;
  isError: boolean;
  content: UserBlock[];
  /** Additional fields in the form of the provider's API. */
  opaque?: Record<string, unknown>;
}

/** One or more stored messages that a model reads as one user turn. */
export interface UserTurn {
  role: "user";
  /** Exactly one result for each call of the turn before, in the order of the calls. */
  results: HealedResult[];
  content: UserBlock[];
}

/** One or more stored answers. */
export interface AssistantTurn {
  role: "assistant";
  content: AnswerBlock[];
}

/** A turn of a healed conversation. The first turn is the user's, roles alternate, and no turn is empty. */
export type Turn = UserTurn | AssistantTurn;

/** A tool in a form that every provider accepts. */
export interface HealedTool {
  name: string;
  description?: string;
  parameters: ObjectSchema;
}

/** A JSON Schema of an object that every provider accepts. */
export interface ObjectSchema {
  type: "object";
  properties: Record<string, unknown>;
  [keyword: string]: unknown;
}

/** System prompt and tools of the caller, in addition to those of the session. */
export interface CallerPrompt {
  /** System prompt, put before the session's own. */
  system?: string | undefined;
  /** Tools, put before the session's own. They replace session tools with the same name. */
  tools?: readonly ToolDefinition[] | undefined;
  /** Maximum length of a tool's name, in characters. */
  toolNameLength: number;
}

/**
 * Returns the current system prompt and tools. Applies all system messages of a context in order: adds the text,
 * replaces sections by name (null removes a section), removes tools, then adds tools. The prompt is the caller's text,
 * then the texts, then the sections, separated by blank lines; undefined when all are blank. Of two tools with the same
 * healed name, only the first is sent.
 */
export function foldSystem(
  messages: readonly ContextMessage[],
  caller: CallerPrompt,
): { system: string | undefined; tools: HealedTool[] } {
  const { texts, sections, tools: stored } = systemParts(messages);
  const parts = [caller.system, ...texts, ...sections.values()];
  const system = parts.filter((text) => typeof text === "string" && !isBlank(text)).join("\n\n");

  const tools = new Map<string, HealedTool>();
  for (const tool of [...(caller.tools ?? []), ...stored.values()]) {
    const healed = healedTool(tool, caller.toolNameLength);
    if (!tools.has(healed.name)) tools.set(healed.name, healed);
  }
  return { system: system === "" ? undefined : system.toWellFormed(), tools: [...tools.values()] };
}

/** Field names that other libraries use for a tool's schema. */
const OTHER_SCHEMAS = ["input_schema", "inputSchema", "schema", "args", "arguments", "function"];

/** Keywords of JSON Schema. A schema without a type has at least one of them. */
const SAYING_MORE = ["properties", "$ref", "anyOf", "oneOf", "allOf", "additionalProperties"];

/**
 * Throws for a tool whose arguments would be lost in the request.
 *
 * @throws EspalierError `bad-tool` when a tool is not an object, has its schema under another name than `parameters`,
 * or has `parameters` that are not the JSON Schema of an object
 */
export function refuseEmptySchemas(tools: readonly ToolDefinition[] | undefined): void {
  for (const tool of tools ?? []) {
    const problem = schemaProblem(tool);
    if (problem === undefined) continue;
    const name = isRecord(tool) ? JSON.stringify(tool["name"]) : "";
    throw new EspalierError(
      "bad-tool",
      `The tool ${name} would be sent with an empty schema: ${problem}. Give { name, description, parameters }, where parameters is a JSON Schema of type "object".`,
    );
  }
}

/**
 * Returns the reason why a tool's schema would be sent empty; undefined when it would not, and for a tool without
 * arguments.
 */
function schemaProblem(tool: unknown): string | undefined {
  if (!isRecord(tool)) return "it is not an object";
  const { parameters } = tool;
  if (parameters === undefined) {
    const other = OTHER_SCHEMAS.find((field) => tool[field] !== undefined);
    return other && `it has \`${other}\` and no \`parameters\``;
  }
  if (!isRecord(parameters)) return "its `parameters` are not an object";
  if ("~standard" in parameters || typeof parameters["parse"] === "function")
    return "its `parameters` are a validator and not a JSON Schema (zod: z.toJSONSchema(schema))";
  const isEmpty = Object.keys(parameters).length === 0;
  const isSchema = isEmpty || SAYING_MORE.some((keyword) => keyword in parameters);
  const { type } = parameters;
  return type === "object" || (type === undefined && isSchema)
    ? undefined
    : "its `parameters` are not the schema of an object";
}

/**
 * Returns the parts of all system messages of a context, applied in order: all texts, the current sections by name, and
 * the current tools by their stored names. The values are as stored and not checked.
 */
export function systemParts(messages: readonly ContextMessage[]) {
  const texts: string[] = [];
  const sections = new Map<string, unknown>();
  const tools = new Map<unknown, Record<string, unknown>>();
  for (const message of messages) {
    if (message?.role !== "system") continue;
    texts.push(messageText(message));
    for (const [name, text] of Object.entries(message.sections ?? {})) {
      if (text === null) sections.delete(name);
      else sections.set(name, text);
    }
    for (const removed of listOf(message.toolsRemoved))
      tools.delete(isRecord(removed) ? removed["name"] : removed);
    for (const added of listOf(message.toolsAdded)) if (isRecord(added)) tools.set(added["name"], added);
  }
  return { texts, sections, tools };
}

/** Returns a list; an empty one for a value of another type, which a file can hold. */
const listOf = (value: unknown): unknown[] => (Array.isArray(value) ? value : []);

function healedTool(tool: unknown, nameLength: number): HealedTool {
  const { name, description, parameters } = isRecord(tool) ? tool : {};
  return {
    name: validToolName(name, nameLength),
    ...(typeof description === "string" ? { description: description.toWellFormed() } : {}),
    parameters: objectSchema(parameters),
  };
}

/**
 * Returns a schema of an object with `properties`. Providers refuse other schemas, and OpenAI also one without
 * `properties`.
 */
function objectSchema(stored: unknown): ObjectSchema {
  const schema = (isRecord(stored) && wellFormed(stored)) || {};
  const { properties } = schema;
  return { ...schema, type: "object", properties: isRecord(properties) ? properties : {} };
}

const INVALID = /[^a-zA-Z0-9_-]/g;

/**
 * Returns a function that gives calls ids that a provider accepts and that are unique in the request. Call it once for
 * each call, in order: an id depends only on the calls before it, so it stays the same when the conversation grows. A
 * valid unused id is kept. Otherwise invalid characters become `_`, and `_2`, `_3`, … are tried.
 */
export function createCallIds(length: number): (id: unknown) => string {
  const taken = new Set<string>();
  const numbers = new Map<string, number>();
  return (id) => {
    const wanted = (typeof id === "string" && id.replace(INVALID, "_").slice(0, length)) || "call";
    let number = numbers.get(wanted) ?? 1;
    let free = wanted;
    while (taken.has(free)) {
      number++;
      const suffix = `_${number}`;
      free = wanted.slice(0, length - suffix.length) + suffix;
    }
    numbers.set(wanted, number);
    taken.add(free);
    return free;
  };
}

/**
 * Returns a tool's name in a form that a provider accepts, with at most `length` characters. It depends only on the
 * stored name, so calls and definitions agree.
 */
export function validToolName(name: unknown, length: number): string {
  return (typeof name === "string" && name.replace(INVALID, "_").slice(0, length)) || "tool";
}

// White space of JavaScript and of Python's `str.isspace`, because servers of providers use either.
const WHITE_SPACE = /[\s\x1c-\x1f\x85]/;
const VISIBLE = /[^\s\x1c-\x1f\x85]/;

/** Returns whether a text has only white space, or nothing. Providers refuse such a block. */
export function isBlank(text: string): boolean {
  return !VISIBLE.test(text);
}

/** Returns the text without white space at its end. */
export function trimmedEnd(text: string): string {
  let end = text.length;
  while (end > 0 && WHITE_SPACE.test(text.charAt(end - 1))) end--;
  return text.slice(0, end);
}
