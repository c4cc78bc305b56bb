import { jsonText } from "@espalier/jsonl-stream";
import { type BaseEntry, type ContextEdit, defineEntry, type EntryKind, type Settings } from "./entry.ts";
import {
  type ContextMessage,
  type CustomMessage,
  contentGist,
  contentText,
  fieldText,
  isRecord,
  type StoredMessage,
  type SystemMessage,
  type Usage,
  type UserContent,
  withoutHeadings,
} from "./message.ts";

/**
 * Kind of {@link MessageEntry}: adds its message to the context. An answer also sets the model of the path. Messages of
 * users and models are written with `fsync`, all others with `flush`.
 */
export const message = defineEntry<MessageEntry>("message", {
  movesLeaf: true,
  toMessages: (entry) => [withContent(entry.message)],
  mayName: ["model"],
  // A failed answer counts too: it names the model that was set at the time.
  settings: ({ message: said }) => (said.role === "assistant" ? modelOf(said.provider, said.model) : {}),
  durability: ({ message: { role } }) => (role === "user" || role === "assistant" ? "fsync" : "flush"),
  problem: (entry) =>
    isRecord(entry.message) && typeof entry.message.role === "string" ? undefined : "`message` has no role",
});

/**
 * Kind of {@link CompactionEntry}: adds its system message, if it has one, and its summary to the context, and hides
 * the entries of its path above `firstKeptEntryId`. The settings in its `details` apply from it on.
 */
export const compaction = defineEntry<CompactionEntry>("compaction", {
  movesLeaf: true,
  toMessages: ({ summary, tokensBefore, timestamp, systemMessage }) => [
    ...(isSystemMessage(systemMessage) ? [systemMessage] : []),
    {
      role: "compactionSummary",
      summary,
      tokensBefore: tokensBefore ?? 0,
      timestamp: Date.parse(timestamp),
    },
  ],
  firstKept: (entry) => entry.firstKeptEntryId,
  mayName: ["model", "thinkingLevel"],
  settings: (entry) => recordedSettings(entry.details),
  durability: () => "fsync",
  draw: ({ summary }) => withoutHeadings(summary),
  problem: (entry) =>
    typeof entry.summary !== "string"
      ? "`summary` is not text"
      : typeof entry.firstKeptEntryId !== "string"
        ? "`firstKeptEntryId` is missing"
        : undefined,
});

/**
 * Kind of {@link BranchSummaryEntry}: adds its summary to the context, as a `branchSummary` message, unless it is
 * empty.
 */
export const branchSummary = defineEntry<BranchSummaryEntry>("branch_summary", {
  movesLeaf: true,
  toMessages: ({ summary, fromId, timestamp }) =>
    summary ? [{ role: "branchSummary", summary, fromId, timestamp: Date.parse(timestamp) }] : [],
  durability: () => "fsync",
  draw: ({ summary }) => withoutHeadings(summary),
  problem: (entry) => (typeof entry.summary !== "string" ? "`summary` is not text" : undefined),
});

/** Kind of {@link CustomMessageEntry}: adds its content to the context, as a `custom` message. */
export const customMessage = defineEntry<CustomMessageEntry>("custom_message", {
  movesLeaf: true,
  toMessages: ({ customType, content, display, details, timestamp }): CustomMessage[] => [
    {
      role: "custom",
      customType,
      content: content ?? [],
      display,
      ...(details === undefined ? {} : { details }),
      timestamp: Date.parse(timestamp),
    },
  ],
  title: "note",
  draw: contentText,
  problem: (entry) => (typeof entry.customType !== "string" ? "`customType` is not text" : undefined),
});

/**
 * Kind of {@link ContextEditEntry}: adds no message to the context, and changes those of its target. Of several edits
 * of one target on a path, only the newest counts.
 */
export const contextEdit = defineEntry<ContextEditEntry>("context_edit", {
  movesLeaf: true,
  edit: ({ targetId, replacement }) => ({ targetId, replacement }),
  title: "edit",
  draw: ({ targetId, replacement }) =>
    replacement === null ? `leaves out ${targetId}` : `${targetId} becomes ${contentGist(replacement)}`,
  problem: ({ targetId, replacement }) =>
    typeof targetId !== "string"
      ? "`targetId` is missing"
      : replacement === null || (typeof replacement === "object" && "content" in replacement)
        ? undefined
        : "`replacement` is neither null nor has `content`",
});

/** Kind of {@link ModelChangeEntry}: a setting of the path that adds no message to the context. */
export const modelChange = defineEntry<ModelChangeEntry>("model_change", {
  movesLeaf: true,
  mayName: ["model"],
  settings: ({ provider, modelId }) => ({ model: { provider, modelId } }),
  title: "uses",
  draw: ({ provider, modelId }) => `${provider}/${modelId}`,
  problem: ({ provider, modelId }) =>
    typeof provider === "string" && typeof modelId === "string"
      ? undefined
      : "`provider` or `modelId` is missing",
});

/** Kind of {@link ThinkingLevelChangeEntry}: a setting of the path that adds no message to the context. */
export const thinkingLevelChange = defineEntry<ThinkingLevelChangeEntry>("thinking_level_change", {
  movesLeaf: true,
  mayName: ["thinkingLevel"],
  settings: ({ thinkingLevel }) => ({ thinkingLevel }),
  title: "think",
  draw: ({ thinkingLevel }) => thinkingLevel,
  problem: ({ thinkingLevel }) =>
    typeof thinkingLevel === "string" ? undefined : "`thinkingLevel` is missing",
});

/** Kind of {@link CustomEntry}: part of the path, adds no message to the context. */
export const custom = defineEntry<CustomEntry>("custom", {
  movesLeaf: true,
  title: "state",
  draw: ({ customType, data }) => titleIn(data) || `${customType} ${jsonText(data)}`,
  problem: (entry) => (typeof entry.customType !== "string" ? "`customType` is not text" : undefined),
});

/** Title in the data of a custom entry, for people; empty without one. */
export const titleIn = (data: unknown): string => fieldText((data as { title?: unknown } | null)?.title);

/** Kind of {@link LabelEntry}: outside the conversation. Appending a label does not move the leaf. */
export const label = defineEntry<LabelEntry>("label", {
  movesLeaf: false,
  title: "label",
  draw: ({ targetId, label }) => `${targetId}: ${label || "no label"}`,
  problem: (entry) =>
    typeof entry.targetId !== "string"
      ? "`targetId` is missing"
      : entry.label === undefined || typeof entry.label === "string"
        ? undefined
        : "`label` is not text",
});

/** Kind of {@link SessionInfoEntry}: outside the conversation. Appending one does not move the leaf. */
export const sessionInfo = defineEntry<SessionInfoEntry>("session_info", {
  movesLeaf: false,
  title: "name",
  draw: ({ name }) => name ?? "",
  problem: ({ name }) => (name === undefined || typeof name === "string" ? undefined : "`name` is not text"),
});

/** Kind of {@link UsageEntry}: a bill outside the conversation. Appending one does not move the leaf. */
export const usage = defineEntry<UsageEntry>("usage", {
  movesLeaf: false,
  title: "bill",
  draw: ({ kind, provider, model }) => [kind, provider, model].map(fieldText).filter(Boolean).join(" "),
  problem: (entry) =>
    typeof entry.usage !== "object" || entry.usage === null ? "`usage` is missing" : undefined,
});

/**
 * Kind of {@link LeafEntry}: moves the leaf to its target. It adds no message to the context and is never the leaf
 * itself.
 */
export const leaf = defineEntry<LeafEntry>("leaf", {
  movesLeaf: false,
  // Without a valid target the parent is the target, as for a reader that does not know leaf entries.
  leafTarget: ({ targetId, parentId }) =>
    typeof targetId === "string" || targetId === null ? targetId : parentId,
  title: "leaf",
  draw: ({ targetId }) => `to ${targetId ?? "the start"}`,
  problem: ({ targetId, parentId }) =>
    targetId !== null && typeof targetId !== "string"
      ? "`targetId` is neither an id nor null"
      : targetId !== parentId
        ? "`targetId` and `parentId` differ"
        : undefined,
});

/** All kinds of the format. The index of a kind is its code in a tree's index; code 0 is the kind of all unknown types. */
export const entryKinds: readonly EntryKind[] = [
  defineEntry<BaseEntry>("", { movesLeaf: true }),
  message,
  compaction,
  branchSummary,
  customMessage,
  contextEdit,
  modelChange,
  thinkingLevelChange,
  custom,
  label,
  sessionInfo,
  usage,
  leaf,
] as unknown as EntryKind[];
const codes = new Map(entryKinds.map((kind, code) => [kind.type, code]));

/**
 * Returns the kind that defines an entry's behaviour: one of the format, or one that was registered for the entry's
 * session (`OwnKinds`). An entry of an unknown type moves the leaf and adds no message to the context; its bytes
 * are kept.
 */
export function kindOf(entry: BaseEntry): EntryKind {
  const code = codes.get(entry.type);
  return code === undefined ? (adopted.get(entry) ?? entryKinds[0]!) : entryKinds[code]!;
}

/** Returns the messages that an entry adds to the context, before edits; none for an invalid entry. */
export function messagesOf(entry: BaseEntry): ContextMessage[] {
  const kind = kindOf(entry);
  return kind.toMessages && !kind.problem?.(entry) ? kind.toMessages(entry) : [];
}

/** Kinds of entries whose type is not in the format, as registered for the entry's session. Only `OwnKinds` adds to it. */
export const adopted = new WeakMap<BaseEntry, EntryKind>();

/** Returns the index of a type's kind in {@link entryKinds}; 0 for an unknown type. */
export function kindCode(type: string): number {
  return codes.get(type) ?? 0;
}

/**
 * One line of a session, never changed and never removed. The `type` determines the other fields and narrows the union:
 *
 * ```ts
 * if (entry.type === "message") console.log(entry.message.role);
 * ```
 *
 * An entry of an unknown type is kept unchanged. Lines of old and damaged files can lack fields of their type;
 * `message.is(entry)` checks this.
 */
export type Entry =
  | MessageEntry
  | CompactionEntry
  | BranchSummaryEntry
  | CustomMessageEntry
  | ContextEditEntry
  | ModelChangeEntry
  | ThinkingLevelChangeEntry
  | CustomEntry
  | LabelEntry
  | SessionInfoEntry
  | UsageEntry
  | LeafEntry
  | OwnEntry;

/**
 * An entry of a type that is not in the format: of an extension, whose type has a dot, or of a newer program. An entry
 * with a line that can no longer be read has the type `damaged`.
 */
export interface OwnEntry extends BaseEntry {
  type: `${string}.${string}` | "damaged";
}

/** Message of the user, the model, a tool, a shell or (in the newest files) the system. */
export interface MessageEntry extends BaseEntry {
  type: "message";
  message: StoredMessage;
}

/** Returns a message with its content. Old and hand-made files hold messages without content, and callers rely on it. */
function withContent(stored: StoredMessage): ContextMessage {
  if (stored.role === "bashExecution" || stored.content != null) return stored;
  return { ...stored, content: stored.role === "system" ? "" : [] } as ContextMessage;
}

const modelOf = (provider: unknown, modelId: unknown): Partial<Settings> =>
  typeof provider === "string" && typeof modelId === "string" ? { model: { provider, modelId } } : {};

/** Returns whether an entry is a valid message entry with this role. */
export function isMessage<Role extends StoredMessage["role"]>(
  entry: BaseEntry,
  role: Role,
): entry is MessageEntry & { message: Extract<StoredMessage, { role: Role }> } {
  return message.is(entry) && entry.message.role === role;
}

/** Replaces the older part of its path in the context by a summary. */
export interface CompactionEntry extends BaseEntry {
  type: "compaction";
  summary: string;
  /** Id of the first entry that stays visible. With the compaction's own id, no entry above the compaction stays. */
  firstKeptEntryId: string;
  /** Size of the context before the compaction, in tokens of the policy's estimator. */
  tokensBefore: number;
  /** Record of the compaction. Espalier writes `CompactionDetails` of `@espalier/compaction`. It is never sent to a model. */
  details?: unknown;
  /** Usage billed for the summary; absent when no call was billed. */
  usage?: Usage;
  /** True when an extension wrote the summary. */
  fromHook?: boolean;
  /** System prompt and tools at that time (newest Pi). */
  systemMessage?: SystemMessage;
}

/** Returns whether a value is a system message. Its content is not checked: a file can hold any value there. */
const isSystemMessage = (value: unknown): value is SystemMessage =>
  isRecord(value) && value["role"] === "system";

/**
 * Returns the settings that a compaction of ours recorded. A reader that comes from the end of a long file needs to
 * look no further back. They repeat the settings of the path, so reading both changes nothing.
 */
function recordedSettings(details: unknown) {
  const recorded = isRecord(details) ? details["settings"] : undefined;
  if (!isRecord(recorded)) return {};
  const { provider, modelId, thinkingLevel } = recorded;
  return { ...modelOf(provider, modelId), ...(typeof thinkingLevel === "string" ? { thinkingLevel } : {}) };
}

/** Summarizes an abandoned branch for the branch that continues. */
export interface BranchSummaryEntry extends BaseEntry {
  type: "branch_summary";
  summary: string;
  /**
   * Id of the leaf of the abandoned branch; empty when that leaf was before the first entry. In files of Pi before
   * 0.84.3: the destination.
   */
  fromId: string;
  /** Record of the writer: files, a merge. It is never sent to a model. */
  details?: unknown;
  /** Usage billed for the summary; absent when no call was billed. */
  usage?: Usage;
  /** True when an extension wrote the summary. */
  fromHook?: boolean;
}

/** Text that an extension added to the conversation. Models read it as a user message. */
export interface CustomMessageEntry extends BaseEntry {
  type: "custom_message";
  /** The extension's own name for this kind of message. */
  customType: string;
  content: UserContent;
  /** True to show the text to people. Models read it in both cases. */
  display: boolean;
  /** Data for the extension and for people. It is never sent to a model. */
  details?: unknown;
}

/** Changes or removes an earlier entry of the path in the context, from here on. */
export interface ContextEditEntry extends BaseEntry, ContextEdit {
  type: "context_edit";
  /** Set when a user asked for the edit, so that undo reverts it; absent on edits of a program. */
  reason?: "manual";
}

/** Changes the model for the entries below. */
export interface ModelChangeEntry extends BaseEntry {
  type: "model_change";
  provider: string;
  modelId: string;
}

/** Changes the thinking level for the entries below. */
export interface ThinkingLevelChangeEntry extends BaseEntry {
  type: "thinking_level_change";
  /** `off`, `minimal`, `low`, `medium`, `high` in files of Pi; any word is kept. */
  thinkingLevel: string;
}

/** State of an extension, or of the core when `customType` begins with `espalier.`. Later entries of the path update it. */
export interface CustomEntry extends BaseEntry {
  type: "custom";
  /** Name of the state's owner; see `ExtensionState` of `@espalier/engine`. */
  customType: string;
  /** Any JSON value. */
  data?: unknown;
}

/** Returns whether an entry is a valid custom entry of this type. */
export function isCustom(entry: BaseEntry, customType: string): entry is CustomEntry {
  return custom.is(entry) && entry.customType === customType;
}

/** A name for an entry of the tree. The last label entry of a target in file order wins, over all branches. */
export interface LabelEntry extends BaseEntry {
  type: "label";
  /** Id of the named entry. */
  targetId: string;
  /** Absent or empty: the target has no label any more. */
  label?: string;
  /** Id of the navigation that set the label. An undo skips such a label, and the label stays. */
  navigation?: string;
}

/** The session's name. The last entry of this kind in file order wins, over all branches. */
export interface SessionInfoEntry extends BaseEntry {
  type: "session_info";
  /** Absent or empty: the session has no name any more. Espalier always writes it, as the format requires. */
  name?: string;
}

/** Usage that a provider billed for a call without a message: a cache warming, or a summary that was discarded. */
export interface UsageEntry extends BaseEntry {
  type: "usage";
  /** Purpose of the call: `cache_warm`, `compaction`, `branch_summary`, …; any word is kept. */
  kind: string;
  provider: string;
  model: string;
  usage: Usage;
}

/**
 * Sets the leaf: the only addition of Espalier to the format. Its parent is its target, so a reader that does not know
 * this type continues the same path.
 */
export interface LeafEntry extends BaseEntry {
  type: "leaf";
  /** Id of the new leaf; null for the position before the first entry. */
  targetId: string | null;
}
