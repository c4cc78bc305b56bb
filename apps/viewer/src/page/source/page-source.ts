import { type Entry, readTree } from "@espalier/session-tree";
import { type SessionReader, type TreeReader, treeReader } from "../../model/tree-reader.ts";
import type { ListedForPage } from "../../server/open-sessions.ts";

/** A session in the list of a page. Without a server, only some of its facts are known. */
export type ShownSession = Partial<ListedForPage> &
  Pick<ListedForPage, "key" | "id" | "cwd" | "name" | "firstMessage" | "modified" | "bytes">;

/** Source of a page's sessions: a server, the page itself, or files that a user drops onto the page. */
export interface PageSource {
  /** True if a server answers; else all sessions are in the page. */
  readonly isServed: boolean;
  /** True if sessions can be changed. */
  readonly canWrite: boolean;
  /** All sessions, newest first. */
  list(): Promise<readonly ShownSession[]>;
  open(key: string): Promise<SessionReader>;
}

/** Source for the server of this page; undefined for a self-contained page. */
export function servedSource(): PageSource | undefined {
  const { served } = document.documentElement.dataset;
  if (served === undefined) return undefined;
  return {
    isServed: true,
    canWrite: served === "write",
    list: () => ask<ShownSession[]>("api/sessions"),
    open: async (key) => remoteReader(key),
  };
}

/** Sessions whose bytes are in the page, and a function that adds more. */
export interface LocalSource extends PageSource {
  readonly sessions: readonly ShownSession[];
  /** Adds a session from its bytes, or replaces the one with its key; returns the key. Throws `not-a-session`. */
  add(name: string, bytes: Uint8Array): Promise<string>;
}

/** Creates a source of sessions whose bytes are in the page. */
export function localSource(): LocalSource {
  const readers = new Map<string, TreeReader>();
  const sessions: ShownSession[] = [];
  return {
    isServed: false,
    canWrite: false,
    sessions,
    list: async () => sessions,
    async open(key) {
      // The address may use another key for the only session, for example one of a server or of a file without an id.
      const [only] = readers.size === 1 ? readers.values() : [];
      const reader = readers.get(key) ?? only;
      if (reader) return reader;
      throw new AnswerError(
        "not-found",
        "This page does not have this session; drop its file onto the page.",
      );
    },
    async add(name, bytes) {
      const tree = readTree(bytes);
      if (tree.length === 0 && !tree.header)
        throw new AnswerError(
          "not-a-session",
          `${name} has no line that is a session header or an entry; is it a session file?`,
        );
      const reader = treeReader(tree);
      const { id, cwd, name: given, created: modified } = await reader.facts();
      // Addresses need well-formed Unicode.
      const key = (id || name).toWellFormed();
      readers.set(key, reader);
      const known = sessions.findIndex((session) => session.key === key);
      if (known >= 0) sessions.splice(known, 1);
      sessions.unshift({ key, id, cwd, name: given, bytes: bytes.length, firstMessage: null, modified });
      return key;
    },
  };
}

/** Returns the log of the session inside the page, unpacked; undefined for a page without one. */
export async function embeddedBytes(): Promise<Uint8Array | undefined> {
  const text = document.getElementById("session")?.textContent?.trim();
  if (!text) return undefined;
  const packed = Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

/** Returns the number of entries that the session inside the page lacks, because one path was exported; 0 for others. */
export function embeddedLeftOut(id: string): number {
  const { of, leftOut = "0" } = document.getElementById("session")?.dataset ?? {};
  return of === encodeURIComponent(id.toWellFormed()) ? Number(leftOut) : 0;
}

/** Returns the address of a session on its server. */
export const sessionAddress = (key: string): string => `api/sessions/${encodeURIComponent(key)}`;

/** Maximum number of rows in one address, since servers accept addresses of up to 16 KB. */
const ROWS = 500;

/**
 * Reads a session over HTTP; each method has an address.
 * @param key key of the session on the server
 */
export function remoteReader(key: string): SessionReader {
  const base = sessionAddress(key);
  const asks =
    <Answer>(what: string, ...names: readonly string[]) =>
    (...values: readonly (string | number)[]): Promise<Answer> =>
      ask(`${base}/${what}`, Object.fromEntries(names.map((name, at) => [name, values[at]!])));
  return {
    facts: asks("facts"),
    outline: asks("outline", "from", "to"),
    gists: asks("gists", "from", "to"),
    async entries(rows) {
      const parts = Array.from({ length: Math.ceil(rows.length / ROWS) }, (_, at) =>
        rows.slice(at * ROWS, (at + 1) * ROWS),
      );
      const readPart = asks<Entry[]>("entries", "rows");
      return (await Promise.all(parts.map((part) => readPart(part.join(","))))).flat();
    },
    rowOf: async (id) => (await asks<{ row: number }>("row", "id")(id)).row,
    context: asks("context", "row"),
    growth: asks("growth", "row"),
    spending: asks("spending"),
    stats: asks("stats"),
    breaks: asks("breaks"),
    compaction: asks("compaction", "row"),
    rules: asks("rules", "row"),
    origins: asks("origins", "row", "line"),
    find: (query, signal) => ask(`${base}/find`, { q: query }, signal),
    branches: asks("branches"),
    compare: asks("compare", "a", "b"),
    forecast: asks("forecast", "row"),
  };
}

/** An error of the server or the page, with a sentence for people. */
class AnswerError extends Error {
  override readonly name = "AnswerError";
  readonly code: string;
  constructor(code: string, message: string, options?: ErrorOptions) {
    super(message, options);
    this.code = code;
  }
}

/**
 * Requests an answer of the server that the page came from.
 * @throws AnswerError with the server's code and sentence, `offline` without an answer, or `aborted` when `signal` stopped
 * the request
 */
export async function ask<Answer>(
  path: string,
  parameters: Readonly<Record<string, string | number>> = {},
  signal?: AbortSignal,
): Promise<Answer> {
  const query = new URLSearchParams(Object.entries(parameters).map(([name, value]) => [name, String(value)]));
  const response = await send(query.size === 0 ? path : `${path}?${query}`, signal ? { signal } : {});
  return (await response.json()) as Answer;
}

/**
 * Sends a change that takes time: reports its progress, and resolves to its result.
 * @throws AnswerError with the server's code and sentence, `aborted` when `signal` stopped it, or `offline` without an
 * answer or when the connection ended before the result
 */
export async function order<Result>(
  path: string,
  body: object,
  onProgress: (outputTokens: number) => void,
  signal: AbortSignal,
): Promise<Result> {
  const response = await send(path, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify(body),
    signal,
  });
  for await (const line of linesOf(response, signal)) {
    const said = JSON.parse(line) as {
      progress?: { outputTokens: number };
      result?: Result;
      error?: { code: string; message: string };
    };
    if (said.progress) onProgress(said.progress.outputTokens);
    if (said.error) throw new AnswerError(said.error.code, said.error.message);
    if ("result" in said) return said.result as Result;
  }
  throw new AnswerError("offline", CUT_OFF);
}

async function* linesOf(response: Response, signal: AbortSignal): AsyncGenerator<string> {
  const reader = response.body!.pipeThrough(new TextDecoderStream()).getReader();
  const read = () =>
    reader.read().catch((cause: unknown) => {
      throw signal.aborted ? stopped(cause) : new AnswerError("offline", CUT_OFF, { cause });
    });
  let rest = "";
  for (let part = await read(); !part.done; part = await read()) {
    const lines = (rest + part.value).split("\n");
    rest = lines.pop() ?? "";
    yield* lines;
  }
}

async function send(address: string, options: RequestInit): Promise<Response> {
  const response = await fetch(address, options).catch((cause: unknown) => {
    throw options.signal?.aborted ? stopped(cause) : new AnswerError("offline", NO_ANSWER, { cause });
  });
  if (response.ok) return response;
  const { error } = (await response.json()) as { error: { code: string; message: string } };
  throw new AnswerError(error.code, error.message);
}

const NO_ANSWER = "The server does not answer; is `espalier serve` still running?";
const CUT_OFF = "The connection ended before the server confirmed the change; check the tree.";

/** Error of a stopped change. If the stop came too late, the change is in the session. */
const stopped = (cause: unknown): AnswerError =>
  new AnswerError("aborted", "Stopped. Changes before the stop remain.", { cause });
