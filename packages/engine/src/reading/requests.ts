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
  messagesOf,
  pathRows,
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

/** Causes of a miss, with their names for people. */
export const CACHE_CAUSES = {
  model: "another model",
  tools: "other tools",
  "system-prompt": "another system prompt",
  "thinking-level": "another thinking level",
  compaction: "a compaction",
  edit: "an edit",
  hide: "a hidden entry",
  pictures: "images left out",
  branch: "another branch",
  "block-order": "a late result",
  thinking: "thinking of an earlier turn, left out",
  pause: "a pause",
  restart: "a restart, or a time in the system prompt",
  unrecorded: "system prompt or tools, not recorded",
  unknown: "unknown",
} as const;

/**
 * Cause of a miss: the provider's prompt cache lacked content that the previous call had written to it.
 *
 * Three causes are found by elimination, when the file records no difference and the cache was not too old.
 * `restart`: the request grew only by new messages, so content before the first message was replaced by other content
 * of the same size, such as the start time of a program in its system prompt. `unrecorded`: the system prompt or tools.
 * `thinking`: the request became smaller after a message of the user, because the provider left out the thinking of the
 * previous turn. `unknown`: all other breaks that the file does not explain.
 */
export type CacheCause = keyof typeof CACHE_CAUSES;

/** Tokens that a call may miss without a break: providers cache in steps, and not the newest messages. */
export const CACHE_SLACK = 2_000;

/** Lifetime of an unused cache entry, in milliseconds: the default of Anthropic and the minimum of OpenAI. */
export const CACHE_LIFE_MS = 300_000;

/** First difference between two requests that the file records. */
export interface RequestDifference {
  cause: CacheCause;
  /** Entry that causes the difference. */
  entryId: string;
}

/** A request compared with the previous one. */
export interface Compared {
  /** Size of the common beginning, without system prompt and tools: bytes of its lines, and estimated tokens. */
  prefix: { bytes: number; tokens: number };
  /** Estimated tokens of the messages of the previous request. */
  beforeTokens: number;
  /** Undefined when the request only adds messages. */
  difference: RequestDifference | undefined;
  /** First new entry that a request has and that is not an answer; undefined when there is none. */
  firstNew: Entry | undefined;
  /** True when a tool loop continues: all new entries that a request has are answers and tool results. */
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

/**
 * A request by its entries: messages in reading order, and the other parts. A request that only adds messages shares
 * the lists of the earlier request, so each request stores its own length.
 */
class RequestState {
  readonly row: number;
  settings: Settings;
  readonly compactionId: string | undefined;
  /** System messages, which define the system prompt and the tools. */
  readonly system: { entry: Entry; message: SystemMessage }[] = [];
  /** Number of items of the shared list that belong to this request. */
  length = 0;
  items: Item[] = [];
  isReordered = false;
  /** Kept only when thinking depends on the running tool loop. */
  #messages: ContextMessage[] | undefined = [];
  /** Sums of tokens up to and including each item. */
  tokens: number[] = [];
  bytes: number[] = [];
  /** Calls without a result so far, with the position of their answer. */
  readonly open = new Map<unknown, number>();
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
    this.length = this.items.length;
    if (message.role === "toolResult") this.#close(message.toolCallId);
    for (const { id } of toolCalls(message)) this.open.set(id, this.length - 1);
  }

  /** Marks a call as answered. Its result is put directly after it, so that later thinking has a new prefix. */
  #close(callId: unknown): void {
    const answer = this.open.get(callId);
    if (answer === undefined) return;
    this.open.delete(callId);
    this.items.at(-1)!.closes = { callId, answer };
    for (let at = answer + 1; at < this.length; at++)
      if (this.items[at]!.thinking !== "none") {
        this.items[at]!.thinking = "left-out";
        this.isReordered = true;
      }
  }

  /**
   * Returns the beginning of a request at another row: this request, or its part up to a common row. The part is a copy,
   * which must not be reordered.
   */
  continued(row: number, common: number): RequestState {
    let count = this.length;
    while (count > 0 && this.items[count - 1]!.row > common) count--;
    const isWhole = count === this.length;
    const state = new RequestState(row, this.settings, this.compactionId);
    state.system.push(...this.system);
    state.length = count;
    state.items = isWhole ? this.items : this.items.slice(0, count);
    state.tokens = isWhole ? this.tokens : this.tokens.slice(0, count);
    state.bytes = isWhole ? this.bytes : this.bytes.slice(0, count);
    state.#messages = isWhole ? this.#messages : this.#messages?.slice(0, count);
    state.isReordered = this.isReordered;
    for (const [callId, answer] of this.open) if (answer < count) state.open.set(callId, answer);
    for (let at = count; at < this.length; at++) {
      const { closes } = this.items[at]!;
      if (closes && closes.answer < count) state.open.set(closes.callId, closes.answer);
    }
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

const prefixOf = ({ bytes, tokens }: RequestState, items: number) => ({
  bytes: bytes[items - 1] ?? 0,
  tokens: tokens[items - 1] ?? 0,
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
    if (!before) {
      this.#last = this.#build(row);
      return NOTHING_BEFORE;
    }
    const common = commonAncestorRow(this.#tree, before.row, row);
    const entriesTo = (end: number) => pathRows(this.#tree, end, common).map((at) => this.#tree.entryAt(at));
    const path = entriesTo(row);
    const isBelow = before.row <= common;
    const isContinued =
      !path.some(looksBack) && (isBelow || !(before.isReordered || entriesTo(before.row).some(reachesBack)));
    // A request below only grows: an id that stands twice must not cut it.
    const kept = isBelow ? Number.POSITIVE_INFINITY : common;
    const state = isContinued ? before.continued(row, kept) : this.#build(row);
    if (isContinued) this.#addTo(state, path);
    this.#last = state;
    return this.#compare(before, state, { path, isBelow, from: isBelow && isContinued ? before.length : 0 });
  }

  #addTo(state: RequestState, added: readonly Entry[]): void {
    for (const entry of added) {
      state.settings = applySettings(state.settings, entry);
      const place = this.#placeOf(entry);
      for (const [at, message] of messagesOf(entry).entries()) state.add(place, at, message);
    }
    state.findLoop();
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
      const place = this.#placeOf(entry);
      const edit = edits.get(entry.id);
      for (const [at, message] of messages.entries()) state.add(place, at, message, edit, prefixChanged);
    }
    state.findLoop();
    return state;
  }

  #placeOf(entry: Entry): Place {
    const row = this.#tree.index.rowOf(entry.id);
    return { entry, row, bytes: this.#tree.index.lineLength(row) };
  }

  #messageOf({ row, at, edited }: Item): ContextMessage | undefined {
    if (edited) return edited;
    return messagesOf(this.#tree.entryAt(row))[at];
  }

  #isSame(a: Item, b: Item): boolean {
    if (a.row === b.row && a.at === b.at && a.edit?.id === b.edit?.id) return true;
    const [one, other] = [this.#messageOf(a), this.#messageOf(b)];
    return one && other ? jsonText(spoken(one)) === jsonText(spoken(other)) : false;
  }

  /**
   * Compares two requests.
   *
   * @param path entries that are only on the path of the second request, oldest first
   * @param isBelow true when the path of the second request goes through the first one
   * @param from number of items that are known to be the same
   */
  #compare(
    before: RequestState,
    state: RequestState,
    { path, isBelow, from }: { path: readonly Entry[]; isBelow: boolean; from: number },
  ): Compared {
    const least = Math.min(before.length, state.length);
    let shared = from;
    const same = (at: number) =>
      this.#isSame(before.items[at]!, state.items[at]!) &&
      before.sendsThinking(at) === state.sendsThinking(at);
    while (shared < least && same(shared)) shared++;
    const { firstNew, isLoop } = since(path);
    const late =
      (shared === before.length ? this.#lateResult(state, shared, before.open) : undefined) ??
      (from > 0 ? changedLoop(state, before.loopFrom, shared, firstNew ?? path[0]) : undefined);
    const beside =
      systemDifference(before.system, state.system) ?? levelDifference(before.settings, state.settings, path);
    const isOwn = isBelow || path.some(({ id }) => id === beside?.entryId);
    const difference =
      (isOwn ? beside : undefined) ??
      late?.difference ??
      (beside || shared < before.length
        ? this.#messageDifference(before, state, shared, isBelow, path)
        : undefined);
    return {
      difference,
      beforeTokens: before.tokens[before.length - 1] ?? 0,
      prefix: prefixOf(state, startsAnew(difference) ? 0 : (late?.shared ?? shared)),
      firstNew,
      isLoop,
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

  #messageDifference(
    before: RequestState,
    state: RequestState,
    shared: number,
    isBelow: boolean,
    path: readonly Entry[],
  ): RequestDifference {
    const idOf = (item: Item | undefined) => (item ? this.#tree.idAt(item.row) : "");
    // A compaction may begin a new path: other agents write it as a root.
    if (!isBelow && path[0]?.id !== state.compactionId)
      return { cause: "branch", entryId: path[0]?.id ?? idOf(state.items[state.length - 1]) };
    const old = before.items[shared]!;
    if (state.compactionId !== undefined && state.compactionId !== before.compactionId)
      return { cause: "compaction", entryId: state.compactionId };
    const edits = path.filter(contextEdit.is);
    const edit = edits.findLast(({ targetId }) => targetId === idOf(old)) ?? edits.at(-1);
    const message = this.#messageOf(old);
    if (!edit || !message) return { cause: "unknown", entryId: idOf(old) };
    return { cause: causeOfEdit(edit, message), entryId: edit.id };
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

function since(added: readonly Entry[]): Pick<Compared, "firstNew" | "isLoop"> {
  const said = added.filter((entry) => kindOf(entry).toMessages && !isMessage(entry, "assistant"));
  return { firstNew: said[0], isLoop: said.every((entry) => isMessage(entry, "toolResult")) };
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
  return message.role === "assistant" ? { content: message.content } : { ...rest, details: null };
}

/** Returns the difference of two requests in system prompt or tools, according to the session's own system messages. */
function systemDifference(
  before: RequestState["system"],
  now: RequestState["system"],
): RequestDifference | undefined {
  if (before.length === now.length && before.every(({ message }, at) => message === now[at]!.message))
    return undefined;
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
