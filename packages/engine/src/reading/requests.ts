import { jsonText } from "@espalier/jsonl-stream";
import {
  applySettings,
  type ContextEditEntry,
  type ContextMessage,
  commonAncestorRow,
  compaction,
  contentBlocks,
  contextEdit,
  type Entry,
  estimateBytes,
  estimateTokens,
  foldSystem,
  isFailedAnswer,
  isMessage,
  kindOf,
  pathWindowAt,
  projectPath,
  runningLoop,
  type Settings,
  type SystemMessage,
  settingsAlong,
  type Tree,
  thinkingLevelChange,
  toolCalls,
} from "@espalier/session-tree";

/**
 * Cause of a miss: the provider's prompt cache lacked content that the previous call had written to it.
 *
 * Three causes are found by elimination, when the file records no difference and the cache was not too old.
 * `restart`: the request grew only by new messages, so content before the first message was replaced by other content
 * of the same size, such as the start time of a program in its system prompt. `unrecorded`: the system prompt or tools.
 * `thinking`: the request became smaller after a message of the user, because the provider left out the thinking of the
 * previous turn. `unknown`: all other breaks that the file does not explain.
 */
export type CacheCause =
  | "model"
  | "tools"
  | "system-prompt"
  | "thinking-level"
  | "compaction"
  | "edit"
  | "hide"
  | "pictures"
  | "branch"
  | "block-order"
  | "thinking"
  | "pause"
  | "restart"
  | "unrecorded"
  | "unknown";

/** First difference between two requests that the file records. */
export interface RequestDifference {
  cause: CacheCause;
  /** Entry that causes the difference. */
  entryId: string;
}

/** A request compared with the previous one. */
export interface Compared {
  prefix: { bytes: number; tokens: number };
  /** Estimated size of the previous request. */
  beforeTokens: number;
  /** Undefined when the request only adds messages. */
  difference: RequestDifference | undefined;
  /** First entry after the answer to the previous request; undefined when there is none. */
  firstNew: Entry | undefined;
  /** True when a tool loop continues: the user has sent no message since the previous call. */
  isLoop: boolean;
}

/** Message of a request, by its position in the file: the messages themselves would need too much memory. */
interface Item {
  row: number;
  /** Index among the messages of its entry. */
  at: number;
  edit: ContextEditEntry | undefined;
  /** The message after its edit. */
  edited: ContextMessage | undefined;
  /** For a tool result: the id of its call, and the position of the answer with the call. */
  closes: { callId: unknown; answer: number } | undefined;
  /**
   * Thinking of an answer: it has none; it is sent; only a running tool loop sends it, because a message before it
   * changed; or it is left out, because a later result moved up to its call.
   */
  thinking: "none" | "sent" | "in-loop" | "left-out";
}

/** An entry, its row, and the bytes of its line, which are about those of its message in a request. */
interface Place {
  entry: Entry;
  row: number;
  bytes: number;
}

/** A request in terms of its entries: messages in reading order, and the other parts. */
class RequestState {
  readonly row: number;
  settings: Settings;
  /** System messages, which define the system prompt and the tools. */
  readonly system: { entry: Entry; message: SystemMessage }[] = [];
  items: Item[] = [];
  #isReordered = false;
  /** Kept only when thinking depends on the running tool loop. */
  #messages: ContextMessage[] | undefined = [];
  /** Sums of tokens up to and including each item. */
  tokens: number[] = [];
  bytes: number[] = [];
  /** Calls without a result so far, with the position of their answer. */
  readonly open = new Map<unknown, number>();
  readonly compactionId: string | undefined;
  /** Position from which fragile thinking is sent: the start of the running tool loop. Without a loop: the end. */
  loopFrom = 0;

  constructor(row: number, settings: Settings, compactionId: string | undefined) {
    this.row = row;
    this.settings = settings;
    this.compactionId = compactionId;
  }

  add(
    { entry, row, bytes }: Place,
    at: number,
    message: ContextMessage,
    edit?: ContextEditEntry,
    prefixChanged = false,
  ): void {
    if (message.role === "system") {
      this.system.push({ entry, message });
      return;
    }
    if (isFailedAnswer(message) || (message.role === "toolResult" && !this.open.has(message.toolCallId)))
      return;
    const hasThinking = contentBlocks(message).some(isThinking);
    const thinking = hasThinking ? (prefixChanged ? "in-loop" : "sent") : "none";
    this.#messages?.push(message);
    this.items.push({ row, at, edit, edited: edit && message, thinking, closes: undefined });
    this.tokens.push((this.tokens.at(-1) ?? 0) + estimateTokens(message));
    this.bytes.push((this.bytes.at(-1) ?? 0) + (edit ? estimateBytes(message) : bytes));
    if (message.role === "toolResult") this.#close(message.toolCallId);
    for (const { id } of toolCalls(message)) this.open.set(id, this.items.length - 1);
  }

  /** Marks a call as answered. Its result is put directly after it, so that later thinking has a new prefix. */
  #close(callId: unknown): void {
    const answer = this.open.get(callId);
    if (answer === undefined) return;
    this.open.delete(callId);
    this.items.at(-1)!.closes = { callId, answer };
    for (let at = answer + 1; at < this.items.length; at++)
      if (this.items[at]!.thinking !== "none") {
        this.items[at]!.thinking = "left-out";
        this.#isReordered = true;
      }
  }

  /** Returns this request as it was at an earlier row; undefined when a later entry changed content before that row. */
  upTo(row: number): RequestState | undefined {
    if (this.#isReordered) return undefined;
    let count = this.items.length;
    while (count > 0 && this.items[count - 1]!.row > row) count--;
    const state = new RequestState(row, this.settings, this.compactionId);
    state.system.push(...this.system);
    state.items = this.items.slice(0, count);
    state.tokens = this.tokens.slice(0, count);
    state.bytes = this.bytes.slice(0, count);
    for (const [callId, answer] of this.open) if (answer < count) state.open.set(callId, answer);
    for (let at = count; at < this.items.length; at++) {
      const { closes } = this.items[at]!;
      if (closes && closes.answer < count) state.open.set(closes.callId, closes.answer);
    }
    state.#messages = this.#messages?.slice(0, count);
    return state;
  }

  /** Finds the running tool loop again. Only thinking that was in the request from the beginning can depend on it. */
  findLoop(): void {
    if (this.#messages && !this.items.some(({ thinking }) => thinking === "in-loop"))
      this.#messages = undefined;
    if (this.#messages) this.loopFrom = runningLoop(this.#messages);
  }

  /** Returns whether this request has the thinking of an answer. */
  sendsThinking(at: number): boolean {
    const { thinking } = this.items[at]!;
    return thinking === "sent" || (thinking === "in-loop" && at >= this.loopFrom);
  }

  /** Returns the first position before `end` of thinking that only this request, or one with this `loopFrom`, has. */
  changedThinking(loopFrom: number, end: number): number | undefined {
    const [from, to] = [Math.min(loopFrom, this.loopFrom), Math.max(loopFrom, this.loopFrom)];
    for (let at = from; at < Math.min(end, to); at++) if (this.items[at]!.thinking === "in-loop") return at;
    return undefined;
  }
}

const isThinking = ({ type }: { type: string }): boolean => type === "thinking";

/** Returns the size of a request's beginning, without system prompt and tools. */
const prefixOf = (state: RequestState, items: number) => ({
  bytes: items > 0 ? state.bytes[items - 1]! : 0,
  tokens: items > 0 ? state.tokens[items - 1]! : 0,
});

/** Builds the requests of a tree one after another, and compares each with the previous one. */
export class RequestReader {
  readonly #tree: Tree;
  #last: RequestState | undefined;

  constructor(tree: Tree) {
    this.#tree = tree;
  }

  /** Returns the request at a row, compared with the previous one. */
  next(row: number): Compared {
    const before = this.#last;
    const added = before && this.#entriesBetween(before.row, row);
    if (before && added && !added.some(looksBack)) return this.#extend(before, row, added);
    const state = (before && !added && this.#branch(before, row)) || this.#build(row);
    this.#last = state;
    return before ? this.#compare(before, state, added) : NOTHING_BEFORE;
  }

  /** Returns the entries below `from` down to `row`, oldest first; undefined when `from` is not on the path. */
  #entriesBetween(from: number, row: number): Entry[] | undefined {
    const entries: Entry[] = [];
    let at = row;
    for (; at > from; at = this.#tree.index.parent(at)) entries.push(this.#tree.entryAt(at));
    return at === from || (from < 0 && at < 0) ? entries.reverse() : undefined;
  }

  /** Compares a request that only adds entries. The state is continued in place. */
  #extend(before: RequestState, row: number, added: readonly Entry[]): Compared {
    const shared = before.items.length;
    const open = new Map(before.open);
    const { settings, loopFrom } = before;
    const system = before.system.length;
    const state = Object.assign(before, { row });
    this.#addTo(state, added);
    const { firstNew, isLoop } = since(added);
    state.findLoop();
    const late =
      this.#lateResult(state, shared, open) ?? changedLoop(state, loopFrom, shared, firstNew ?? added[0]);
    const difference =
      (state.system.length > system
        ? systemDifference(state.system.slice(0, system), state.system)
        : undefined) ??
      levelDifference(settings, state.settings, added) ??
      late?.difference;
    return {
      difference,
      beforeTokens: state.tokens[shared - 1] ?? 0,
      prefix: prefixOf(state, startsAnew(difference) ? 0 : (late?.shared ?? shared)),
      firstNew,
      isLoop,
    };
  }

  #addTo(state: RequestState, added: readonly Entry[]): void {
    for (const entry of added) {
      state.settings = applySettings(state.settings, entry);
      const kind = kindOf(entry);
      if (kind.problem?.(entry)) continue;
      const place = this.#placeOf(entry);
      for (const [at, message] of kind.toMessages?.(entry)?.entries() ?? []) state.add(place, at, message);
    }
  }

  /** Returns a request on another branch from its common part; undefined when it has to be rebuilt. */
  #branch(before: RequestState, row: number): RequestState | undefined {
    const common = commonAncestorRow(this.#tree, before.row, row);
    const left = this.#entriesBetween(common, before.row);
    const entered = this.#entriesBetween(common, row);
    if (!left || !entered || entered.some(looksBack) || left.some(reachesBack)) return undefined;
    const state = before.upTo(common);
    if (!state) return undefined;
    this.#addTo(state, entered);
    state.findLoop();
    return Object.assign(state, { row });
  }

  #build(row: number): RequestState {
    const { entries, before } = pathWindowAt(this.#tree, row);
    const projected = projectPath(entries);
    const front = projected.find(({ messages }) => messages.length > 0)?.entry;
    const compactionId = front && compaction.is(front) ? front.id : undefined;
    const state = new RequestState(row, settingsAlong(entries, before), compactionId);
    const edits = new Map<string, ContextEditEntry>();
    for (const entry of entries)
      if (contextEdit.is(entry) && !contextEdit.problem?.(entry)) edits.set(entry.targetId, entry);
    for (const { entry, messages, prefixChanged } of projected) {
      if (messages.length === 0) continue;
      const place = this.#placeOf(entry);
      const edit = edits.get(entry.id);
      for (const [at, message] of messages.entries()) state.add(place, at, message, edit, prefixChanged);
    }
    state.findLoop();
    return state;
  }

  #placeOf(entry: Entry): Place {
    const row = this.#tree.index.rowOf(entry.id);
    return { entry, row, bytes: row < 0 ? 0 : this.#tree.index.lineLength(row) };
  }

  #messageOf({ row, at, edited }: Item): ContextMessage | undefined {
    if (edited) return edited;
    const entry = this.#tree.entryAt(row);
    return kindOf(entry).toMessages?.(entry)[at];
  }

  #isSame(a: Item, b: Item): boolean {
    if (a.row === b.row && a.at === b.at && a.edit?.id === b.edit?.id) return true;
    const [one, other] = [this.#messageOf(a), this.#messageOf(b)];
    return one && other
      ? one.role === other.role && jsonText(spoken(one)) === jsonText(spoken(other))
      : false;
  }

  #compare(before: RequestState, state: RequestState, added: readonly Entry[] | undefined): Compared {
    const least = Math.min(before.items.length, state.items.length);
    let shared = 0;
    const same = (at: number) =>
      this.#isSame(before.items[at]!, state.items[at]!) &&
      before.sendsThinking(at) === state.sendsThinking(at);
    while (shared < least && same(shared)) shared++;
    const late = shared === before.items.length ? this.#lateResult(state, shared, before.open) : undefined;
    const path = added ?? this.#newOnPath(before.row, state.row);
    const beside =
      systemDifference(before.system, state.system) ?? levelDifference(before.settings, state.settings, path);
    const isOwn = added || path.some(({ id }) => id === beside?.entryId);
    const difference =
      (isOwn ? beside : undefined) ??
      late?.difference ??
      (beside || shared < before.items.length
        ? this.#messageDifference(before, state, shared, added, path)
        : undefined);
    return {
      difference,
      beforeTokens: before.tokens.at(-1) ?? 0,
      prefix: prefixOf(state, startsAnew(difference) ? 0 : (late?.shared ?? shared)),
      ...since(path),
    };
  }

  /**
   * Returns the difference by a result that came after its call had been sent without one. A request puts results
   * directly after their calls, which changes the content that was sent.
   */
  #lateResult(
    state: RequestState,
    from: number,
    open: ReadonlyMap<unknown, number>,
  ): { difference: RequestDifference; shared: number } | undefined {
    if (open.size === 0) return undefined;
    const late = state.items
      .slice(from)
      .flatMap((item) => {
        const message = this.#messageOf(item);
        const answer = message?.role === "toolResult" ? open.get(message.toolCallId) : undefined;
        return answer === undefined ? [] : [{ entryId: this.#tree.idAt(item.row), shared: answer + 1 }];
      })
      .sort((a, b) => a.shared - b.shared)[0];
    return late && { difference: { cause: "block-order", entryId: late.entryId }, shared: late.shared };
  }

  /** Returns the first difference between the messages of two requests. `added` is undefined for another path. */
  #messageDifference(
    before: RequestState,
    state: RequestState,
    shared: number,
    added: readonly Entry[] | undefined,
    path: readonly Entry[],
  ): RequestDifference {
    const idOf = (item: Item | undefined) => (item ? this.#tree.idAt(item.row) : "");
    // A compaction may begin a new path: other agents write it as a root.
    if (!added && path[0]?.id !== state.compactionId)
      return { cause: "branch", entryId: path[0]?.id ?? idOf(state.items.at(-1)) };
    const old = before.items[shared]!;
    if (state.compactionId !== undefined && state.compactionId !== before.compactionId)
      return { cause: "compaction", entryId: state.compactionId };
    const edits = path.filter(contextEdit.is);
    const edit = edits.findLast(({ targetId }) => targetId === idOf(old)) ?? edits.at(-1);
    const message = this.#messageOf(old);
    if (!edit || !message) return { cause: "unknown", entryId: idOf(old) };
    return { cause: causeOfEdit(edit, message), entryId: edit.id };
  }

  /** Returns the entries on the path of `row` that are not on the path of `from`, oldest first. */
  #newOnPath(from: number, row: number): Entry[] {
    const common = commonAncestorRow(this.#tree, from, row);
    const entries: Entry[] = [];
    for (let at = row; at > common; at = this.#tree.index.parent(at)) entries.push(this.#tree.entryAt(at));
    return entries.reverse();
  }
}

const NOTHING_BEFORE: Compared = {
  difference: undefined,
  beforeTokens: 0,
  prefix: { bytes: 0, tokens: 0 },
  firstNew: undefined,
  isLoop: false,
};

/** Returns whether an entry is of a kind that changes messages before it. */
function looksBack(entry: Entry): boolean {
  const { firstKept, edit } = kindOf(entry);
  return firstKept !== undefined || edit !== undefined;
}

/** Returns whether an entry makes it necessary to rebuild a request on another branch. */
const reachesBack = (entry: Entry): boolean =>
  looksBack(entry) ||
  kindOf(entry).settings?.(entry)?.thinkingLevel !== undefined ||
  isMessage(entry, "system");

/** Returns whether a difference leaves no common beginning: tools and system prompt come first in a request. */
const startsAnew = (difference: RequestDifference | undefined): boolean =>
  difference?.cause === "tools" || difference?.cause === "system-prompt";

/** Returns facts about the entries after the answer to the previous request. */
function since(added: readonly Entry[]): Pick<Compared, "firstNew" | "isLoop"> {
  const said = added.filter((entry) => kindOf(entry).toMessages && !isMessage(entry, "assistant"));
  return {
    firstNew: said[0],
    isLoop: said.every((entry) => isMessage(entry, "toolResult")),
  };
}

/** Returns the difference by thinking that comes and goes with a running tool loop, after a change before it. */
function changedLoop(
  state: RequestState,
  loopFrom: number,
  end: number,
  added: Entry | undefined,
): { difference: RequestDifference; shared: number } | undefined {
  const shared = state.changedThinking(loopFrom, end);
  return shared === undefined || !added
    ? undefined
    : { difference: { cause: "block-order", entryId: added.id }, shared };
}

/** Returns the parts of a message that a request has. */
function spoken(message: ContextMessage): object {
  const { timestamp, ...rest } = message;
  if (message.role === "toolResult") return { ...rest, details: null };
  return message.role === "assistant" ? { content: message.content } : rest;
}

/** Returns the difference of two requests in system prompt or tools, according to the session's own system messages. */
function systemDifference(
  before: RequestState["system"],
  now: RequestState["system"],
): RequestDifference | undefined {
  if (before.length === 0 && now.length === 0) return undefined;
  const [a, b] = [before, now].map((list) =>
    foldSystem(
      list.map(({ message }) => message),
      { toolNameLength: LONGEST_TOOL_NAME },
    ),
  ) as [ReturnType<typeof foldSystem>, ReturnType<typeof foldSystem>];
  const entryId = now.at(-1)?.entry.id ?? before.at(-1)?.entry.id ?? "";
  if (jsonText(a.tools) !== jsonText(b.tools)) return { cause: "tools", entryId };
  return a.system === b.system ? undefined : { cause: "system-prompt", entryId };
}

/** Providers accept tool names of up to 64 or 128 characters; longer names are ignored here. */
const LONGEST_TOOL_NAME = 128;

function levelDifference(
  before: Settings,
  now: Settings,
  added: readonly Entry[],
): RequestDifference | undefined {
  if (before.thinkingLevel === now.thinkingLevel) return undefined;
  const change = added.findLast(thinkingLevelChange.is) ?? added.at(-1);
  return { cause: "thinking-level", entryId: change?.id ?? "" };
}

function causeOfEdit({ replacement }: ContextEditEntry, before: ContextMessage): CacheCause {
  if (replacement === null) return "hide";
  const pictures = (message: Parameters<typeof contentBlocks>[0]) =>
    contentBlocks(message).filter(({ type }) => type === "image").length;
  return pictures({ content: replacement.content }) < pictures(before) ? "pictures" : "edit";
}
