import {
  type AssistantBlock,
  type AssistantMessage,
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
  message?: ContextMessage;
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
  const path = source.pathRows().map((row) => source.entryAt(row));
  const facts = readPath(path);
  const items: PathItem[] = [];
  const messages = messagesOf(path, facts, rules);
  for (const [position, entry] of path.entries()) {
    if (compaction.is(entry) && facts.keptFrom.has(position)) {
      const isGone = isRemoved(position, facts) && !rules.keepsEntries;
      if (isGone) issues.add("changed", "compaction", entry.id, PATH_DIFFERENCES.removedSummary);
      items.push({ entry: isGone ? { ...entry, summary: NO_SUMMARY } : entry, position, kept: [] });
    } else if (compaction.is(entry)) issues.add("dropped", "compaction", entry.id, PATH_DIFFERENCES.noEffect);
    else {
      const message = messages.get(position);
      if (isIncluded(entry, message, rules, issues))
        items.push({ entry, position, ...(message ? { message } : {}) });
    }
  }
  const whole = new PairedItems(items, facts, rules, issues).all();
  for (const [at, item] of whole.entries()) if (item.kept) item.kept = keptAt(whole, at, facts);
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

/** Compactions and edits of a path, by position. */
interface PathFacts {
  /** First kept position of each compaction. Compactions that name no entry above them are missing. */
  keptFrom: ReadonlyMap<number, number>;
  /** Positions of the edits that remove an entry from the context, by the position of the entry. */
  removals: ReadonlyMap<number, readonly number[]>;
  /** Position of the newest edit of an entry, by the position of the entry. */
  newest: ReadonlyMap<number, number>;
}

function readPath(path: readonly Entry[]): PathFacts {
  const at = new Map<string, number>();
  const keptFrom = new Map<number, number>();
  const removals = new Map<number, number[]>();
  const newest = new Map<number, number>();
  for (const [position, entry] of path.entries()) {
    if (compaction.is(entry)) {
      const kept = entry.firstKeptEntryId === entry.id ? position : at.get(entry.firstKeptEntryId);
      if (kept !== undefined) keptFrom.set(position, kept);
    } else if (contextEdit.is(entry)) {
      const target = at.get(entry.targetId);
      if (target !== undefined) {
        newest.set(target, position);
        if (entry.replacement === null) removals.set(target, [...(removals.get(target) ?? []), position]);
      }
    }
    at.set(entry.id, position);
  }
  return { keptFrom, removals, newest };
}

/** Returns whether an edit removes an entry from the context. `before`: edits from this position on do not count. */
function isRemoved(
  position: number,
  { removals, newest }: PathFacts,
  before = Number.POSITIVE_INFINITY,
): boolean {
  const edits = removals.get(position)?.filter((edit) => edit < before) ?? [];
  const last = newest.get(position);
  return edits.length > 0 && (last === undefined || last >= before || edits.at(-1) === last);
}

/**
 * Messages of a path, by position, as if nothing was compacted. If a compaction is between an entry and the edit that removes
 * it, the entry stays in the file, and the compaction does not keep it. With `keepsEntries`, all removed entries stay.
 */
function messagesOf(
  path: readonly Entry[],
  facts: PathFacts,
  { keepsEntries = false }: PathRules,
): Map<number, ContextMessage> {
  const compactions = [...facts.keptFrom.keys()];
  const crossing = new Set<Entry>();
  for (const [target, edits] of facts.removals)
    for (const edit of edits)
      if (keepsEntries || compactions.some((position) => target < position && position < edit))
        crossing.add(path[edit]!);
  const positions = new Map(path.map((entry, position) => [entry, position]));
  const messages = new Map<number, ContextMessage>();
  for (const { entry, messages: said } of projectPath(
    path.filter((each) => !compaction.is(each) && !crossing.has(each)),
  ))
    if (said[0]) messages.set(positions.get(entry)!, said[0]);
  return messages;
}

/** Returns whether an entry is written; adds an issue if it is not. */
function isIncluded(
  entry: Entry,
  message: ContextMessage | undefined,
  { isForeignContext, keepsEntries }: PathRules,
  issues: FormatIssues,
): boolean {
  if (message?.role === "custom" && isForeignContext(message.customType)) {
    issues.add("dropped", "context", entry.id, PATH_DIFFERENCES.otherContext);
    return false;
  }
  if (keepsEntries) return true;
  if (message === undefined && (entry.type === "message" || entry.type === "custom_message")) {
    issues.add("dropped", "edit", entry.id, "An entry that an edit left out of the context is left out.");
    return false;
  }
  if (message?.role === "system") {
    issues.add("dropped", "system", entry.id, "A system prompt is left out; the other agent has its own.");
    return false;
  }
  if (message?.role === "bashExecution" && message.excludeFromContext) {
    issues.add("dropped", "bashExecution", entry.id, "A command that no model reads is left out.");
    return false;
  }
  return true;
}

/**
 * Items that a compaction keeps: from its first kept entry on, without other compactions, and without those that an edit
 * before the next compaction removes.
 */
function keptAt(items: readonly PathItem[], at: number, facts: PathFacts): PathItem[] {
  const { position } = items[at]!;
  const from = facts.keptFrom.get(position)!;
  const next = [...facts.keptFrom.keys()].find((other) => other > position);
  const kept: PathItem[] = [];
  for (let above = at - 1; above >= 0; above--) {
    const item = items[above]!;
    // A result has the position of its call, which may be lower than that of kept items before it.
    if (item.position < from && item.message?.role !== "toolResult") break;
    if (item.position >= from && !item.kept && !isRemoved(item.position, facts, next)) kept.push(item);
  }
  return kept.reverse();
}

/** An answer with calls whose results are not written yet. */
interface OpenAnswer {
  item: PathItem;
  /** Calls, each with its result; undefined for a call that has none on the path. */
  calls: { call: ToolCallBlock; result: ToolResultMessage | undefined }[];
}

/** Makes each pair of call and result whole, and each answer valid for the other agent. */
class PairedItems {
  readonly #items: readonly PathItem[];
  readonly #facts: PathFacts;
  readonly #rules: PathRules;
  readonly #issues: FormatIssues;
  readonly #callId: (id: unknown) => string;
  readonly #whole: PathItem[] = [];
  readonly #itemOf: ReadonlyMap<ContextMessage | undefined, PathItem>;
  readonly #results: ReturnType<typeof pairTools>["results"];
  /** Results that were moved up to their calls. */
  readonly #moved = new Set<PathItem>();
  #open: OpenAnswer | undefined;

  constructor(items: readonly PathItem[], facts: PathFacts, rules: PathRules, issues: FormatIssues) {
    this.#items = items;
    this.#facts = facts;
    this.#rules = rules;
    this.#issues = issues;
    this.#callId = createCallIds(rules.callIdLength);
    this.#itemOf = new Map(items.map((item) => [item.message, item]));
    this.#results = pairTools(items.map(({ message }) => message)).results;
  }

  all(): PathItem[] {
    const { keepsEntries } = this.#rules;
    for (const [at, item] of this.#items.entries()) {
      const { message } = item;
      if (message?.role === "toolResult") this.#result(item, message);
      else {
        if (!this.#mayStayInside(item)) this.#close();
        if (message?.role === "assistant") this.#answer(item, message, this.#results.get(at) ?? []);
        else if (message && isSilent(message) && !keepsEntries)
          this.#drop(item, "empty", "An empty message is left out.");
        else
          this.#whole.push(
            keepsEntries || !message ? item : { ...item, message: this.#sound(item, message) },
          );
      }
    }
    this.#close();
    return this.#whole;
  }

  #drop({ entry }: Pick<PathItem, "entry">, field: string, message: string): void {
    this.#issues.add("dropped", field, entry.id, message);
  }

  /** A message of a user or a result without blank texts. Adds an issue for each block that the file cannot have. */
  #sound<Message extends ContextMessage>({ entry }: PathItem, message: Message): Message {
    for (const block of contentBlocks(message))
      if (block.type !== "text" && block.type !== "image" && !this.#rules.hasBlock(block))
        this.#issues.add("changed", "content", entry.id, PATH_DIFFERENCES.otherContent);
    return withSoundContent(message);
  }

  /** Returns whether an item may be between a call and its results: state, and context of the agent itself. */
  #mayStayInside({ message, kept }: PathItem): boolean {
    if (kept) return false;
    return (
      message === undefined ||
      (message.role === "custom" && message.customType.startsWith(`${this.#rules.agent}.`))
    );
  }

  /** @param results results of the calls, in the order of the calls */
  #answer(
    item: PathItem,
    answer: AssistantMessage,
    results: readonly (ToolResultMessage | undefined)[],
  ): void {
    const { keepsEntries } = this.#rules;
    if (isFailedAnswer(answer)) {
      if (keepsEntries) this.#whole.push(item);
      else this.#drop(item, "failed", "An answer that failed or was aborted is left out.");
      return;
    }
    const content = keepsEntries ? answer.content : this.#blocks(item, answer);
    if (content.length === 0 && !keepsEntries) {
      this.#drop(item, "empty", "An answer without content that the file can hold is left out.");
      return;
    }
    this.#whole.push(keepsEntries ? item : { ...item, message: { ...answer, content } });
    if (keepsEntries && isRemoved(item.position, this.#facts)) return;
    const calls = toolCalls({ ...answer, content }).map((call, at) => ({ call, result: results[at] }));
    if (calls.length > 0) this.#open = { item, calls };
  }

  /**
   * Blocks of an answer. Texts come before calls, blank ones are left out, and reasoning is included if the agent accepts
   * it. Ids of calls and names of tools become valid.
   */
  #blocks({ entry }: PathItem, answer: AssistantMessage): AssistantBlock[] {
    const { acceptsThinking, hasBlock, toolNameLength } = this.#rules;
    const said: AssistantBlock[] = [];
    const calls: AssistantBlock[] = [];
    for (const block of contentBlocks(answer) as AssistantBlock[]) {
      if (block.type === "toolCall") {
        const call = {
          ...block,
          arguments: toolInput(block.arguments),
          id: this.#callId(block.id),
          name: validToolName(block.name, toolNameLength),
        };
        if (call.id !== block.id || call.name !== block.name)
          this.#issues.add("changed", "call", entry.id, PATH_DIFFERENCES.renamedCall);
        calls.push(call);
      } else if (block.type === "thinking") {
        if (acceptsThinking(block, answer)) (calls.length === 0 ? said : calls).push(block);
        else this.#issues.add("dropped", "thinking", entry.id, PATH_DIFFERENCES.otherThinking);
      } else if (block.type !== "text" && !hasBlock(block, answer))
        this.#drop({ entry }, "content", PATH_DIFFERENCES.otherAnswer);
      else if (!isBlankText(block)) said.push(block);
      else this.#drop({ entry }, "text", "An empty text is left out.");
    }
    return [...said, ...calls];
  }

  #result(item: PathItem, result: ToolResultMessage): void {
    if (this.#moved.has(item)) return;
    const open = this.#open;
    const own = open?.calls.find((each) => each.result === result);
    if (open && own) {
      open.calls.splice(open.calls.indexOf(own), 1);
      this.#whole.push(this.#settled(item, result, own.call, open.item.position));
      if (open.calls.length === 0) this.#open = undefined;
    } else if (this.#rules.keepsEntries && isRemoved(item.position, this.#facts)) this.#whole.push(item);
    else this.#drop(item, "result", "A result without its call is left out.");
  }

  /** A result for its call. If an edit removes the result and not the call, its text says that there is no result. */
  #settled(item: PathItem, result: ToolResultMessage, call: ToolCallBlock, position: number): PathItem {
    const isGone = isRemoved(item.position, this.#facts) && !isRemoved(position, this.#facts);
    const sound = this.#rules.keepsEntries ? result : this.#sound(item, result);
    const named = result.toolCallId === call.id ? sound : { ...sound, toolCallId: call.id };
    return {
      ...item,
      position,
      message: isGone ? withoutContent(named) : named,
      ...(isGone ? { isMade: true } : {}),
    };
  }

  /** Ends the open answer. Results from further down are moved here, and calls without a result get one. */
  #close(): void {
    const open = this.#open;
    if (!open) return;
    this.#open = undefined;
    const { item } = open;
    for (const { call, result } of open.calls) {
      const late = result && this.#itemOf.get(result);
      if (late) {
        this.#moved.add(late);
        this.#issues.add("changed", "result", late.entry.id, "A result that came late is moved to its call.");
        this.#whole.push(this.#settled(late, result, call, item.position));
      } else {
        this.#issues.add("changed", "result", item.entry.id, PATH_DIFFERENCES.noResult);
        this.#whole.push(madeResult(item, call));
      }
    }
  }
}

function withoutContent(result: ToolResultMessage): ToolResultMessage {
  const { details: _details, ...rest } = result;
  return { ...rest, isError: true, content: [{ type: "text", text: NO_RESULT }] };
}

function madeResult({ entry, position }: PathItem, call: ToolCallBlock): PathItem {
  const message: ToolResultMessage = withoutContent({
    role: "toolResult",
    toolCallId: call.id,
    toolName: call.name,
    content: [],
    isError: true,
    timestamp: Date.parse(entry.timestamp) || 0,
  });
  return { entry, message, position, isMade: true };
}

/**
 * Returns whether a message of a user, a custom message or a branch summary has only blank text: providers refuse it.
 * False for all other roles.
 */
function isSilent(message: ContextMessage): boolean {
  if (message.role !== "user" && message.role !== "custom" && message.role !== "branchSummary") return false;
  return contentBlocks(message).every(isBlankText);
}

/** Returns whether a text block is blank, or has no text. */
const isBlankText = (block: ContentBlock): boolean =>
  block.type === "text" && (typeof block.text !== "string" || isBlank(block.text));

/** A message without its blank texts, which providers refuse; a message whose only block is a text is unchanged. */
function withSoundContent<Message extends ContextMessage>(message: Message): Message {
  const { content } = message as { content?: unknown };
  if (!Array.isArray(content)) return message;
  const blocks = contentBlocks(message);
  const sound = blocks.filter((block) => !isBlankText(block));
  return sound.length === content.length || isOneText(content) ? message : { ...message, content: sound };
}

const isOneText = ([block, ...others]: readonly unknown[]): boolean =>
  others.length === 0 && isRecord(block) && block["type"] === "text" && typeof block["text"] === "string";

/** A compaction of a path. */
export type CompactionItem = PathItem & { entry: CompactionEntry; kept: PathItem[] };

/** Returns whether an item is a compaction. */
export const isCompactionItem = (item: PathItem): item is CompactionItem => item.kept !== undefined;
