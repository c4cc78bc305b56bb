// The `SessionStore` of the Claude Agent SDK over sessions of Espalier; its types need `@anthropic-ai/claude-agent-sdk`.
import { randomUUID } from "node:crypto";
import type {
  foldSessionSummary,
  SessionStore as HostStore,
  SessionStoreEntry as Line,
  SessionKey,
  SessionSummaryEntry,
} from "@anthropic-ai/claude-agent-sdk";
import { nameEntry } from "@espalier/session-tree";
import {
  type BaseEntry,
  bytesView,
  compaction,
  custom,
  isMessage,
  sessionInfo,
  toolCalls,
} from "../extend.ts";
import { claudeCodeImporter } from "../import.ts";
import {
  type ContextMessage,
  type Entry,
  EspalierError,
  listSessions,
  openSession,
  type PoolOptions,
  type Session,
  sessionPool,
  type Usage,
} from "../index.ts";
import { digestOf, type Fields, ifFound, refuseOtherVersions, storeOf } from "./host.ts";
import { fitsLine, restoreValue, storeValue } from "./stored-value.ts";

/** Options of a store: those of `sessionPool`, and the SDK's function for summaries. */
export interface ClaudeSessionStoreOptions extends Omit<PoolOptions, "rules" | "whole" | "cwd" | "parent"> {
  /** The SDK's function of this name. With it, `listSessions` of the SDK reads summaries in place of whole transcripts. */
  foldSessionSummary?: typeof foldSessionSummary;
}

/** A store for `query({ prompt, options: { sessionStore } })`, with all of its optional members. */
export interface ClaudeSessionStore extends Required<Omit<HostStore, "listSessionSummaries">> {
  /** Present if `foldSessionSummary` was given. */
  listSessionSummaries?(projectKey: string): Promise<SessionSummaryEntry[]>;
  /** The id of the session that holds a transcript: `espalier tree ID`, `openSession(ID)`. */
  sessionId(key: SessionKey): string;
  /** Waits until accepted writes are on disk, and closes all sessions. */
  close(): Promise<void>;
}

/**
 * Keeps the transcripts of the Claude Agent SDK in sessions of Espalier: in files, or in `store`. Each transcript is a
 * session, and so is the transcript of a sub-agent. Each line is an entry; `load` returns equal lines in the same order.
 *
 * ```ts
 * const sessionStore = claudeSessionStore({ foldSessionSummary });
 * for await (const message of query({ prompt: "What grows here?", options: { sessionStore } })) console.log(message);
 * await sessionStore.close();
 * ```
 *
 * @param options by default nothing is redacted, since Claude Code resumes from the stored lines
 * @throws EspalierError `unsuitable` for a version of the SDK that is not tested
 */
export function claudeSessionStore(options: ClaudeSessionStoreOptions = {}): ClaudeSessionStore {
  refuseOtherVersions("@anthropic-ai/claude-agent-sdk", "0.3.330", "0.4.0");
  const { foldSessionSummary: fold, ...given } = options;
  const place = storeOf(options);
  const pool = sessionPool({ redact: false, ...given, rules: false });

  /** Reads a session without waiting for its writer; undefined if there is no such session. */
  const read = async <Result>(id: string, look: (session: Session) => Result) => {
    const session = await ifFound(openSession({ id }, { ...place, mode: "read" }));
    try {
      return session && look(session);
    } finally {
      await session?.close();
    }
  };

  const summaryOf = (key: SessionKey, { tree }: Session): Fields | undefined => {
    for (let row = tree.length - 1; row >= 0; row--) {
      const { folded, line } = tree.entryAt(row) as LineEntry;
      if (folded !== undefined) return restoreValue(folded, {}) as Fields;
      if (line !== undefined) break;
    }
    // The last line was written without a summary.
    const lines = linesOf(tree.entries());
    return lines.length > 0 ? fold?.(undefined, key, lines, { mtime: Date.now() }).data : undefined;
  };

  /** Sessions of a project with their ids in the SDK, without sub-agents. */
  async function* listed(projectKey: string) {
    const ending = `.${projectPart(projectKey)}`;
    for await (const { id, modified } of listSessions(place))
      if (id.endsWith(ending))
        yield { id, sessionId: id.slice(0, -ending.length), mtime: Date.parse(modified) };
  }

  async function* subAgents(key: SessionKey) {
    const main = mainId(key);
    for await (const { id, parent } of listSessions({ ...place, parent: main }))
      if (parent?.sessionId === main && parent.kind === "subagent") yield id;
  }

  return {
    sessionId: sessionIdOf,
    close: () => pool.close(),
    async append(key, given) {
      // The write waits for its turn, and the caller may reuse its list.
      const lines = [...given];
      if (lines.length === 0) return;
      const cwd = lines.find((line) => typeof line["cwd"] === "string")?.["cwd"] as string | undefined;
      const parent = { sessionId: mainId(key), entryId: null, kind: "subagent" } as const;
      const isMain = key.subpath === undefined;
      const write = async (session: Session) => {
        const { added, drafts } = new NewLines(session, lines);
        const last = drafts.at(-1);
        if (!last) return;
        if (!isMain && session.tree.length === 0) drafts[0]!.subpath = key.subpath;
        if (fold && isMain) {
          const [data, mtime] = [summaryOf(key, session), Date.now()];
          const before = data && { sessionId: key.sessionId, mtime, data };
          last.folded = storeValue(fold(before, key, added, { mtime }).data, {});
        }
        await session.append(drafts);
      };
      const made = { ...(cwd === undefined ? {} : { cwd }), ...(isMain ? {} : { parent }) };
      await pool.use(sessionIdOf(key), write, made);
    },
    async load(key) {
      const lines = await read(sessionIdOf(key), ({ tree }) => linesOf(tree.entries()));
      return lines && lines.length > 0 ? lines : null;
    },
    async listSessions(projectKey) {
      const sessions: { sessionId: string; mtime: number }[] = [];
      for await (const { sessionId, mtime } of listed(projectKey)) sessions.push({ sessionId, mtime });
      return sessions;
    },
    async delete(key) {
      if (key.subpath === undefined) for await (const id of subAgents(key)) await ifFound(pool.delete(id));
      await ifFound(pool.delete(sessionIdOf(key)));
    },
    async listSubkeys(key) {
      const subkeys: string[] = [];
      for await (const id of subAgents(key)) {
        const first = await read(id, ({ tree }) => tree.entries().next().value as LineEntry | undefined);
        if (first?.subpath !== undefined) subkeys.push(first.subpath);
      }
      return subkeys;
    },
    ...(fold && {
      async listSessionSummaries(projectKey: string) {
        const summaries: SessionSummaryEntry[] = [];
        for await (const { id, sessionId, mtime } of listed(projectKey)) {
          const data = await read(id, (session) => summaryOf({ projectKey, sessionId }, session));
          if (data) summaries.push({ sessionId, mtime, data });
        }
        return summaries;
      },
    }),
  };
}

const lineOf = (entry: LineEntry | undefined): Line | undefined =>
  entry?.line === undefined ? undefined : (restoreValue(entry.line, entry) as Line);

const linesOf = (entries: Iterable<LineEntry>): Line[] =>
  Array.from(entries).flatMap((entry) => lineOf(entry) ?? []);

/**
 * The id of the session that holds a transcript: the SDK's id, the project, and for a sub-agent its path. No key can reach
 * a file or another project.
 *
 * @throws EspalierError `bad-input`
 */
function sessionIdOf(key: SessionKey): string {
  const main = mainId(key);
  return key.subpath === undefined ? main : `${main}.agent-${textPart("subpath", key.subpath, 16)}`;
}

const mainId = ({ projectKey, sessionId }: SessionKey): string =>
  `${checked("sessionId", sessionId, SESSION_ID, "it has at most 80 letters, digits and . _ - inside")}.${projectPart(projectKey)}`;

const projectPart = (projectKey: string): string => textPart("projectKey", projectKey, 24);

const textPart = (name: string, given: string, digits: number): string =>
  digestOf(checked(name, given, TEXT, "it is a text of 1 to 1000 characters"), digits);

const SESSION_ID = /^[A-Za-z0-9](?:[A-Za-z0-9._-]{0,78}[A-Za-z0-9])?$/;
const TEXT = /^[\s\S]{1,1000}$/;

function checked(name: string, given: unknown, valid: RegExp, rule: string): string {
  if (typeof given === "string" && valid.test(given)) return given;
  const shown = typeof given === "string" ? JSON.stringify(given.slice(0, 60)) : String(given);
  throw new EspalierError("bad-input", `The ${name} ${shown} of a transcript cannot be used: ${rule}.`);
}

/** An entry of a transcript. */
interface LineEntry extends BaseEntry {
  /** The line as returned by `storeValue`. A line may become several entries; the last one has it. */
  line?: unknown;
  /** Path of a sub-agent's transcript, on the first entry of its session. */
  subpath?: string | undefined;
  /** `data` of the SDK's summary of all lines up to this entry, as returned by `storeValue`. */
  folded?: unknown;
}

/** The lines of an append that a session does not have, and their entries. */
class NewLines {
  readonly added: Line[] = [];
  readonly #drafts = new Map<string, LineEntry>();
  readonly #tree: Session["tree"];
  readonly #importer = claudeCodeImporter();
  /** Parent of the next entry. */
  #leafId: string | null;

  constructor({ tree, leafId }: Session, lines: readonly Line[]) {
    this.#tree = tree;
    this.#leafId = leafId;
    for (const line of lines) this.#add(line);
  }

  get drafts(): LineEntry[] {
    return [...this.#drafts.values()];
  }

  /** Adds a line, unless the session has one with the same `uuid`. */
  #add(line: Line): void {
    const id = typeof line.uuid === "string" ? entryId(line.uuid) : randomUUID();
    if (this.#get(id)) return;
    this.added.push(line);
    const entries = this.#entriesOf(line);
    const isAside = sessionInfo.is(entries[0]!);
    if (!isAside) this.#leafId = this.#parentOf(line);
    for (const [at, entry] of entries.entries()) {
      const isLast = at === entries.length - 1;
      // A repeated line goes on after the entries that a cut write left of it.
      const ownId = isLast ? id : digestOf(`${id} ${at}`, 24);
      if (!isLast && this.#get(ownId)) {
        this.#leafId = ownId;
        continue;
      }
      const { id: _id, parentId: _parentId, ...shown } = { ...entry, ...this.#facts(entry, line, ownId) };
      const draft = { ...shown, id: ownId, parentId: this.#leafId };
      this.#drafts.set(ownId, isLast ? { ...draft, line: storeValue(line, shown) } : draft);
      if (!isAside) this.#leafId = ownId;
    }
  }

  #get(id: string): LineEntry | undefined {
    return this.#drafts.get(id) ?? this.#tree.getEntry(id);
  }

  /** The entries of the path, the newest first. */
  *#path(): Generator<LineEntry> {
    for (let id = this.#leafId; id !== null; ) {
      const draft = this.#drafts.get(id);
      yield draft ?? this.#tree.getEntry(id)!;
      id = draft ? draft.parentId : this.#tree.parentIdAt(this.#tree.row(id));
    }
  }

  /** Entries that the importer of Claude Code makes of a line. A line without content becomes a custom entry. */
  #entriesOf(line: Line): Entry[] {
    const name = String(line.type).replace(/[^\w.-]+/g, "-");
    const holder = custom.of({ customType: `claude-code.${name.slice(0, 64)}` }) as Entry;
    if (!fitsLine(line)) return [holder];
    const { description } = line;
    if (line.type === "agent_metadata" && typeof description === "string")
      return [sessionInfo.of({ name: description }) as Entry];
    const boundary = line["isCompactSummary"] === true ? this.#boundaryOf(line) : undefined;
    const isTimed = !Number.isNaN(Date.parse(String(line.timestamp)));
    const timed = isTimed ? line : { ...line, timestamp: new Date().toISOString() };
    const lines = boundary ? [boundary, timed] : [timed];
    const bytes = new TextEncoder().encode(lines.map((one) => `${JSON.stringify(one)}\n`).join(""));
    const source = { path: "transcript.jsonl", view: bytesView(bytes), digest: () => "" };
    const entries = [...this.#importer.read(source)]
      .flatMap((draft) => [...draft.entries()])
      .filter((entry): entry is Entry => "type" in entry);
    const isWeakName = entries.some(sessionInfo.is) && line.type !== "custom-title" && this.#isNamed();
    return entries.length === 0 || isWeakName ? [holder] : entries;
  }

  /** Facts from earlier lines: the tool of a result, the model, and the tokens that are already counted. */
  #facts(entry: Entry, line: Line, id: string): Fields {
    const lastModel = () => answersIn(this.#path()).next().value?.model ?? "unknown";
    if (compaction.is(entry)) {
      const details = entry.details as { settings: object };
      const settings = { ...details.settings, modelId: lastModel() };
      return { firstKeptEntryId: this.#firstKept(line) ?? id, details: { ...details, settings } };
    }
    if (isMessage(entry, "toolResult"))
      return { message: { ...entry.message, toolName: this.#toolOf(entry.message.toolCallId) } };
    if (!isMessage(entry, "assistant")) return {};
    const said: Answer = entry.message;
    const isPart = ({ responseId: id }: Answer) => id !== undefined && id === said.responseId;
    const usage = said.usage && uncounted(said.usage, [...answersIn(this.#newestAnswer())].filter(isPart));
    const model = said.model === "unknown" ? lastModel() : said.model;
    return { message: { ...said, model, ...(usage && { usage }) } };
  }

  #toolOf(callId: string): string {
    for (const answer of answersIn(this.#path()))
      for (const call of toolCalls(answer)) if (call.id === callId) return call.name;
    return "";
  }

  /**
   * The parent of a line's first entry: the line that it names, or the end of the path. Parts of an answer and the results
   * of its calls name each other; here they follow one another, and so do lines without content for the model.
   */
  #parentOf(line: Line): string | null {
    if (typeof line.uuid !== "string") return this.#leafId;
    const named = line["parentUuid"] ?? line["logicalParentUuid"];
    if (typeof named === "string") {
      const parentId = entryId(named);
      return this.#get(parentId) && !this.#isAtEnd(parentId, line) ? parentId : this.#leafId;
    }
    for (const entry of this.#path()) if (!isBeside(entry)) return null;
    return this.#leafId;
  }

  /** Returns whether a line belongs at the end of the path, although it names an earlier entry. */
  #isAtEnd(parentId: string, line: Line): boolean {
    const newest = this.#newestAnswer();
    const at = newest.findIndex(({ id }) => id === parentId);
    if (at < 0) return false;
    if (newest.slice(0, at).every(isBeside)) return true;
    const parent = newest[at]!;
    const [said] = answersIn([parent]);
    if (isMessage(parent, "toolResult") || (said && toolCalls(said).length > 0)) return true;
    if (line.type !== "assistant") return line.type !== "user" || isResult(line);
    const { id } = (line["message"] ?? {}) as { id?: unknown };
    return typeof id === "string" && [...answersIn(newest)].some(({ responseId }) => responseId === id);
  }

  /** The newest answer of the path, from its end back to the prompt or to the answer before it. */
  #newestAnswer(): LineEntry[] {
    const entries: LineEntry[] = [];
    let newest: Answer | undefined;
    for (const entry of this.#path()) {
      const [answer] = answersIn([entry]);
      if (newest && answer && answer.responseId !== newest.responseId) break;
      newest ??= answer;
      entries.push(entry);
      if (isMessage(entry, "user")) break;
    }
    return entries;
  }

  /** The boundary line of a compaction, by the line with its summary. */
  #boundaryOf({ parentUuid }: Line): Line | undefined {
    const line = typeof parentUuid === "string" ? lineOf(this.#get(entryId(parentUuid))) : undefined;
    return line?.["subtype"] === "compact_boundary" ? line : undefined;
  }

  /** The first entry that a compaction keeps, by the `uuid` in its boundary line. */
  #firstKept(line: Line): string | undefined {
    const metadata = this.#boundaryOf(line)?.["compactMetadata"] as Record<string, Fields> | undefined;
    const { uuids } = metadata?.["preservedMessages"] ?? {};
    const head = Array.isArray(uuids) ? uuids[0] : metadata?.["preservedSegment"]?.["headUuid"];
    if (typeof head === "string") for (const { id } of this.#path()) if (id === entryId(head)) return id;
    return undefined;
  }

  /** Returns whether a user named the session. A title that Claude makes does not replace that name. */
  #isNamed(): boolean {
    const named = this.drafts.findLast(sessionInfo.is) ?? nameEntry(this.#tree);
    return lineOf(named as LineEntry | undefined)?.type === "custom-title";
  }
}

const SOUND_ID = /^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$/;

/** The id of the entry of a line. */
const entryId = (uuid: string): string => (SOUND_ID.test(uuid) ? uuid : digestOf(uuid, 24));

/** A part of an answer. All parts have the id of the answer. */
type Answer = Extract<ContextMessage, { role: "assistant" }> & { responseId?: string };

function* answersIn(entries: Iterable<LineEntry>): Generator<Answer> {
  for (const entry of entries) if (isMessage(entry, "assistant")) yield entry.message;
}

const isBeside = ({ type }: BaseEntry): boolean => type === custom.type || type === compaction.type;

function isResult({ message: said }: Line): boolean {
  const { content } = (said ?? {}) as { content?: unknown };
  return Array.isArray(content) && content.some((block) => block?.type === "tool_result");
}

/** Usage of an answer that its other parts have not counted. Each part repeats the usage of the whole answer. */
function uncounted(usage: Usage, parts: readonly Answer[]): Usage {
  const counted = parts.flatMap((part) => part.usage ?? []);
  if (counted.length === 0) return usage;
  const rest = { ...usage, totalTokens: 0 };
  for (const name of ["input", "output", "cacheRead", "cacheWrite"] as const) {
    rest[name] = Math.max(0, usage[name] - counted.reduce((sum, part) => sum + part[name], 0));
    rest.totalTokens += rest[name];
  }
  return rest;
}
