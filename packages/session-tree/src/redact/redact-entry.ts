import type { Entry, NewEntry } from "../entry.ts";
import type { ContextMessage } from "../message.ts";
import type { SessionHeader } from "../session-header.ts";
import { redactContent, redactSchema, redactWire } from "./redact-content.ts";
import { redactText } from "./redact-text.ts";
import { byName, type Redact, type Redactor } from "./redactor.ts";

const TOOL = byName({ name: "name", parameters: redactSchema });

const MESSAGE = byName({
  role: "name",
  timestamp: "keep",
  api: "name",
  provider: "name",
  model: "name",
  usage: "keep",
  stopReason: "name",
  toolCallId: "keep",
  toolName: "name",
  customType: "name",
  fromId: "keep",
  toolsRemoved: (names, redactor) =>
    Array.isArray(names) ? redactor.list(names, (name) => redactor.name(name)) : redactor.deep(names),
  toolsAdded: (tools, redactor) =>
    Array.isArray(tools) ? redactor.list(tools, (tool) => redactor.fields(tool, TOOL)) : redactor.deep(tools),
  native: redactWire,
  codex: redactWire,
  content: redactContent,
});

const REPLACEMENT = byName({ content: redactContent });

/** Items of a provider that an import brings along. */
const DETAILS = byName({ opaque: redactWire, encryptedReasoning: redactWire, codex: redactWire });

const ENTRY = byName({
  codex: redactWire,
  type: "name",
  id: "keep",
  parentId: "keep",
  timestamp: "keep",
  targetId: "keep",
  fromId: "keep",
  firstKeptEntryId: "keep",
  customType: "name",
  provider: "name",
  model: "name",
  modelId: "name",
  thinkingLevel: "name",
  kind: "name",
  usage: "keep",
  content: redactContent,
  details: (details, redactor) => redactor.fields(details, DETAILS),
  message: (message, redactor) => redactor.fields(message, MESSAGE),
  systemMessage: (message, redactor) => redactor.fields(message, MESSAGE),
  replacement: (replacement, redactor) => redactor.fields(replacement, REPLACEMENT),
});

const HEADER = byName({
  type: "keep",
  id: "keep",
  timestamp: "keep",
  parent: "keep",
  importedFrom: "keep",
  writer: "keep",
});

/**
 * An entry, or the draft of one, without what must not be seen; the same object when there was nothing. Ids, signatures and
 * pictures stay as they are, and names unless they hold a well-known key. Where reasoning changes, its signature goes, since it vouches for every letter of it.
 */
export function redactEntry<Drafted extends NewEntry | Entry>(entry: Drafted, redactor: Redactor): Drafted {
  return redactor.fields(entry, ENTRY) as Drafted;
}

/** A message without what must not be seen; the same object when there was nothing. */
export function redactMessage<Message extends ContextMessage>(message: Message, redactor: Redactor): Message {
  return redactor.fields(message, MESSAGE) as Message;
}

/**
 * The folder that a new session's header names: the folder, unless it holds a well-known key. The same folder always gives
 * the same text, so that its later sessions are found.
 */
export function redactFolder(folder: string, redact: Redact | false = redactText): string {
  return redact && redactText(folder) !== folder ? redact(folder) : folder;
}

/** A header without what must not be seen: paths tell who somebody is. */
export function redactHeader(header: SessionHeader, redactor: Redactor): SessionHeader {
  return redactor.fields(header, HEADER) as SessionHeader;
}
