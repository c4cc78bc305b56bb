import type {
  AssistantBlock,
  AssistantMessage,
  ContentBlock,
  StoredMessage,
  ToolDefinition,
} from "@espalier/session-tree";
import { FormatIssues } from "./format-issue.ts";
import type { ConversationOptions, ImportedConversation } from "./imported-conversation.ts";
import type { Native } from "./native.ts";
import { plainJson } from "./plain-json.ts";

/** The model of answers of which nothing says which model gave them. */
const UNKNOWN_MODEL = "unknown";

/** What a format knows of all its answers. */
export interface AnswerOrigin {
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
