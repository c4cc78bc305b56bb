import { EspalierError } from "@espalier/jsonl-stream";
import type { SessionContext } from "../context/context.ts";
import {
  type AssistantMessage,
  type ContentBlock,
  type ContextMessage,
  isRecord,
  messageText,
  type SystemMessage,
  type ThinkingBlock,
  type ToolDefinition,
  type ToolResultMessage,
} from "../entry/message.ts";
import { wellFormed } from "./json.ts";

/** A healed conversation with its system prompt and tools: all that a format needs. */
export interface Conversation {
  /** Undefined when there is none. */
  system: string | undefined;
  tools: HealedTool[];
  /** At least one. */
  turns: Turn[];
}

/** A provider's way to write a request. A new provider is a value of this shape. */
export interface RequestFormat<Request> {
  /** Most characters of a call's id; the alphabet is `A-Z a-z 0-9 _ -` everywhere. */
  readonly callIdLength: number;
  /** Most characters of a tool's name, of the same alphabet. */
  readonly toolNameLength: number;
  /**
   * Returns whether the provider can read this block of an answer of the same model; false leaves the block out.
   * Called only where the answer's prefix is unchanged.
   */
  acceptsThinking(block: ThinkingBlock, answer: AssistantMessage): boolean;
  /** Returns the context that is healed in place of `context`. Absent: `context` itself. */
  prepare?(context: SessionContext, model: SessionContext["model"]): SessionContext;
  /** Writes the request. Pure, and turn by turn: a turn is written the same whatever follows it, but for the last one. */
  render(conversation: Conversation): Request;
  /**
   * Returns what only this provider can say, as its API writes it: for a block the whole block, for a call or a result the
   * fields beside the common ones. Undefined for everything else. Absent: such blocks become words, such fields are left out.
   */
  opaque?(part: ContentBlock | ToolResultMessage, source: OpaqueSource): object | undefined;
}

/** Origin of a block or a result that may be opaque. */
export interface OpaqueSource {
  /** The answer that holds the block; undefined for blocks of users and of results, and for results. */
  answer: AssistantMessage | undefined;
  /** The model that will read the request. */
  model: SessionContext["model"];
}

/**
 * A block that only one provider knows. Healing keeps it in its place: in an answer it counts as text, elsewhere as a
 * picture, unless its own type is `text`.
 */
export interface OpaqueBlock {
  type: "opaque";
  /** The block as the provider's API writes it, in well-formed Unicode. */
  value: Record<string, unknown>;
}

/** True for a text that the provider's API also writes as a text. */
export const isTextBlock = (block: UserBlock | AnswerBlock): block is HealedText | OpaqueBlock =>
  block.type === "text" || (block.type === "opaque" && block.value["type"] === "text");

/** Text with something to read in it, well-formed Unicode. */
export interface HealedText {
  type: "text";
  text: string;
}

/** The kinds of picture that every provider here reads. */
export type PictureType = "image/png" | "image/jpeg" | "image/gif" | "image/webp";

/** A picture that providers read. */
export interface HealedImage {
  type: "image";
  mediaType: PictureType;
  /** Base64, without a `data:` prefix. */
  data: string;
}

/** Block of a user turn or of a tool result. */
export type UserBlock = HealedText | HealedImage | OpaqueBlock;

/** A model's reasoning that may be sent back, untouched. */
export interface HealedThinking {
  type: "thinking";
  block: ThinkingBlock;
}

/** A tool call with an id and a name that the provider accepts, the id unique within the request. */
export interface HealedCall {
  type: "call";
  id: string;
  name: string;
  input: Record<string, unknown>;
  /** Fields that only this provider knows, as its API writes them. */
  opaque?: Record<string, unknown>;
}

/** Block of an assistant turn: calls are last, thinking never is. */
export type AnswerBlock = HealedText | HealedThinking | HealedCall | OpaqueBlock;

/** The one result of one call. Its content is never empty. */
export interface HealedResult {
  callId: string;
  isError: boolean;
  content: UserBlock[];
  /** Fields that only this provider knows, as its API writes them. */
  opaque?: Record<string, unknown>;
}

/** One or more stored messages that a model reads as the user's. */
export interface UserTurn {
  role: "user";
  /** Exactly one for each call of the turn before, in the order of the calls. */
  results: HealedResult[];
  content: UserBlock[];
}

/** One or more stored answers. */
export interface AssistantTurn {
  role: "assistant";
  content: AnswerBlock[];
}

/** A step of a healed conversation: the first is the user's, roles alternate, none is empty. */
export type Turn = UserTurn | AssistantTurn;

/** A tool as every provider accepts it. */
export interface HealedTool {
  name: string;
  description?: string;
  parameters: ObjectSchema;
}

/** A JSON Schema of an object, as every provider takes it. */
export interface ObjectSchema {
  type: "object";
  properties: Record<string, unknown>;
  [keyword: string]: unknown;
}

/** System prompt and tools of the caller, beside those of the session. */
export interface CallerPrompt {
  /** Goes before the session's own. */
  system?: string | undefined;
  /** Replace the session's tools of the same name, and go before the others. */
  tools?: readonly ToolDefinition[] | undefined;
  toolNameLength: number;
}

/**
 * Returns the current system prompt and tools after all system messages of a context, in order: the text of each is
 * added, a section replaces the earlier one of its name (null removes it), tools are removed, then added. The prompt
 * is the caller's, the texts, then the sections, with a blank line between; undefined when all are blank. Two tools
 * whose names become equal when healed cannot both be sent: the first is.
 */
export function foldSystem(
  messages: readonly ContextMessage[],
  caller: CallerPrompt,
): { system: string | undefined; tools: HealedTool[] } {
  const texts: unknown[] = [caller.system];
  const sections = new Map<string, unknown>();
  const stored = new Map<unknown, unknown>();
  for (const message of messages) {
    if (message?.role === "system") applyPatch(message, texts, sections, stored);
  }
  for (const section of sections.values()) texts.push(section);
  const system = texts.filter((text) => typeof text === "string" && !isBlank(text)).join("\n\n");

  const tools = new Map<string, HealedTool>();
  for (const tool of [...(caller.tools ?? []), ...stored.values()]) {
    const healed = healedTool(tool, caller.toolNameLength);
    if (!tools.has(healed.name)) tools.set(healed.name, healed);
  }
  return { system: system === "" ? undefined : system.toWellFormed(), tools: [...tools.values()] };
}

/** Names under which other libraries have a tool's schema. */
const OTHER_SCHEMAS = ["input_schema", "inputSchema", "schema", "args", "arguments", "function"];

/** Keywords of which a JSON Schema without a type has at least one. */
const SAYING_MORE = ["properties", "$ref", "anyOf", "oneOf", "allOf", "additionalProperties"];

/**
 * Refuses tools that would be sent without their arguments.
 *
 * @throws EspalierError `bad-tool`
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
 * Returns the reason why a tool's schema would be sent empty; undefined where it would not, or for a tool without
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
    return "its `parameters` are a validator and no JSON Schema (zod: z.toJSONSchema(schema))";
  const isEmpty = Object.keys(parameters).length === 0;
  const isSchema = isEmpty || SAYING_MORE.some((keyword) => keyword in parameters);
  const { type } = parameters;
  return type === "object" || (type === undefined && isSchema)
    ? undefined
    : "its `parameters` are not the schema of an object";
}

function applyPatch(
  message: SystemMessage,
  texts: unknown[],
  sections: Map<string, unknown>,
  tools: Map<unknown, unknown>,
): void {
  texts.push(messageText(message));
  for (const [name, text] of Object.entries(message.sections ?? {})) {
    if (text === null) sections.delete(name);
    else sections.set(name, text);
  }
  for (const removed of listOf(message.toolsRemoved))
    tools.delete(isRecord(removed) ? removed["name"] : removed);
  for (const added of listOf(message.toolsAdded)) if (isRecord(added)) tools.set(added["name"], added);
}

/** Fields of a stored message are what a file says: not always lists. */
const listOf = (value: unknown): unknown[] => (Array.isArray(value) ? value : []);

function healedTool(tool: unknown, nameLength: number): HealedTool {
  const { name, description, parameters } = isRecord(tool) ? tool : {};
  return {
    name: validToolName(name, nameLength),
    ...(typeof description === "string" ? { description: description.toWellFormed() } : {}),
    parameters: objectSchema(parameters),
  };
}

/** Providers refuse a schema that is not of an object, OpenAI one without `properties`. */
function objectSchema(stored: unknown): ObjectSchema {
  const schema = (isRecord(stored) && wellFormed(stored)) || {};
  const { properties } = schema;
  if (isObjectSchema(schema)) return schema;
  return { ...schema, type: "object", properties: isRecord(properties) ? properties : {} };
}

const isObjectSchema = (schema: Record<string, unknown>): schema is ObjectSchema =>
  schema["type"] === "object" && isRecord(schema["properties"]);

const INVALID = /[^a-zA-Z0-9_-]/g;

/**
 * Gives calls ids that a provider accepts and that are unique in the request. To be asked once for each call, in
 * order: an id depends on the calls before it alone, so it stays the same however the conversation goes on.
 * A valid id that is still free is kept; else invalid characters become `_`, and `_2`, `_3`, … are tried.
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

/** A tool's name as a provider accepts it. Depends on the name alone, so calls and definitions agree. */
export function validToolName(name: unknown, length: number): string {
  return (typeof name === "string" && name.replace(INVALID, "_").slice(0, length)) || "tool";
}

// White space of JavaScript and, beyond it, what Python's str.isspace counts: providers judge by their own rules.
const WHITE_SPACE = /[\s\x1c-\x1f\x85]/;
const VISIBLE = /[^\s\x1c-\x1f\x85]/;

/** True for text without anything to read: providers refuse such a block. */
export function isBlank(text: string): boolean {
  return !VISIBLE.test(text);
}

/** The text without white space at its end. */
export function trimmedEnd(text: string): string {
  let end = text.length;
  while (end > 0 && WHITE_SPACE.test(text.charAt(end - 1))) end--;
  return text.slice(0, end);
}
