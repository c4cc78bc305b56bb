import type { SessionIssueKind, SessionLog } from "@espalier/session-tree";
import { leafOf, Tree } from "@espalier/session-tree";
import { entryTexts } from "./entry-texts.ts";
import { matchingLines } from "./matching-lines.ts";
import { linePattern, textPattern, WIDEST_UNIT } from "./query-pattern.ts";
import { snippetOf } from "./snippet.ts";

/** An entry in which a query was found. */
export interface SearchHit {
  /** The session's file, or its address in another store. */
  file: string;
  /** Empty for a file without a header. */
  sessionId: string;
  entryId: string;
  /** Whose words they are: the role of the message, as in a context. */
  role: string;
  /** The first place where it was found, with some of what stands around it, on one line. */
  snippet: string;
  /** Whether it is on the path of the leaf; false: another branch. */
  onPath: boolean;
}

/** Searches one log, as `searchSessions` does. */
export async function* searchLog(
  log: SessionLog,
  query: string,
  { caseSensitive = false, signal }: { caseSensitive?: boolean; signal?: AbortSignal },
): AsyncGenerator<SearchHit> {
  const view = await log.load();
  const longest = query.length * WIDEST_UNIT;
  let session: IndexedLog | undefined;
  for await (const places of matchingLines(view, linePattern(query, caseSensitive), longest, signal)) {
    session ??= indexLog(new Tree(view));
    for (const place of places)
      for (const found of session.entriesAt(place, textPattern(query, caseSensitive)))
        yield { file: log.ref, sessionId: log.header?.id ?? "", ...found };
  }
}

type IndexedLog = ReturnType<typeof indexLog>;

/** Says which entries stand on the line of a place of a log, and where something was found in their words. */
function indexLog(tree: Tree) {
  const onPath = new Uint8Array(tree.length);
  const leafId = leafOf(tree);
  for (let row = leafId === null ? -1 : tree.row(leafId); row >= 0; row = tree.index.parent(row))
    onPath[row] = 1;
  /** Where entries begin that stand behind something else on their line. */
  const behind = new Set(tree.issues.filter(({ kind }) => BEHIND.has(kind)).map(({ offset }) => offset));
  /** The row behind those that were looked at: a line whose newline was lost gives one place for several entries. */
  let next = 0;
  const findIn = (row: number, pattern: RegExp) => {
    const entry = tree.entryAt(row);
    const said = entryTexts(entry);
    for (const text of said?.texts ?? []) {
      pattern.lastIndex = 0;
      const match = pattern.exec(text);
      if (!match) continue;
      const snippet = snippetOf(text, match.index, pattern.lastIndex);
      return { entryId: entry.id, role: said!.role, snippet, onPath: onPath[row] === 1 };
    }
    return undefined;
  };
  return {
    *entriesAt(place: number, pattern: RegExp) {
      const row = rowAt(tree, place);
      const isIn = row >= 0 && place < tree.index.offset(row) + tree.index.lineLength(row);
      for (next = Math.max(next, isIn ? row : row + 1); next < tree.length; next++) {
        if (!(isIn && next === row) && !behind.has(tree.index.offset(next))) return;
        const found = findIn(next, pattern);
        if (found) yield found;
      }
    },
  };
}

const BEHIND: ReadonlySet<SessionIssueKind> = new Set(["salvaged", "glued"]);

/** The last row that begins at a place or before it; -1 for none. Rows are in the order of the log. */
function rowAt({ index }: Tree, place: number): number {
  let low = 0;
  for (let high = index.length; low < high; ) {
    const middle = (low + high) >>> 1;
    if (index.offset(middle) <= place) low = middle + 1;
    else high = middle;
  }
  return low - 1;
}
