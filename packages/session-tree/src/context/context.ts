import { jsonText } from "@espalier/jsonl-stream";
import type { ContextEdit, EntryKind, Settings } from "../entry/entry.ts";
import type { Entry } from "../entry/kinds.ts";
import { kindOf } from "../entry/kinds.ts";
import { type ContextMessage, contentBlocks } from "../entry/message.ts";

/** Messages of one visible entry of a path. */
export interface ProjectedEntry {
  entry: Entry;
  /** Empty for entries that say nothing or were edited out. */
  messages: ContextMessage[];
  /** True when something before it changed after it was said. */
  prefixChanged: boolean;
}

/**
 * Projects the entries of a path into messages, in the order in which the model reads them: the newest compaction
 * that holds, then what it keeps, then what came after it. Entries that a compaction hides are not in it.
 */
export function projectPath(path: readonly Entry[]): ProjectedEntry[] {
  const facts = readPathFacts(path);
  const changed = changedPositions(facts, path.length);
  const projected: ProjectedEntry[] = [];
  const project = (at: number, messages: ContextMessage[]) =>
    projected.push({ entry: path[at]!, messages, prefixChanged: changed[at] === 1 });
  if (facts.compactedAt >= 0)
    project(facts.compactedAt, saidBy(path[facts.compactedAt]!, facts.edits.get(facts.compactedAt)));
  for (let at = facts.keptFrom; at < path.length; at++) {
    if (at !== facts.compactedAt)
      project(at, isMute(path[at]!, at, facts) ? [] : saidBy(path[at]!, facts.edits.get(at)));
  }
  return projected;
}

/** Returns the context at the end of a path; `before` has the settings above it when the path is only a window. */
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
 * Takes a context one entry further, in place and without looking back: what a running agent does at each step. False
 * for entries that change what is before them (compactions and edits): the context has to be built again.
 */
export function extendContext(context: SessionContext, entry: Entry): boolean {
  const kind = kindOf(entry);
  if (kind.firstKept || kind.edit) return false;
  for (const message of saidBy(entry)) addMessage(context, message, entry.id, false);
  Object.assign(
    context,
    applySettings({ model: context.model, thinkingLevel: context.thinkingLevel }, entry),
  );
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

/**
 * Older compactions say nothing where a newer one speaks, one that names nothing on its path never does, and the
 * system's words before a compaction are in the compaction.
 */
function isMute(entry: Entry, at: number, { compactedAt }: PathFacts): boolean {
  if (kindOf(entry).firstKept) return true;
  return at < compactedAt && (entry as { message?: { role?: unknown } }).message?.role === "system";
}

function saidBy(entry: Entry, replacement?: ContextEdit["replacement"]): ContextMessage[] {
  const kind = kindOf(entry);
  if (!kind.toMessages || kind.problem?.(entry)) return [];
  const messages = kind.toMessages(entry);
  if (replacement === undefined) return messages;
  return replacement === null ? [] : messages.map((message) => replaceContent(message, replacement));
}

/** Roles whose content an edit replaces; a summary or a shell run can only be left out (as in Pi). */
const EDITABLE: ReadonlySet<string> = new Set(["user", "assistant", "toolResult", "custom"]);

function replaceContent(
  message: ContextMessage,
  { content }: NonNullable<ContextEdit["replacement"]>,
): ContextMessage {
  if (!EDITABLE.has(message.role)) return message;
  const asBlocks = message.role === "assistant" || message.role === "toolResult";
  return { ...message, content: asBlocks ? contentBlocks({ content }) : content } as ContextMessage;
}

/** Effect of a path's compactions and edits. References that name nothing above them on the path count for nothing. */
interface PathFacts {
  /** Position of the newest compaction that holds; -1 when there is none. */
  compactedAt: number;
  /** Position of the first entry that is visible beside the compaction. */
  keptFrom: number;
  /** The newest edit of each entry, by its position. */
  edits: ReadonlyMap<number, ContextEdit["replacement"]>;
  /** From the target of each visible edit to the edit, in order of the edits. */
  editReaches: readonly { from: number; to: number }[];
}

/** Reads a path once, root first. */
export function readPathFacts(path: readonly Entry[]): PathFacts {
  // Most paths have neither, and to remember where each id of a long one stands takes longer than to see that.
  if (!path.some((entry) => refersBack(kindOf(entry)))) return NO_FACTS;
  const above = new Map<string, number>();
  const edits = new Map<number, ContextEdit["replacement"]>();
  const reaches: { from: number; to: number }[] = [];
  let compactedAt = -1;
  let keptFrom = 0;
  for (let at = 0; at < path.length; at++) {
    const entry = path[at]!;
    const kind = kindOf(entry);
    if (refersBack(kind) && !kind.problem?.(entry)) {
      if (kind.firstKept) {
        const firstKept = kind.firstKept(entry);
        const kept = firstKept === entry.id ? at : above.get(firstKept);
        if (kept !== undefined) {
          compactedAt = at;
          keptFrom = kept;
        }
      }
      if (kind.edit) {
        const { targetId, replacement } = kind.edit(entry);
        const target = above.get(targetId);
        if (target !== undefined) {
          edits.set(target, replacement);
          // What is silent anyway, such as a rule that is dropped, changes nothing that was read.
          if (kindOf(path[target]!).toMessages) reaches.push({ from: target, to: at });
        }
      }
    }
    above.set(entry.id, at);
  }
  const visible = ({ from }: { from: number }) => from >= keptFrom || from === compactedAt;
  return { compactedAt, keptFrom, edits, editReaches: reaches.filter(visible) };
}

/** True for kinds whose entries refer to one above them. */
const refersBack = (kind: EntryKind): boolean => kind.firstKept !== undefined || kind.edit !== undefined;
const NO_FACTS: PathFacts = { compactedAt: -1, keptFrom: 0, edits: new Map(), editReaches: [] };

/**
 * For each position: whether something before it in the context changed after it was said. A compaction changes what
 * stands before everything it keeps; an edit what stands before everything between its target and itself.
 */
function changedPositions({ compactedAt, editReaches }: PathFacts, length: number): Uint8Array {
  const changed = new Uint8Array(length);
  if (compactedAt > 0) changed.fill(1, 0, compactedAt);
  // Walked from the newest edit: `reach` is the earliest target of any edit that comes later than `at`.
  let reach = Number.POSITIVE_INFINITY;
  let next = editReaches.length - 1;
  for (let at = length - 1; at >= 0; at--) {
    if (at > reach) changed[at] = 1;
    for (; next >= 0 && editReaches[next]!.to === at; next--)
      reach = Math.min(reach, editReaches[next]!.from);
  }
  return changed;
}

/** Context that a model reads at a leaf: a pure function of the leaf's path. */
export interface SessionContext extends Settings {
  /** Neutral messages, oldest first; failed, aborted and excluded ones are among them. */
  messages: ContextMessage[];
  /** The entry that each message comes from. */
  sources: string[];
  /**
   * For each message: true when something before it in the context is no longer what it was when the message was
   * made (a compaction or an edit came later). Signed reasoning of such a message cannot be sent back.
   */
  prefixChanged: boolean[];
  /** Rough size of all messages: characters / 4, rounded up per message. */
  tokens: number;
}

/** Settings of a path on which no entry names any (the thinking level as in Pi). */
export const NO_SETTINGS: Settings = { model: null, thinkingLevel: "off" };

/** The settings that an entry names; an entry that is not sound names none. */
export function settingsIn(entry: Entry): Partial<Settings> {
  const kind = kindOf(entry);
  if (!kind.settings || kind.problem?.(entry)) return {};
  return kind.settings(entry);
}

/** Returns the settings after an entry: those before it, changed by those it names. */
export function applySettings(before: Settings, entry: Entry): Settings {
  const change = settingsIn(entry);
  if (change.model === undefined && change.thinkingLevel === undefined) return before;
  return { ...before, ...change };
}

/** Returns the settings at the end of a path. */
export function settingsAlong(path: Iterable<Entry>, before: Settings = NO_SETTINGS): Settings {
  let settings = before;
  for (const entry of path) settings = applySettings(settings, entry);
  return settings;
}

/** Tokens of a picture of any size (origins 002: "estimate 1200 per image"). */
export const IMAGE_TOKENS = 1_200;

/** Characters of a token in the rough estimate (origins 002: "chars / 4"). */
export const CHARS_PER_TOKEN = 4;
const IMAGE_CHARS = IMAGE_TOKENS * CHARS_PER_TOKEN;

/**
 * Rough size of one neutral message in tokens: characters / 4, rounded up per message, {@link IMAGE_TOKENS} a picture.
 * Characters are UTF-16 code units of text, thinking, and name plus JSON arguments of calls.
 * A bash run excluded from the context weighs 0.
 */
export function estimateTokens(message: ContextMessage): number {
  return Math.ceil(messageChars(message) / CHARS_PER_TOKEN);
}

/** The sum of {@link estimateTokens} over messages. */
export function estimateTotal(messages: readonly ContextMessage[]): number {
  let total = 0;
  for (const message of messages) total += estimateTokens(message);
  return total;
}

function messageChars(message: ContextMessage): number {
  if (message.role === "bashExecution") {
    return message.excludeFromContext ? 0 : textLength(message.command) + textLength(message.output);
  }
  if (message.role === "compactionSummary" || message.role === "branchSummary")
    return textLength(message.summary);
  let chars = 0;
  for (const block of contentBlocks(message)) {
    if (block.type === "text") chars += textLength(block.text);
    else if (block.type === "thinking") chars += textLength(block.thinking);
    else if (block.type === "image") chars += IMAGE_CHARS;
    else if (block.type === "toolCall") chars += textLength(block.name) + jsonText(block.arguments).length;
  }
  if (message.role === "system") {
    for (const section of Object.values(message.sections ?? {})) chars += textLength(section);
    if (message.toolsAdded) chars += jsonText(message.toolsAdded).length;
  }
  return chars;
}

const textLength = (value: unknown): number => (typeof value === "string" ? value.length : 0);
