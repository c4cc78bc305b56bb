import {
  type AssistantBlock,
  type AssistantMessage,
  bashExecutionText,
  type CompactionEntry,
  type ContentBlock,
  type ContextMessage,
  compaction,
  contentBlocks,
  contextEdit,
  createCallIds,
  type Entry,
  isBlank,
  isFailedAnswer,
  isRecord,
  NO_RESULT,
  pairTools,
  projectPath,
  type ToolCallBlock,
  type ToolResultMessage,
  toolCalls,
  toolInput,
  validToolName,
} from "@espalier/session-tree";
import type { FormatIssues } from "../formats/conversation.ts";
import { shortName } from "../import/entry.ts";
import type { ExportSource } from "./source.ts";

/** Rules of another agent's file for the messages of a path. */
export interface PathRules {
  /** Name of the agent. Custom messages whose type begins with it and a dot may stay between a call and its result. */
  agent: string;
  /** Returns whether the agent can send this reasoning of an answer again. */
  acceptsThinking(block: AssistantBlock & { type: "thinking" }, answer: AssistantMessage): boolean;
  /** Maximum length of a call's id, in characters. */
  callIdLength: number;
  /** Maximum length of a tool's name, in characters. */
  toolNameLength: number;
  /**
   * Returns whether the file can have a block that the session format has no type for, or no place: a block of one API.
   * @param answer answer that contains the block; undefined for a block of a user or of a result
   */
  hasBlock(block: ContentBlock, answer?: AssistantMessage): boolean;
  /** Returns whether a custom message describes the tools and settings of another agent. */
  isForeignContext(customType: string): boolean;
  /** True if the format has edits and failed answers: entries keep their content. Default: false. */
  keepsEntries?: boolean;
}

/** An entry of a path, ready for another agent's file. */
export interface PathItem {
  entry: Entry;
  /** Message for a model; undefined for a compaction, and for an entry that no model reads. */
  message?: ContextMessage | undefined;
  /** Position of the entry on the path; for a result the position of its call. */
  position: number;
  /** True for a result that replaces a missing one, or one that an edit removed: the message is not the entry's own. */
  isMade?: boolean;
  /** For a compaction: items before it that the model still reads. */
  kept?: PathItem[];
}

/**
 * Prepares the path of a source for another agent's file, root first. Edits are applied, each call is followed by its results,
 * and content that the agent cannot read is left out. Adds an issue for each difference; the `path` of an issue is the id of
 * the first entry that has it.
 */
export function preparePath(source: ExportSource, rules: PathRules, issues: FormatIssues): PathItem[] {
  const entries = source.pathRows().map((row) => source.entryAt(row));
  const path = readPath(entries, rules, issues);
  const whole = wholePairs(path);
  for (const [at, item] of whole.entries()) if (item.kept) item.kept = keptAt(whole, at, path);
  return whole;
}

/** Messages for differences between a path and its form in another agent's file that several writers report. */
export const PATH_DIFFERENCES = {
  shellCommand: "A command of the user's shell becomes a text of the user.",
  toolData: "Data of a tool that no model reads is left out.",
  textData: "Data beside a text of an extension is left out.",
  state: "State of an agent or an extension that no model reads is left out.",
  removedSummary: "A summary that an edit left out is replaced by the sentence that it was left out.",
  noEffect: "A compaction whose first kept entry is not above it has no effect; it is left out.",
  otherContext: "Text about another agent's tools and environment is left out; each agent adds its own.",
  noResult: "A call without a result gets a result that says that none was recorded.",
  renamedCall:
    "The id of a call, or the name of its tool, is changed to one that the agent's provider accepts.",
  otherContent: "Content that the file cannot hold is replaced by a short text.",
  otherAnswer: "Content of an answer that the file cannot hold is left out.",
  otherThinking: "Reasoning that only its own provider can read again is left out.",
  encrypted: "Reasoning that Codex's provider encrypted is left out.",
};

/** Returns whether the details of an entry have reasoning, or a summary, that only Codex's provider can read. */
export function hasEncrypted(entry: Entry): boolean {
  const { details } = entry as { details?: unknown };
  if (!isRecord(details)) return false;
  const { encryptedReasoning, codex } = details;
  return encryptedReasoning !== undefined || (isRecord(codex) && codex["opaque"] !== undefined);
}

/** Text in place of a block that the other agent's file cannot have. */
export const leftOutText = ({ type }: ContentBlock): string =>
  `[Content of type ${shortName(type, "?")} left out]`;

/** Summary of a compaction whose own an edit left out. Other agents have no compaction without a summary. */
const NO_SUMMARY = "(The summary was left out.)";

/** Facts about the entries of a path, by position, and the rules of the other agent. */
interface Path {
  rules: PathRules;
  issues: FormatIssues;
  /** Returns an id for a call that the agent accepts. */
  validId: (id: unknown) => string;
  /** All entries, with the messages that they have if nothing is compacted. */
  items: readonly PathItem[];
  /** Results of the calls of each answer; undefined for a call without one. Failed answers are missing. */
  results: ReadonlyMap<number, readonly (ToolResultMessage | undefined)[]>;
  /** First kept position of each compaction. Compactions that name no entry above them are missing. */
  keptFrom: ReadonlyMap<number, number>;
  /** Edits of an entry, in order. */
  edits: ReadonlyMap<number, readonly { at: number; removes: boolean }[]>;
}

/**
 * Reads a path, root first. If a compaction is between an entry and the edit that removes it, the entry stays in the file, and
 * the compaction does not keep it. With `keepsEntries`, all removed entries stay.
 */
function readPath(entries: readonly Entry[], rules: PathRules, issues: FormatIssues): Path {
  const above = new Map<string, number>();
  const keptFrom = new Map<number, number>();
  const edits = new Map<number, { at: number; removes: boolean }[]>();
  const uncompacted: Entry[] = [];
  let compactedAt = -1;
  for (const [at, entry] of entries.entries()) {
    above.set(entry.id, at);
    if (compaction.is(entry)) {
      const from = above.get(entry.firstKeptEntryId);
      if (from === undefined) continue;
      keptFrom.set(at, from);
      compactedAt = at;
      continue;
    }
    if (contextEdit.is(entry)) {
      const target = above.get(entry.targetId);
      if (target === undefined) continue;
      const removes = entry.replacement === null;
      edits.set(target, [...(edits.get(target) ?? []), { at, removes }]);
      if (removes && (rules.keepsEntries || compactedAt > target)) continue;
    }
    uncompacted.push(entry);
  }
  const projected = new Map(projectPath(uncompacted).map(({ entry, messages }) => [entry, messages[0]]));
  const items = entries.map((entry, position) => ({ entry, position, message: projected.get(entry) }));
  const { results } = pairTools(items.map(({ message }) => message));
  return { rules, issues, validId: createCallIds(rules.callIdLength), items, results, keptFrom, edits };
}

/** Returns whether an edit removes an entry from the context. `before`: edits from this position on do not count. */
const isRemoved = (position: number, { edits }: Path, before = Number.POSITIVE_INFINITY): boolean =>
  edits.get(position)?.findLast(({ at }) => at < before)?.removes ?? false;

/** Adds an issue for an item, or a part of it, that is left out. */
function dropped({ entry }: PathItem, { issues }: Path, field: string, reason: string): undefined {
  issues.add("dropped", field, entry.id, reason);
}

/** Makes an item valid for the other agent, or leaves it out; adds an issue for each difference. Results have `resultOf`. */
function validItem(item: PathItem, path: Path): PathItem | undefined {
  const { entry, position, message } = item;
  const { rules, issues } = path;
  if (compaction.is(entry)) {
    if (!path.keptFrom.has(position)) return dropped(item, path, "compaction", PATH_DIFFERENCES.noEffect);
    if (rules.keepsEntries || !isRemoved(position, path)) return { ...item, kept: [] };
    issues.add("changed", "compaction", entry.id, PATH_DIFFERENCES.removedSummary);
    return { ...item, entry: { ...entry, summary: NO_SUMMARY }, kept: [] };
  }
  if (message?.role === "custom" && rules.isForeignContext(message.customType))
    return dropped(item, path, "context", PATH_DIFFERENCES.otherContext);
  if (rules.keepsEntries) return item;
  if (!message && (entry.type === "message" || entry.type === "custom_message"))
    return dropped(item, path, "edit", "An entry that an edit left out of the context is left out.");
  if (!message) return item;
  if (message.role === "system")
    return dropped(item, path, "system", "A system prompt is left out; the other agent has its own.");
  if (message.role === "bashExecution" && message.excludeFromContext)
    return dropped(item, path, "bashExecution", "A command that no model reads is left out.");
  if (message.role === "bashExecution") {
    issues.add("changed", "bashExecution", entry.id, PATH_DIFFERENCES.shellCommand);
    const { timestamp } = message;
    return { ...item, message: { role: "user", content: bashExecutionText(message), timestamp } };
  }
  if (isFailedAnswer(message))
    return dropped(item, path, "failed", "An answer that failed or was aborted is left out.");
  if (message.role === "assistant") {
    const content = answerBlocks(item, message, path);
    return content.length > 0
      ? { ...item, message: { ...message, content } }
      : dropped(item, path, "empty", "An answer without content that the file can hold is left out.");
  }
  // Providers refuse blank texts.
  return contentBlocks(message).every(isBlankText)
    ? dropped(item, path, "empty", "An empty message is left out.")
    : { ...item, message: withSoundContent(item, message, path) };
}

/**
 * Blocks of an answer. Texts come before calls, blank ones are left out, and reasoning is included if the agent accepts
 * it. Ids of calls and names of tools become valid.
 */
function answerBlocks(item: PathItem, answer: AssistantMessage, path: Path): AssistantBlock[] {
  const { rules, issues } = path;
  const said: AssistantBlock[] = [];
  const calls: AssistantBlock[] = [];
  for (const block of contentBlocks(answer) as AssistantBlock[]) {
    if (block.type === "toolCall") {
      const id = path.validId(block.id);
      const name = validToolName(block.name, rules.toolNameLength);
      if (id !== block.id || name !== block.name)
        issues.add("changed", "call", item.entry.id, PATH_DIFFERENCES.renamedCall);
      calls.push({ ...block, arguments: toolInput(block.arguments), id, name });
    } else if (block.type === "thinking") {
      if (rules.acceptsThinking(block, answer)) (calls.length === 0 ? said : calls).push(block);
      else dropped(item, path, "thinking", PATH_DIFFERENCES.otherThinking);
    } else if (block.type !== "text" && !rules.hasBlock(block, answer))
      dropped(item, path, "content", PATH_DIFFERENCES.otherAnswer);
    else if (isBlankText(block)) dropped(item, path, "text", "An empty text is left out.");
    else said.push(block);
  }
  return [...said, ...calls];
}

/** Returns whether a text block is blank, or has no text. */
const isBlankText = (block: ContentBlock): boolean =>
  block.type === "text" && (typeof block.text !== "string" || isBlank(block.text));

/**
 * A message of a user or a result without blank texts, which providers refuse; a message whose only block is a text is
 * unchanged. Adds an issue for each block that the file cannot have.
 */
function withSoundContent<Message extends ContextMessage>(
  { entry }: PathItem,
  message: Message,
  { rules, issues }: Path,
): Message {
  const { content } = message as { content?: unknown };
  if (rules.keepsEntries || !Array.isArray(content)) return message;
  const blocks = contentBlocks(message);
  for (const block of blocks)
    if (block.type !== "text" && block.type !== "image" && !rules.hasBlock(block))
      issues.add("changed", "content", entry.id, PATH_DIFFERENCES.otherContent);
  const isOneText = content.length === 1 && blocks[0]?.type === "text" && typeof blocks[0].text === "string";
  return isOneText ? message : { ...message, content: blocks.filter((block) => !isBlankText(block)) };
}

/** A call whose result is not written yet. */
interface OpenCall {
  answer: PathItem;
  call: ToolCallBlock;
  /** Item of the result; undefined if the path has none. */
  result: PathItem | undefined;
}

/**
 * Makes each pair of call and result whole, and each item valid. Results from further down are moved to their calls, and calls
 * without a result get one.
 */
function wholePairs(path: Path): PathItem[] {
  const { items, rules, issues } = path;
  const itemOf = new Map(items.map((item) => [item.message, item]));
  const whole: PathItem[] = [];
  const moved = new Set<PathItem>();
  let open: OpenCall[] = [];
  const close = () => {
    for (const { answer, call, result } of open) {
      if (result) {
        moved.add(result);
        issues.add("changed", "result", result.entry.id, "A result that came late is moved to its call.");
      } else issues.add("changed", "result", answer.entry.id, PATH_DIFFERENCES.noResult);
      whole.push(resultOf({ answer, call, result }, path));
    }
    open = [];
  };
  for (const item of items) {
    const { role } = item.message ?? {};
    const staysRemoved = rules.keepsEntries && isRemoved(item.position, path);
    if (role === "toolResult") {
      const at = open.findIndex(({ result }) => result === item);
      if (at >= 0) whole.push(...open.splice(at, 1).map((call) => resultOf(call, path)));
      else if (moved.has(item)) continue;
      else if (staysRemoved) whole.push(item);
      else dropped(item, path, "result", "A result without its call is left out.");
      continue;
    }
    const valid = validItem(item, path);
    // A prompt or an answer that is left out ends the calls before it too.
    if (valid ? !mayStayInside(valid, rules) : role === "user" || role === "assistant") close();
    if (!valid) continue;
    whole.push(valid);
    const results = path.results.get(item.position);
    if (valid.message && results && !staysRemoved)
      open = toolCalls(valid.message).map((call, nth) => ({
        answer: valid,
        call,
        result: results[nth] && itemOf.get(results[nth]),
      }));
  }
  close();
  return whole;
}

/** Returns whether an item may be between a call and its results: state, and context of the agent itself. */
const mayStayInside = ({ message, kept }: PathItem, { agent }: PathRules): boolean =>
  message ? message.role === "custom" && message.customType.startsWith(`${agent}.`) : !kept;

/** A result for its call. If an edit removes the result and not the call, its text says that there is no result. */
function resultOf({ answer, call, result }: OpenCall, path: Path): PathItem {
  const { entry } = result ?? answer;
  const { position } = answer;
  const timestamp = Date.parse(entry.timestamp) || 0;
  const message: ToolResultMessage = {
    ...(result
      ? withSoundContent(result, result.message as ToolResultMessage, path)
      : { role: "toolResult", toolCallId: "", toolName: call.name, content: [], isError: true, timestamp }),
    toolCallId: call.id,
  };
  if (result && (!isRemoved(result.position, path) || isRemoved(position, path)))
    return { entry, position, message };
  const { details: _details, ...rest } = message;
  const content: ToolResultMessage["content"] = [{ type: "text", text: NO_RESULT }];
  return { entry, position, message: { ...rest, isError: true, content }, isMade: true };
}

/**
 * Items that a compaction keeps: from its first kept entry on, without other compactions, and without those that an edit
 * before the next compaction removes.
 */
function keptAt(items: readonly PathItem[], at: number, path: Path): PathItem[] {
  const { position } = items[at]!;
  const from = path.keptFrom.get(position)!;
  const next = [...path.keptFrom.keys()].find((other) => other > position);
  const kept: PathItem[] = [];
  for (let above = at - 1; above >= 0; above--) {
    const item = items[above]!;
    // A result has the position of its call, which may be lower than that of kept items before it.
    if (item.position < from && item.message?.role !== "toolResult") break;
    if (item.position >= from && !item.kept && !isRemoved(item.position, path, next)) kept.push(item);
  }
  return kept.reverse();
}

/** A compaction of a path. */
export type CompactionItem = PathItem & { entry: CompactionEntry; kept: PathItem[] };

/** Returns whether an item is a compaction. */
export const isCompactionItem = (item: PathItem): item is CompactionItem => item.kept !== undefined;
