import { type SessionLog, type SessionStore, SessionTreeError } from "@espalier/session-tree";
import { fileStore, sessionFiles } from "@espalier/session-tree/node";
import { EngineError } from "../engine-error.ts";
import { espalierHome, sessionFolders } from "../home.ts";
import { type SearchHit, searchLog } from "./search-log.ts";

/** Where to search, and how. */
export interface SearchOptions {
  /** These sessions, by path or id, in this order. */
  files?: Iterable<string>;
  /** All sessions in this folder and below it. Default: the engine's own, and the Pi coding agent's. */
  folder?: string;
  /** The folder that stands for `~/.espalier`; default: `ESPALIER_HOME`, or that. */
  home?: string;
  /** Another store than files: all its sessions, or those of `files`. */
  store?: SessionStore;
  /** Hits at most; default all. */
  limit?: number;
  /** Whether `A` differs from `a`. Default false; beyond ASCII case always counts. */
  caseSensitive?: boolean;
  /** Ends the search; thrown is the signal's reason. */
  signal?: AbortSignal;
  /**
   * Receives each session and folder that cannot be read; the search goes on without it. Those named in `files` are
   * errors instead.
   */
  onSkipped?: (file: string, error: SessionTreeError) => void;
}

/**
 * Searches what was said in sessions: messages, calls with their arguments, results, summaries; on all branches, and
 * also what compactions hide. A query is literal text. Sessions come newest first, hits in the order of the file.
 *
 * The bytes are searched as they are, and only lines that may hold the query are parsed: about as long as grep takes,
 * and where something is found the time to index that session once.
 *
 * @throws EngineError `bad-input` for an empty query; SessionTreeError for one of `files` that cannot be read
 */
export async function* searchSessions(query: string, options: SearchOptions = {}): AsyncGenerator<SearchHit> {
  if (query === "") throw new EngineError("bad-input", "The query is empty; give it at least one character.");
  const { limit = Number.POSITIVE_INFINITY, onSkipped, signal } = options;
  let count = 0;
  for await (const { ref, open } of sources(options)) {
    signal?.throwIfAborted();
    if (count >= limit) return;
    const log = await opened(ref, open, options.files === undefined, onSkipped);
    if (!log) continue;
    try {
      for await (const hit of searchLog(log, query, options)) {
        yield hit;
        if (++count >= limit) return;
      }
    } finally {
      await log.close();
    }
  }
}

interface Source {
  ref: string;
  open: () => Promise<SessionLog>;
}

async function* sources({
  files,
  folder,
  home = espalierHome(),
  store,
  onSkipped,
}: SearchOptions): AsyncGenerator<Source> {
  const folders = folder === undefined ? sessionFolders(home) : [folder];
  const from = store ?? fileStore({ home, folders });
  const told = onSkipped ? { onSkipped } : {};
  const source = (ref: string) => ({ ref, open: () => from.open({ file: ref }, "read") });
  if (files !== undefined) for (const ref of files) yield source(ref);
  else if (store) for await (const { ref } of store.list(told)) yield source(ref);
  else for (const { path } of sessionFiles(folders, { home, ...told })) yield source(path);
}

/** A session of a folder may be gone by now, or be no session: others are there to be searched. */
async function opened(
  ref: string,
  open: Source["open"],
  mayBeSkipped: boolean,
  onSkipped: SearchOptions["onSkipped"],
): Promise<SessionLog | undefined> {
  try {
    return await open();
  } catch (error) {
    if (!mayBeSkipped || !(error instanceof SessionTreeError)) throw error;
    onSkipped?.(ref, error);
    return undefined;
  }
}
