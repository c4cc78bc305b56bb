// The `Session` of the OpenAI Agents SDK over sessions of Espalier; its types need `@openai/agents`.
import { randomUUID } from "node:crypto";
import { isDeepStrictEqual } from "node:util";
import { isFailedAnswer, isRecord } from "@espalier/session-tree";
import type {
  AgentInputItem,
  SessionHistoryRewriteArgs,
  SessionHistoryRewriteAwareSession,
  SessionHistoryTransactionAwareSession,
} from "@openai/agents";
import { type BaseEntry, compaction, custom, isCustom, leaf, message, messageText } from "../extend.ts";
import { toOpenaiResponses } from "../import.ts";
import {
  buildSessionContext,
  type ContextMessage,
  type Entry,
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
  argumentsOf,
  blocksOf,
  digestOf,
  type Fields,
  refuseOtherVersions,
  sessionIdOf,
  sortedFields,
  textOf,
} from "./host.ts";
import { restoreValue, storeValue } from "./stored-value.ts";

/** A session for `run(agent, input, { session })`, with all optional members of the SDK's `Session`. */
export interface OpenaiSession
  extends SessionHistoryRewriteAwareSession,
    SessionHistoryTransactionAwareSession {
  /**
   * Replaces the history by a compaction item and the items that it keeps. The entry is a compaction: earlier entries
   * stay in the session, and undo restores them. Throws EspalierError `bad-input` when the first item is not a
   * compaction item.
   */
  replaceHistoryWithCompaction(items: AgentInputItem[]): Promise<void>;
}

/** Pool of sessions that can be used as sessions of the OpenAI Agents SDK. */
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
   * The leaf before the append, on each of its entries but the last. A log that ends in such an entry lost the rest of the
   * append in a crash.
   */
  leafBefore?: string | null;
  /** SHA-256 of the transaction that ends in this entry. */
  transaction?: string;
}

/** Fields of the last entry of a transaction. */
type Ends = Pick<ItemEntry, "id" | "transaction">;

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
        const items = itemsIn(session);
        return limit === undefined ? items : limit <= 0 ? [] : items.slice(-limit);
      }),
    async addItems(added) {
      const drafts = added.map(draftOf);
      if (drafts.length > 0) await use((session) => appendBelow(session, session.leafId, drafts));
    },
    popItem: () =>
      use(async (session) => {
        const items = itemsIn(session);
        await rewrite(session, items.slice(0, -1));
        return items.at(-1);
      }),
    clearSession: () =>
      use(async (session) => {
        if (session.tree.length > 0) await session.append(custom.of({ customType: HISTORY, parentId: null }));
      }),
    async applyHistoryMutations(given) {
      const mutations = asStored(given.mutations);
      await use((session) => rewrite(session, mutations.reduce(replaceCall, itemsIn(session))));
    },
    async applyHistoryTransaction({ operationId, ...given }) {
      if (typeof operationId !== "string" || operationId.trim() === "")
        throw new EspalierError(
          "bad-input",
          "A history transaction needs an `operationId` that is not empty.",
        );
      const transaction = asStored(given.transaction);
      const sorted = (_: string, value: unknown) => (isRecord(value) ? sortedFields(value) : value);
      const digest = digestOf(JSON.stringify(storeValue(transaction, {}), sorted));
      await use(async (session) => {
        const { id, applied } = findTransaction(session, operationId);
        if (applied === digest) return;
        if (applied !== undefined)
          throw new EspalierError(
            "bad-input",
            `The operation ${JSON.stringify(operationId.slice(0, 80))} was applied with another transaction; give this one a new id.`,
          );
        const ends = { id, transaction: digest };
        if (transaction.type === "append_items")
          return appendBelow(session, session.leafId, transaction.items.map(draftOf), ends);
        const { expectedSuffix, replacement } = transaction;
        const items = itemsIn(session);
        const kept = items.length - expectedSuffix.length;
        if (!isDeepStrictEqual(items.slice(kept), expectedSuffix))
          throw new EspalierError(
            "moved",
            "The history does not end with the items that the transaction replaces; read it again.",
          );
        return rewrite(session, [...items.slice(0, kept), ...replacement], ends);
      });
    },
    async replaceHistoryWithCompaction(given) {
      const items = asStored(given);
      const [first, ...retained] = items;
      if (first?.type !== "compaction")
        throw new EspalierError(
          "bad-input",
          "The first item of the compacted history is not a compaction item; pass the items of the compaction unchanged.",
        );
      await use(async (session) => {
        const { leafId, context, window } = session;
        const id: string = randomUUID();
        const compacted = (firstKeptEntryId = id) => {
          const summary = "[The conversation until here, in a form that only OpenAI can read.]";
          const entry = compaction.of({ id, summary, firstKeptEntryId, tokensBefore: context.tokens });
          return withItem({ ...entry, parentId: leafId }, first);
        };
        const keeping = compacted(rowsOf(window.entries).at(-retained.length)?.id);
        const after = rowsOf([...window.entries, keeping as Entry]).map(({ item }) => item);
        // Not every entry can be kept: a model does not read a system message from before a compaction.
        const isSame = isDeepStrictEqual(after, items);
        const drafts = isSame ? [keeping] : [compacted(), ...retained.map(draftOf)];
        await appendBelow(session, leafId, drafts);
      });
    },
  };
}

/** An item of the context, and the entry that shows it. An entry of another program can show several. */
interface Row {
  id: string;
  item: AgentInputItem;
}

/** The context at the end of a path as items, with compactions, edits and messages of other programs. */
function rowsOf(path: readonly Entry[]): Row[] {
  const { messages, sources } = buildSessionContext(path, path.at(-1)?.id ?? null);
  const entries = new Map(path.map((entry) => [entry.id, entry]));
  return messages.flatMap((read, at) => {
    const id = sources[at]!;
    const entry = entries.get(id)!;
    const { item } = entry as ItemEntry;
    // An edit changes the message, but not the item.
    const isOwn = item !== undefined && (!message.is(entry) || entry.message === read);
    const items = isOwn ? [restoreValue(item, entry) as AgentInputItem] : itemsOf(read);
    return items.map((one) => ({ id, item: one }));
  });
}

const itemsIn = (session: Session): AgentInputItem[] =>
  rowsOf(session.window.entries).map(({ item }) => item);

/** First entry of the history at the leaf; null for the first history. */
function historyOf(session: Session): string | null {
  const [root] = session.getBranch();
  return root && isCustom(root, HISTORY) ? root.id : null;
}

/**
 * Makes `items` the history, in one write. The leaf moves to the last entry that stays; the entries after it remain in
 * the session as a branch.
 */
async function rewrite(session: Session, items: readonly AgentInputItem[], ends?: Ends): Promise<void> {
  const rows = rowsOf(session.window.entries);
  let kept = rows.findIndex(({ item }, at) => !isDeepStrictEqual(item, items[at]));
  let parentId = session.leafId;
  if (kept < 0) kept = rows.length;
  else {
    while (kept > 0 && rows[kept - 1]!.id === rows[kept]!.id) kept--;
    // At an earlier entry the context can be another one: a compaction kept the entry, or a later one edited it.
    const there = kept === 0 ? [] : rowsOf(session.getBranch(rows[kept - 1]!.id));
    if (!isDeepStrictEqual(there, rows.slice(0, kept))) kept = 0;
    parentId = rows[kept - 1]?.id ?? historyOf(session);
  }
  if (parentId !== session.leafId || kept < items.length || ends)
    await appendBelow(session, parentId, items.slice(kept).map(draftOf), ends);
}

/** Appends entries below one, in one write. Without entries, the leaf moves there. */
async function appendBelow(
  session: Session,
  parentId: string | null,
  drafts: readonly NewEntry[],
  ends?: Ends,
): Promise<void> {
  const { leafId: leafBefore } = session;
  const [first = leaf.of({ parentId, targetId: parentId }), ...rest] = drafts;
  const batch = [{ ...first, parentId }, ...rest];
  await session.append(
    batch.map((draft, at) => ({ ...draft, ...(at < rest.length ? { leafBefore } : ends) })),
  );
}

const draftOf = (item: AgentInputItem): NewEntry =>
  withItem({ type: "message", message: messageOf(item) } as NewEntry, item);

const withItem = (draft: NewEntry, item: AgentInputItem): NewEntry =>
  ({ ...draft, item: storeValue(item, draft) }) as NewEntry;

/**
 * A copy with the items as `getItems` returns them: without members that are undefined. A call makes it before it waits for its
 * turn, because the caller may change its own items meanwhile.
 */
const asStored = <Given>(given: Given): Given => restoreValue(storeValue(given, {}), {}) as Given;

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

/** Moves the leaf back to its position before an append that a crash left incomplete: the log ends inside it. */
async function leaveHalf(session: Session): Promise<void> {
  const { tree } = session;
  if (tree.lastRow < 0) return;
  const { leafBefore } = tree.entryAt(tree.lastRow) as ItemEntry;
  if (leafBefore !== undefined) await session.moveTo(leafBefore);
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
    return answer({ type: "toolCall", id: callId, name, arguments: argumentsOf(inputOf(fields)) });
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

/**
 * The input of a call as JSON: its arguments, or all fields of a call that has none, without type, ids, status and data
 * of the provider.
 */
function inputOf(fields: Fields): string {
  const { type: _type, id: _id, callId: _callId, status: _status, providerData: _data, ...own } = fields;
  if (typeof own["arguments"] === "string") return own["arguments"];
  return JSON.stringify(own, (_, value) => (value instanceof Uint8Array ? "[bytes]" : value));
}

/** A summary, or a message of another program, as items. A failed answer has none. */
function itemsOf(message: ContextMessage): AgentInputItem[] {
  if (message.role === "assistant") {
    if (isFailedAnswer(message)) return [];
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
