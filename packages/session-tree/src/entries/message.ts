import { defineEntry, type Entry } from "../entry.ts";
import {
  type AssistantMessage,
  type ContextMessage,
  isFailedAnswer,
  type StoredMessage,
} from "../message.ts";

/** Something said: by the user, the model, a tool, a shell or (newest files) the system. */
export interface MessageEntry extends Entry {
  type: "message";
  message: StoredMessage;
}

/** The kind of {@link MessageEntry}: says its message. What users and models said is `fsync`, what tools said `flush`. */
export const message = defineEntry<MessageEntry>("message", {
  movesLeaf: true,
  toMessages: (entry) => [withContent(entry.message)],
  mayName: ["model"],
  settings: (entry) => (entry.message.role === "assistant" ? modelOf(entry.message) : {}),
  durability: ({ message: { role } }) => (role === "user" || role === "assistant" ? "fsync" : "flush"),
  problem: (entry) =>
    typeof entry.message !== "object" || entry.message === null || typeof entry.message.role !== "string"
      ? "`message` has no role"
      : undefined,
});

/** Old and hand-made files hold messages without content; readers further up may rely on there being some. */
function withContent(stored: StoredMessage): ContextMessage {
  if (stored.role === "bashExecution" || stored.content != null) return stored;
  return { ...stored, content: stored.role === "system" ? "" : [] } as ContextMessage;
}

/** A failed answer may name a model that never answered, but it is still the one the session was set to. */
function modelOf(answer: AssistantMessage) {
  if (typeof answer.provider !== "string" || typeof answer.model !== "string") return {};
  return { model: { provider: answer.provider, modelId: answer.model } };
}

/** True for a message entry with this role. */
export function isMessage<Role extends StoredMessage["role"]>(
  entry: Entry,
  role: Role,
): entry is MessageEntry & { message: Extract<StoredMessage, { role: Role }> } {
  return message.is(entry) && entry.message.role === role;
}

/** True for an answer that was kept in the file and never reached the conversation. */
export function isFailedAnswerEntry(entry: Entry): boolean {
  return message.is(entry) && isFailedAnswer(entry.message);
}
