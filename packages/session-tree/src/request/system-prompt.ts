import { type ContextMessage, messageText, type SystemMessage, type ToolDefinition } from "../message.ts";
import { SessionTreeError } from "../session-tree-error.ts";
import { isBlank } from "./blank.ts";
import { validToolName } from "./call-ids.ts";
import { isRecord } from "./record.ts";
import { wellFormed } from "./well-formed.ts";

/** A tool as every provider can be told of it. */
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

/** What the caller adds to what the session says. */
export interface CallerPrompt {
  /** Goes before the session's own. */
  system?: string | undefined;
  /** Replace the session's tools of the same name, and go before the others. */
  tools?: readonly ToolDefinition[] | undefined;
  toolNameLength: number;
}

/**
 * The system prompt and the tools in force after all system messages of a context, in order: the text of each is added,
 * a section replaces the earlier one of its name (null removes it), tools are removed, then added. The prompt is the
 * caller's, the texts, then the sections, with a blank line between; undefined when all are blank. Two tools whose
 * names become equal when healed cannot both be sent: the first stands.
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
 * Refuses tools that a model would be told of without their arguments.
 *
 * @throws SessionTreeError `bad-tool`
 */
export function refuseEmptySchemas(tools: readonly ToolDefinition[] | undefined): void {
  for (const tool of tools ?? []) {
    const problem = schemaProblem(tool);
    if (problem === undefined) continue;
    const name = isRecord(tool) ? JSON.stringify(tool["name"]) : "";
    throw new SessionTreeError(
      "bad-tool",
      `The tool ${name} would be sent with an empty schema: ${problem}. Give { name, description, parameters }, where parameters is a JSON Schema of type "object".`,
    );
  }
}

/** Why the schema of a tool would be sent empty; undefined where it is not, or where the tool has no arguments. */
function schemaProblem(tool: unknown): string | undefined {
  if (!isRecord(tool)) return "it is no object";
  const { parameters } = tool;
  if (parameters === undefined) {
    const other = OTHER_SCHEMAS.find((field) => tool[field] !== undefined);
    return other && `it has \`${other}\` and no \`parameters\``;
  }
  if (!isRecord(parameters)) return "its `parameters` are no object";
  if ("~standard" in parameters || typeof parameters["parse"] === "function")
    return "its `parameters` are a validator and no JSON Schema (zod: z.toJSONSchema(schema))";
  const isEmpty = Object.keys(parameters).length === 0;
  const isSchema = isEmpty || SAYING_MORE.some((keyword) => keyword in parameters);
  const { type } = parameters;
  return type === "object" || (type === undefined && isSchema)
    ? undefined
    : "its `parameters` are no schema of an object";
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
