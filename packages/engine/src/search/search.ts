import { type ByteView, EspalierError } from "@espalier/jsonl-stream";
import {
  type Entry,
  messageText,
  pathMarks,
  rowOfLeaf,
  type SessionLog,
  type SessionStore,
  Tree,
  textsIn,
} from "@espalier/session-tree";
import { fileStore, sessionFiles } from "@espalier/session-tree/node";
import { type ListOptions, listSessions, openOrSkip } from "../session/stores.ts";
import { espalierHome, sessionFolders } from "../settings/home.ts";
import { foreignCalls, linesWith, originalMessage, rowFinder, textPattern, wordsOf } from "./matching.ts";

/** Range and mode of a search. */
export interface SearchOptions extends Pick<ListOptions, "agent" | "project" | "since" | "until"> {
  /** Sessions to search, by path, or by their name in another store, in this order. Default: all. */
  files?: Iterable<string>;
  /** Folder to search, including its subfolders. Default: the engine's own folder, and that of the Pi coding agent. */
  folder?: string;
  /** Folder used as `~/.espalier`. Default: `ESPALIER_HOME`, else `~/.espalier`. */
  home?: string;
  /** Another store than files: all its sessions, or those of `files`. */
  store?: SessionStore;
  /** Maximum number of hits. Default: all. */
  limit?: number;
  /** True: `A` and `a` are different. Default false. */
  caseSensitive?: boolean;
  /** Finds entries that have all words of the query, in any order. Default false: the query is literal text. */
  words?: boolean;
  /** Aborts the search, which throws the signal's reason. */
  signal?: AbortSignal;
  /**
   * Receives each session and folder that cannot be read; the search continues without it. A session of `files` that
   * cannot be read is an error instead.
   */
  onSkipped?: (file: string, error: EspalierError) => void;
}

/**
 * Searches the texts of sessions: messages, calls with their arguments, results and summaries, on all branches,
 * including entries that compactions replaced. A query is literal text, or `words`. Sessions come newest first, hits in
 * the order of the file. Calls of Espalier's own tools (`espalier mcp`) and their results are left out, because they
 * repeat queries and entries.
 *
 * The bytes are searched unparsed, and only lines that may have the query are parsed. A search takes about as long as
 * grep, and for each session with a hit the time to index it once.
 *
 * @throws EspalierError `bad-input` for a query that is empty, or longer than 10,000 characters; EspalierError for one of
 *   `files` that cannot be read
 */
export async function* searchSessions(query: string, options: SearchOptions = {}): AsyncGenerator<SearchHit> {
  if (query === "")
    throw new EspalierError("bad-input", "The query is empty; give it at least one character.");
  if (query.length > LONGEST_QUERY)
    throw new EspalierError(
      "bad-input",
      "A query has at most 10,000 characters; search for a part of this text.",
    );
  const {
    files,
    folder,
    home = espalierHome(),
    limit = Number.POSITIVE_INFINITY,
    onSkipped,
    signal,
  } = options;
  let count = 0;
  const copies = new CopiedHits();
  const folders = folder === undefined ? sessionFolders(home) : [folder];
  const store = options.store ?? fileStore({ home, folders });
  for await (const ref of files ?? sourcesIn(folders, home, options)) {
    signal?.throwIfAborted();
    if (count >= limit) return;
    const log = files ? await store.open({ file: ref }, "read") : await openOrSkip(store, ref, onSkipped);
    if (!log) continue;
    try {
      copies.add(log);
      for await (const hit of searchLog(log, query, options)) {
        const sameAs = copies.earlier(hit);
        yield sameAs ? { ...hit, sameAs } : hit;
        if (++count >= limit) return;
      }
    } finally {
      await log.close();
    }
  }
}

/** Maximum length of a query: V8 compiles no pattern of a much longer one, and nobody pastes one on purpose. */
const LONGEST_QUERY = 10_000;

/** Yields the sessions of a list, and then the files that it leaves out because they cannot be read. */
async function* sourcesIn(
  folders: readonly string[],
  home: string,
  options: SearchOptions,
): AsyncGenerator<string> {
  const { store, agent, project, since, until, onSkipped } = options;
  const listed = new Set<string>();
  const told = onSkipped && {
    onSkipped: (place: string, error: EspalierError) => {
      listed.add(place);
      onSkipped(place, error);
    },
  };
  for await (const { ref } of listSessions({ ...options, ...told, subAgents: true })) {
    listed.add(ref);
    yield ref;
  }
  const isFiltered = [agent, project, since, until].some((filter) => filter !== undefined);
  if (store || isFiltered) return;
  // The list has reported the files and folders that cannot be read.
  const skips = onSkipped ? { onSkipped: () => undefined } : {};
  for (const { path } of sessionFiles(folders, { home, ...skips })) if (!listed.has(path)) yield path;
}

/** An entry in which a query was found. */
export interface SearchHit {
  /** The session's file, or its address in another store. */
  file: string;
  /** Id of the session; empty for a file without a header. */
  sessionId: string;
  entryId: string;
  /** Role of the entry's message, as in a context. */
  role: string;
  /** The first match with the text around it, on one line. */
  snippet: string;
  /** True when the entry is on the path of the leaf. */
  onPath: boolean;
  /** An earlier hit of this search on the same entry: forks and continuations copy entries. Undefined without one. */
  sameAs?: Pick<SearchHit, "file" | "sessionId">;
}

/** Finds hits on copies of one entry, in sessions that are related: by forks, or because they have the same id. */
class CopiedHits {
  /** For the id of a session, the id of a related one. Related sessions have chains with the same last id. */
  readonly #related = new Map<string, string>();
  /** Earlier hits, by entry and snippet. In unrelated sessions, entries can have the same id. */
  readonly #hits = new Map<string, Pick<SearchHit, "file" | "sessionId">[]>();

  /** Reads the relation of a session to its parent. */
  add({ header }: SessionLog): void {
    if (header?.parent?.kind !== "fork" || header.id === "") return;
    const [own, origin] = [this.#last(header.id), this.#last(header.parent.sessionId)];
    if (own !== origin) this.#related.set(own, origin);
  }

  /** Returns the earlier hit on the same entry; records the hit when there is none. */
  earlier({ file, sessionId, entryId, snippet }: SearchHit): SearchHit["sameAs"] {
    const key = `${entryId} ${snippet}`;
    const hits = this.#hits.get(key) ?? [];
    const earlier = hits.find(
      (hit) => hit.file !== file && sessionId !== "" && this.#last(hit.sessionId) === this.#last(sessionId),
    );
    if (!earlier) this.#hits.set(key, [...hits, { file, sessionId }]);
    return earlier;
  }

  #last(id: string): string {
    let last = id;
    for (let next = this.#related.get(last); next !== undefined; next = this.#related.get(last)) last = next;
    return last;
  }
}

async function* searchLog(
  log: SessionLog,
  query: string,
  { caseSensitive = false, words = false, signal }: Pick<SearchOptions, "caseSensitive" | "words" | "signal">,
): AsyncGenerator<SearchHit> {
  const view = await log.load();
  // The longest word is usually the rarest.
  const sought = words ? wordsOf(query).sort((a, b) => b.length - a.length) : [query];
  const patterns = sought.map((word) => textPattern(word, caseSensitive));
  let index: ReturnType<typeof indexOf> | undefined;
  for await (const offsets of linesWith(view, sought[0] ?? query, caseSensitive, signal)) {
    index ??= indexOf(view);
    const { tree, onPath, rowsOf } = index;
    for (const row of offsets.flatMap(rowsOf)) {
      const entry = tree.entryAt(row);
      const found = matchIn(entry, patterns);
      if (found)
        yield {
          file: log.ref,
          sessionId: log.header?.id ?? "",
          entryId: entry.id,
          ...found,
          onPath: onPath[row] === 1,
        };
    }
  }
}

function indexOf(view: ByteView) {
  const tree = new Tree(view);
  return { tree, onPath: pathMarks(tree, rowOfLeaf(tree)), rowsOf: rowFinder(tree) };
}

/**
 * Returns the role of an entry's message, and a snippet of its texts before edits, in which all patterns match:
 * its text, and for each call the tool's name and every text in the arguments. Undefined without a match.
 */
function matchIn(
  entry: Entry,
  [first, ...others]: readonly RegExp[],
): Pick<SearchHit, "role" | "snippet"> | undefined {
  const message = originalMessage(entry);
  if (!message) return undefined;
  const called = foreignCalls(message).flatMap(({ name, arguments: given }) => [name, ...textsIn(given)]);
  const texts = [messageText(message), ...called].filter((text) => typeof text === "string");
  for (const text of texts) {
    const [match] = text.matchAll(first!);
    if (!match) continue;
    if (!others.every((pattern) => texts.some((each) => each.search(pattern) >= 0))) return undefined;
    return { role: message.role, snippet: snippetOf(text, match.index, match.index + match[0].length) };
  }
  return undefined;
}

/** Characters of a snippet on each side of the match. */
const AROUND = 60;

/** Returns the match at `[start, end)` of a text with the text around it, on one line. */
function snippetOf(text: string, start: number, end: number): string {
  const from = boundary(text, Math.max(0, start - AROUND), 1);
  const to = boundary(text, Math.min(text.length, end + AROUND), -1);
  const line = text.slice(from, to).replace(/\s+/g, " ").trim();
  return `${from > 0 ? "…" : ""}${line}${to < text.length ? "…" : ""}`;
}

/** Returns the index, or the next one in a direction if it would split a code point. */
function boundary(text: string, at: number, step: 1 | -1): number {
  const unit = text.charCodeAt(at);
  return unit >= 0xdc00 && unit <= 0xdfff ? at + step : at;
}
