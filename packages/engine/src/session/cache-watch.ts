import { jsonText } from "@espalier/jsonl-stream";
import { isMessage } from "@espalier/session-tree";
import { pricesAt, type RequestExtras } from "../compaction/request.ts";
import { lastCall } from "../reading/bills.ts";
import {
  CACHE_LIFE_MS,
  CACHE_SLACK,
  type CacheCause,
  type Compared,
  RequestReader,
} from "../reading/requests.ts";
import type { Session } from "./session.ts";
import { type CacheBreakEvent, cacheBreak } from "./state.ts";

/** Last sent request, with facts that the file does not have. */
interface Sent {
  system: string | undefined;
  tools: string;
  /** Time of the request, in epoch milliseconds. */
  at: number;
}

const sent = new WeakMap<Session, Sent>();

/**
 * Compares the next request with the previous one, and notifies extensions of a break of the prompt cache. Does nothing
 * when no extension listens.
 */
export async function tellCacheBreak(
  session: Session,
  { system, tools = [] }: Pick<RequestExtras, "system" | "tools">,
): Promise<void> {
  if (!session.host.has(cacheBreak) || !session.log.view) return;
  const before = sent.get(session);
  const now = { system, tools: jsonText(tools), at: session.now() };
  sent.set(session, now);
  const event = breakAt(session, before, now);
  if (event && event.tokens > CACHE_SLACK) await session.tell(cacheBreak, event);
}

function breakAt(session: Session, before: Sent | undefined, now: Sent): CacheBreakEvent | undefined {
  const { tree, leafId } = session;
  const last = lastCall(tree);
  if (!last) return undefined;
  const requests = new RequestReader(tree);
  requests.next(tree.index.parent(last.row));
  const compared = requests.next(leafId === null ? -1 : tree.row(leafId));
  const found = causeOf(session, { compared, before, now, sentAt: before?.at ?? last.sentAt, last });
  if (!found) return undefined;
  const { prefix, beforeTokens } = compared;
  // Another model, a pause, or a change before the messages invalidates the whole cache.
  const isWhole = found !== compared.difference || found.cause === "thinking-level";
  const share = isWhole || beforeTokens === 0 ? 1 : 1 - prefix.tokens / beforeTokens;
  const kept = Math.round(last.context * share);
  // Removed content is not paid for: a compaction makes the request smaller.
  const size = Math.round((session.context.tokens * last.context) / (beforeTokens || 1));
  const tokens = Math.min(kept, size);
  const prices = pricesAt(session);
  const cost = prices ? (tokens * Math.max(0, prices.cacheWrite - prices.cacheRead)) / 1_000_000 : null;
  return { ...found, tokens, cost };
}

interface Requests {
  compared: Compared;
  before: Sent | undefined;
  now: Sent;
  sentAt: number;
  last: NonNullable<ReturnType<typeof lastCall>>;
}

function causeOf(
  { context, leafId, window }: Session,
  { compared, before, now, sentAt, last }: Requests,
): { cause: CacheCause; entryId: string | null } | undefined {
  const { model } = context;
  const { provider, model: modelId } = last.billed;
  if (model && (model.provider !== provider || model.modelId !== modelId)) {
    const change = window.entries.findLast(({ type }) => type === "model_change");
    return { cause: "model", entryId: change?.id ?? leafId };
  }
  if (before && before.tools !== now.tools) return { cause: "tools", entryId: leafId };
  if (before && before.system !== now.system) return { cause: "system-prompt", entryId: leafId };
  if (compared.difference) return compared.difference;
  const words = window.entries.findLast((entry) => isMessage(entry, "user"));
  return now.at - sentAt > CACHE_LIFE_MS ? { cause: "pause", entryId: words?.id ?? leafId } : undefined;
}
