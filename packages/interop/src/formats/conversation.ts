import {
  type AssistantMessage,
  buildRequest,
  type ContentBlock,
  type ContextMessage,
  estimateTotal,
  isRecord,
  type RequestFormat,
  type RequestOptions,
  type SessionContext,
  type StoredMessage,
  type ToolDefinition,
} from "@espalier/session-tree";
import { type FormatName, nativeBlock, plainJson } from "./native.ts";

type Fields = Record<string, unknown>;

/** Fields of each answer that names no others; without `api` if the answers of a format can come from any API. */
type AnswerOrigin = Pick<AssistantMessage, "api" | "provider" | "model">;

/** A result as a format has it. */
interface ReadResult {
  toolCallId: unknown;
  /** Name of the tool in the result itself. */
  toolName?: unknown;
  content: ContentBlock[];
  isError: boolean;
}

/** Builds the messages of an imported conversation: adds times, names of tools and the system prompt. */
export class ConversationBuilder {
  readonly issues = new FormatIssues();
  origin: AnswerOrigin;
  readonly #timestamp: number;
  readonly #messages: StoredMessage[] = [];
  readonly #prompts: string[] = [];
  readonly #toolNames = new Map<string, string>();

  /** @param origin provider and API of the answers, if the caller names none */
  constructor(origin: Omit<AnswerOrigin, "model">, { model, timestamp = 0 }: ConversationOptions) {
    const { provider = origin.provider, modelId = "unknown" } = model ?? {};
    this.origin = { ...origin, provider, model: modelId };
    this.#timestamp = timestamp;
  }

  /** Returns the fields of a request as plain JSON: for a list, the list as field `list`; for any other value, none. */
  read(input: unknown, list: string): Fields {
    const plain = this.issues.plain(input);
    return Array.isArray(plain) ? { [list]: plain } : isRecord(plain) ? plain : {};
  }

  /** Returns the messages of a request, each with its path. A message that is not an object becomes an empty one. */
  messagesOf({ messages }: Fields): [Fields, string][] {
    if (!Array.isArray(messages))
      this.issues.add("malformed", "messages", "", "There is no list of messages.");
    return listOf(messages).map((message, at) => [isRecord(message) ? message : {}, `messages[${at}]`]);
  }

  /**
   * Adds a message of a user or of the system, whose content `read` returns; reports one of any other role. A system prompt
   * before the first message is stored separately; later it becomes a message, with an issue.
   */
  say(role: unknown, path: string, read: () => string | ContentBlock[]): void {
    if (role === "user") this.#push({ role, content: read() });
    else if (role === "system" || role === "developer") this.#addPrompt(read(), path);
    else this.issues.add("malformed", "role", path, "A message has an unknown role; it is left out.");
  }

  #addPrompt(content: string | ContentBlock[], path: string): void {
    const text = typeof content === "string" ? content : textsOf(content).join("\n\n");
    if (text === "") return;
    if (this.#messages.length === 0) {
      this.#prompts.push(text);
      return;
    }
    this.issues.add("changed", "system", path, LATE_PROMPT);
    this.#push({ role: "system", content: text });
  }

  /** @param said fields of the answer itself that replace the defaults, such as its model, stop reason and usage */
  answer(content: ContentBlock[], said: Partial<AssistantMessage> = {}): void {
    const calls = content.filter((block) => block.type === "toolCall");
    for (const { id, name } of calls) this.#toolNames.set(id, name);
    const stopReason = calls.length > 0 ? "toolUse" : "stop";
    this.#push({ role: "assistant", content, ...this.origin, stopReason, ...said });
  }

  /** Adds a result. Its tool has the name that its call gives, else that of the result itself. */
  result({ toolCallId, toolName, ...result }: ReadResult, path: string): void {
    const id = typeof toolCallId === "string" ? toolCallId : "";
    const named = typeof toolName === "string" ? toolName : "";
    if (!this.#toolNames.has(id))
      this.issues.add("malformed", "result", path, "A result has no call before it; requests leave it out.");
    this.#push({ role: "toolResult", toolCallId: id, toolName: this.#toolNames.get(id) ?? named, ...result });
  }

  /**
   * Returns the conversation with the tools in a list. `read` gives a tool's fields their names in a session; a tool without a
   * name cannot be stored.
   *
   * @param message says why a tool is left out
   */
  finish(tools: unknown, message: string, read: (tool: Fields) => Fields): ImportedConversation {
    const stored = listOf(tools).flatMap((tool, at): ToolDefinition[] => {
      const { name, description, parameters, ...rest } = read(isRecord(tool) ? tool : {});
      const isTool = typeof name === "string";
      if (isTool) this.issues.dropped(rest, `tools[${at}]`);
      else this.issues.add("dropped", "tool", `tools[${at}]`, message);
      return isTool ? [toolOf(name, description, parameters)] : [];
    });
    const { provider, model: modelId } = this.origin;
    return {
      messages: this.#messages,
      ...(this.#prompts.length === 0 ? {} : { system: this.#prompts.join("\n\n") }),
      ...(stored.length === 0 ? {} : { tools: stored }),
      model: { provider, modelId },
      issues: this.issues.list(),
    };
  }

  /** The cast allows blocks that the message types do not list; a session stores all of them. */
  #push(message: object): void {
    this.#messages.push({ ...message, timestamp: this.#timestamp } as StoredMessage);
  }
}

const LATE_PROMPT =
  "A system message inside the conversation is kept; requests have it in the system prompt.";

/** A conversation of another format as neutral messages, which can be appended to a session. */
export interface ImportedConversation {
  messages: StoredMessage[];
  /** System prompt from before the conversation; it is not among the messages. */
  system?: string;
  tools?: ToolDefinition[];
  /** Model of the answers that name none. */
  model: { provider: string; modelId: string };
  /** Differences from the input; empty when there are none. */
  issues: FormatIssue[];
}

/** Fields that messages of a session require and other formats lack. */
export interface ConversationOptions {
  /**
   * Model that gave the answers. Reasoning is sent back only to this provider and model. Default: the provider and
   * model that a message names, else the provider of the format and a model `unknown`.
   */
  model?: { provider: string; modelId: string } | undefined;
  /** Time of all messages in epoch milliseconds, because formats have no times. Default 0. */
  timestamp?: number | undefined;
}

/** Source of a request: a context of a session, messages, or an imported conversation. */
export type ConversationSource =
  | SessionContext
  | readonly ContextMessage[]
  | ImportedConversation
  | (Pick<RequestOptions<unknown>, "system" | "tools" | "model"> & { messages: readonly ContextMessage[] });

/** Options of a request, as of `buildRequest`, which makes it. */
export type WriteOptions = Omit<RequestOptions<unknown>, "format">;

/**
 * Makes the request of a conversation in a format. For a source that is no session context, nothing before a message has
 * changed, and the model is that of the last answer, or else that of the source. `options` have priority over the source.
 */
export function writeRequest<Request>(
  source: ConversationSource,
  options: WriteOptions,
  format: RequestFormat<Request>,
): Request {
  const given = "messages" in source ? source : { messages: source };
  const { system, tools } = { system: undefined, tools: undefined, ...given };
  const context = "prefixChanged" in given ? given : contextOf(given);
  return buildRequest(context, {
    format,
    model: options.model === undefined ? context.model : options.model,
    system: options.system ?? system,
    tools: options.tools ?? tools,
  });
}

function contextOf({
  messages,
  model = null,
}: {
  messages: readonly ContextMessage[];
  model?: SessionContext["model"] | undefined;
}): SessionContext {
  const answer = messages.findLast((message) => message?.role === "assistant");
  return {
    messages: [...messages],
    sources: messages.map(() => ""),
    prefixChanged: messages.map(() => false),
    tokens: estimateTotal(messages),
    model: answer ? { provider: answer.provider, modelId: answer.model } : model,
    thinkingLevel: "off",
  };
}

/**
 * - `malformed`: not valid in the format; skipped, or read as far as possible
 * - `dropped`: valid, but neutral messages cannot store it
 * - `changed`: stored, and a request will have it in another form
 * - `opaque`: stored unchanged, and only its own format can read it
 */
export type FormatIssueKind = "malformed" | "dropped" | "changed" | "opaque";

/** One difference between a conversation in another format and its neutral messages, or a path and another agent's file. */
export interface FormatIssue {
  kind: FormatIssueKind;
  /** Field, block type or role of the difference. */
  field: string;
  /** Path of the first occurrence, such as `messages[3].content[0]`; for another agent's file, the id of the entry. */
  path: string;
  /** Number of occurrences. */
  count: number;
  message: string;
}

/**
 * Collects issues. Equal ones (kind, field and message) become one with a count, so that a long history has a short
 * report.
 */
export class FormatIssues {
  readonly #issues = new Map<string, FormatIssue>();

  /** @param message one sentence */
  add(kind: FormatIssueKind, field: string, path: string, message: string): void {
    const key = `${kind} ${field} ${message}`;
    const known = this.#issues.get(key);
    if (known) known.count++;
    else this.#issues.set(key, { kind, field, path, count: 1, message });
  }

  /**
   * Reports fields that are left out, because a session cannot store them: fields of one request, and unknown ones. APIs
   * write null for a field that is not used.
   */
  dropped(fields: Fields, path: string): void {
    for (const [field, value] of Object.entries(fields)) {
      if (value === null || value === undefined) continue;
      const name = shown(field);
      this.add("dropped", name, path, `\`${name}\` cannot be kept in a session; it is left out.`);
    }
  }

  /** Reports a part that does not have the shape of its type; returns no block. */
  misshapen(type: unknown, path: string, message = NOT_OF_SHAPE): [] {
    this.add("malformed", shown(type), path, message);
    return [];
  }

  /** Returns a value as plain JSON, and reports each part of it that JSON cannot express. */
  plain(value: unknown, path = ""): unknown {
    const message = "A value that cannot be written as JSON is left out.";
    return plainJson(value, (place) => this.add("malformed", "value", `${path}${place}`, message));
  }

  /** Returns an unchanged block that only its own format can read, and reports it. */
  opaque(format: FormatName, value: Fields, path: string, provider?: string): ContentBlock {
    const type = shown(value["type"]);
    this.add("opaque", type, path, `A ${type} is kept unchanged; only requests in its own format have it.`);
    return nativeBlock(format, value, provider);
  }

  list(): FormatIssue[] {
    return [...this.#issues.values()];
  }

  /** Returns the issues since the last call. */
  taken(): FormatIssue[] {
    const issues = this.list();
    this.#issues.clear();
    return issues;
  }
}

/**
 * Returns a name from the input, at most 64 characters, with each run of unusual characters as `?`; `(empty)` for an
 * empty text, `(no name)` for a value that is not a text.
 */
function shown(name: unknown): string {
  return typeof name === "string" ? name.replace(/[^\w.:/ -]+/g, "?").slice(0, 64) || "(empty)" : "(no name)";
}

const NOT_OF_SHAPE = "A part does not have the shape of its type; it is left out.";

/** Reads one part of a content. */
export type PartReader = (part: Fields, path: string, issues: FormatIssues) => ContentBlock[];

/** Reads a content: text, or a list of parts. Any other value is reported and gives no block. */
export function readContent(
  content: unknown,
  path: string,
  issues: FormatIssues,
  readPart: PartReader,
): ContentBlock[] {
  if (typeof content === "string") return [{ type: "text", text: content }];
  if (!Array.isArray(content))
    return issues.misshapen("content", path, "The content of a message is neither text nor a list.");
  return partsOf(content, path, issues).flatMap(([part, place]) => readPart(part, place, issues));
}

/** Returns the elements of a list that are objects with a `type`, each with its path; reports every other element. */
export function partsOf(list: readonly unknown[], path: string, issues: FormatIssues): [Fields, string][] {
  return list.flatMap((part, at): [Fields, string][] => {
    const place = `${path}[${at}]`;
    if (isRecord(part) && typeof part["type"] === "string") return [[part, place]];
    return issues.misshapen("part", place, "A part has no type; it is left out.");
  });
}

export const listOf = (value: unknown): unknown[] => (Array.isArray(value) ? value : []);

/** Returns the number in a field; 0 for any other value. */
export const countIn = (fields: Fields, field: string): number => {
  const value = fields[field];
  return typeof value === "number" ? value : 0;
};

export const textsOf = (blocks: readonly ContentBlock[]): string[] =>
  blocks.flatMap((block) => (block.type === "text" ? [block.text] : []));

/** Returns the input of a call as an object; undefined becomes `{}`, another value `{value}`, both with an issue. */
export function readInput(input: unknown, path: string, issues: FormatIssues): Fields {
  if (isRecord(input)) return input;
  issues.add("changed", "input", path, "The input of a call is not an object; it is wrapped in one.");
  return input === undefined ? {} : { value: input };
}

/** Makes a tool definition, without absent fields. */
export function toolOf(name: string, description: unknown, parameters: unknown): ToolDefinition {
  return {
    name,
    ...(typeof description === "string" ? { description } : {}),
    ...(isRecord(parameters) ? { parameters } : {}),
  };
}
