import type { Entry, NewEntry } from "../entry.ts";
import type { ContextMessage } from "../message.ts";
import type { SessionHeader } from "../session-header.ts";
import { redactContent, redactSchema, redactWire } from "./redact-content.ts";
import { byName, type Redactor } from "./redactor.ts";

const TOOL = byName({ name: "keep", parameters: redactSchema });

const MESSAGE = byName({
  role: "keep",
  timestamp: "keep",
  api: "keep",
  provider: "keep",
  model: "keep",
  usage: "keep",
  stopReason: "keep",
  toolCallId: "keep",
  toolName: "keep",
  customType: "keep",
  fromId: "keep",
  toolsRemoved: "keep",
  toolsAdded: (tools, redactor) =>
    Array.isArray(tools) ? redactor.list(tools, (tool) => redactor.fields(tool, TOOL)) : redactor.deep(tools),
  native: redactWire,
  content: redactContent,
});

const REPLACEMENT = byName({ content: redactContent });

const ENTRY = byName({
  type: "keep",
  id: "keep",
  parentId: "keep",
  timestamp: "keep",
  targetId: "keep",
  fromId: "keep",
  firstKeptEntryId: "keep",
  customType: "keep",
  provider: "keep",
  model: "keep",
  modelId: "keep",
  thinkingLevel: "keep",
  kind: "keep",
  usage: "keep",
  content: redactContent,
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
 * pictures stay as they are. Where reasoning changes, its signature goes, since it vouches for every letter of it.
 */
export function redactEntry<Drafted extends NewEntry | Entry>(entry: Drafted, redactor: Redactor): Drafted {
  return redactor.fields(entry, ENTRY) as Drafted;
}

/** A message without what must not be seen; the same object when there was nothing. */
export function redactMessage<Message extends ContextMessage>(message: Message, redactor: Redactor): Message {
  return redactor.fields(message, MESSAGE) as Message;
}

/** A header without what must not be seen: paths tell who somebody is. */
export function redactHeader(header: SessionHeader, redactor: Redactor): SessionHeader {
  return redactor.fields(header, HEADER) as SessionHeader;
}
