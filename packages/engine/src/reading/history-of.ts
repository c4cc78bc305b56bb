import { type HistoryHit, type HistoryQuery, queryHistory, type ReadableSession } from "@espalier/policies";
import { leafOf, Tree } from "@espalier/session-tree";

/** What is looked for in a session: words, or words and where. */
export type HistoryRequest = string | HistoryQuery;

/**
 * Finds original entries of a session by words that must all stand in them: on its path, on other branches, and what
 * compactions cover; oldest first. A tree alone is read at its own leaf. All that match, unless `limit` says otherwise.
 *
 * @throws SessionTreeError `unknown-entry` for an end of the range that is not there
 */
export function historyOf(source: Tree | ReadableSession, request: HistoryRequest): HistoryHit[] {
  const query = typeof request === "string" ? { query: request } : request;
  return queryHistory(readableOf(source), { limit: Number.POSITIVE_INFINITY, ...query });
}

/** A session as it is, or a tree at its own leaf. */
export const readableOf = (source: Tree | ReadableSession): ReadableSession =>
  source instanceof Tree ? { tree: source, leafId: leafOf(source) } : source;
