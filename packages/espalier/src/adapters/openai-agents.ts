// The `Session` of the OpenAI Agents SDK over sessions of Espalier; its types need `@openai/agents`.
import { createHash, randomUUID } from "node:crypto";
import { isDeepStrictEqual } from "node:util";
import type {
  AgentInputItem,
  SessionHistoryRewriteArgs,
  SessionHistoryRewriteAwareSession,
  SessionHistoryTransactionArgs,
  SessionHistoryTransactionAwareSession,
} from "@openai/agents";
import { type BaseEntry, compaction, contextEdit, custom, isCustom, leaf } from "../extend.ts";
import {
  EspalierError,
  type NewEntry,
  type PoolOptions,
  type Session,
  type SessionPool,
  sessionPool,
} from "../index.ts";
import { refuseOtherVersions } from "./host-version.ts";
import { itemOf, messageOf } from "./openai-agents/items.ts";
import { restoreValue, storeValue } from "./stored-value.ts";

/** A session for `run(agent, input, { session })`, with every member that the SDK knows for a store. */
export interface OpenaiSession
  extends SessionHistoryRewriteAwareSession,
    SessionHistoryTransactionAwareSession {
  /**
   * Replaces the history by a compaction item and what it keeps. The entry is a compaction: what came before stays in the
   * session, and undo brings it back.
   */
  replaceHistoryWithCompaction(items: AgentInputItem[]): Promise<void>;
}

/** Versions of the SDK that the tests were run with: from the first one up to the second, which is not one of them. */
const OPENAI_AGENTS = ["0.20.0", "0.21.0"] as const;

/** Sessions of the OpenAI Agents SDK, and the pool of the sessions that hold them. */
export interface OpenaiSessions extends SessionPool {
  /**
   * Returns the session with this id. Its first use creates it.
   * @throws EspalierError `bad-input` for an id that cannot name a session
   */
  session(id: string): OpenaiSession;
}

/**
 * Keeps the sessions of the OpenAI Agents SDK in Espalier: in files, or in `store`. An item is a message entry that gives
 * the item back equal. Nothing is ever removed: `popItem` moves the leaf, `clearSession` begins another root.
 *
 * ```ts
 * const sessions = openaiSessions();
 * await run(agent, "What grows here?", { session: sessions.session("garden") });
 * await sessions.close();
 * ```
 *
 * @param options those of `sessionPool`; nothing is redacted by default, as the SDK expects back what it gave
 * @throws EspalierError `unsuitable` for another version of `@openai/agents` than the tested ones
 */
export function openaiSessions(options: Omit<PoolOptions, "rules" | "whole"> = {}): OpenaiSessions {
  refuseOtherVersions("@openai/agents", ...OPENAI_AGENTS);
  const pool = sessionPool({ redact: false, ...options, rules: false });
  return {
    get size() {
      return pool.size;
    },
    use: pool.use,
    delete: pool.delete,
    close: pool.close,
    session: (id) => {
      if (typeof id === "string" && ID.test(id)) return new StoredSession(id, pool);
      const shown = typeof id === "string" ? JSON.stringify(id.slice(0, 80)) : String(id);
      throw new EspalierError(
        "bad-input",
        `${shown} cannot name a session; an id has at most 128 letters, digits and . _ - inside.`,
      );
    },
  };
}

/** Ids that a store can keep a session under. */
const ID = /^[A-Za-z0-9](?:[A-Za-z0-9._-]{0,126}[A-Za-z0-9])?$/;

/** Entry of an item. */
interface ItemEntry extends BaseEntry {
  /** The item, by `storeValue`; an entry without one was appended by another program. */
  item?: unknown;
  /** The leaf before the batch; absent in its last entry. A session that ends in an entry with it lost the rest in a crash. */
  leafBefore?: string | null;
  /** SHA-256 of the transaction that it ends. */
  transaction?: string;
}

/** Type of the entry with which a history begins after `clearSession`. */
const HISTORY = "openai-agents.history";

class StoredSession implements OpenaiSession {
  readonly #id: string;
  readonly #pool: SessionPool;

  constructor(id: string, pool: SessionPool) {
    this.#id = id;
    this.#pool = pool;
  }

  async getSessionId(): Promise<string> {
    return this.#id;
  }

  getItems(limit?: number): Promise<AgentInputItem[]> {
    return this.#use(async (session) => {
      const items = itemsOf(rowsOf(session));
      return limit === undefined ? items : limit <= 0 ? [] : items.slice(-limit);
    });
  }

  async addItems(items: AgentInputItem[]): Promise<void> {
    if (items.length > 0) await this.#use((session) => replaceFrom(session, Infinity, items));
  }

  popItem(): Promise<AgentInputItem | undefined> {
    return this.#use(async (session) => {
      const items = itemsOf(rowsOf(session));
      if (items.length > 0) await replaceFrom(session, items.length - 1, []);
      return items.at(-1);
    });
  }

  async clearSession(): Promise<void> {
    await this.#use(async (session) => {
      if (session.tree.length === 0) return;
      await session.append(custom.of({ customType: HISTORY, parentId: null }));
    });
  }

  async applyHistoryMutations({ mutations }: SessionHistoryRewriteArgs): Promise<void> {
    await this.#use(async (session) => {
      const items = itemsOf(rowsOf(session));
      const next = mutations.reduce(replaceCall, items);
      const changed = next.findIndex((item, at) => !isDeepStrictEqual(item, items[at]));
      const kept = changed < 0 ? next.length : changed;
      if (kept < Math.max(items.length, next.length)) await replaceFrom(session, kept, next.slice(kept));
    });
  }

  async applyHistoryTransaction({ operationId, transaction }: SessionHistoryTransactionArgs): Promise<void> {
    if (typeof operationId !== "string" || operationId.trim() === "")
      throw new EspalierError("bad-input", "A history transaction needs an `operationId` that is not empty.");
    const digest = sha256(canonical(storeValue(transaction, {})));
    await this.#use(async (session) => {
      const { id, applied } = findTransaction(session, operationId);
      if (applied !== undefined && applied !== digest)
        throw new EspalierError(
          "bad-input",
          `The operation ${JSON.stringify(operationId.slice(0, 80))} was applied with another transaction; give this one an id of its own.`,
        );
      if (applied !== undefined) return;
      const ends = { id, transaction: digest };
      if (transaction.type === "append_items")
        return void (await replaceFrom(session, Infinity, transaction.items, ends));
      const { expectedSuffix, replacement } = transaction;
      const items = itemsOf(rowsOf(session));
      const kept = items.length - expectedSuffix.length;
      if (kept < 0 || !isDeepStrictEqual(items.slice(kept), expectedSuffix.map(asStored)))
        throw new EspalierError(
          "moved",
          "The history does not end in the items that the transaction replaces; read it again.",
        );
      await replaceFrom(session, kept, replacement, ends);
    });
  }

  async replaceHistoryWithCompaction(items: AgentInputItem[]): Promise<void> {
    const [first, ...retained] = items;
    if (first?.type !== "compaction")
      throw new EspalierError("bad-input", "A compacted history begins with a compaction item.");
    await this.#use(async (session) => {
      const rows = rowsOf(session);
      const kept = retained.map(asStored);
      // What the system said before a compaction is not read behind it: such an item is appended again.
      const isKept = !retained.some((item) => "role" in item && item.role === "system");
      const at = isKept
        ? rows.findLastIndex((_, from) => isDeepStrictEqual(itemsOf(rows.slice(from)), kept))
        : -1;
      const id = randomUUID();
      const summary = "[The conversation until here, in a form that only OpenAI can read.]";
      const entry = compaction.of({
        id,
        summary,
        firstKeptEntryId: rows[at]?.id ?? id,
        tokensBefore: session.context.tokens,
      });
      const drafts = [withItem(entry, first), ...(at < 0 ? retained.map(draftOf) : [])];
      await session.append(asBatch(session, drafts));
    });
  }

  #use<Result>(work: (session: Session) => Promise<Result>): Promise<Result> {
    return this.#pool.use(this.#id, async (session) => {
      await takeBackHalf(session);
      return work(session);
    });
  }
}

/** An entry of the context, with its items. */
interface Row {
  id: string;
  items: AgentInputItem[];
}

/** What the model reads at the leaf, as items: compactions, edits and other programs' messages among them. */
function rowsOf(session: Session): Row[] {
  const { messages, sources } = session.context;
  const entries = new Map(session.window.entries.map((entry) => [entry.id, entry as ItemEntry]));
  const edited = new Set(
    session.window.entries.flatMap((entry) => (contextEdit.is(entry) ? entry.targetId : [])),
  );
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

/** The entry that the history at the leaf begins with; null for the first history. */
function historyOf(session: Session): string | null {
  const root = session.window.complete ? session.window.entries[0] : session.getBranch()[0];
  return root && isCustom(root, HISTORY) ? root.id : null;
}

/**
 * Goes on with `added` behind the first `kept` items, in one write: the leaf moves to the last entry that stays, and what
 * came after it remains in the session as a branch.
 *
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
  const items = [...itemsOf(rows).slice(stays, kept), ...added];
  const drafts = items.map(draftOf);
  const [first = leaf.of({ parentId, targetId: parentId }), ...rest] = drafts;
  const batch = asBatch(session, [{ ...first, parentId }, ...rest]);
  batch.push({ ...batch.pop()!, ...ends });
  await session.append(batch);
}

/** Returns whether the context at the last of these rows is these rows: not where a compaction after it keeps it. */
function isAllAt(session: Session, rows: readonly Row[]): boolean {
  const { sources } = session.contextAt(rows.at(-1)!.id);
  return isDeepStrictEqual(
    [...new Set(sources)],
    rows.map(({ id }) => id),
  );
}

function draftOf(item: AgentInputItem): NewEntry {
  return withItem({ type: "message", message: messageOf(item) } as NewEntry, item);
}

const withItem = (draft: NewEntry, item: AgentInputItem): NewEntry =>
  ({ ...draft, item: storeValue(item, draft) }) as NewEntry;

/** The item as it comes back: without members that are undefined. */
const asStored = (item: AgentInputItem): unknown => restoreValue(storeValue(item, {}), {});

const asBatch = ({ leafId: leafBefore }: Session, drafts: readonly NewEntry[]): NewEntry[] =>
  drafts.map((draft, at) => (at < drafts.length - 1 ? { ...draft, leafBefore } : draft));

/**
 * The id of the entry that ends a transaction, by which it is found again, and the digest of the one that was applied. After
 * `clearSession` the same operation has another id, and so it has where a crash left a line that cannot be read.
 */
function findTransaction(session: Session, operationId: string): { id: string; applied?: string } {
  for (let attempt = 0; ; attempt++) {
    const name = JSON.stringify([historyOf(session), operationId, attempt]);
    const id = `transaction-${sha256(name).slice(0, 24)}`;
    const entry = session.getEntry(id) as ItemEntry | undefined;
    if (!entry) return { id };
    if (entry.transaction !== undefined) return { id, applied: entry.transaction };
  }
}

/** Moves the leaf back to its position before a batch that a crash left incomplete. */
async function takeBackHalf(session: Session): Promise<void> {
  const { leafId } = session;
  const { leafBefore } = (leafId === null ? {} : session.getEntry(leafId)) as ItemEntry;
  if (leafId === null || leafBefore === undefined) return;
  const { tree } = session;
  const row = tree.row(leafId);
  // The lines of a batch follow one another.
  const isFollowed = row + 1 < tree.length && tree.index.parent(row + 1) === row;
  if (!isFollowed) await session.moveTo(leafBefore);
}

/** As the SDK does it: the first call with this id becomes the replacement, later ones go. */
function replaceCall(
  items: readonly AgentInputItem[],
  { callId, replacement }: SessionHistoryRewriteArgs["mutations"][number],
): AgentInputItem[] {
  const isCall = (item: AgentInputItem) => item.type === "function_call" && item.callId === callId;
  const first = items.findIndex(isCall);
  return items.flatMap((item, at) => (at === first ? replacement : isCall(item) ? [] : item));
}

const sha256 = (text: string): string => createHash("sha256").update(text).digest("hex");

/** JSON in which the order of members says nothing. */
const canonical = (value: unknown): string =>
  JSON.stringify(value, (_, member: unknown) =>
    typeof member === "object" && member !== null && !Array.isArray(member)
      ? Object.fromEntries(Object.entries(member).sort(([a], [b]) => (a < b ? -1 : 1)))
      : member,
  );
