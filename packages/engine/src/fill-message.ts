import {
  type AssistantMessage,
  type ContextMessage,
  contentBlocks,
  type MessageEntry,
  message,
  type NewEntry,
  type SessionContext,
  type StoredMessage,
  toolCalls,
} from "@espalier/session-tree";
import { EngineError } from "./engine-error.ts";

/** A message as a person or a script writes it: a role and content; what is left out is filled in. */
export interface MessageDraft {
  role: string;
  content?: unknown;
  [field: string]: unknown;
}

const ROLES = new Set(["user", "assistant", "toolResult", "bashExecution", "custom", "system"]);

/** Message entries out of drafts that follow one another; see {@link fillMessage}. */
export function fillMessages(
  drafts: readonly MessageDraft[],
  context: SessionContext,
  now = Date.now(),
): NewEntry<MessageEntry>[] {
  // A result may belong to a call of the same batch.
  const said: StoredMessage[] = [];
  return drafts.map((draft) => {
    const entry = fillMessage(draft, context, now, said);
    said.push(entry.message);
    return entry;
  });
}

/**
 * Makes a message entry out of a draft: content given as text becomes blocks where the format has blocks, a missing
 * provider and model are those in force, a tool's name is that of the call, an answer with calls ended in `toolUse`.
 *
 * @param batch messages that stand before it in the same append
 * @throws EngineError `bad-input`
 */
export function fillMessage(
  draft: MessageDraft,
  context: SessionContext,
  now = Date.now(),
  batch: readonly StoredMessage[] = [],
): NewEntry<MessageEntry> {
  if (typeof draft !== "object" || draft === null || !ROLES.has(draft.role)) {
    const given = typeof draft === "object" && draft !== null ? JSON.stringify(draft.role) : "none";
    throw new EngineError(
      "bad-input",
      `A message needs a role (${[...ROLES].join(", ")}); the role given is ${given}.`,
    );
  }
  return message.of({
    message: { ...filled(draft, context, batch), timestamp: timestampOf(draft, now) } as StoredMessage,
  });
}

function filled(draft: MessageDraft, context: SessionContext, batch: readonly StoredMessage[]): MessageDraft {
  if (draft.role === "assistant") return filledAnswer(draft, context);
  if (draft.role === "toolResult") {
    const { toolCallId } = draft;
    if (typeof toolCallId !== "string")
      throw new EngineError("bad-input", "A toolResult needs the `toolCallId` of its call.");
    const callName = () => callNamed(toolCallId, batch) ?? callNamed(toolCallId, context.messages);
    const toolName = draft["toolName"] ?? callName() ?? "unknown";
    return { ...draft, toolName, content: contentBlocks(draft), isError: draft["isError"] ?? false };
  }
  if (draft.role === "bashExecution") {
    return {
      ...draft,
      command: draft["command"] ?? "",
      output: draft["output"] ?? "",
      exitCode: draft["exitCode"] ?? 0,
      cancelled: draft["cancelled"] ?? false,
      truncated: draft["truncated"] ?? false,
    };
  }
  if (draft.role === "custom")
    return {
      ...draft,
      customType: draft["customType"] ?? "note",
      content: draft.content ?? "",
      display: draft["display"] ?? true,
    };
  return { ...draft, content: draft.content ?? "" };
}

const NOTHING_BILLED = {
  input: 0,
  output: 0,
  cacheRead: 0,
  cacheWrite: 0,
  totalTokens: 0,
  cost: { input: 0, output: 0, cacheRead: 0, cacheWrite: 0, total: 0 },
};

function filledAnswer(draft: MessageDraft, { model }: SessionContext): MessageDraft {
  const content = contentBlocks(draft);
  const calls = toolCalls({ ...draft, content } as unknown as AssistantMessage);
  return {
    ...draft,
    content,
    api: draft["api"] ?? "unknown",
    provider: draft["provider"] ?? model?.provider ?? "unknown",
    model: draft["model"] ?? model?.modelId ?? "unknown",
    usage: draft["usage"] ?? NOTHING_BILLED,
    stopReason: draft["stopReason"] ?? (calls.length > 0 ? "toolUse" : "stop"),
  };
}

function callNamed(toolCallId: string, messages: readonly ContextMessage[]): string | undefined {
  for (let at = messages.length - 1; at >= 0; at--) {
    const call = toolCalls(messages[at]!).find(({ id }) => id === toolCallId);
    if (call) return call.name;
  }
  return undefined;
}

function timestampOf(draft: MessageDraft, now: number): number {
  return typeof draft["timestamp"] === "number" ? draft["timestamp"] : now;
}
