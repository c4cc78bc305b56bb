import { EspalierError } from "@espalier/jsonl-stream";
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

/** Content of a draft: a text, or the session's blocks (`text`, `image`, `imageUrl`, `thinking`, `toolCall`). */
export type DraftContent = string | readonly (ContentBlock | { type: string; [field: string]: unknown })[];

/** A message with optional fields, except the role and the fields in `Needed`. */
export type Draft<Message extends StoredMessage, Needed extends keyof Message = never> = Pick<
  Message,
  "role" | Needed
> &
  Partial<Omit<Message, "content">> & { content?: DraftContent };

/**
 * A message as a person or a script writes it: a role and content; missing fields are filled in. Accepts stored
 * messages, and results of `fromAnthropic` and its siblings of `@espalier/interop`.
 */
export type MessageDraft =
  | Draft<UserMessage>
  | Draft<AssistantMessage>
  | Draft<ToolResultMessage, "toolCallId">
  | Draft<BashExecutionMessage>
  | Draft<CustomMessage>
  | Draft<SystemMessage>;

/** Makes message entries from consecutive drafts; see {@link fillMessage}. */
export function fillMessages(
  drafts: readonly MessageDraft[],
  context: SessionContext,
): NewEntry<MessageEntry>[] {
  // A result may belong to a call of the same batch.
  const said: StoredMessage[] = [];
  if (!Array.isArray(drafts))
    throw new EspalierError(
      "bad-input",
      "appendMessages expects a list of messages: appendMessages([message]).",
    );
  return drafts.map((draft) => {
    const entry = readDraft(() => fillMessage(draft, context, said));
    said.push(entry.message);
    return entry;
  });
}

/** Reads from a draft, whose getters may throw any value. */
function readDraft<Read>(read: () => Read): Read {
  try {
    return read();
  } catch (cause) {
    if (cause instanceof EspalierError) throw cause;
    const reason = cause instanceof Error ? cause.message : String(cause);
    const message = `The message cannot be read: ${reason.replace(/[.;]$/, "")}; give it plain values.`;
    throw new EspalierError("bad-input", message, { cause });
  }
}

/**
 * Makes a message entry from a draft. Text content of an answer or a tool result becomes a block. A missing provider or
 * model is the current one, a missing tool name that of the call; `unknown` when there is none. A missing stop reason is
 * `toolUse` for an answer with calls, else `stop`. A missing timestamp is the current time.
 *
 * A draft that no model would read as intended is an error: a blank prompt, an unknown role or field, a block in a
 * provider's own form.
 *
 * @param batch messages before this one in the same append, in which the call of a result is also searched
 * @throws EspalierError `bad-input`
 */
export function fillMessage(
  draft: MessageDraft,
  context: SessionContext,
  batch: readonly StoredMessage[],
): NewEntry<MessageEntry> {
  refuseUnknown(draft);
  const timestamp = typeof draft.timestamp === "number" ? draft.timestamp : Date.now();
  return message.of({ message: { ...filled(draft, context, batch), timestamp } as StoredMessage });
}

/** Fields of each role. `native` has content in the form of one provider, as `@espalier/interop` stores it. */
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

/** Fields of any message; the last two are from Pi. */
const COMMON_FIELDS = ["role", "timestamp", "native", "responseId", "diagnostics"];

/** Blocks of messages other than answers, by type: their fields, and the fields that must be texts. */
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

/** Field that Pi leaves in a call of an interrupted answer. Pi's sessions have it, so an append accepts it. */
const CUT_OFF_CALL = "partialJson";

interface BlockShape {
  fields: readonly string[];
  texts: readonly string[];
}

const CONVERT =
  "convert a provider's messages with fromAnthropic, fromOpenaiChat, fromOpenaiResponses or fromAiSdk of espalier/import";

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
      `A message of the role ${role} has no field ${JSON.stringify(unknown)}; it has ${known.slice(0, -2).join(", ")}.`,
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
    throw refused(
      "The user message is blank, and no provider accepts a blank message; give it a text or an image.",
    );
}

function refuseBlock(role: string, block: unknown): void {
  const shapes = role === "assistant" ? ANSWERED : SAID;
  const type = isRecord(block) ? block["type"] : undefined;
  if (!isRecord(block) || typeof type !== "string")
    throw refused(
      `A block of a ${role} message has no type; it is one of ${Object.keys(shapes).join(", ")}.`,
    );
  // Content for one provider alone is in a separate block, under `native`.
  if (isRecord(block["native"]) && !Object.hasOwn(shapes, type)) return;
  const shape = Object.hasOwn(shapes, type) ? shapes[type] : undefined;
  if (!shape)
    throw refused(
      `A ${role} message has no block of the type ${JSON.stringify(type)}, but of ${Object.keys(shapes).join(", ")}; ${CONVERT}.`,
    );
  const known = [...shape.fields, "type", "native", ...(type === "toolCall" ? [CUT_OFF_CALL] : [])];
  const unknown = Object.keys(block).find((field) => block[field] !== undefined && !known.includes(field));
  if (unknown !== undefined)
    throw refused(
      `A block of the type ${type} has no field ${JSON.stringify(unknown)}, but ${shape.fields.join(", ")}; ${CONVERT}.`,
    );
  const missing = shape.texts.find((field) => typeof block[field] !== "string");
  if (missing !== undefined)
    throw refused(`The ${missing} of a block of the type ${type} in a ${role} message is not a text.`);
}

const refused = (message: string) => new EspalierError("bad-input", message);

/** Default values of required fields, by role. */
const DEFAULTS: Readonly<Record<"user" | "bashExecution" | "custom" | "system", Record<string, unknown>>> = {
  user: { content: "" },
  bashExecution: { command: "", output: "", exitCode: 0, cancelled: false, truncated: false },
  custom: { customType: "note", content: "", display: true },
  system: { content: "" },
};

function filled(draft: MessageDraft, context: SessionContext, batch: readonly StoredMessage[]): object {
  if (draft.role === "assistant") return filledAnswer(draft, context);
  if (draft.role === "toolResult") {
    const { toolCallId } = draft;
    if (typeof toolCallId !== "string") throw refused("A toolResult needs the `toolCallId` of its call.");
    // Searches for the call only when the name is missing: the search can read the whole context.
    const toolName =
      draft.toolName ||
      (callNamed(toolCallId, batch) ?? callNamed(toolCallId, context.messages) ?? "unknown");
    return { ...draft, toolName, content: contentBlocks(draft), isError: draft.isError ?? false };
  }
  const given: Record<string, unknown> = { ...draft };
  for (const [field, value] of Object.entries(DEFAULTS[draft.role])) given[field] ??= value;
  return given;
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
  const isSought = ({ id }: { id: string }) => id === toolCallId;
  const asking = messages.findLast((one) => toolCalls(one).some(isSought));
  return asking && toolCalls(asking).find(isSought)?.name;
}
