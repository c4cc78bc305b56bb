import { EspalierError } from "@espalier/jsonl-stream";
import { type BaseEntry, type ContextEdit, defineEntry, type EntryKind } from "./entry.ts";
import {
  type AssistantMessage,
  type ContextMessage,
  type CustomMessage,
  isFailedAnswer,
  type StoredMessage,
  type SystemMessage,
  type Usage,
  type UserContent,
} from "./message.ts";

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

/** The kind of {@link CompactionEntry}: gives its summary and hides everything before `firstKeptEntryId`. */
export const compaction = defineEntry<CompactionEntry>("compaction", {
  movesLeaf: true,
  toMessages: ({ summary, tokensBefore, timestamp, systemMessage }) => [
    ...(isSystemMessage(systemMessage) ? [systemMessage] : []),
    {
      role: "compactionSummary",
      summary: summary ?? "",
      tokensBefore: tokensBefore ?? 0,
      timestamp: Date.parse(timestamp),
    },
  ],
  firstKept: (entry) => entry.firstKeptEntryId,
  mayName: ["model", "thinkingLevel"],
  settings: (entry) => recordedSettings(entry.details),
  durability: () => "fsync",
  problem: (entry) =>
    typeof entry.summary !== "string"
      ? "`summary` is not text"
      : typeof entry.firstKeptEntryId !== "string"
        ? "`firstKeptEntryId` is missing"
        : undefined,
});

/** The kind of {@link BranchSummaryEntry}: says its summary to the model, as a `branchSummary` message. */
export const branchSummary = defineEntry<BranchSummaryEntry>("branch_summary", {
  movesLeaf: true,
  toMessages: ({ summary, fromId, timestamp }) =>
    summary ? [{ role: "branchSummary", summary, fromId, timestamp: Date.parse(timestamp) }] : [],
  durability: () => "fsync",
  problem: (entry) => (typeof entry.summary !== "string" ? "`summary` is not text" : undefined),
});

/** The kind of {@link CustomMessageEntry}: says its content, as a `custom` message. */
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
  problem: (entry) => (typeof entry.customType !== "string" ? "`customType` is not text" : undefined),
});

/** The kind of {@link ContextEditEntry}: says nothing itself. The newest edit of a target on a path counts. */
export const contextEdit = defineEntry<ContextEditEntry>("context_edit", {
  movesLeaf: true,
  edit: ({ targetId, replacement }) => ({ targetId, replacement }),
  problem: ({ targetId, replacement }) =>
    typeof targetId !== "string"
      ? "`targetId` is missing"
      : replacement === null || (typeof replacement === "object" && "content" in replacement)
        ? undefined
        : "`replacement` is neither null nor has `content`",
});

/** The kind of {@link ModelChangeEntry}: a setting of the path, silent to the model. */
export const modelChange = defineEntry<ModelChangeEntry>("model_change", {
  movesLeaf: true,
  mayName: ["model"],
  settings: ({ provider, modelId }) => ({ model: { provider, modelId } }),
  problem: ({ provider, modelId }) =>
    typeof provider === "string" && typeof modelId === "string"
      ? undefined
      : "`provider` or `modelId` is missing",
});

/** The kind of {@link ThinkingLevelChangeEntry}: a setting of the path, silent to the model. */
export const thinkingLevelChange = defineEntry<ThinkingLevelChangeEntry>("thinking_level_change", {
  movesLeaf: true,
  mayName: ["thinkingLevel"],
  settings: ({ thinkingLevel }) => ({ thinkingLevel }),
  problem: ({ thinkingLevel }) =>
    typeof thinkingLevel === "string" ? undefined : "`thinkingLevel` is missing",
});

/** The kind of {@link CustomEntry}: on the path, and silent to the model. */
export const custom = defineEntry<CustomEntry>("custom", {
  movesLeaf: true,
  problem: (entry) => (typeof entry.customType !== "string" ? "`customType` is not text" : undefined),
});

/** The kind of {@link LabelEntry}: beside the conversation; appending one leaves the leaf where it is. */
export const label = defineEntry<LabelEntry>("label", {
  movesLeaf: false,
  problem: (entry) =>
    typeof entry.targetId !== "string"
      ? "`targetId` is missing"
      : entry.label === undefined || typeof entry.label === "string"
        ? undefined
        : "`label` is not text",
});

/** The kind of {@link SessionInfoEntry}: beside the conversation; appending one leaves the leaf where it is. */
export const sessionInfo = defineEntry<SessionInfoEntry>("session_info", {
  movesLeaf: false,
  problem: ({ name }) => (name === undefined || typeof name === "string" ? undefined : "`name` is not text"),
});

/** The kind of {@link UsageEntry}: a bill beside the conversation; appending one leaves the leaf where it is. */
export const usage = defineEntry<UsageEntry>("usage", {
  movesLeaf: false,
  problem: (entry) =>
    typeof entry.usage !== "object" || entry.usage === null ? "`usage` is missing" : undefined,
});

/** The kind of {@link LeafEntry}: says nothing, and is itself never the leaf. */
export const leaf = defineEntry<LeafEntry>("leaf", {
  movesLeaf: false,
  // Without a sound target it means its parent, as it does for a reader that knows no such entries.
  leafTarget: ({ targetId, parentId }) =>
    typeof targetId === "string" || targetId === null ? targetId : parentId,
  problem: ({ targetId, parentId }) =>
    targetId !== null && typeof targetId !== "string"
      ? "`targetId` is neither an id nor null"
      : targetId !== parentId
        ? "`targetId` and `parentId` differ"
        : undefined,
});

/**
 * Every kind of the format. A new kind is a file in `entries/` and one line here.
 * The position is the code by which an index remembers the kind; 0 stands for every unknown type.
 */
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
 * The kind that answers for an entry: one of the format, or one that the entry's session was given (`OwnKinds`).
 * An unknown type moves the leaf and says nothing (its bytes are kept).
 */
export function kindOf(entry: BaseEntry): EntryKind {
  const code = codes.get(entry.type);
  return code === undefined ? (adopted.get(entry) ?? entryKinds[0]!) : entryKinds[code]!;
}

/** Entries of a type that the format lacks, each with the kind that its session was given for it. */
const adopted = new WeakMap<BaseEntry, EntryKind>();

/** Makes a kind besides those of the format answer for one entry. */
function adoptEntry(entry: BaseEntry, kind: EntryKind): void {
  adopted.set(entry, kind);
}

/** The position of a type's kind in {@link entryKinds}. */
export function kindCode(type: string): number {
  return codes.get(type) ?? 0;
}

/**
 * Kinds that one session was given besides those of the format. They say what their entries tell the model, what is
 * wrong with one, how durable an append of it is, and how it is drawn. They cannot move the leaf, hide, edit or set
 * anything: a reader without them keeps the entry as data, and must find the same leaf and the same path.
 */
export class OwnKinds {
  readonly #byType = new Map<string, EntryKind>();
  readonly #given = new Set<EntryKind>();

  /** @throws EspalierError `bad-kind`, `exists` for a type that another kind answers for */
  add(kind: EntryKind): void {
    refuseKind(kind);
    if (this.#given.has(kind)) return;
    if (this.#byType.has(kind.type) || kindCode(kind.type) !== 0) {
      const message = `There is a kind of entry ${JSON.stringify(kind.type)} already; give yours another type, such as "<your extension>.${kind.type}".`;
      throw new EspalierError("exists", message);
    }
    const { draw } = kind;
    this.#byType.set(kind.type, {
      ...kind,
      problem: (entry) => problemOf(kind, entry),
      ...(draw ? { draw: (entry) => problemOf(kind, entry) ?? draw(entry) } : {}),
    });
    this.#given.add(kind);
  }

  /** Makes the session's own kind, if there is one, answer for an entry; returns the entry. */
  adopt<E extends BaseEntry>(entry: E): E {
    const kind = this.#byType.get(entry.type);
    if (kind) adoptEntry(entry, kind);
    return entry;
  }
}

/** Behaviour that decides which entries a reader finds on a path. */
const OF_THE_FORMAT = ["firstKept", "edit", "settings", "mayName", "leafTarget"] as const;

function refuseKind(kind: EntryKind): void {
  const refuse = (problem: string) => {
    const type = JSON.stringify((kind as Partial<EntryKind> | null)?.type);
    return new EspalierError("bad-kind", `The kind of entry ${type} cannot be registered: ${problem}.`);
  };
  if (typeof kind !== "object" || kind === null || typeof kind.type !== "string" || kind.type === "")
    throw refuse("it is not a value of `defineEntry` with a type");
  if (kind.type === "session") throw refuse("this type is that of a header");
  if (!kind.movesLeaf)
    throw refuse("`movesLeaf` is not true, and a reader without the kind would find another leaf");
  const denied = OF_THE_FORMAT.filter((key) => kind[key] !== undefined);
  if (denied.length > 0)
    throw refuse(`it has ${denied.join(", ")}, and a reader without the kind would read another path`);
}

/** Problem of an entry of a custom kind: the one that the kind returns, or a failure of the kind itself. */
function problemOf(kind: EntryKind, entry: BaseEntry): string | undefined {
  try {
    const problem = kind.problem?.(entry);
    if (problem !== undefined) return problem;
    const said: unknown = kind.toMessages?.(entry) ?? [];
    const isSound = Array.isArray(said) && said.every((one) => typeof one?.role === "string");
    if (!isSound) return "`toMessages` of its kind gives no list of messages";
    const drawn: unknown = kind.draw?.(entry) ?? "";
    return typeof drawn === "string" ? undefined : "`draw` of its kind gives no text";
  } catch (error) {
    return `its kind fails on it (${error instanceof Error ? error.message : String(error)})`;
  }
}

/**
 * An entry is one line of a session: never changed, never removed. Its `type` says what it carries, and narrows it:
 *
 * ```ts
 * if (entry.type === "message") console.log(entry.message.role);
 * ```
 *
 * An entry of an unknown type is kept as it is. Lines of old and damaged files may lack what their type promises;
 * `message.is(entry)` looks.
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
 * An entry of a kind that the format lacks: one of an extension, whose type has a dot, or of a newer program. `damaged` is in
 * the place of one whose line cannot be read any more.
 */
export interface OwnEntry extends BaseEntry {
  type: `${string}.${string}` | "damaged";
}

/** Something said: by the user, the model, a tool, a shell or (newest files) the system. */
export interface MessageEntry extends BaseEntry {
  type: "message";
  message: StoredMessage;
}

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
  entry: BaseEntry,
  role: Role,
): entry is MessageEntry & { message: Extract<StoredMessage, { role: Role }> } {
  return message.is(entry) && entry.message.role === role;
}

/** True for an answer that was kept in the file and never reached the conversation. */
export function isFailedAnswerEntry(entry: BaseEntry): boolean {
  return message.is(entry) && isFailedAnswer(entry.message);
}

/** Replaces the older part of its path, in the context, by a summary. */
export interface CompactionEntry extends BaseEntry {
  type: "compaction";
  summary: string;
  /** The first entry that stays visible; the own id keeps nothing. */
  firstKeptEntryId: string;
  /** Size of the context before, in tokens of the policy's estimator. */
  tokensBefore: number;
  /** Record of how it was made; ours hold `CompactionDetails` of `@espalier/compaction`. No model reads it. */
  details?: unknown;
  /** Usage billed for the summary; absent where there was none. */
  usage?: Usage;
  /** True when an extension wrote the summary. */
  fromHook?: boolean;
  /** System prompt and tools as they were (newest Pi). */
  systemMessage?: SystemMessage;
}

/** The content of a system message may be anything in a file that is read. */
const isSystemMessage = (value: unknown): value is SystemMessage =>
  typeof value === "object" && value !== null && (value as { role?: unknown }).role === "system";

/**
 * Our compactions record the settings of their time, so that a reader coming from the end of a long file need not
 * look further back for them. They repeat what the path says; reading them again changes nothing.
 */
function recordedSettings(details: unknown) {
  const recorded = (
    details as { settings?: { provider?: unknown; modelId?: unknown; thinkingLevel?: unknown } } | null
  )?.settings;
  if (typeof recorded !== "object" || recorded === null) return {};
  const { provider, modelId, thinkingLevel } = recorded;
  return {
    ...(typeof provider === "string" && typeof modelId === "string" ? { model: { provider, modelId } } : {}),
    ...(typeof thinkingLevel === "string" ? { thinkingLevel } : {}),
  };
}

/** Summarizes an abandoned branch for the branch that continues. */
export interface BranchSummaryEntry extends BaseEntry {
  type: "branch_summary";
  summary: string;
  /** The leaf that was left (files of Pi before 0.84.3 hold the destination). */
  fromId: string;
  /** Record of its writer: files, the merge it records. No model reads it. */
  details?: unknown;
  /** Usage billed for the summary; absent where there was none. */
  usage?: Usage;
  /** True when an extension wrote the summary. */
  fromHook?: boolean;
}

/** Text that an extension put into the conversation; the model reads it as a user's. */
export interface CustomMessageEntry extends BaseEntry {
  type: "custom_message";
  /** The extension's own name for this kind of message. */
  customType: string;
  content: UserContent;
  /** True to show it to people; the model reads it either way. */
  display: boolean;
  /** For the extension and for people; no model reads it. */
  details?: unknown;
}

/** Changes what an earlier entry of the path says to the model from here on. */
export interface ContextEditEntry extends BaseEntry, ContextEdit {
  type: "context_edit";
  /** Set where a user asked for it, so that an undo takes it back; absent on acts of a program. */
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

/** State of an extension, or of the core under a `customType` that begins with `espalier.`; folded along the path. */
export interface CustomEntry extends BaseEntry {
  type: "custom";
  /** Name of the state's owner; see `ExtensionState` of `@espalier/engine`. */
  customType: string;
  /** Anything that JSON can say. */
  data?: unknown;
}

/** True for a custom entry of this type. */
export function isCustom(entry: BaseEntry, customType: string): entry is CustomEntry {
  return custom.is(entry) && entry.customType === customType;
}

/** A name for a place in the tree. The last label in file order wins; without `label` it is cleared. */
export interface LabelEntry extends BaseEntry {
  type: "label";
  targetId: string;
  label?: string;
  /** The navigation that set it, as a part of its own act: an undo passes over the label, which stays. */
  navigation?: string;
}

/** The session's name; the last one in file order wins. */
export interface SessionInfoEntry extends BaseEntry {
  type: "session_info";
  /** Absent or empty: the session has no name any more. Ours are never absent, as the format has it. */
  name?: string;
}

/** Usage that a provider billed for a call without a message: a warmed cache, a summary that was thrown away. */
export interface UsageEntry extends BaseEntry {
  type: "usage";
  /** Purpose of the call: `cache_warm`, `compaction`, `branch_summary`, …; any word is kept. */
  kind: string;
  provider: string;
  model: string;
  usage: Usage;
}

/**
 * Sets the leaf: our one addition to the format. Its parent is its target, so that a reader which takes the last line
 * for the leaf arrives at the same place.
 */
export interface LeafEntry extends BaseEntry {
  type: "leaf";
  /** Null: before the first entry. */
  targetId: string | null;
}
