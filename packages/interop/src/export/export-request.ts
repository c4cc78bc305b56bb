import {
  buildSessionContext,
  type ContextMessage,
  type Redactor,
  redactMessage,
  type SessionContext,
} from "@espalier/session-tree";
import type { ConversationSource } from "../formats/conversation-source.ts";
import { toAiSdk } from "../formats/to-ai-sdk.ts";
import { toAnthropic } from "../formats/to-anthropic.ts";
import { toOpenaiChat } from "../formats/to-openai-chat.ts";
import { toOpenaiResponses } from "../formats/to-openai-responses.ts";
import type { ExportSource } from "./export-source.ts";
import { jsonFields } from "./json-fields.ts";

/** Formats in which a context can be exported as a request. */
export const requestExports = {
  anthropic: toAnthropic,
  openai: toOpenaiChat,
  "openai-responses": toOpenaiResponses,
  "ai-sdk": toAiSdk,
} satisfies Record<string, (source: ConversationSource) => object>;

/**
 * The request that the context at the end of the path makes, one message a line. Returns how many entries the context
 * is made of.
 * @throws SessionTreeError `empty-context` when nothing there says anything to a model
 */
export function* exportRequest(
  source: ExportSource,
  write: (source: ConversationSource) => object,
): Generator<string, number> {
  const context = buildSessionContext(source.tree, source.endId);
  yield* jsonFields(write(source.redactor ? redactContext(context, source.redactor) : context));
  return new Set(context.sources).size;
}

/** A context without what must not be seen. Reasoning that was signed behind a change cannot be sent any more. */
function redactContext(context: SessionContext, redactor: Redactor): SessionContext {
  let changed = false;
  const prefixChanged: boolean[] = [];
  const messages = context.messages.map((message, index): ContextMessage => {
    const redacted = redactMessage(message, redactor);
    changed ||= redacted !== message;
    prefixChanged.push(changed || context.prefixChanged[index] === true);
    return redacted;
  });
  return { ...context, messages, prefixChanged };
}
