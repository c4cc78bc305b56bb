// The `SessionStore` of the Claude Agent SDK over sessions of Espalier; its types need `@anthropic-ai/claude-agent-sdk`.
import { randomUUID } from "node:crypto";
import type {
  foldSessionSummary,
  SessionStore as HostStore,
  SessionStoreEntry as Line,
  SessionKey,
  SessionSummaryEntry,
} from "@anthropic-ai/claude-agent-sdk";
import {
  type BaseEntry,
  bytesView,
  compaction,
  custom,
  isMessage,
  message,
  sessionInfo,
  toolCalls,
} from "../extend.ts";
import { claudeCodeImporter } from "../import.ts";
import {
  type ContextMessage,
  type Entry,
  EspalierError,
  listSessions,
  type NewEntry,
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
    const lines = [...linesOf(tree.entries())];
    return lines.length > 0 ? fold?.(undefined, key, lines, { mtime: Date.now() }).data : undefined;
  };

  /** Sessions of a project with their ids in the SDK, without sub-agents. */
  async function* listed(
    projectKey: string,
  ): AsyncGenerator<{ id: string; sessionId: string; mtime: number }> {
    const ending = `.${projectPart(projectKey)}`;
    for await (const { id, modified } of listSessions(place))
      if (id.endsWith(ending))
        yield { id, sessionId: id.slice(0, -ending.length), mtime: Date.parse(modified) };
  }

  async function* subAgents(key: SessionKey): AsyncGenerator<string> {
    const main = mainId(key);
    for await (const { id, parent } of listSessions({ ...place, parent: main }))
      if (parent?.sessionId === main && parent.kind === "subagent") yield id;
  }

  return {
    sessionId: sessionIdOf,
    close: () => pool.close(),
    async append(key, lines) {
      if (lines.length === 0) return;
      const cwd = lines.find((line) => typeof line["cwd"] === "string")?.["cwd"] as string | undefined;
      const parent = { sessionId: mainId(key), entryId: null, kind: "subagent" } as const;
      const made = {
        ...(cwd === undefined ? {} : { cwd }),
        ...(key.subpath === undefined ? {} : { parent }),
      };
      const write = async (session: Session) => {
        const end = new PathEnd(session, key);
        for (const line of lines) end.add(line);
        const last = end.drafts.at(-1);
        if (!last) return;
        if (fold && key.subpath === undefined) {
          const [data, mtime] = [summaryOf(key, session), Date.now()];
          const before = data && { sessionId: key.sessionId, mtime, data };
          Object.assign(last, { folded: storeValue(fold(before, key, end.added, { mtime }).data, {}) });
        }
        await session.append(end.drafts);
      };
      await pool.use(sessionIdOf(key), write, made);
    },
    async load(key) {
      const lines = await read(sessionIdOf(key), ({ tree }) => [...linesOf(tree.entries())]);
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
        const subpath = await read(id, ({ tree }) => subpathOf(tree.entries()));
        if (subpath !== undefined) subkeys.push(subpath);
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

function* linesOf(entries: Iterable<LineEntry>): Generator<Line> {
  for (const entry of entries) if (entry.line !== undefined) yield restoreValue(entry.line, entry) as Line;
}

function subpathOf(entries: Iterable<LineEntry>): string | undefined {
  for (const { subpath } of entries) if (subpath !== undefined) return subpath;
  return undefined;
}

/**
 * The id of the session that holds a transcript: the SDK's id, the project, and for a sub-agent its path. No key can reach
 * a file or another project.
 *
 * @throws EspalierError `bad-input`
 */
function sessionIdOf(key: SessionKey): string {
  const { subpath } = key;
  return subpath === undefined
    ? mainId(key)
    : `${mainId(key)}.agent-${digestOf(checkedText("subpath", subpath), 16)}`;
}

function mainId({ projectKey, sessionId }: SessionKey): string {
  if (typeof sessionId !== "string" || !SESSION_ID.test(sessionId))
    throw badKey("sessionId", sessionId, "it has at most 80 letters, digits and . _ - inside");
  return `${sessionId}.${projectPart(projectKey)}`;
}

const projectPart = (projectKey: string): string => digestOf(checkedText("projectKey", projectKey), 24);

function checkedText(name: string, given: unknown): string {
  if (typeof given === "string" && given !== "" && given.length <= LONGEST) return given;
  throw badKey(name, given, `it is a text of 1 to ${LONGEST} characters`);
}

const SESSION_ID = /^[A-Za-z0-9](?:[A-Za-z0-9._-]{0,78}[A-Za-z0-9])?$/;
const LONGEST = 1_000;

function badKey(name: string, value: unknown, rule: string): EspalierError {
  const shown = typeof value === "string" ? JSON.stringify(value.slice(0, 60)) : String(value);
  return new EspalierError("bad-input", `The ${name} ${shown} of a transcript cannot be used: ${rule}.`);
}

/** An entry of a transcript. */
interface LineEntry extends BaseEntry {
  /** The line as returned by `storeValue`. A line may become several entries; the last one has it. */
  line?: unknown;
  /** Path of a sub-agent's transcript, on the first entry of its session. */
  subpath?: string;
  /** `data` of the SDK's summary of all lines up to this entry, as returned by `storeValue`. */
  folded?: unknown;
}

/** The end of a session's path while lines are added, and the drafts to append. */
class PathEnd {
  readonly drafts: NewEntry<LineEntry>[] = [];
  /** Lines that are new in the session. */
  readonly added: Line[] = [];
  readonly #session: Session;
  readonly #key: SessionKey;
  readonly #importer = claudeCodeImporter();
  /** The end of the leaf's path, as far as the context reaches. */
  readonly #path: LineEntry[];
  readonly #ids = new Set<string>();

  constructor(session: Session, key: SessionKey) {
    this.#session = session;
    this.#key = key;
    this.#path = [...session.window.entries];
  }

  /** Adds a line, unless the session has one with the same `uuid`. */
  add(line: Line): void {
    const id = typeof line.uuid === "string" ? entryId(line.uuid) : undefined;
    if (id !== undefined && this.#has(id)) return;
    this.added.push(line);
    const entries = this.#entriesOf(line);
    const parentId = this.#parentOf(line);
    for (const [at, { id: _id, parentId: _parentId, timestamp, ...body }] of entries.entries()) {
      const isLast = at === entries.length - 1;
      const ownId = isLast && id !== undefined ? id : randomUUID();
      const isAside = body.type === sessionInfo.type;
      if (at === 0 && !isAside) this.#moveTo(parentId);
      const shown = this.#completed(body as Body, line, ownId);
      const draft = {
        ...shown,
        id: ownId,
        ...(at === 0 && !isAside ? { parentId } : {}),
        ...(isTimed(line) ? { timestamp } : {}),
        ...(isLast ? { line: storeValue(line, shown) } : {}),
        ...(this.#isFirst && this.#key.subpath !== undefined ? { subpath: this.#key.subpath } : {}),
      } as NewEntry<LineEntry>;
      this.drafts.push(draft);
      if (!isAside) this.#path.push(draft as LineEntry);
    }
    if (id !== undefined) this.#ids.add(id);
  }

  get #isFirst(): boolean {
    return this.drafts.length === 0 && this.#session.tree.length === 0;
  }

  #has(id: string): boolean {
    return this.#ids.has(id) || this.#session.tree.has(id);
  }

  /** Entries that the importer of Claude Code makes of a line. A line without content becomes a custom entry. */
  #entriesOf(line: Line): Entry[] {
    const holder = custom.of({
      customType: `claude-code.${String(line.type)
        .replace(/[^\w.-]+/g, "-")
        .slice(0, 64)}`,
    }) as Entry;
    if (!fitsLine(line)) return [holder];
    const { description } = line;
    if (line.type === "agent_metadata" && typeof description === "string")
      return [sessionInfo.of({ name: description }) as Entry];
    const boundary = line["isCompactSummary"] === true ? this.#lineOf(line["parentUuid"]) : undefined;
    const isPair = boundary?.["subtype"] === "compact_boundary";
    const entries = this.#read(isPair ? [boundary!, line] : [line]);
    const named = entries.length === 1 && sessionInfo.is(entries[0]!);
    return entries.length === 0 || (named && this.#hasStrongerName(line)) ? [holder] : entries;
  }

  #read(lines: readonly Line[]): Entry[] {
    const bytes = new TextEncoder().encode(lines.map((line) => `${JSON.stringify(line)}\n`).join(""));
    const source = { path: "transcript.jsonl", view: bytesView(bytes), digest: () => "" };
    const drafts = this.#importer.read(source);
    return [...drafts].flatMap((draft) =>
      [...draft.entries()].filter((entry): entry is Entry => "type" in entry),
    );
  }

  /** Adds facts from earlier lines: the tool of a result, the model, and the tokens that are already counted. */
  #completed(body: Body, line: Line, ownId: string): Body {
    const now = isTimed(line) ? {} : { timestamp: Date.now() };
    const answers = answersIn(this.#path);
    const lastModel = answers.at(-1)?.model ?? "unknown";
    if (body.type === compaction.type) {
      const details = body["details"] as { settings: object };
      const settings = { ...details.settings, modelId: lastModel };
      return { ...body, firstKeptEntryId: this.#firstKept(line) ?? ownId, details: { ...details, settings } };
    }
    const said = body["message"] as ContextMessage | undefined;
    if (body.type !== message.type || !said) return body;
    if (said.role === "toolResult") {
      const call = answers.flatMap(toolCalls).findLast(({ id }) => id === said.toolCallId);
      return { ...body, message: { ...said, toolName: call?.name ?? "", ...now } };
    }
    if (said.role !== "assistant") return { ...body, message: { ...said, ...now } };
    const model = said.model === "unknown" ? lastModel : said.model;
    const parts = answers.filter((part) => answerId(part) !== undefined && answerId(part) === answerId(said));
    const usage = said.usage && uncounted(said.usage, parts);
    return { ...body, message: { ...said, model, ...(usage && { usage }), ...now } };
  }

  /**
   * The parent of a line's first entry: the line that it names, or the end of the path. Parts of an answer and the results
   * of its calls name each other; here they follow one another, and so do lines without content for the model.
   */
  #parentOf(line: Line): string | null {
    const leafId = this.#path.at(-1)?.id ?? null;
    if (typeof line.uuid !== "string") return leafId;
    const named = line["parentUuid"] ?? line["logicalParentUuid"];
    if (typeof named !== "string") return this.#path.every(isBeside) ? leafId : null;
    const parentId = entryId(named);
    return this.#has(parentId) && !this.#isAtEnd(parentId, line) ? parentId : leafId;
  }

  /** Returns whether a line belongs at the end of the path, although it names an earlier entry. */
  #isAtEnd(parentId: string, line: Line): boolean {
    const at = this.#path.findLastIndex(({ id }) => id === parentId);
    if (at < 0) return false;
    const [parent, ...between] = this.#path.slice(at) as [LineEntry, ...LineEntry[]];
    if (between.every(isBeside)) return true;
    const answers = new Set(answersIn([parent, ...between]).map(answerId));
    if (between.some((entry) => isMessage(entry, "user")) || answers.size > 1) return false;
    const { id } = (line["message"] ?? {}) as { id?: unknown };
    const isPart = line.type === "assistant" && typeof id === "string" && answers.has(id);
    const isInside =
      isMessage(parent, "toolResult") || answersIn([parent]).some((answer) => toolCalls(answer).length > 0);
    return isPart || isInside || isResult(line) || (line.type !== "user" && line.type !== "assistant");
  }

  /** Makes the path end in another entry. */
  #moveTo(parentId: string | null): void {
    if (parentId === (this.#path.at(-1)?.id ?? null)) return;
    const at = this.#path.findIndex(({ id }) => id === parentId);
    if (at >= 0 || parentId === null) this.#path.length = at + 1;
    else this.#path.splice(0, this.#path.length, ...this.#pathTo(parentId));
  }

  /** The path of an entry that is not on the current path. */
  #pathTo(parentId: string): LineEntry[] {
    if (this.#session.tree.has(parentId)) return this.#session.getBranch(parentId);
    const draft = this.drafts.find(({ id }) => id === parentId)!;
    const { parentId: above = null } = draft;
    return [...(above === null ? [] : this.#pathTo(above)), draft as LineEntry];
  }

  #lineOf(uuid: unknown): Line | undefined {
    if (typeof uuid !== "string") return undefined;
    const entry = this.#path.findLast(({ id }) => id === entryId(uuid));
    return entry?.line === undefined ? undefined : (restoreValue(entry.line, entry) as Line);
  }

  /** The first entry that a compaction keeps, by the `uuid` in its boundary line. */
  #firstKept(line: Line): string | undefined {
    const metadata = this.#lineOf(line["parentUuid"])?.["compactMetadata"] as
      | Record<string, Fields>
      | undefined;
    const { uuids } = metadata?.["preservedMessages"] ?? {};
    const head = Array.isArray(uuids) ? uuids[0] : metadata?.["preservedSegment"]?.["headUuid"];
    return typeof head === "string" ? this.#path.find(({ id }) => id === entryId(head))?.id : undefined;
  }

  /** Returns whether a user named the session. A title that Claude makes does not replace that name. */
  #hasStrongerName(line: Line): boolean {
    if (line.type === "custom-title") return false;
    const { tree } = this.#session;
    const isGiven = (entry: unknown) =>
      ((entry as LineEntry).line as Line | undefined)?.type === "custom-title";
    if (this.drafts.some(isGiven)) return true;
    for (let row = tree.length - 1; row >= 0; row--)
      if (tree.kindAt(row).type === sessionInfo.type) return isGiven(tree.entryAt(row));
    return false;
  }
}

type Body = Fields & { type: string };

const SOUND_ID = /^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$/;

/** The id of the entry of a line. */
const entryId = (uuid: string): string => (SOUND_ID.test(uuid) ? uuid : digestOf(uuid, 24));

const isTimed = ({ timestamp }: Line): boolean => !Number.isNaN(Date.parse(String(timestamp)));

type Answer = Extract<ContextMessage, { role: "assistant" }>;

const answersIn = (entries: readonly LineEntry[]): Answer[] =>
  entries.flatMap((entry) => (isMessage(entry, "assistant") ? entry.message : []));

const answerId = (answer: ContextMessage): string | undefined =>
  (answer as { responseId?: string }).responseId;

const isBeside = ({ type }: BaseEntry): boolean => type === custom.type || type === compaction.type;

function isResult({ message: said }: Line): boolean {
  const { content } = (said ?? {}) as { content?: unknown };
  return Array.isArray(content) && content.some((block) => block?.type === "tool_result");
}

/** Usage of an answer that its other parts have not counted. Each part repeats the usage of the whole answer. */
function uncounted(usage: Usage, parts: readonly { usage?: Usage }[]): Usage {
  const counted = parts.flatMap((part) => part.usage ?? []);
  if (counted.length === 0) return usage;
  const rest = (name: "input" | "output" | "cacheRead" | "cacheWrite") =>
    Math.max(0, usage[name] - counted.reduce((sum, part) => sum + part[name], 0));
  const [input, output, cacheRead, cacheWrite] = [
    rest("input"),
    rest("output"),
    rest("cacheRead"),
    rest("cacheWrite"),
  ];
  const totalTokens = input + output + cacheRead + cacheWrite;
  return { ...usage, input, output, cacheRead, cacheWrite, totalTokens };
}
