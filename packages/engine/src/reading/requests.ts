import { jsonText } from "@espalier/jsonl-stream";
import {
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
  type ProjectedEntry,
  pathRows,
  pathWindowAt,
  projectPath,
  runningLoop,
  type Settings,
  type SystemMessage,
  settingsAlong,
  settingsIn,
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
  /** Tokens of the request up to and including this message. */
  tokens: number;
  /** Bytes of the request up to and including this message: those of lines are about those of their messages. */
  bytes: number;
}

/**
 * A request by its entries: messages in reading order, and the other parts. A request that only adds messages shares
 * the lists of the earlier request, so each request stores its own length.
 */
interface RequestState {
  readonly row: number;
  readonly settings: Settings;
  readonly compactionId: string | undefined;
  /** System messages, which define the system prompt and the tools. */
  readonly system: { entryId: string; message: SystemMessage }[];
  readonly items: Item[];
  /** Number of items of the shared list that belong to this request. */
  length: number;
  isReordered: boolean;
  /** Kept only when thinking depends on the running tool loop. */
  messages: ContextMessage[] | undefined;
  /** Calls without a result so far, with the position of their answer. */
  readonly open: Map<unknown, number>;
  /** Position from which fragile thinking is sent: the start of the running tool loop. Without a loop: the end. */
  loopFrom: number;
}

/**
 * Returns the beginning of a request at another row: this request, or its part up to a common row. The part is a copy,
 * which must not be reordered.
 */
function continued(before: RequestState, row: number, settings: Settings, common: number): RequestState {
  let { length } = before;
  while (length > 0 && before.items[length - 1]!.row > common) length--;
  const begun = <Value>(list: Value[]) => (length === before.length ? list : list.slice(0, length));
  const open = new Map<unknown, number>();
  for (const [callId, answer] of before.open) if (answer < length) open.set(callId, answer);
  for (let at = length; at < before.length; at++) {
    const { closes } = before.items[at]!;
    if (closes && closes.answer < length) open.set(closes.callId, closes.answer);
  }
  return {
    row,
    settings,
    compactionId: before.compactionId,
    system: [...before.system],
    items: begun(before.items),
    length,
    isReordered: before.isReordered,
    messages: before.messages && begun(before.messages),
    open,
    loopFrom: before.loopFrom,
  };
}

/** Returns whether a request has the thinking of an answer. */
function sendsThinking({ items, loopFrom }: RequestState, at: number): boolean {
  const { thinking } = items[at]!;
  return thinking === "sent" || (thinking === "in-loop" && at >= loopFrom);
}

const isThinking = ({ type }: { type: string }): boolean => type === "thinking";

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
    const state = isContinued
      ? this.#add(
          continued(before, row, settingsAlong(path, before.settings), kept),
          path.map((entry) => ({ entry, messages: messagesOf(entry), prefixChanged: false })),
        )
      : this.#build(row);
    this.#last = state;
    return this.#compare(before, state, { path, isBelow, from: isBelow && isContinued ? before.length : 0 });
  }

  #build(row: number): RequestState {
    const { entries, before } = pathWindowAt(this.#tree, row);
    const projected = projectPath(entries);
    const front = projected.find(({ messages }) => messages.length > 0)?.entry;
    const edits = new Map<string, ContextEditEntry>();
    for (const entry of entries)
      if (contextEdit.is(entry) && !contextEdit.problem?.(entry)) edits.set(entry.targetId, entry);
    const state: RequestState = {
      row,
      settings: settingsAlong(entries, before),
      compactionId: front && compaction.is(front) ? front.id : undefined,
      system: [],
      items: [],
      length: 0,
      isReordered: false,
      messages: [],
      open: new Map(),
      loopFrom: 0,
    };
    return this.#add(state, projected, edits);
  }

  /** Adds the messages of entries to a request, and finds its running tool loop again. */
  #add(
    state: RequestState,
    added: readonly ProjectedEntry[],
    edits?: ReadonlyMap<string, ContextEditEntry>,
  ): RequestState {
    for (const { entry, messages, prefixChanged } of added) {
      const row = this.#tree.index.rowOf(entry.id);
      for (const [at, message] of messages.entries()) {
        if (message.role === "system") state.system.push({ entryId: entry.id, message });
        else this.#addMessage(state, message, { row, at, edit: edits?.get(entry.id) }, prefixChanged);
      }
    }
    // Only thinking that was in the request from the beginning can depend on the loop.
    if (state.messages && !state.items.some(({ thinking }) => thinking === "in-loop"))
      state.messages = undefined;
    if (state.messages) state.loopFrom = runningLoop(state.messages);
    return state;
  }

  #addMessage(
    state: RequestState,
    message: ContextMessage,
    { row, at, edit }: Pick<Item, "row" | "at" | "edit">,
    prefixChanged: boolean,
  ): void {
    const { items, open } = state;
    const callId = message.role === "toolResult" ? message.toolCallId : undefined;
    const answer = message.role === "toolResult" ? open.get(callId) : undefined;
    if (isFailedAnswer(message) || (message.role === "toolResult" && answer === undefined)) return;
    const bytes = edit ? estimateBytes(message) : this.#tree.index.lineLength(row);
    const hasThinking = contentBlocks(message).some(isThinking);
    const last = items.at(-1);
    state.messages?.push(message);
    items.push({
      row,
      at,
      edit,
      edited: edit && message,
      closes: answer === undefined ? undefined : { callId, answer },
      thinking: hasThinking ? (prefixChanged ? "in-loop" : "sent") : "none",
      tokens: (last?.tokens ?? 0) + estimateTokens(message),
      bytes: (last?.bytes ?? 0) + bytes,
    });
    state.length = items.length;
    if (answer !== undefined) {
      open.delete(callId);
      // The result is put directly after its call, so that later thinking has a new prefix.
      for (let later = answer + 1; later < items.length; later++)
        if (items[later]!.thinking !== "none") {
          items[later]!.thinking = "left-out";
          state.isReordered = true;
        }
    }
    for (const { id } of toolCalls(message)) open.set(id, state.length - 1);
  }

  #messageOf({ row, at, edited }: Item): ContextMessage | undefined {
    return edited ?? messagesOf(this.#tree.entryAt(row))[at];
  }

  #isSame(a: Item, b: Item): boolean {
    if (a.row === b.row && a.at === b.at && a.edit?.id === b.edit?.id) return true;
    const [one, other] = [this.#messageOf(a), this.#messageOf(b)];
    return one && other ? sentText(one) === sentText(other) : false;
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
      sendsThinking(before, at) === sendsThinking(state, at);
    while (shared < least && same(shared)) shared++;
    const said = path.filter((entry) => kindOf(entry).toMessages && !isMessage(entry, "assistant"));
    const moved =
      (shared === before.length ? this.#lateResult(state, shared, before.open) : undefined) ??
      (from > 0 ? changedLoop(before, state, shared, said[0] ?? path[0]) : undefined);
    const beside =
      systemDifference(before.system, state.system) ?? levelDifference(before.settings, state.settings, path);
    const isOwn = isBelow || path.some(({ id }) => id === beside?.entryId);
    const difference =
      (isOwn ? beside : undefined) ??
      (moved && { cause: "block-order", entryId: moved.entryId }) ??
      (beside || shared < before.length
        ? this.#messageDifference(before, state, shared, isBelow, path)
        : undefined);
    // Tools and system prompt come first in a request.
    const startsAnew = difference?.cause === "tools" || difference?.cause === "system-prompt";
    const { bytes, tokens } = sizeOf(state, startsAnew ? 0 : (moved?.shared ?? shared));
    return {
      difference,
      beforeTokens: sizeOf(before, before.length).tokens,
      prefix: { bytes, tokens },
      firstNew: said[0],
      isLoop: said.every((entry) => isMessage(entry, "toolResult")),
    };
  }

  /**
   * Returns the first result that came after its call had been sent without one. A request puts results directly after
   * their calls, which changes the content that was sent.
   */
  #lateResult({ items }: RequestState, from: number, open: ReadonlyMap<unknown, number>): Moved | undefined {
    if (open.size === 0) return undefined;
    return items
      .slice(from)
      .flatMap((item) => {
        const message = this.#messageOf(item);
        const answer = message?.role === "toolResult" ? open.get(message.toolCallId) : undefined;
        return answer === undefined ? [] : [{ entryId: this.#tree.idAt(item.row), shared: answer + 1 }];
      })
      .sort((a, b) => a.shared - b.shared)[0];
  }

  #messageDifference(
    before: RequestState,
    state: RequestState,
    shared: number,
    isBelow: boolean,
    path: readonly Entry[],
  ): RequestDifference {
    const idOf = (item: Item | undefined) => (item ? this.#tree.idAt(item.row) : "");
    const [first] = path;
    // A compaction may begin a new path: other agents write it as a root.
    if (!isBelow && (!first || first.id !== state.compactionId))
      return { cause: "branch", entryId: first?.id ?? idOf(state.items[state.length - 1]) };
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

const NOTHING = { bytes: 0, tokens: 0 };
const NOTHING_BEFORE: Compared = {
  difference: undefined,
  beforeTokens: 0,
  prefix: NOTHING,
  firstNew: undefined,
  isLoop: false,
};

/** Returns the size of the first messages of a request. */
const sizeOf = ({ items }: RequestState, length: number): Compared["prefix"] => items[length - 1] ?? NOTHING;

/** Returns whether an entry is of a kind that changes messages before it. */
function looksBack(entry: Entry): boolean {
  const { firstKept, edit } = kindOf(entry);
  return firstKept !== undefined || edit !== undefined;
}

/** Returns whether an entry makes it necessary to rebuild a request on another branch. */
const reachesBack = (entry: Entry): boolean =>
  looksBack(entry) || settingsIn(entry).thinkingLevel !== undefined || isMessage(entry, "system");

/** Content that a request has at another place than the previous one: its entry, and the number of messages before it. */
interface Moved {
  entryId: string;
  shared: number;
}

/** Returns thinking that comes and goes with a running tool loop, after a change before it. */
function changedLoop(
  before: RequestState,
  state: RequestState,
  end: number,
  added: Entry | undefined,
): Moved | undefined {
  if (!added) return undefined;
  const last = Math.min(end, Math.max(before.loopFrom, state.loopFrom));
  for (let at = Math.min(before.loopFrom, state.loopFrom); at < last; at++)
    if (state.items[at]!.thinking === "in-loop") return { entryId: added.id, shared: at };
  return undefined;
}

/** Returns the parts of a message that a provider is sent, as text. */
export function sentText(message: ContextMessage): string {
  const { timestamp, ...rest } = message;
  return jsonText(message.role === "assistant" ? { content: message.content } : { ...rest, details: null });
}

/** Returns the difference of two requests in system prompt or tools, according to the session's own system messages. */
function systemDifference(
  before: RequestState["system"],
  now: RequestState["system"],
): RequestDifference | undefined {
  if (before.length === now.length && before.every(({ message }, at) => message === now[at]!.message))
    return undefined;
  const folded = (parts: RequestState["system"]) =>
    foldSystem(
      parts.map(({ message }) => message),
      { toolNameLength: LONGEST_TOOL_NAME },
    );
  const [a, b] = [folded(before), folded(now)];
  const entryId = (now.at(-1) ?? before.at(-1))?.entryId ?? "";
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
