// Lines of a transcript as entries: each alone, as they arrive. Apart from the store: this is the knowledge of the format.
import { createHash, randomUUID } from "node:crypto";
import type { SessionKey, SessionStoreEntry } from "@anthropic-ai/claude-agent-sdk";
import {
  type BaseEntry,
  bytesView,
  compaction,
  custom,
  isMessage,
  message,
  sessionInfo,
  toolCalls,
} from "../../extend.ts";
import { claudeCodeImporter } from "../../import.ts";
import type { ContextMessage, Entry, NewEntry, Session, Usage } from "../../index.ts";
import { fitsLine, restoreValue, storeValue } from "../stored-value.ts";

type Line = SessionStoreEntry;

/** An entry of a transcript. */
export interface LineEntry extends BaseEntry {
  /** The line, by `storeValue`; on the last entry of a line that says several things. */
  line?: unknown;
  /** Path of the transcript of a sub-agent, on the first entry of its session. */
  subpath?: string;
  /** `data` of the SDK's summary of all lines until here, by `storeValue`. */
  folded?: unknown;
}

/** The end of a session's path as lines are added to it, and the drafts to append. */
export class PathEnd {
  readonly drafts: NewEntry<LineEntry>[] = [];
  /** Lines that were not there before. */
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

  /** Adds a line, unless one with its `uuid` is there. */
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
      if (at === 0 && !isAside) this.#turnTo(parentId);
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

  /** What the importer of Claude Code reads in a line; a line of which it reads nothing is an entry that holds it. */
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

  /** Adds what a line alone does not say: the tool of a result, the model, and tokens that were counted before. */
  #completed(body: Body, line: Line, ownId: string): Body {
    const now = isTimed(line) ? {} : { timestamp: Date.now() };
    if (compaction.type === body.type) {
      const details = body["details"] as { settings: object };
      const settings = { ...details.settings, modelId: this.#model() };
      return { ...body, firstKeptEntryId: this.#firstKept(line) ?? ownId, details: { ...details, settings } };
    }
    const said = body["message"] as ContextMessage | undefined;
    if (message.type !== body.type || !said) return body;
    if (said.role === "toolResult")
      return { ...body, message: { ...said, toolName: this.#toolName(said.toolCallId), ...now } };
    if (said.role !== "assistant") return { ...body, message: { ...said, ...now } };
    const model = said.model === "unknown" ? this.#model() : said.model;
    const counted = this.#partsOf(answerId(said)).flatMap((part) => part.usage ?? []);
    const usage = said.usage && counted.length > 0 ? beyond(said.usage, counted) : said.usage;
    return { ...body, message: { ...said, model, ...(usage && { usage }), ...now } };
  }

  /**
   * The entry that a line follows. Claude Code names the line before it; where an answer calls several tools, its parts and
   * their results name each other, and here they follow one another, as everything does that is written beside.
   */
  #parentOf(line: Line): string | null {
    const leafId = this.#path.at(-1)?.id ?? null;
    if (typeof line.uuid !== "string") return leafId;
    const named = line["parentUuid"] ?? line["logicalParentUuid"];
    if (typeof named !== "string") return this.#path.every(isBeside) ? leafId : null;
    const parentId = entryId(named);
    return this.#has(parentId) && !this.#follows(parentId, line) ? parentId : leafId;
  }

  /** Returns whether a line goes to the end of the path, although it names an entry above. */
  #follows(parentId: string, line: Line): boolean {
    const at = this.#path.findLastIndex(({ id }) => id === parentId);
    if (at < 0) return false;
    const between = this.#path.slice(at + 1);
    if (between.every(isBeside)) return true;
    const answers = new Set(
      between.flatMap((entry) => (isMessage(entry, "assistant") ? answerId(entry.message) : [])),
    );
    const own = (line["message"] as { id?: unknown } | undefined)?.id;
    const parent = this.#path[at]!;
    const parentAnswer = isMessage(parent, "assistant") ? answerId(parent.message) : undefined;
    if (parentAnswer !== undefined) answers.add(parentAnswer);
    if (between.some((entry) => isMessage(entry, "user")) || answers.size > 1) return false;
    const isPart = line.type === "assistant" && typeof own === "string" && answers.has(own);
    const isInside =
      isMessage(parent, "toolResult") ||
      (isMessage(parent, "assistant") && toolCalls(parent.message).length > 0);
    return isPart || isInside || isResult(line) || (line.type !== "user" && line.type !== "assistant");
  }

  /** Continues from the path of another entry. */
  #turnTo(parentId: string | null): void {
    if (parentId === (this.#path.at(-1)?.id ?? null)) return;
    const at = this.#path.findIndex(({ id }) => id === parentId);
    if (at >= 0 || parentId === null) this.#path.length = at + 1;
    else this.#path.splice(0, this.#path.length, ...this.#above(parentId));
  }

  /** The path of an entry that is not on the current one. */
  #above(parentId: string): LineEntry[] {
    if (this.#session.tree.has(parentId)) return this.#session.getBranch(parentId);
    const draft = this.drafts.find(({ id }) => id === parentId)!;
    const { parentId: above = null } = draft;
    return [...(above === null ? [] : this.#above(above)), draft as LineEntry];
  }

  #lineOf(uuid: unknown): Line | undefined {
    if (typeof uuid !== "string") return undefined;
    const entry = this.#path.findLast(({ id }) => id === entryId(uuid));
    return entry?.line === undefined ? undefined : (restoreValue(entry.line, entry) as Line);
  }

  /** The first entry that a compaction keeps, as its boundary names it. */
  #firstKept(line: Line): string | undefined {
    const metadata = this.#lineOf(line["parentUuid"])?.["compactMetadata"] as
      | Record<string, Fields>
      | undefined;
    const { uuids } = metadata?.["preservedMessages"] ?? {};
    const head = Array.isArray(uuids) ? uuids[0] : metadata?.["preservedSegment"]?.["headUuid"];
    return typeof head === "string" ? this.#path.find(({ id }) => id === entryId(head))?.id : undefined;
  }

  #model(): string {
    const answer = this.#path.findLast((entry) => isMessage(entry, "assistant"));
    return answer && isMessage(answer, "assistant") ? answer.message.model : "unknown";
  }

  #toolName(callId: string): string {
    const calls = this.#path.flatMap((entry) =>
      message.is(entry) ? toolCalls(entry.message as ContextMessage) : [],
    );
    return calls.findLast(({ id }) => id === callId)?.name ?? "";
  }

  #partsOf(answer: string | undefined): { usage?: Usage }[] {
    if (answer === undefined) return [];
    return this.#path.flatMap((entry) =>
      isMessage(entry, "assistant") && answerId(entry.message) === answer ? entry.message : [],
    );
  }

  /** Returns whether the session has a name that its user gave, which one that Claude made does not replace. */
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

type Fields = Record<string, unknown>;
type Body = Fields & { type: string };

const SOUND_ID = /^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$/;

/** The id of the entry of a line. */
const entryId = (uuid: string): string =>
  SOUND_ID.test(uuid) ? uuid : createHash("sha256").update(uuid).digest("hex").slice(0, 24);

const isTimed = ({ timestamp }: Line): boolean => !Number.isNaN(Date.parse(String(timestamp)));

const answerId = (said: ContextMessage): string | undefined => (said as { responseId?: string }).responseId;

const isBeside = ({ type }: BaseEntry): boolean => type === custom.type || type === compaction.type;

function isResult({ message: said }: Line): boolean {
  const { content } = (said ?? {}) as { content?: unknown };
  return Array.isArray(content) && content.some((block) => block?.type === "tool_result");
}

/** Tokens that other parts of the same answer have not counted: each part repeats those of the whole. */
function beyond(usage: Usage, counted: readonly Usage[]): Usage {
  const rest = (name: "input" | "output" | "cacheRead" | "cacheWrite") =>
    Math.max(0, usage[name] - counted.reduce((sum, part) => sum + part[name], 0));
  const tokens = {
    input: rest("input"),
    output: rest("output"),
    cacheRead: rest("cacheRead"),
    cacheWrite: rest("cacheWrite"),
  };
  const totalTokens = Object.values(tokens).reduce((sum, one) => sum + one, 0);
  return { ...usage, ...tokens, totalTokens };
}
