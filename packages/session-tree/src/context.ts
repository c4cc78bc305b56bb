import type { ContextEdit, Entry, Settings } from "./entry.ts";
import { kindOf } from "./entry-kinds.ts";
import { type ContextMessage, contentBlocks } from "./message.ts";
import { changedPositions, type PathFacts, readPathFacts } from "./path-facts.ts";
import type { SessionContext } from "./session-context.ts";
import { applySettings, NO_SETTINGS, settingsAlong } from "./settings.ts";
import { estimateTokens } from "./tokens.ts";

/** What one visible entry of a path says to the model. */
export interface ProjectedEntry {
  entry: Entry;
  /** Empty for entries that say nothing or were edited out. */
  messages: ContextMessage[];
  /** True when something before it changed after it was said. */
  prefixChanged: boolean;
}

/**
 * What the entries of a path say, in the order in which the model reads it: the newest compaction that holds, then
 * what it keeps, then what came after it. Entries that a compaction hides are not in it.
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

/** The context at the end of a path; `before` is what was in force above it, when the path is only a window. */
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
 * for entries that change what stands before them (compactions and edits): the context has to be built anew.
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
