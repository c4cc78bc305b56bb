import {
  type AssistantBlock,
  type AssistantMessage,
  type ContentBlock,
  type ContextMessage,
  estimateTotal,
  type RequestOptions,
  type SessionContext,
  type StoredMessage,
  type ToolDefinition,
} from "@espalier/session-tree";
import { type Native, plainJson } from "./native.ts";

/** The model of answers of which nothing says which model gave them. */
const UNKNOWN_MODEL = "unknown";

/** What a format knows of all its answers. */
interface AnswerOrigin {
  /** Name of the API as it stands in sessions; undefined where answers can come from any. */
  api: string | undefined;
  /** Where the caller names none. */
  provider: string;
}

/** Puts the messages of an imported conversation together: times, names of tools and the system prompt. */
export class ConversationBuilder {
  readonly issues: FormatIssues;
  readonly messages: StoredMessage[] = [];
  readonly provider: string;
  readonly #modelId: string;
  readonly #api: string | undefined;
  readonly #timestamp: number;
  readonly #prompts: string[] = [];
  readonly #toolNames = new Map<string, string>();

  constructor(
    origin: AnswerOrigin,
    { model, timestamp = 0 }: ConversationOptions,
    issues = new FormatIssues(),
  ) {
    this.issues = issues;
    this.provider = model?.provider ?? origin.provider;
    this.#modelId = model?.modelId ?? UNKNOWN_MODEL;
    this.#api = origin.api;
    this.#timestamp = timestamp;
  }

  /** What was handed over, as plain JSON. */
  read(input: unknown): unknown {
    return plainJson(input, (path) =>
      this.issues.add("malformed", "value", path, "A value that JSON cannot hold is left out."),
    );
  }

  user(content: string | ContentBlock[]): void {
    this.#push({ role: "user", content, timestamp: this.#timestamp });
  }

  /** @param said what the answer itself says of its origin */
  answer(content: ContentBlock[], said: Partial<AssistantMessage> = {}): void {
    let calls = false;
    for (const block of content) {
      if (block.type !== "toolCall") continue;
      calls = true;
      this.#toolNames.set(block.id, block.name);
    }
    this.#push({
      role: "assistant",
      content: content as AssistantBlock[],
      ...(this.#api === undefined ? {} : { api: this.#api }),
      provider: this.provider,
      model: this.#modelId,
      stopReason: calls ? "toolUse" : "stop",
      timestamp: this.#timestamp,
      ...said,
    });
  }

  /** @param named the tool, where the result itself says it */
  result(
    toolCallId: string,
    content: ContentBlock[],
    isError: boolean,
    path: string,
    { native, named = "" }: { native?: Native | undefined; named?: string } = {},
  ): void {
    const toolName = this.#toolNames.get(toolCallId);
    if (toolName === undefined) {
      const message = "A result has no call before it; requests leave it out.";
      this.issues.add("malformed", "result", path, message);
    }
    this.#push({
      role: "toolResult",
      toolCallId,
      toolName: toolName ?? named,
      content,
      isError,
      ...(native ? { native } : {}),
      timestamp: this.#timestamp,
    });
  }

  /** A system prompt: before the conversation it stands beside the messages, later it is one of them. */
  system(text: string, path: string): void {
    if (text === "") return;
    if (this.messages.length === 0) {
      this.#prompts.push(text);
      return;
    }
    const message = "A system message inside the conversation is kept; requests say it in the system prompt.";
    this.issues.add("changed", "system", path, message);
    this.#push({ role: "system", content: text, timestamp: this.#timestamp });
  }

  finish(tools: ToolDefinition[]): ImportedConversation {
    return {
      messages: this.messages,
      ...(this.#prompts.length === 0 ? {} : { system: this.#prompts.join("\n\n") }),
      ...(tools.length === 0 ? {} : { tools }),
      model: { provider: this.provider, modelId: this.#modelId },
      issues: this.issues.list(),
    };
  }

  /** Content may hold blocks that the message types do not list: a session keeps them all. */
  #push(message: object): void {
    this.messages.push(message as StoredMessage);
  }
}

/** A conversation of another format as neutral messages, ready to be appended to a session. */
export interface ImportedConversation {
  messages: StoredMessage[];
  /** What stood before the conversation as system prompt; not among the messages. */
  system?: string;
  tools?: ToolDefinition[];
  /** Whose answers these are, where the answers themselves do not say. */
  model: { provider: string; modelId: string };
  /** What is not there in the same way as it was; empty when nothing is missing. */
  issues: FormatIssue[];
}

/** What formats do not say of a conversation and messages of a session need. */
export interface ConversationOptions {
  /**
   * Who gave the answers. Reasoning goes back to this provider and model only. Default: the provider of the format and
   * a model `unknown`, or what a message itself says.
   */
  model?: { provider: string; modelId: string } | undefined;
  /** When it was said, epoch milliseconds; formats have no times, so all messages get this one. Default 0. */
  timestamp?: number | undefined;
}

/** What can be written in a format: a context of a session, messages, or an imported conversation. */
export type ConversationSource =
  | SessionContext
  | readonly ContextMessage[]
  | ImportedConversation
  | (Pick<RequestOptions<unknown>, "system" | "tools" | "model"> & { messages: readonly ContextMessage[] });

/** How a conversation becomes a request; as for `buildRequest`, which makes it. */
export type WriteOptions = Omit<RequestOptions<unknown>, "format">;

/** A context and the prompt around it. */
export interface RequestSource {
  context: SessionContext;
  model: SessionContext["model"];
  system: string | undefined;
  tools: readonly ToolDefinition[] | undefined;
}

/**
 * What a request is to be made of. Where only messages are given, nothing before them has changed, and the model is
 * that of the last answer.
 */
export function readSource(source: ConversationSource, options: WriteOptions): RequestSource {
  const given = "messages" in source ? source : { messages: source };
  const { system, tools } = { system: undefined, tools: undefined, ...given };
  const context = "prefixChanged" in given ? given : contextOf(given);
  return {
    context,
    model: options.model === undefined ? context.model : options.model,
    system: options.system ?? system,
    tools: options.tools ?? tools,
  };
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
 * - `malformed`: not of the format; passed over, or read as far as it could be
 * - `dropped`: understood, and the neutral messages have no place for it
 * - `changed`: kept, and a request will say it in another way
 * - `opaque`: kept as it is, and only its own format will see it again
 */
export type FormatIssueKind = "malformed" | "dropped" | "changed" | "opaque";

/** One thing that a conversation in another format said and its neutral messages do not say in the same way. */
export interface FormatIssue {
  kind: FormatIssueKind;
  /** The field, block type or role it is about. */
  field: string;
  /** Where it was first met, as in `messages[3].content[0]`. */
  path: string;
  /** How often. */
  count: number;
  message: string;
}

/** Collects issues: one for each kind and field, however often it is met, so that a long history has a short report. */
export class FormatIssues {
  readonly #issues = new Map<string, FormatIssue>();

  /** @param message one sentence; that of the first time stands */
  add(kind: FormatIssueKind, field: string, path: string, message: string): void {
    const key = `${kind} ${field} ${message}`;
    const known = this.#issues.get(key);
    if (known) known.count++;
    else this.#issues.set(key, { kind, field, path, count: 1, message });
  }

  /** Fields that have no place: for caching and for the provider's own bookkeeping. */
  dropped(fields: Iterable<string>, path: string): void {
    for (const field of fields) {
      this.add(
        "dropped",
        shown(field),
        path,
        `\`${shown(field)}\` has no place in a session; it is left out.`,
      );
    }
  }

  /** A block that only its own format can read. */
  opaque(type: unknown, path: string): void {
    const field = shown(type);
    this.add("opaque", field, path, `A ${field} is kept as it is; only its own format sees it again.`);
  }

  get isEmpty(): boolean {
    return this.#issues.size === 0;
  }

  list(): FormatIssue[] {
    return [...this.#issues.values()];
  }
}

/** Names come from outside: short, and printable. */
function shown(name: unknown): string {
  return typeof name === "string" ? name.replace(/[^\w.:/ -]+/g, "?").slice(0, 64) || "(empty)" : "(no name)";
}
