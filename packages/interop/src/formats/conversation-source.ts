import {
  type ContextMessage,
  estimateTotal,
  type RequestOptions,
  type SessionContext,
  type ToolDefinition,
} from "@espalier/session-tree";
import type { ImportedConversation } from "./imported-conversation.ts";

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
