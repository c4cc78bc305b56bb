// The `SessionStore` of the Claude Agent SDK over sessions of Espalier; its types need `@anthropic-ai/claude-agent-sdk`.
import { createHash } from "node:crypto";
import type {
  foldSessionSummary,
  SessionStore as HostStore,
  SessionKey,
  SessionStoreEntry,
  SessionSummaryEntry,
} from "@anthropic-ai/claude-agent-sdk";
import {
  createSession,
  EspalierError,
  type ListedSession,
  listSessions,
  openSession,
  type PoolOptions,
  type Session,
  sessionPool,
} from "../index.ts";
import { type LineEntry, PathEnd } from "./claude-agent-sdk/lines.ts";
import { refuseOtherVersions } from "./host-version.ts";
import { restoreValue, storeValue } from "./stored-value.ts";

/** Options of a store: those of `sessionPool`, and what summaries need. */
export interface ClaudeSessionStoreOptions extends Omit<PoolOptions, "rules" | "whole" | "cwd"> {
  /**
   * The SDK's function of this name. With it the store keeps the summaries that `listSessions` of the SDK reads in place
   * of whole transcripts.
   */
  foldSessionSummary?: typeof foldSessionSummary;
}

/** A store for `query({ prompt, options: { sessionStore } })`, with all of its optional members. */
export interface ClaudeSessionStore extends Required<Omit<HostStore, "listSessionSummaries">> {
  /** Present where `foldSessionSummary` was given. */
  listSessionSummaries?(projectKey: string): Promise<SessionSummaryEntry[]>;
  /** The id of the session that holds a transcript: `espalier tree ID`, `openSession(ID)`. */
  sessionId(key: SessionKey): string;
  /** Closes what is open. Writes that were accepted are on disk before. */
  close(): Promise<void>;
}

/**
 * Keeps the transcripts of the Claude Agent SDK in sessions of Espalier: in files, or in `store`. A transcript is a session,
 * that of a sub-agent another one; a line is an entry that says it, and `load` gives the lines back equal and in order.
 *
 * ```ts
 * const sessionStore = claudeSessionStore({ foldSessionSummary });
 * for await (const message of query({ prompt: "What grows here?", options: { sessionStore } })) console.log(message);
 * await sessionStore.close();
 * ```
 *
 * @param options nothing is redacted by default, as a session is resumed from what it gave
 * @throws EspalierError `unsuitable` for another version of the SDK than the tested ones
 */
export function claudeSessionStore(options: ClaudeSessionStoreOptions = {}): ClaudeSessionStore {
  refuseOtherVersions("@anthropic-ai/claude-agent-sdk", ...CLAUDE_AGENT_SDK);
  const { foldSessionSummary: fold, ...pooled } = options;
  const given = { redact: false, ...pooled, rules: false } as const;
  const { idleMs: _idle, max: _max, waitMs: _wait, ...stored } = given;
  const { home, store } = given;
  const place = { ...(home === undefined ? {} : { home }), ...(store === undefined ? {} : { store }) };
  const pool = sessionPool(given);
  /** Sessions that this process has written to, and that may be open. */
  const made = new Set<string>();

  const make = async (key: SessionKey, lines: readonly SessionStoreEntry[]): Promise<string> => {
    const id = sessionIdOf(key);
    if (made.has(id)) return id;
    const cwd = lines.find((line) => typeof line["cwd"] === "string")?.["cwd"];
    const { subpath: _subpath, ...main } = key;
    const parent = { sessionId: sessionIdOf(main), entryId: null, kind: "subagent" } as const;
    try {
      const session = await createSession({
        ...stored,
        id,
        ...(typeof cwd === "string" ? { cwd } : {}),
        ...(key.subpath === undefined ? {} : { parent }),
      });
      await session.close();
    } catch (error) {
      const isThere = error instanceof EspalierError && (error.code === "exists" || error.code === "busy");
      if (!isThere) throw error;
    }
    made.add(id);
    return id;
  };

  /** Reads a session beside those who write it; undefined where there is none. */
  const read = async <Result>(
    id: string,
    look: (session: Session) => Result,
  ): Promise<Result | undefined> => {
    let session: Session;
    try {
      session = await openSession({ id }, { ...stored, mode: "read" });
    } catch (error) {
      if (error instanceof EspalierError && error.code === "not-found") return undefined;
      throw error;
    }
    try {
      return look(session);
    } finally {
      await session.close();
    }
  };

  const remove = async (id: string): Promise<void> => {
    made.delete(id);
    await pool.delete(id).catch((error: unknown) => {
      if (!(error instanceof EspalierError && error.code === "not-found")) throw error;
    });
  };

  /** Transcripts of a project, those of sub-agents aside. */
  async function* listed(projectKey: string): AsyncGenerator<ListedSession & { sessionId: string }> {
    const ending = `.${projectPart(projectKey)}`;
    for await (const listing of listSessions(place))
      if (listing.id.endsWith(ending)) yield { ...listing, sessionId: listing.id.slice(0, -ending.length) };
  }

  async function* subAgents(main: SessionKey): AsyncGenerator<ListedSession> {
    const parent = sessionIdOf(main);
    for await (const listing of listSessions({ ...place, parent }))
      if (listing.parent?.sessionId === parent && listing.parent.kind === "subagent") yield listing;
  }

  return {
    sessionId: sessionIdOf,
    close: () => pool.close(),
    async append(key, lines) {
      if (lines.length === 0) return;
      await pool.use(await make(key, lines), async (session) => {
        const end = new PathEnd(session, key);
        for (const line of lines) end.add(line);
        if (end.drafts.length === 0) return;
        const last = end.drafts.at(-1)!;
        if (fold && key.subpath === undefined)
          Object.assign(last, { folded: storeValue(folded(fold, key, session, end.added), {}) });
        await session.append(end.drafts);
      });
    },
    async load(key) {
      const lines = await read(sessionIdOf(key), ({ tree }) => [...linesOf(tree.entries())]);
      return lines && lines.length > 0 ? lines : null;
    },
    async listSessions(projectKey) {
      const sessions: { sessionId: string; mtime: number }[] = [];
      for await (const { sessionId, modified } of listed(projectKey))
        sessions.push({ sessionId, mtime: Date.parse(modified) });
      return sessions;
    },
    async delete(key) {
      if (key.subpath === undefined) for await (const { id } of subAgents(key)) await remove(id);
      await remove(sessionIdOf(key));
    },
    async listSubkeys(key) {
      const subkeys: string[] = [];
      for await (const { id } of subAgents(key)) {
        const subpath = await read(id, ({ tree }) => subpathOf(tree.entries()));
        if (subpath !== undefined) subkeys.push(subpath);
      }
      return subkeys;
    },
    ...(fold && {
      async listSessionSummaries(projectKey: string) {
        const summaries: SessionSummaryEntry[] = [];
        for await (const { id, sessionId, modified } of listed(projectKey)) {
          const data = await read(id, (session) => summaryOf(fold, { projectKey, sessionId }, session));
          if (data) summaries.push({ sessionId, mtime: Date.parse(modified), data });
        }
        return summaries;
      },
    }),
  };
}

/** Versions of the SDK that the tests were run with: from the first one up to the second, which is not one of them. */
const CLAUDE_AGENT_SDK = ["0.3.330", "0.4.0"] as const;

function* linesOf(entries: Iterable<LineEntry>): Generator<SessionStoreEntry> {
  for (const entry of entries)
    if (entry.line !== undefined) yield restoreValue(entry.line, entry) as SessionStoreEntry;
}

function subpathOf(entries: Iterable<LineEntry>): string | undefined {
  for (const { subpath } of entries) if (subpath !== undefined) return subpath;
  return undefined;
}

/** The newest summary in a session; made of all its lines where it was written without. */
function summaryOf(fold: typeof foldSessionSummary, key: SessionKey, { tree }: Session) {
  for (let row = tree.length - 1; row >= 0; row--) {
    const { folded, line } = tree.entryAt(row) as LineEntry;
    if (folded !== undefined) return restoreValue(folded, {}) as Record<string, unknown>;
    if (line !== undefined) break;
  }
  const lines = [...linesOf(tree.entries())];
  return lines.length > 0 ? fold(undefined, key, lines, { mtime: Date.now() }).data : undefined;
}

function folded(
  fold: typeof foldSessionSummary,
  key: SessionKey,
  session: Session,
  lines: SessionStoreEntry[],
): Record<string, unknown> {
  const mtime = Date.now();
  const data = summaryOf(fold, key, session);
  const { sessionId } = key;
  return fold(data && { sessionId, mtime, data }, key, lines, { mtime }).data;
}

/** Letters and digits that stand for a text in an id. */
const shortHash = (text: string, length: number): string =>
  createHash("sha256").update(text).digest("hex").slice(0, length);

/**
 * The id of the session that holds a transcript: the SDK's id, the project, and for a sub-agent its path. Whatever a key
 * says, it leads to no file and to no other project.
 *
 * @throws EspalierError `bad-input`
 */
function sessionIdOf({ projectKey, sessionId, subpath }: SessionKey): string {
  if (typeof sessionId !== "string" || !SESSION_ID.test(sessionId))
    throw badKey("sessionId", sessionId, "it has at most 80 letters, digits and . _ - inside");
  const main = `${sessionId}.${projectPart(projectKey)}`;
  if (subpath === undefined) return main;
  if (typeof subpath !== "string" || subpath === "" || subpath.length > LONGEST)
    throw badKey("subpath", subpath, `it is a text of 1 to ${LONGEST} characters`);
  return `${main}.agent-${shortHash(subpath, 16)}`;
}

function projectPart(projectKey: string): string {
  if (typeof projectKey !== "string" || projectKey === "" || projectKey.length > LONGEST)
    throw badKey("projectKey", projectKey, `it is a text of 1 to ${LONGEST} characters`);
  return shortHash(projectKey, 24);
}

const SESSION_ID = /^[A-Za-z0-9](?:[A-Za-z0-9._-]{0,78}[A-Za-z0-9])?$/;
const LONGEST = 1_000;

function badKey(name: string, value: unknown, rule: string): EspalierError {
  const shown = typeof value === "string" ? JSON.stringify(value.slice(0, 60)) : String(value);
  return new EspalierError("bad-input", `The ${name} ${shown} of a transcript cannot be used: ${rule}.`);
}
