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

/** Message of a request, and its edit. */
interface Item {
  entry: Entry;
  message: ContextMessage;
  edit: ContextEditEntry | undefined;
  /**
   * Thinking of an answer: there is none, it is sent, only a running tool loop carries it (something before it changed), or
   * it is left out, since a result from below belongs above it.
   */
  thinking: "none" | "sent" | "in-loop" | "left-out";
}

/** A request as its entries make it: messages in reading order, the rest beside them. */
class RequestState {
  readonly row: number;
  settings: Settings;
  /** System messages, which make the system prompt and the tools. */
  readonly system: { entry: Entry; message: SystemMessage }[] = [];
  readonly items: Item[] = [];
  readonly messages: ContextMessage[] = [];
  #inLoop = 0;
  /** Sums up to and with each item. */
  readonly tokens: number[] = [];
  readonly bytes: number[] = [];
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
    entry: Entry,
    message: ContextMessage,
    bytes: number,
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
    if (thinking === "in-loop") this.#inLoop++;
    this.messages.push(message);
    this.items.push({ entry, message, edit, thinking });
    this.tokens.push((this.tokens.at(-1) ?? 0) + estimateTokens(message));
    this.bytes.push((this.bytes.at(-1) ?? 0) + bytes);
    if (message.role === "toolResult") this.#close(message.toolCallId);
    for (const { id } of toolCalls(message)) this.open.set(id, this.items.length - 1);
  }

  /** A request has a result right behind its call: thinking in between follows something else than it did. */
  #close(callId: unknown): void {
    const answer = this.open.get(callId);
    this.open.delete(callId);
    for (let at = (answer ?? this.items.length) + 1; at < this.items.length; at++)
      if (this.items[at]!.thinking !== "none") this.items[at]!.thinking = "left-out";
  }

  /** Finds the running tool loop anew. */
  findLoop(): void {
    if (this.#inLoop > 0) this.loopFrom = runningLoop(this.messages);
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
    const state = this.#build(row);
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
    for (const entry of added) {
      state.settings = applySettings(state.settings, entry);
      const kind = kindOf(entry);
      if (kind.problem?.(entry)) continue;
      for (const message of kind.toMessages?.(entry) ?? []) state.add(entry, message, this.#bytesOf(entry));
    }
    const { firstNew, isLoop } = since(added);
    state.findLoop();
    const late =
      lateResult(state, shared, open) ?? changedLoop(state, loopFrom, shared, firstNew ?? added[0]);
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

  #build(row: number): RequestState {
    const { entries, before } = pathWindowAt(this.#tree, row);
    const projected = projectPath(entries);
    const front = projected.find(({ messages }) => messages.length > 0)?.entry;
    const compactionId = front && compaction.is(front) ? front.id : undefined;
    const state = new RequestState(row, settingsAlong(entries, before), compactionId);
    const edits = new Map<string, ContextEditEntry>();
    for (const entry of entries)
      if (contextEdit.is(entry) && !contextEdit.problem?.(entry)) edits.set(entry.targetId, entry);
    for (const { entry, messages, prefixChanged } of projected)
      for (const message of messages) {
        const edit = edits.get(entry.id);
        const bytes = edit ? estimateBytes(message) : this.#bytesOf(entry);
        state.add(entry, message, bytes, edit, prefixChanged);
      }
    state.findLoop();
    return state;
  }

  /** Bytes of an entry's line, which are about those of its message in a request. */
  #bytesOf(entry: Entry): number {
    const row = this.#tree.index.rowOf(entry.id);
    return row < 0 ? 0 : this.#tree.index.lineLength(row);
  }

  #compare(before: RequestState, state: RequestState, added: readonly Entry[] | undefined): Compared {
    const least = Math.min(before.items.length, state.items.length);
    let shared = 0;
    const same = (at: number) =>
      isSame(before.items[at]!, state.items[at]!) && before.sendsThinking(at) === state.sendsThinking(at);
    while (shared < least && same(shared)) shared++;
    const late = shared === before.items.length ? lateResult(state, shared, before.open) : undefined;
    const path = added ?? this.#newOnPath(before.row, state.row);
    const beside =
      systemDifference(before.system, state.system) ?? levelDifference(before.settings, state.settings, path);
    const isOwn = added || path.some(({ id }) => id === beside?.entryId);
    const difference =
      (isOwn ? beside : undefined) ??
      late?.difference ??
      (beside || shared < before.items.length
        ? messageDifference(before, state, shared, added, path)
        : undefined);
    return {
      difference,
      beforeTokens: before.tokens.at(-1) ?? 0,
      prefix: prefixOf(state, startsAnew(difference) ? 0 : (late?.shared ?? shared)),
      ...since(path),
    };
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

function isSame(a: Item, b: Item): boolean {
  if (a.entry.id === b.entry.id && a.edit?.id === b.edit?.id) return true;
  return a.message.role === b.message.role && jsonText(spoken(a.message)) === jsonText(spoken(b.message));
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

/**
 * A result that came after its call had been sent without one. A request puts results right behind their calls, so it
 * changes what was sent.
 */
function lateResult(
  state: RequestState,
  from: number,
  open: ReadonlyMap<unknown, number>,
): { difference: RequestDifference; shared: number } | undefined {
  if (open.size === 0) return undefined;
  const late = state.items
    .slice(from)
    .flatMap(({ entry, message }) => {
      const answer = message.role === "toolResult" ? open.get(message.toolCallId) : undefined;
      return answer === undefined ? [] : [{ entry, shared: answer + 1 }];
    })
    .sort((a, b) => a.shared - b.shared)[0];
  return late && { difference: { cause: "block-order", entryId: late.entry.id }, shared: late.shared };
}

/** The first difference of two requests in their messages. `added` is undefined where the path is another one. */
function messageDifference(
  before: RequestState,
  state: RequestState,
  shared: number,
  added: readonly Entry[] | undefined,
  path: readonly Entry[],
): RequestDifference {
  // A compaction may begin a path of its own: other agents write it as a root.
  if (!added && path[0]?.id !== state.compactionId)
    return { cause: "branch", entryId: path[0]?.id ?? state.items.at(-1)?.entry.id ?? "" };
  const old = before.items[shared]!;
  if (state.compactionId !== undefined && state.compactionId !== before.compactionId)
    return { cause: "compaction", entryId: state.compactionId };
  const edits = path.filter(contextEdit.is);
  const edit = edits.findLast(({ targetId }) => targetId === old.entry.id) ?? edits.at(-1);
  if (!edit) return { cause: "unknown", entryId: old.entry.id };
  return { cause: causeOfEdit(edit, old.message), entryId: edit.id };
}

function causeOfEdit({ replacement }: ContextEditEntry, before: ContextMessage): CacheCause {
  if (replacement === null) return "hide";
  const pictures = (message: { content?: unknown }) =>
    contentBlocks(message).filter(({ type }) => type === "image").length;
  const said = { content: replacement.content };
  return pictures(said) < pictures(before as { content?: unknown }) ? "pictures" : "edit";
}
