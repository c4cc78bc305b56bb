// The `Session` of the OpenAI Agents SDK over sessions of Espalier; its types need `@openai/agents`.
import { randomUUID } from "node:crypto";
import { isDeepStrictEqual } from "node:util";
import { isRecord } from "@espalier/session-tree";
import type {
  AgentInputItem,
  SessionHistoryRewriteArgs,
  SessionHistoryRewriteAwareSession,
  SessionHistoryTransactionAwareSession,
} from "@openai/agents";
import { type BaseEntry, compaction, contextEdit, custom, isCustom, leaf, messageText } from "../extend.ts";
import { toOpenaiResponses } from "../import.ts";
import {
  type ContextMessage,
  EspalierError,
  type NewEntry,
  type PoolOptions,
  type Session,
  type SessionPool,
  type StoredMessage,
  sessionPool,
} from "../index.ts";
import {
  answerOf,
  blocksOf,
  digestOf,
  type Fields,
  refuseOtherVersions,
  sessionIdOf,
  textOf,
} from "./host.ts";
import { fitsLine, restoreValue, storeValue } from "./stored-value.ts";

/** A session for `run(agent, input, { session })`, with all optional members of the SDK's `Session`. */
export interface OpenaiSession
  extends SessionHistoryRewriteAwareSession,
    SessionHistoryTransactionAwareSession {
  /**
   * Replaces the history by a compaction item and the items that it keeps. The entry is a compaction: earlier entries stay
   * in the session, and undo restores them.
   */
  replaceHistoryWithCompaction(items: AgentInputItem[]): Promise<void>;
}

/** Sessions of the OpenAI Agents SDK, and the pool of the sessions that hold them. */
export interface OpenaiSessions extends SessionPool {
  /**
   * Returns the session with this id. Its first use creates it.
   * @throws EspalierError `bad-input` for an id that cannot name a session
   */
  session(id: string): OpenaiSession;
}

/**
 * Keeps the sessions of the OpenAI Agents SDK in Espalier: in files, or in `store`. An item is a message entry, and
 * `getItems` returns an equal item. Nothing is removed: `popItem` moves the leaf, `clearSession` begins another root.
 *
 * ```ts
 * const sessions = openaiSessions();
 * await run(agent, "What grows here?", { session: sessions.session("garden") });
 * await sessions.close();
 * ```
 *
 * @param options those of `sessionPool`; by default nothing is redacted, since the SDK expects equal items
 * @throws EspalierError `unsuitable` for a version of `@openai/agents` that is not tested
 */
export function openaiSessions(options: Omit<PoolOptions, "rules" | "whole"> = {}): OpenaiSessions {
  refuseOtherVersions("@openai/agents", "0.20.0", "0.21.0");
  const pool = sessionPool({ redact: false, ...options, rules: false });
  return Object.assign(pool, { session: (id: string) => sessionOf(pool, sessionIdOf("session id", id)) });
}

/** Entry of an item. */
interface ItemEntry extends BaseEntry {
  /** The item as returned by `storeValue`; absent in an entry of another program. */
  item?: unknown;
  /**
   * The leaf before the append, on each of its entries but the last. A session that ends in such an entry lost the rest of
   * the append in a crash.
   */
  leafBefore?: string | null;
  /** SHA-256 of the transaction that ends in this entry. */
  transaction?: string;
}

/** Type of the entry with which a history begins after `clearSession`. */
const HISTORY = "openai-agents.history";

function sessionOf(pool: SessionPool, sessionId: string): OpenaiSession {
  const use = <Result>(work: (session: Session) => Promise<Result>): Promise<Result> =>
    pool.use(sessionId, async (session) => {
      await leaveHalf(session);
      return work(session);
    });

  return {
    getSessionId: async () => sessionId,
    getItems: (limit) =>
      use(async (session) => {
        const items = itemsOf(rowsOf(session));
        return limit === undefined ? items : limit <= 0 ? [] : items.slice(-limit);
      }),
    async addItems(items) {
      if (items.length > 0) await use((session) => replaceFrom(session, Infinity, items));
    },
    popItem: () =>
      use(async (session) => {
        const items = itemsOf(rowsOf(session));
        if (items.length > 0) await replaceFrom(session, items.length - 1, []);
        return items.at(-1);
      }),
    clearSession: () =>
      use(async (session) => {
        if (session.tree.length > 0) await session.append(custom.of({ customType: HISTORY, parentId: null }));
      }),
    applyHistoryMutations: ({ mutations }) =>
      use(async (session) => {
        const items = itemsOf(rowsOf(session));
        const next = mutations.reduce(replaceCall, items);
        const changed = next.findIndex((item, at) => !isDeepStrictEqual(item, items[at]));
        const kept = changed < 0 ? next.length : changed;
        if (kept < Math.max(items.length, next.length)) await replaceFrom(session, kept, next.slice(kept));
      }),
    async applyHistoryTransaction({ operationId, transaction }) {
      if (typeof operationId !== "string" || operationId.trim() === "")
        throw new EspalierError(
          "bad-input",
          "A history transaction needs an `operationId` that is not empty.",
        );
      const digest = digestOf(canonical(storeValue(transaction, {})));
      await use(async (session) => {
        const { id, applied } = findTransaction(session, operationId);
        if (applied !== undefined && applied !== digest)
          throw new EspalierError(
            "bad-input",
            `The operation ${JSON.stringify(operationId.slice(0, 80))} was applied with another transaction; give this one a new id.`,
          );
        if (applied !== undefined) return;
        const ends = { id, transaction: digest };
        if (transaction.type === "append_items")
          return replaceFrom(session, Infinity, transaction.items, ends);
        const { expectedSuffix, replacement } = transaction;
        const items = itemsOf(rowsOf(session));
        const kept = items.length - expectedSuffix.length;
        if (kept < 0 || !isDeepStrictEqual(items.slice(kept), expectedSuffix.map(asStored)))
          throw new EspalierError(
            "moved",
            "The history does not end with the items that the transaction replaces; read it again.",
          );
        return replaceFrom(session, kept, replacement, ends);
      });
    },
    async replaceHistoryWithCompaction([first, ...retained]) {
      if (first?.type !== "compaction")
        throw new EspalierError("bad-input", "A compacted history begins with a compaction item.");
      await use(async (session) => {
        const rows = rowsOf(session);
        const kept = retained.map(asStored);
        // A model does not read a system message from before a compaction: such an item is appended again.
        const isKept = !retained.some((item) => "role" in item && item.role === "system");
        const at = isKept
          ? rows.findLastIndex((_, from) => isDeepStrictEqual(itemsOf(rows.slice(from)), kept))
          : -1;
        const id = randomUUID();
        const summary = "[The conversation until here, in a form that only OpenAI can read.]";
        const [firstKeptEntryId, tokensBefore] = [rows[at]?.id ?? id, session.context.tokens];
        const entry = compaction.of({ id, summary, firstKeptEntryId, tokensBefore });
        const drafts = [withItem(entry, first), ...(at < 0 ? retained.map(draftOf) : [])];
        await session.append(asBatch(session, drafts));
      });
    },
  };
}

/** An entry of the context, with its items. */
interface Row {
  id: string;
  items: AgentInputItem[];
}

/** The context at the leaf as items, with compactions, edits and messages of other programs. */
function rowsOf(session: Session): Row[] {
  const { messages, sources } = session.context;
  const { entries: path } = session.window;
  const entries = new Map(path.map((entry) => [entry.id, entry as ItemEntry]));
  const edited = new Set(path.flatMap((entry) => (contextEdit.is(entry) ? entry.targetId : [])));
  const rows: Row[] = [];
  for (const [at, message] of messages.entries()) {
    const id = sources[at]!;
    const entry = entries.get(id);
    const isOwn = entry?.item !== undefined && !edited.has(id);
    const items = isOwn ? [restoreValue(entry.item, entry) as AgentInputItem] : itemOf(message);
    const last = rows.at(-1);
    if (last?.id === id) last.items.push(...items);
    else rows.push({ id, items });
  }
  return rows;
}

const itemsOf = (rows: readonly Row[]): AgentInputItem[] => rows.flatMap(({ items }) => items);

/** First entry of the history at the leaf; null for the first history. */
function historyOf(session: Session): string | null {
  const root = session.window.complete ? session.window.entries[0] : session.getBranch()[0];
  return root && isCustom(root, HISTORY) ? root.id : null;
}

/**
 * Appends `added` after the first `kept` items, in one write. The leaf moves to the last entry that stays; the entries after
 * it remain in the session as a branch.
 *
 * @param kept number of items; Infinity keeps all of them
 * @param ends fields of the last entry
 */
async function replaceFrom(
  session: Session,
  kept: number,
  added: readonly AgentInputItem[],
  ends: Partial<ItemEntry> = {},
): Promise<void> {
  const rows = kept === Infinity ? [] : rowsOf(session);
  let whole = rows.length;
  while (whole > 0 && itemsOf(rows.slice(0, whole)).length > kept) whole--;
  if (whole < rows.length && whole > 0 && !isAllAt(session, rows.slice(0, whole))) whole = 0;
  const stays = itemsOf(rows.slice(0, whole)).length;
  const parentId = whole === rows.length ? session.leafId : (rows[whole - 1]?.id ?? historyOf(session));
  const drafts = [...itemsOf(rows).slice(stays, kept), ...added].map(draftOf);
  const [first = leaf.of({ parentId, targetId: parentId }), ...rest] = drafts;
  const batch = asBatch(session, [{ ...first, parentId }, ...rest]);
  batch.push({ ...batch.pop()!, ...ends });
  await session.append(batch);
}

/** Returns whether the context at the last row is exactly these rows. False where a later compaction keeps the row. */
function isAllAt(session: Session, rows: readonly Row[]): boolean {
  const sources = new Set(session.contextAt(rows.at(-1)!.id).sources);
  return sources.size === rows.length && rows.every(({ id }) => sources.has(id));
}

const draftOf = (item: AgentInputItem): NewEntry =>
  withItem({ type: "message", message: messageOf(item) } as NewEntry, item);

const withItem = (draft: NewEntry, item: AgentInputItem): NewEntry =>
  ({ ...draft, item: storeValue(item, draft) }) as NewEntry;

/** The item as `getItems` returns it: without members that are undefined. */
const asStored = (item: AgentInputItem): unknown => restoreValue(storeValue(item, {}), {});

const asBatch = ({ leafId: leafBefore }: Session, drafts: readonly NewEntry[]): NewEntry[] =>
  drafts.map((draft, at) => (at < drafts.length - 1 ? { ...draft, leafBefore } : draft));

/**
 * The id of the last entry of a transaction, and the digest of the transaction if it was applied. The id changes with
 * `clearSession`, and where a crash left an entry of this id without the digest.
 */
function findTransaction(session: Session, operationId: string): { id: string; applied?: string } {
  for (let attempt = 0; ; attempt++) {
    const name = JSON.stringify([historyOf(session), operationId, attempt]);
    const id = `transaction-${digestOf(name, 24)}`;
    const entry = session.getEntry(id) as ItemEntry | undefined;
    if (!entry) return { id };
    if (entry.transaction !== undefined) return { id, applied: entry.transaction };
  }
}

/** Moves the leaf back to its position before an append that a crash left incomplete. */
async function leaveHalf(session: Session): Promise<void> {
  const { leafId, tree } = session;
  if (leafId === null) return;
  const { leafBefore } = session.getEntry(leafId) as ItemEntry;
  if (leafBefore === undefined) return;
  const row = tree.row(leafId);
  // The lines of an append follow one another.
  const isFollowed = row + 1 < tree.length && tree.index.parent(row + 1) === row;
  if (!isFollowed) await session.moveTo(leafBefore);
}

/** Replaces the first call with this id and removes later ones, as the SDK's `MemorySession` does. */
function replaceCall(
  items: readonly AgentInputItem[],
  { callId, replacement }: SessionHistoryRewriteArgs["mutations"][number],
): AgentInputItem[] {
  const isCall = (item: AgentInputItem) => item.type === "function_call" && item.callId === callId;
  const first = items.findIndex(isCall);
  return items.flatMap((item, at) => (at === first ? replacement : isCall(item) ? [] : item));
}

/** JSON with the members of every object in the order of their names. */
const canonical = (value: unknown): string =>
  JSON.stringify(value, (_, member: unknown) =>
    isRecord(member)
      ? Object.fromEntries(Object.entries(member).sort(([a], [b]) => (a < b ? -1 : 1)))
      : member,
  );

/** The content of an item as a message, for people, for search, and for another model that continues the session. */
function messageOf(item: AgentInputItem): StoredMessage {
  const fields = item as Fields;
  const { type = "message", role, content, callId, output, providerData } = fields;
  const timestamp = Date.now();
  const kind = String(type);
  const answer = (block: Parameters<typeof answerOf>[0][number]) => {
    const model = isRecord(providerData) ? providerData["model"] : undefined;
    return answerOf([block], { provider: "openai", model }, timestamp);
  };
  if (kind === "message" && role === "user")
    return { role, content: typeof content === "string" ? content : blocksOf(content), timestamp };
  if (kind === "message" && role === "system") return { role, content: textOf(content), timestamp };
  if (kind === "message") return answer({ type: "text", text: textOf(content) });
  if (kind === "reasoning")
    return answer({ type: "thinking", thinking: textOf(content) || textOf(fields["rawContent"]) });
  const given = fields["name"];
  const name = typeof given === "string" ? given : kind.replace(/_call(_result|_output)?$/, "");
  if (typeof callId === "string" && /_call$/.test(kind))
    return answer({ type: "toolCall", id: callId, name, arguments: argumentsOf(fields) });
  if (typeof callId === "string" && /_call_(result|output)$/.test(kind)) {
    const isError = fields["status"] === "failed" || fields["status"] === "incomplete";
    const blocks = blocksOf(output);
    return { role: "toolResult", toolCallId: callId, toolName: name, content: blocks, isError, timestamp };
  }
  // A call of a hosted tool has no separate result, and the content of a compaction is encrypted: each is one text.
  const title = `[${[kind, given].filter(Boolean).join(" ")}]`;
  const texts = [title, textOf(fields["arguments"]), textOf(output)].filter((text) => text !== "");
  return answer({ type: "text", text: texts.join("\n") });
}

/** Arguments of a call as an object. Arguments that are no object become its member `input`. */
function argumentsOf(fields: Fields): Fields {
  const { type: _type, id: _id, callId: _callId, status: _status, providerData: _data, ...own } = fields;
  const { arguments: given } = own;
  if (typeof given !== "string") return readable(own);
  try {
    const parsed: unknown = JSON.parse(given);
    return isRecord(parsed) ? readable(parsed) : { input: given };
  } catch {
    return { input: given }; // text of a model that is cut off or not JSON
  }
}

/** Arguments without bytes; those that no line of a session can hold become one text. */
function readable(fields: Fields): Fields {
  const text = JSON.stringify(fields, (_, value) => (value instanceof Uint8Array ? "[bytes]" : value));
  const plain = JSON.parse(text) as Fields;
  return fitsLine(plain) ? plain : { input: text };
}

/** A summary, or a message of another program, as items. A failed answer has none. */
function itemOf(message: ContextMessage): AgentInputItem[] {
  if (message.role === "assistant") {
    if (message.stopReason === "error" || message.stopReason === "aborted") return [];
    return message.content.flatMap((block): AgentInputItem[] => {
      if (block.type === "text") {
        const content = [{ type: "output_text", text: block.text } as const];
        return [{ type: "message", role: "assistant", status: "completed", content }];
      }
      if (block.type !== "toolCall") return [];
      const { id: callId, name, arguments: given } = block;
      return [{ type: "function_call", callId, name, status: "completed", arguments: JSON.stringify(given) }];
    });
  }
  if (message.role === "toolResult") {
    const { toolCallId: callId, toolName: name } = message;
    const output = { type: "text", text: messageText(message) } as const;
    return [{ type: "function_call_result", callId, name, status: "completed", output }];
  }
  if (message.role === "system") return [{ type: "message", role: "system", content: messageText(message) }];
  // A summary, or a command that a user ran, in the words in which every model reads it.
  return toOpenaiResponses([message]).input.flatMap((wire): AgentInputItem[] =>
    "content" in wire ? [{ type: "message", role: "user", content: textOf(wire.content) }] : [],
  );
}
