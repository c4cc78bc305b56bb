import { jsonText } from "@espalier/jsonl-stream";
import type { ContextEdit, EntryKind, Settings } from "../entry/entry.ts";
import { type Entry, isMessage, kindOf, messagesOf } from "../entry/kinds.ts";
import { type ContextMessage, contentBlocks, isPicture, type UserContent } from "../entry/message.ts";

/** Messages of one visible entry of a path. */
export interface ProjectedEntry {
  entry: Entry;
  /**
   * Messages after edits. Empty for an entry without messages, an invalid entry, an entry that an edit removed, an
   * older compaction, and a system message before the newest compaction.
   */
  messages: ContextMessage[];
  /** True when the entry's prefix in the context changed after the entry was written, by a compaction or an edit. */
  prefixChanged: boolean;
}

/**
 * Projects the entries of a path into messages, in the order in which the model reads them: the newest valid
 * compaction, then the entries that it keeps, then the entries after it. Entries that a compaction hides are left out.
 */
export function projectPath(path: readonly Entry[]): ProjectedEntry[] {
  const { compactedAt, keptFrom, edits, targets } = readPathFacts(path);
  const changed = new Uint8Array(path.length).fill(1, 0, Math.max(compactedAt, 0));
  // The earliest target of all edits after `at`.
  let edited = path.length;
  for (let at = path.length - 1; targets.size > 0 && at >= keptFrom; at--) {
    if (edited < at) changed[at] = 1;
    const target = targets.get(at) ?? edited;
    if (target >= keptFrom) edited = Math.min(edited, target);
  }
  const projected: ProjectedEntry[] = [];
  const project = (at: number, messages: ContextMessage[]) =>
    projected.push({ entry: path[at]!, messages, prefixChanged: changed[at] === 1 });
  if (compactedAt >= 0) project(compactedAt, saidBy(path[compactedAt]!, edits.get(compactedAt)));
  for (let at = keptFrom; at < path.length; at++) {
    const entry = path[at]!;
    // The newest compaction contains the system messages before it, and replaces older compactions.
    const isMute = kindOf(entry).firstKept || (at < compactedAt && isMessage(entry, "system"));
    if (at !== compactedAt) project(at, isMute ? [] : saidBy(entry, edits.get(at)));
  }
  return projected;
}

/**
 * Returns the context at the end of a path, root first. When `path` has only the last entries of a path, `before` has
 * the settings above them.
 */
export function contextOfPath(path: readonly Entry[], before: Settings = NO_SETTINGS): SessionContext {
  const context: SessionContext = {
    messages: [],
    sources: [],
    prefixChanged: [],
    tokens: 0,
    ...settingsAlong(path, before),
  };
  for (const { entry, messages, prefixChanged } of projectPath(path)) {
    for (const message of messages) addMessage(context, message, entry.id, prefixChanged);
  }
  return context;
}

/**
 * Adds one entry to a context, in place and without reading earlier entries. A running agent calls it at each step.
 * Returns false, without a change, for an entry that changes earlier ones (a compaction or an edit): build the context
 * again.
 */
export function extendContext(context: SessionContext, entry: Entry): boolean {
  const kind = kindOf(entry);
  if (kind.firstKept || kind.edit) return false;
  for (const message of saidBy(entry)) addMessage(context, message, entry.id, false);
  Object.assign(context, settingsIn(entry));
  return true;
}

function addMessage(
  context: SessionContext,
  message: ContextMessage,
  source: string,
  prefixChanged: boolean,
): void {
  context.messages.push(message);
  context.sources.push(source);
  context.prefixChanged.push(prefixChanged);
  context.tokens += estimateTokens(message);
}

function saidBy(entry: Entry, replacement?: ContextEdit["replacement"]): ContextMessage[] {
  const messages = messagesOf(entry);
  if (!replacement) return replacement === null ? [] : messages;
  return messages.map((message) => replaceContent(message, replacement));
}

/** Roles whose content an edit can replace. A summary or a shell run can only be left out (as in Pi). */
const EDITABLE: ReadonlySet<string> = new Set(["user", "assistant", "toolResult", "custom"]);

function replaceContent(message: ContextMessage, { content }: { content: UserContent }): ContextMessage {
  if (!EDITABLE.has(message.role)) return message;
  const hasBlocks = message.role === "assistant" || message.role === "toolResult";
  return { ...message, content: hasBlocks ? contentBlocks({ content }) : content } as ContextMessage;
}

/** Effect of a path's compactions and edits. References to entries that are not above them on the path are ignored. */
interface PathFacts {
  /** Position of the newest valid compaction; -1 when there is none. */
  compactedAt: number;
  /** Position of the first entry that stays visible besides the compaction. */
  keptFrom: number;
  /** The newest edit of each entry, by the entry's position. */
  edits: ReadonlyMap<number, ContextEdit["replacement"]>;
  /** Position of the target of each edit, by the position of the edit. */
  targets: ReadonlyMap<number, number>;
}

/** Reads a path once, root first. */
export function readPathFacts(path: readonly Entry[]): PathFacts {
  const edits = new Map<number, ContextEdit["replacement"]>();
  const targets = new Map<number, number>();
  const facts = { compactedAt: -1, keptFrom: 0, edits, targets };
  // Most paths have no compactions or edits. Checking this is faster than storing the position of each id of a long
  // path.
  if (!path.some((entry) => refersBack(kindOf(entry)))) return facts;
  const above = new Map<string, number>();
  for (const [at, entry] of path.entries()) {
    const kind = kindOf(entry);
    if (refersBack(kind) && !kind.problem?.(entry)) {
      const firstKept = kind.firstKept?.(entry);
      const keptFrom = firstKept === entry.id ? at : above.get(firstKept ?? "");
      if (firstKept !== undefined && keptFrom !== undefined)
        Object.assign(facts, { compactedAt: at, keptFrom });
      const edit = kind.edit?.(entry);
      const target = edit && above.get(edit.targetId);
      if (target !== undefined) {
        edits.set(target, edit!.replacement);
        // Entries without messages, such as a removed rule, do not change the context.
        if (kindOf(path[target]!).toMessages) targets.set(at, target);
      }
    }
    above.set(entry.id, at);
  }
  return facts;
}

const refersBack = (kind: EntryKind): boolean => kind.firstKept !== undefined || kind.edit !== undefined;

/** Context that a model reads at a leaf: a pure function of the leaf's path. */
export interface SessionContext extends Settings {
  /**
   * Neutral messages in the order in which a model reads them: the summary of the newest compaction, then the other
   * visible messages, oldest first. Failed and aborted answers and excluded shell runs are included.
   */
  messages: ContextMessage[];
  /** For each message, the id of its entry. */
  sources: string[];
  /**
   * For each message: true when its prefix in the context changed after the message was written, by a compaction or an
   * edit. Signed reasoning of such a message cannot be sent back.
   */
  prefixChanged: boolean[];
  /** Rough size of all messages in tokens: the sum of {@link estimateTokens}. */
  tokens: number;
}

/** Settings of a path on which no entry names a setting. The thinking level is Pi's default. */
export const NO_SETTINGS: Settings = { model: null, thinkingLevel: "off" };

/** Returns the settings that an entry names; none for an invalid entry. */
export function settingsIn(entry: Entry): Partial<Settings> {
  const kind = kindOf(entry);
  return kind.settings && !kind.problem?.(entry) ? kind.settings(entry) : {};
}

/** Returns the settings at the end of a path, root first. `before` has the settings above its first entry. */
export function settingsAlong(path: Iterable<Entry>, before: Settings = NO_SETTINGS): Settings {
  let settings = before;
  for (const entry of path) {
    const change = settingsIn(entry);
    if (change.model !== undefined || change.thinkingLevel !== undefined)
      settings = { ...settings, ...change };
  }
  return settings;
}

/** Tokens of an image of any size, in the message or at an address (origins 002: "estimate 1200 per image"). */
export const IMAGE_TOKENS = 1_200;

/** Characters per token in the rough estimate (origins 002: "chars / 4"). */
export const CHARS_PER_TOKEN = 4;
const IMAGE_CHARS = IMAGE_TOKENS * CHARS_PER_TOKEN;

/**
 * Returns the rough size of one neutral message in tokens: characters / 4, rounded up per message, and
 * {@link IMAGE_TOKENS} per image. Characters are UTF-16 code units: of text and thinking, of names and JSON arguments
 * of calls, of summaries, of commands and outputs of shell runs, and of a system message's sections and added tools (as
 * JSON). A shell run that is excluded from the context counts 0.
 */
export function estimateTokens(message: ContextMessage): number {
  return Math.ceil(messageChars(message) / CHARS_PER_TOKEN);
}

/** Returns the sum of {@link estimateTokens} over messages. */
export function estimateTotal(messages: readonly ContextMessage[]): number {
  let total = 0;
  for (const message of messages) total += estimateTokens(message);
  return total;
}

function messageChars(message: ContextMessage): number {
  if (message.role === "bashExecution") {
    return message.excludeFromContext ? 0 : textLength(message.command) + textLength(message.output);
  }
  let chars = 0;
  for (const block of contentBlocks(message)) {
    if (block.type === "text") chars += textLength(block.text);
    else if (block.type === "thinking") chars += textLength(block.thinking);
    else if (isPicture(block)) chars += IMAGE_CHARS;
    else if (block.type === "toolCall") chars += textLength(block.name) + jsonText(block.arguments).length;
  }
  if (message.role === "system") {
    for (const section of Object.values(message.sections ?? {})) chars += textLength(section);
    if (message.toolsAdded) chars += jsonText(message.toolsAdded).length;
  }
  return chars;
}

const textLength = (value: unknown): number => (typeof value === "string" ? value.length : 0);
