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
  projectPath,
  redactMessage,
  type ToolCallBlock,
  type ToolResultMessage,
  toolCalls,
  validToolName,
} from "@espalier/session-tree";
import type { FormatIssues } from "../formats/conversation.ts";
import type { ExportSource } from "./source.ts";

/** Rules of another agent's file for the messages of a path. */
export interface CarryRules {
  /** Name of the agent: custom messages under it may stay between a call and its result. */
  agent: string;
  /** Returns whether the agent can read this reasoning of an answer again. */
  acceptsThinking(block: AssistantBlock & { type: "thinking" }, answer: AssistantMessage): boolean;
  /** Longest id of a call, and longest name of a tool, in characters. */
  callIdLength: number;
  toolNameLength: number;
  /** Returns whether a custom message describes another agent's own tools and surroundings. */
  isForeignContext(customType: string): boolean;
  /** True for a file that has edits and failed answers of its own: entries keep their content. Default: false. */
  keepsEntries?: boolean;
}

/** An entry of a path as another agent's file can hold it. */
export interface CarriedItem {
  entry: Entry;
  /** Message that a model reads; undefined for a compaction, and for an entry that no model reads. */
  message?: ContextMessage;
  /** Reading order of the entry: for a result the position of its call. */
  position: number;
  /** True where the message is not the entry's own: a result that was never recorded. */
  isMade?: boolean;
  /** For a compaction: items before it that the model still reads. */
  kept?: CarriedItem[];
}

/**
 * The path of a source for another agent's file, root first: with its edits applied, each call followed by its results,
 * and without what the agent cannot read. Each difference is an issue, whose `path` is the first entry it is about.
 */
export function carryPath(source: ExportSource, rules: CarryRules, issues: FormatIssues): CarriedItem[] {
  const path = source.pathRows().map((row) => source.tree.entryAt(row));
  const facts = readPath(path);
  const items: CarriedItem[] = [];
  const messages = messagesOf(path, facts, rules);
  for (const [position, entry] of path.entries()) {
    const read = redacted(entry, source);
    if (compaction.is(entry) && facts.keptFrom.has(position)) {
      const isGone = isRemoved(position, facts) && !rules.keepsEntries;
      if (isGone)
        issues.add(
          "changed",
          "compaction",
          entry.id,
          "A summary that an edit left out is replaced by a sentence that says so.",
        );
      items.push({ entry: isGone ? ({ ...read, summary: NO_SUMMARY } as Entry) : read, position, kept: [] });
    } else if (compaction.is(entry))
      issues.add(
        "dropped",
        "compaction",
        entry.id,
        "A compaction that names no entry above it says nothing; it is left out.",
      );
    else {
      const message = messages.get(position);
      const told = message && source.redactor ? redactMessage(message, source.redactor) : message;
      if (isCarried(entry, told, rules, issues))
        items.push({ entry: read, position, ...(told ? { message: told } : {}) });
    }
  }
  const whole = new PairedItems(items, facts, rules, issues).all();
  for (const [at, item] of whole.entries()) if (item.kept) item.kept = keptAt(whole, at, facts);
  return whole;
}

/** Summary in place of one that an edit left out: other agents compact by a summary only. */
const NO_SUMMARY = "(The summary was left out.)";

/** Entries from their lines, redacted where the export is; the tree's own entry where the line is unreadable. */
const redacted = (entry: Entry, source: ExportSource): Entry =>
  source.redactor ? source.entryAt(source.tree.row(entry.id)) : entry;

/** Compactions and edits of a path, by position. */
interface PathFacts {
  /** First position that each compaction keeps; compactions that name nothing above them are not in it. */
  keptFrom: ReadonlyMap<number, number>;
  /** Positions of the edits that leave an entry out, by the position of the entry. */
  removals: ReadonlyMap<number, readonly number[]>;
  /** Positions of the newest edit of each entry. */
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

/** Returns whether an entry is left out of the context at the end of the path, while it stays in its file. */
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
 * Messages of a path as if nothing was compacted, by position. An edit that leaves out an entry from before a compaction
 * does not count: the entry stays in the file, and the compaction does not keep it.
 */
function messagesOf(
  path: readonly Entry[],
  facts: PathFacts,
  { keepsEntries = false }: CarryRules,
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

/** Returns whether an entry goes into the file; reports one that does not. */
function isCarried(
  entry: Entry,
  message: ContextMessage | undefined,
  { isForeignContext, keepsEntries }: CarryRules,
  issues: FormatIssues,
): boolean {
  if (message?.role === "custom" && isForeignContext(message.customType)) {
    issues.add(
      "dropped",
      "context",
      entry.id,
      "Text about another agent's tools and surroundings is left out; each agent adds its own.",
    );
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

/** The items that a compaction keeps: from its first kept entry on, without those that an edit left out behind it. */
function keptAt(items: readonly CarriedItem[], at: number, facts: PathFacts): CarriedItem[] {
  const { position } = items[at]!;
  const from = facts.keptFrom.get(position)!;
  const next = [...facts.keptFrom.keys()].find((other) => other > position);
  const kept: CarriedItem[] = [];
  for (let above = at - 1; above >= 0; above--) {
    const item = items[above]!;
    // A result has the position of its call: behind it there may be items that stay.
    if (item.position < from && item.message?.role !== "toolResult") break;
    if (item.position >= from && !item.kept && !isRemoved(item.position, facts, next)) kept.push(item);
  }
  return kept.reverse();
}

/** An answer whose calls wait for their results. */
interface OpenAnswer {
  item: CarriedItem;
  /** Calls without a result yet, by the id that they have in the session. */
  calls: { id: string; call: ToolCallBlock }[];
}

/** Puts the results of each answer behind it, and answers into the form that every provider accepts. */
class PairedItems {
  readonly #items: readonly CarriedItem[];
  readonly #facts: PathFacts;
  readonly #rules: CarryRules;
  readonly #issues: FormatIssues;
  readonly #callId: (id: unknown) => string;
  readonly #whole: CarriedItem[] = [];
  readonly #pairs: Pairs;
  /** Results that are behind their call. */
  readonly #placed = new Set<CarriedItem>();
  #open: OpenAnswer | undefined;

  constructor(items: readonly CarriedItem[], facts: PathFacts, rules: CarryRules, issues: FormatIssues) {
    this.#items = items;
    this.#facts = facts;
    this.#rules = rules;
    this.#issues = issues;
    this.#callId = createCallIds(rules.callIdLength);
    this.#pairs = pairsOf(items);
  }

  all(): CarriedItem[] {
    const { keepsEntries } = this.#rules;
    for (const item of this.#items) {
      const { message } = item;
      if (message?.role === "toolResult") this.#result(item, message);
      else {
        if (!this.#mayStayInside(item)) this.#close();
        if (message?.role === "assistant") this.#answer(item, message);
        else if (message && isSilent(message) && !keepsEntries)
          this.#drop(item, "empty", "An empty message is left out.");
        else
          this.#whole.push(keepsEntries || !message ? item : { ...item, message: withSoundContent(message) });
      }
    }
    this.#close();
    return this.#whole;
  }

  #drop({ entry }: Pick<CarriedItem, "entry">, field: string, message: string): void {
    this.#issues.add("dropped", field, entry.id, message);
  }

  /** State, and context of the agent itself, may be between a call and its results. */
  #mayStayInside({ message, kept }: CarriedItem): boolean {
    if (kept) return false;
    return (
      message === undefined ||
      (message.role === "custom" && message.customType.startsWith(`${this.#rules.agent}.`))
    );
  }

  #answer(item: CarriedItem, answer: AssistantMessage): void {
    const { keepsEntries } = this.#rules;
    if (isFailedAnswer(answer)) {
      if (keepsEntries) this.#whole.push(item);
      else this.#drop(item, "failed", "An answer that failed or was aborted is left out.");
      return;
    }
    const content = keepsEntries ? answer.content : this.#blocks(item, answer);
    if (content.length === 0 && !keepsEntries) {
      this.#drop(item, "empty", "An answer without anything that the file can hold is left out.");
      return;
    }
    this.#whole.push(keepsEntries ? item : { ...item, message: { ...answer, content } });
    if (keepsEntries && isRemoved(item.position, this.#facts)) return;
    const written = toolCalls({ ...answer, content });
    const calls = toolCalls(answer).map(({ id }, at) => ({ id, call: written[at]! }));
    if (calls.length > 0) this.#open = { item, calls };
  }

  /** Blocks of an answer: texts before calls, and reasoning where the agent accepts it. */
  #blocks({ entry }: CarriedItem, answer: AssistantMessage): AssistantBlock[] {
    const { acceptsThinking, toolNameLength } = this.#rules;
    const said: AssistantBlock[] = [];
    const calls: AssistantBlock[] = [];
    for (const block of contentBlocks(answer) as AssistantBlock[]) {
      if (block.type === "toolCall") {
        const call = {
          ...block,
          arguments: inputOf(block.arguments),
          id: this.#callId(block.id),
          name: validToolName(block.name, toolNameLength),
        };
        if (call.id !== block.id || call.name !== block.name)
          this.#issues.add("changed", "call", entry.id, CALL_RENAMED);
        calls.push(call);
      } else if (block.type === "thinking") {
        if (acceptsThinking(block, answer)) (calls.length === 0 ? said : calls).push(block);
        else this.#issues.add("dropped", "thinking", entry.id, FOREIGN_THINKING);
      } else if (!isBlankText(block)) said.push(block);
      else this.#drop({ entry }, "text", "A text without anything to read is left out.");
    }
    return [...said, ...calls];
  }

  #result(item: CarriedItem, result: ToolResultMessage): void {
    if (this.#placed.has(item)) return;
    const owner = this.#pairs.owners.get(item);
    const open = this.#open;
    const at = open && owner === open.item ? open.calls.findIndex(({ id }) => id === result.toolCallId) : -1;
    if (open && at >= 0) {
      const { call } = open.calls[at]!;
      open.calls.splice(at, 1);
      this.#placed.add(item);
      this.#whole.push(this.#settled(item, result, call, open.item.position));
      if (open.calls.length === 0) this.#open = undefined;
    } else if (this.#rules.keepsEntries && isRemoved(item.position, this.#facts)) this.#whole.push(item);
    else this.#drop(item, "result", "A result without its call is left out.");
  }

  /** A result behind its call. One that an edit left out, and whose call stays, says that there is none. */
  #settled(item: CarriedItem, result: ToolResultMessage, call: ToolCallBlock, position: number): CarriedItem {
    const isGone = isRemoved(item.position, this.#facts) && !isRemoved(position, this.#facts);
    const sound = this.#rules.keepsEntries ? result : withSoundContent(result);
    const named = result.toolCallId === call.id ? sound : { ...sound, toolCallId: call.id };
    return {
      ...item,
      position,
      message: isGone ? withoutContent(named) : named,
      ...(isGone ? { isMade: true } : {}),
    };
  }

  /** Ends the open answer: results that come later are moved here, and calls without one get one. */
  #close(): void {
    const open = this.#open;
    if (!open) return;
    this.#open = undefined;
    const { item } = open;
    const later = this.#pairs.results.get(item) ?? [];
    for (const { id, call } of open.calls) {
      const late = later.find(
        (result) => !this.#placed.has(result) && (result.message as ToolResultMessage).toolCallId === id,
      );
      if (late) {
        this.#placed.add(late);
        this.#issues.add(
          "changed",
          "result",
          late.entry.id,
          "A result that came late is moved behind its call.",
        );
        this.#whole.push(this.#settled(late, late.message as ToolResultMessage, call, item.position));
      } else {
        this.#issues.add(
          "changed",
          "result",
          item.entry.id,
          "A call without a result gets one that says so.",
        );
        this.#whole.push(madeResult(item, call));
      }
    }
  }
}

const CALL_RENAMED =
  "The id of a call, or the name of its tool, is changed to one that the agent's provider accepts.";
const FOREIGN_THINKING = "Reasoning that only its own provider can read again is left out.";

/** Results and the answers that called for them. */
interface Pairs {
  /** The answer of each result; without results whose call is not there, or whose answer failed. */
  owners: ReadonlyMap<CarriedItem, CarriedItem>;
  /** The results of each answer, in order. */
  results: ReadonlyMap<CarriedItem, CarriedItem[]>;
}

/** Matches results as requests do: with the nearest call above that has the id and no result yet. */
function pairsOf(items: readonly CarriedItem[]): Pairs {
  const waiting = new Map<string, CarriedItem[]>();
  const owners = new Map<CarriedItem, CarriedItem>();
  const results = new Map<CarriedItem, CarriedItem[]>();
  for (const item of items) {
    const { message } = item;
    if (message?.role === "assistant") for (const { id } of toolCalls(message)) addTo(waiting, id, item);
    else if (message?.role === "toolResult") {
      const owner = waiting.get(message.toolCallId)?.pop();
      if (!owner || isFailedAnswer(owner.message as AssistantMessage)) continue;
      owners.set(item, owner);
      addTo(results, owner, item);
    }
  }
  return { owners, results };
}

function addTo<Key>(lists: Map<Key, CarriedItem[]>, key: Key, item: CarriedItem): void {
  const list = lists.get(key);
  if (list) list.push(item);
  else lists.set(key, [item]);
}

function withoutContent(result: ToolResultMessage): ToolResultMessage {
  const { details: _details, ...rest } = result;
  return { ...rest, isError: true, content: [{ type: "text", text: NO_RESULT }] };
}

function madeResult({ entry, position }: CarriedItem, call: ToolCallBlock): CarriedItem {
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

/** True for a message without anything to read: providers refuse it. */
function isSilent(message: ContextMessage): boolean {
  if (message.role !== "user" && message.role !== "custom" && message.role !== "branchSummary") return false;
  if (message.role === "branchSummary") return isBlank(message.summary);
  return contentBlocks(message).every(isBlankText);
}

/** True for a text without anything to read, and for one that is no text after all. */
const isBlankText = (block: ContentBlock): boolean =>
  block.type === "text" && (typeof block.text !== "string" || isBlank(block.text));

/** A message without the texts that a provider refuses beside other content: blank ones, and those that are no text. */
function withSoundContent<Message extends ContextMessage>(message: Message): Message {
  const { content } = message as { content?: unknown };
  if (!Array.isArray(content)) return message;
  const blocks = contentBlocks(message as { content?: unknown });
  const sound = blocks.filter((block) => !isBlankText(block));
  return sound.length === content.length || isOneText(content) ? message : { ...message, content: sound };
}

const isOneText = ([block, ...others]: readonly unknown[]): boolean =>
  others.length === 0 && isRecord(block) && block["type"] === "text" && typeof block["text"] === "string";

/** Arguments as the object that providers ask for: anything else becomes `{value}`. */
const inputOf = (stored: unknown): Record<string, unknown> =>
  isRecord(stored) ? stored : stored === undefined || stored === null ? {} : { value: stored };

/** True for the item of a compaction. */
export const isCompactionItem = (
  item: CarriedItem,
): item is CarriedItem & { entry: CompactionEntry; kept: CarriedItem[] } => item.kept !== undefined;
