import {
  type AssistantMessage,
  type BashExecutionMessage,
  type ContentBlock,
  type ContextMessage,
  type CustomMessage,
  contentBlocks,
  isBlank,
  isRecord,
  type MessageEntry,
  message,
  type NewEntry,
  type SessionContext,
  type StoredMessage,
  type SystemMessage,
  type ToolResultMessage,
  toolCalls,
  type UserMessage,
} from "@espalier/session-tree";
import { EngineError } from "./engine-error.ts";

/** What a draft says: a text, or blocks of the session's own shapes (`text`, `image`, `thinking`, `toolCall`). */
export type DraftContent = string | readonly (ContentBlock | { type: string; [field: string]: unknown })[];

/** A message of which all but the role and some fields may be left out. */
export type Draft<Message extends StoredMessage, Needed extends keyof Message = never> = Pick<
  Message,
  "role" | Needed
> &
  Partial<Omit<Message, "content">> & { content?: DraftContent };

/**
 * A message as a person or a script writes it: a role and content; what is left out is filled in. A stored message is one,
 * and so is what `fromAnthropic` and its siblings of `@espalier/interop` give.
 */
export type MessageDraft =
  | Draft<UserMessage>
  | Draft<AssistantMessage>
  | Draft<ToolResultMessage, "toolCallId">
  | Draft<BashExecutionMessage>
  | Draft<CustomMessage>
  | Draft<SystemMessage>;

/** Message entries out of drafts that follow one another; see {@link fillMessage}. */
export function fillMessages(
  drafts: readonly MessageDraft[],
  context: SessionContext,
  now = Date.now(),
): NewEntry<MessageEntry>[] {
  // A result may belong to a call of the same batch.
  const said: StoredMessage[] = [];
  return drafts.map((draft) => {
    const entry = readDraft(() => fillMessage(draft, context, now, said));
    said.push(entry.message);
    return entry;
  });
}

/** A getter of a draft may throw anything. */
function readDraft<Read>(read: () => Read): Read {
  try {
    return read();
  } catch (cause) {
    if (cause instanceof EngineError) throw cause;
    const reason = cause instanceof Error ? cause.message : String(cause);
    const message = `The message cannot be read: ${reason.replace(/[.;]$/, "")}; give it plain values.`;
    throw new EngineError("bad-input", message, { cause });
  }
}

/**
 * Makes a message entry out of a draft: content given as text becomes blocks where the format has blocks, a missing
 * provider and model are those in force, a tool's name is that of the call, an answer with calls ended in `toolUse`.
 *
 * Refused is what no model would read as it was meant: a prompt that says nothing, roles and fields that no message has, and
 * blocks of a provider's own shape.
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
  refuseUnknown(draft);
  return message.of({
    message: { ...filled(draft, context, batch), timestamp: timestampOf(draft, now) } as StoredMessage,
  });
}

/** Fields of each role. `native` is what one provider alone can say, as `@espalier/interop` keeps it. */
const FIELDS: Readonly<Record<StoredMessage["role"], readonly string[]>> = {
  user: ["content"],
  assistant: ["content", "api", "provider", "model", "usage", "stopReason", "errorMessage"],
  toolResult: ["content", "toolCallId", "toolName", "isError", "details"],
  bashExecution: [
    "command",
    "output",
    "exitCode",
    "cancelled",
    "truncated",
    "fullOutputPath",
    "excludeFromContext",
  ],
  custom: ["content", "customType", "display", "details"],
  system: ["content", "sections", "toolsAdded", "toolsRemoved"],
};

/** Fields that any message may have: the last two are Pi's. */
const COMMON_FIELDS = ["role", "timestamp", "native", "responseId", "diagnostics"];

/** Blocks by the roles that may say them: their fields, and those of which each must be a text. */
const SAID: Readonly<Record<string, BlockShape>> = {
  text: { fields: ["text", "textSignature"], texts: ["text"] },
  image: { fields: ["data", "mimeType"], texts: ["data", "mimeType"] },
  imageUrl: { fields: ["url"], texts: ["url"] },
};
const ANSWERED: Readonly<Record<string, BlockShape>> = {
  text: SAID["text"]!,
  thinking: { fields: ["thinking", "thinkingSignature", "redacted"], texts: ["thinking"] },
  toolCall: { fields: ["id", "name", "arguments", "thoughtSignature"], texts: ["id", "name"] },
};

interface BlockShape {
  fields: readonly string[];
  texts: readonly string[];
}

const CONVERT =
  "a provider's own messages become a session's with fromAnthropic, fromOpenaiChat, fromOpenaiResponses or fromAiSdk of @espalier/interop";

function refuseUnknown(draft: unknown): void {
  const role = isRecord(draft) ? draft["role"] : undefined;
  if (!isRecord(draft) || typeof role !== "string" || !Object.hasOwn(FIELDS, role)) {
    const given = isRecord(draft) ? (JSON.stringify(role) ?? "missing") : "none";
    throw refused(
      `A message needs a role (${Object.keys(FIELDS).join(", ")}); the role given is ${given}${role === "tool" ? `: ${CONVERT}` : ""}.`,
    );
  }
  const known = [...FIELDS[role as StoredMessage["role"]], ...COMMON_FIELDS];
  const unknown = Object.keys(draft).find((field) => draft[field] !== undefined && !known.includes(field));
  if (unknown !== undefined)
    throw refused(
      `A message of the role ${role} has no field ${JSON.stringify(unknown)}${meant(unknown, known)}; it has ${known.slice(0, -2).join(", ")}.`,
    );
  refuseContent(role, draft["content"]);
}

function refuseContent(role: string, content: unknown): void {
  if (content !== undefined && content !== null && typeof content !== "string" && !Array.isArray(content))
    throw refused(`The content of a ${role} message is neither a text nor a list of blocks.`);
  if (Array.isArray(content)) for (const block of content as unknown[]) refuseBlock(role, block);
  if (
    role === "user" &&
    contentBlocks({ content }).every((block) => block.type === "text" && isBlank(block.text))
  )
    throw refused("The user message is blank, and no provider takes one; give it a text or a picture.");
}

function refuseBlock(role: string, block: unknown): void {
  const shapes = role === "assistant" ? ANSWERED : SAID;
  const type = isRecord(block) ? block["type"] : undefined;
  if (!isRecord(block) || typeof type !== "string")
    throw refused(
      `A block of a ${role} message has no type; it is one of ${Object.keys(shapes).join(", ")}.`,
    );
  // What a provider alone can say stands in a block of its own, under `native`.
  if (isRecord(block["native"]) && !Object.hasOwn(shapes, type)) return;
  const shape = Object.hasOwn(shapes, type) ? shapes[type] : undefined;
  if (!shape)
    throw refused(
      `A ${role} message has no block of the type ${JSON.stringify(type)}, but of ${Object.keys(shapes).join(", ")}; ${CONVERT}.`,
    );
  const known = [...shape.fields, "type", "native"];
  const unknown = Object.keys(block).find((field) => block[field] !== undefined && !known.includes(field));
  if (unknown !== undefined)
    throw refused(
      `A block of the type ${type} has no field ${JSON.stringify(unknown)}${meant(unknown, known)}, but ${shape.fields.join(", ")}; ${CONVERT}.`,
    );
  const missing = shape.texts.find((field) => typeof block[field] !== "string");
  if (missing !== undefined)
    throw refused(`The ${missing} of a block of the type ${type} in a ${role} message is no text.`);
}

/** The field that was meant by one that is written in another way; nothing where none is near. */
function meant(field: string, known: readonly string[]): string {
  const plain = (name: string) => name.toLowerCase().replace(/[_-]/g, "");
  const letters = (name: string) => [...plain(name)].sort().join("");
  const near = known.find(
    (name) =>
      plain(name) === plain(field) ||
      letters(name) === letters(field) ||
      plain(name).startsWith(plain(field)) ||
      plain(name).endsWith(plain(field)) ||
      plain(field).startsWith(plain(name)),
  );
  return near === undefined ? "" : ` (was ${near} meant?)`;
}

const refused = (message: string) => new EngineError("bad-input", message);

function filled(draft: MessageDraft, context: SessionContext, batch: readonly StoredMessage[]): object {
  if (draft.role === "assistant") return filledAnswer(draft, context);
  if (draft.role === "toolResult") {
    const { toolCallId } = draft;
    if (typeof toolCallId !== "string") throw refused("A toolResult needs the `toolCallId` of its call.");
    const callName = () => callNamed(toolCallId, batch) ?? callNamed(toolCallId, context.messages);
    const toolName = draft.toolName || (callName() ?? "unknown");
    return { ...draft, toolName, content: contentBlocks(draft), isError: draft.isError ?? false };
  }
  if (draft.role === "bashExecution") {
    return {
      ...draft,
      command: draft.command ?? "",
      output: draft.output ?? "",
      exitCode: draft.exitCode ?? 0,
      cancelled: draft.cancelled ?? false,
      truncated: draft.truncated ?? false,
    };
  }
  if (draft.role === "custom")
    return {
      ...draft,
      customType: draft.customType ?? "note",
      content: draft.content ?? "",
      display: draft.display ?? true,
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

function filledAnswer(draft: Draft<AssistantMessage>, { model }: SessionContext): object {
  const content = contentBlocks(draft);
  const calls = toolCalls({ ...draft, content } as AssistantMessage);
  return {
    ...draft,
    content,
    api: draft.api ?? "unknown",
    provider: draft.provider ?? model?.provider ?? "unknown",
    model: draft.model ?? model?.modelId ?? "unknown",
    usage: draft.usage ?? NOTHING_BILLED,
    stopReason: draft.stopReason ?? (calls.length > 0 ? "toolUse" : "stop"),
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
  return typeof draft.timestamp === "number" ? draft.timestamp : now;
}
