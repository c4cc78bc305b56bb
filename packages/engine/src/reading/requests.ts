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
 * Cause for which a provider's prompt cache lacked what the call before had put into it.
 *
 * Three are found by elimination: all that the file records was the same, and the cache was young enough.
 * `restart`: the request grew by what was said alone, so something before the first message was replaced by something of
 * the same size, such as the time of a program's start in its system prompt. `unrecorded`: the system prompt or the tools.
 * `thinking`: the request became smaller when the user spoke, since the provider left out the thinking of the turn before.
 * `unknown`: everything else that the file does not explain.
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

/** First difference of two requests that the file records. */
export interface RequestDifference {
  cause: CacheCause;
  /** The entry that makes it. */
  entryId: string;
}

/** A request beside the one before it. */
export interface Compared {
  prefix: { bytes: number; tokens: number };
  /** Estimated size of the request before. */
  beforeTokens: number;
  /** Undefined where the request only goes on. */
  difference: RequestDifference | undefined;
  /** The first entry after the answer to the request before; undefined where there is none. */
  firstNew: Entry | undefined;
  /** True when a tool loop goes on: the user has said nothing since the call before. */
  isLoop: boolean;
}

/** Message of a request, as its position in the file: the messages of a long session would take too much memory. */
interface Item {
  row: number;
  /** Position among the messages of its entry. */
  at: number;
  edit: ContextEditEntry | undefined;
  /** The message as its edit made it. */
  edited: ContextMessage | undefined;
  /** Of a result: its call, and the position of the answer with it. */
  closes: { callId: unknown; answer: number } | undefined;
  /**
   * Thinking of an answer: there is none, it is sent, only a running tool loop carries it (something before it changed), or
   * it is left out, since a result from below belongs above it.
   */
  thinking: "none" | "sent" | "in-loop" | "left-out";
}

/** An entry, its row, and the bytes of its line, which are about those of its message in a request. */
interface Place {
  entry: Entry;
  row: number;
  bytes: number;
}

/** A request as its entries make it: messages in reading order, the rest beside them. */
class RequestState {
  readonly row: number;
  settings: Settings;
  /** System messages, which make the system prompt and the tools. */
  readonly system: { entry: Entry; message: SystemMessage }[] = [];
  items: Item[] = [];
  #isReordered = false;
  /** Kept only for thinking that depends on the running tool loop. */
  #messages: ContextMessage[] | undefined = [];
  /** Sums up to and with each item. */
  tokens: number[] = [];
  bytes: number[] = [];
  /** Calls without a result yet: the position of their answer. */
  readonly open = new Map<unknown, number>();
  readonly compactionId: string | undefined;
  /** Position from which fragile thinking is sent: the beginning of the tool loop that runs; after the end for none. */
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
    const hasThinking = contentBlocks(message as { content?: unknown }).some(isThinking);
    const thinking = hasThinking ? (prefixChanged ? "in-loop" : "sent") : "none";
    this.#messages?.push(message);
    this.items.push({ row, at, edit, edited: edit && message, thinking, closes: undefined });
    this.tokens.push((this.tokens.at(-1) ?? 0) + estimateTokens(message));
    this.bytes.push((this.bytes.at(-1) ?? 0) + (edit ? estimateBytes(message) : bytes));
    if (message.role === "toolResult") this.#close(message.toolCallId);
    for (const { id } of toolCalls(message)) this.open.set(id, this.items.length - 1);
  }

  /** A request has a result right behind its call: thinking in between follows something else than it did. */
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

  /** Returns this request as it was at an earlier row; undefined where a later entry changed something before that row. */
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

  /** Finds the running tool loop anew. Only what was there from the beginning can depend on it. */
  findLoop(): void {
    if (this.#messages && !this.items.some(({ thinking }) => thinking === "in-loop"))
      this.#messages = undefined;
    if (this.#messages) this.loopFrom = runningLoop(this.#messages);
  }

  /** True where this request carries the thinking of an answer. */
  sendsThinking(at: number): boolean {
    const { thinking } = this.items[at]!;
    return thinking === "sent" || (thinking === "in-loop" && at >= this.loopFrom);
  }

  /** The first position before `end` of thinking that only one of two requests carries: this one, and one whose loop began at `loopFrom`. */
  changedThinking(loopFrom: number, end: number): number | undefined {
    const [from, to] = [Math.min(loopFrom, this.loopFrom), Math.max(loopFrom, this.loopFrom)];
    for (let at = from; at < Math.min(end, to); at++) if (this.items[at]!.thinking === "in-loop") return at;
    return undefined;
  }
}

const isThinking = ({ type }: { type: string }): boolean => type === "thinking";

/** Size of a beginning of a request; system prompt and tools are no part of what the session has of it. */
const prefixOf = (state: RequestState, items: number) => ({
  bytes: items > 0 ? state.bytes[items - 1]! : 0,
  tokens: items > 0 ? state.tokens[items - 1]! : 0,
});

/** Builds the requests of a tree one after another, and compares each with the one before. */
export class RequestReader {
  readonly #tree: Tree;
  #last: RequestState | undefined;

  constructor(tree: Tree) {
    this.#tree = tree;
  }

  /** The request at a row beside the one that was asked for before. */
  next(row: number): Compared {
    const before = this.#last;
    const added = before && this.#entriesBetween(before.row, row);
    if (before && added && !added.some(looksBack)) return this.#extend(before, row, added);
    const state = (before && !added && this.#branch(before, row)) || this.#build(row);
    this.#last = state;
    return before ? this.#compare(before, state, added) : NOTHING_BEFORE;
  }

  /** Entries below `from` down to `row`, oldest first; undefined where `from` is not on the path. */
  #entriesBetween(from: number, row: number): Entry[] | undefined {
    const entries: Entry[] = [];
    let at = row;
    for (; at > from; at = this.#tree.index.parent(at)) entries.push(this.#tree.entryAt(at));
    return at === from || (from < 0 && at < 0) ? entries.reverse() : undefined;
  }

  /** What a call that goes on costs: the entries since. The state is continued in place. */
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

  /** A request on another branch, from what it shares with the one before; undefined where it has to be built anew. */
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
   * A result that came after its call had been sent without one. A request puts results right behind their calls, so it
   * changes what was sent.
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

  /** The first difference of two requests in their messages. `added` is undefined where the path is another one. */
  #messageDifference(
    before: RequestState,
    state: RequestState,
    shared: number,
    added: readonly Entry[] | undefined,
    path: readonly Entry[],
  ): RequestDifference {
    const idOf = (item: Item | undefined) => (item ? this.#tree.idAt(item.row) : "");
    // A compaction may begin a path of its own: other agents write it as a root.
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

  /** Entries on the path of `row` that are not on that of `from`, oldest first. */
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

/** True for kinds that change what was said before them. */
function looksBack(entry: Entry): boolean {
  const { firstKept, edit } = kindOf(entry);
  return firstKept !== undefined || edit !== undefined;
}

/** True for entries that a request on another branch has to be built anew without. */
const reachesBack = (entry: Entry): boolean =>
  looksBack(entry) ||
  kindOf(entry).settings?.(entry)?.thinkingLevel !== undefined ||
  isMessage(entry, "system");

/** Tools and system prompt come first in a request: nothing behind them is shared where they differ. */
const startsAnew = (difference: RequestDifference | undefined): boolean =>
  difference?.cause === "tools" || difference?.cause === "system-prompt";

/** What was said after the answer to the request before. */
function since(added: readonly Entry[]): Pick<Compared, "firstNew" | "isLoop"> {
  const said = added.filter((entry) => kindOf(entry).toMessages && !isMessage(entry, "assistant"));
  return {
    firstNew: said[0],
    isLoop: said.every((entry) => isMessage(entry, "toolResult")),
  };
}

/** Thinking that only a running tool loop carries, since something before it changed: it comes and goes with the loop. */
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

/** Parts of a message that a request carries. */
function spoken(message: ContextMessage): object {
  const { timestamp, ...rest } = message;
  if (message.role === "toolResult") return { ...rest, details: null };
  return message.role === "assistant" ? { content: message.content } : rest;
}

/** The difference of two requests in system prompt or tools, as the session's own system messages have them. */
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

/** Providers here take names of up to 64 or 128 characters; a longer one decides nothing of a cache. */
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
  const pictures = (message: { content?: unknown }) =>
    contentBlocks(message).filter(({ type }) => type === "image").length;
  const said = { content: replacement.content };
  return pictures(said) < pictures(before as { content?: unknown }) ? "pictures" : "edit";
}
