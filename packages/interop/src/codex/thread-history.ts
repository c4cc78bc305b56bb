// Separate from importer.ts: it keeps the state of a thread, line by line.
import { type ContentBlock, type Entry, isRecord, type Usage } from "@espalier/session-tree";
import { countIn, FormatIssues } from "../formats/conversation.ts";
import type { DraftOptions } from "../import/draft.ts";
import {
  type EntryBody,
  entryOf,
  idFromText,
  NO_COST,
  NO_TIME,
  readTime,
  type SourceTime,
  shortName,
} from "../import/entry.ts";
import type { ImportIssueKind, ImportIssues } from "../import/issue.ts";
import { type ScratchArea, type ScratchColumn, ScratchTexts } from "../scratch/space.ts";
import {
  type CodexSettings,
  NO_CODEX_SETTINGS,
  OpenAnswer,
  type Prompt,
  type Reading,
  type Said,
} from "./blocks.ts";
import type { LogicalLine } from "./logical-lines.ts";

/** Usage of a call whose answer has not been found yet. */
interface LooseBill extends Billed {
  id: string;
  time: SourceTime;
}

/** A thread while its lines are read: its written entries, and the open answer. */
export class ThreadHistory {
  readonly trail: Trail;
  /** Entries that the caller has not taken yet. */
  readonly #entries: Entry[] = [];
  readonly usage = new UsageBook();
  /** Names of the tools whose results are still missing, by call. */
  readonly toolNames = new Map<string, string>();
  readonly options: DraftOptions;
  settings: CodexSettings = NO_CODEX_SETTINGS;
  /** Settings of the last turn, as text. */
  lastTurn = "";
  /** Tokens of the context at the last answer. */
  contextTokens = 0;
  time: SourceTime = NO_TIME;
  #seed = "";
  #id: string | undefined;
  #lineNumber: number | null = null;
  #answer: OpenAnswer | undefined;
  #loose: LooseBill | undefined;
  readonly #issues: ImportIssues;
  /** Issues of the content of the current line. */
  readonly #content = new FormatIssues();

  constructor(issues: ImportIssues, options: DraftOptions, area: ScratchArea) {
    this.trail = new Trail(area);
    this.#issues = issues;
    this.options = options;
  }

  /** Starts the next line. */
  begin(line: Pick<LogicalLine, "seed" | "timestamp" | "lineNumber">): void {
    this.#tellContentIssues();
    this.#seed = line.seed;
    this.#id = undefined;
    this.time = readTime(line.timestamp, this.time);
    this.#lineNumber = line.lineNumber;
  }

  /** Id of the entry that the line becomes; most lines become none. */
  get id(): string {
    this.#id ??= idFromText(this.#seed);
    return this.#id;
  }

  get reading(): Reading {
    return { provider: this.settings.provider, issues: this.#content };
  }

  /** Adds an issue of the line; issues of other files are reported when those files are imported. */
  note(kind: ImportIssueKind, message: string): void {
    if (this.#lineNumber !== null) this.#issues.add(kind, this.#lineNumber, message);
  }

  /** Returns the entries since the last call. */
  taken(): Entry[] {
    return this.#entries.splice(0);
  }

  /** Adds an entry made from the line; `name` distinguishes it from the line's own entry. */
  write(body: EntryBody, name?: string): void {
    this.flush();
    this.settle();
    this.#grow(body, name === undefined ? this.id : idFromText(`${this.id}/${name}`));
  }

  /** Adds the line as state of the agent. */
  state(name: string, data: unknown): void {
    this.write({ type: "custom", customType: `codex.${shortName(name)}`, data });
  }

  /** Adds the line as state, while open usage still waits for its compaction. */
  aside(name: string, data: unknown): void {
    this.flush();
    this.#grow({ type: "custom", customType: `codex.${name}`, data }, this.id);
  }

  /** Adds the line to the open answer. */
  answer(blocks: readonly ContentBlock[], encrypted?: Record<string, unknown>): void {
    this.settle();
    // Lines that were added since an earlier import are a separate answer.
    if (this.#answer?.isComplete) this.flush();
    this.#answer ??= new OpenAnswer(this.id, this.time, this.options.known?.(this.id));
    this.#answer.add(blocks, encrypted);
  }

  /** Ends the open answer. */
  flush(usage?: Usage): void {
    const answer = this.#answer;
    if (!answer) return;
    this.#answer = undefined;
    const body = answer.body(this.settings, usage);
    for (const [callId, name] of answer.calls()) this.toolNames.set(callId, name);
    this.#grow(body, answer.entryId, answer.time);
    this.trail.remember(answer.keys());
    this.trail.endRun();
  }

  /** Adds the name of the thread; it is not part of the conversation, so an open answer goes on. */
  name(name: string, id = this.id): void {
    this.#grow({ type: "session_info", name }, id);
  }

  /**
   * Moves the leaf back by a number of turns, at most to the start of the first turn, and returns the number of turns
   * undone. These stay as a branch.
   */
  rollBack(turns: number): number {
    this.flush();
    this.settle();
    const undone = this.trail.rollBack(turns);
    const { leafId } = this.trail;
    this.#entries.push(entryOf({ type: "leaf", targetId: leafId }, this.id, leafId, this.time.iso));
    return undone;
  }

  /**
   * Adds usage to the open answer, and ends the answer. Without an open answer, keeps the usage for a compaction. If an
   * earlier import wrote the answer without usage, the usage becomes a separate entry.
   */
  bill(billed: Billed): void {
    const answer = this.#answer;
    if (answer) {
      this.contextTokens = billed.usage.totalTokens ?? 0;
      this.flush(answer.lacksBill ? undefined : billed.usage);
    }
    if (answer && !answer.lacksBill) return;
    this.settle();
    this.#loose = { ...billed, id: this.id, time: this.time };
  }

  /**
   * Returns the usage of the current compaction; undefined when none is kept, when it is of another response, or when an
   * earlier import wrote it.
   */
  takeBill(responseId: unknown): Usage | undefined {
    const loose = this.#loose;
    if (
      !loose ||
      (typeof responseId === "string" && loose.responseId !== undefined && loose.responseId !== responseId)
    )
      return undefined;
    this.#loose = undefined;
    // An earlier import ended here, and wrote the usage as a separate entry.
    return this.options.known?.(loose.id) === undefined ? loose.usage : undefined;
  }

  /** Writes usage that belongs to no answer as a separate entry. */
  settle(): void {
    const loose = this.#loose;
    if (!loose) return;
    this.#loose = undefined;
    const { provider, model = "unknown" } = this.settings;
    const body = { type: "usage", kind: "codex", provider, model, usage: loose.usage };
    this.#grow(body, loose.id, loose.time);
  }

  /** Writes the open answer and usage, when all lines have been read. */
  end(): void {
    this.flush();
    this.settle();
    this.#tellContentIssues();
  }

  /** Adds an entry at the leaf. */
  #grow(body: EntryBody, id: string, time = this.time): void {
    this.#entries.push(this.trail.grow(body, id, time));
  }

  #tellContentIssues(): void {
    for (const { message } of this.#content.taken()) this.note("content", message);
  }
}

/** Minimum number of newest entries whose text is kept; at twice this number, the older ones are dropped. */
const REMEMBERED = 256;

/**
 * Maximum number of characters of the user's messages that are kept: as many as Codex itself keeps when it compacts
 * (20,000 tokens).
 */
const USER_CHARACTERS = 80_000;

/** Position in a thread: the leaf, the turns that can be undone, and the last messages. */
class Trail {
  leafId: string | null = null;
  #position = 0;
  /**
   * Start of each turn that can be undone: the id of the entry before it, empty when there is none, and its position.
   */
  readonly #before: ScratchTexts;
  readonly #began: ScratchColumn<Float64Array>;
  /** Start of the run of entries that has no answer yet. */
  #runStart: { before: string | null; position: number } | undefined;
  /** Newest messages, in order. */
  said: Said[] = [];
  /** Newest prompts, in order. */
  users: Prompt[] = [];
  #userCharacters = 0;

  constructor(area: ScratchArea) {
    this.#before = new ScratchTexts(area);
    this.#began = area.column(Float64Array);
  }

  /** Writes an entry at the leaf. */
  grow(body: EntryBody, id: string, time: SourceTime): Entry {
    const entry = entryOf(body, id, this.leafId, time.iso);
    this.#position++;
    // Names and usage are not part of the conversation.
    if (body.type === "session_info" || body.type === "usage") return entry;
    this.#runStart ??= { before: this.leafId, position: this.#position };
    this.leafId = id;
    return entry;
  }

  /** Stores the message at the leaf by its keys. */
  remember(keys: readonly string[]): void {
    this.said.push({ id: this.leafId!, keys, position: this.#position });
    if (this.said.length > 2 * REMEMBERED) this.said = this.said.slice(-REMEMBERED);
  }

  /** Begins a user turn at the first entry of the run that ends in the prompt. The prompt is at the leaf. */
  beginTurn(prompt: string): void {
    const start = this.#runStart!;
    this.#began.set(this.#before.length, start.position);
    this.#before.add(start.before ?? "");
    this.#runStart = undefined;
    this.users.push({ text: prompt, position: this.#position });
    this.#userCharacters += prompt.length;
    // The newest prompt is always kept, regardless of its length.
    while (this.#userCharacters > USER_CHARACTERS && this.users.length > 1)
      this.#userCharacters -= this.users.shift()!.text.length;
  }

  /** Ends a run of entries before an answer, a result or a new task. */
  endRun(): void {
    this.#runStart = undefined;
  }

  /** Moves back by this number of user turns, at most to the start of the first; returns the number of undone turns. */
  rollBack(turns: number): number {
    const taken = Math.min(turns, this.#before.length);
    if (taken === 0) return 0;
    const first = this.#before.length - taken;
    const position = this.#began.get(first);
    this.leafId = this.#before.get(first) || null;
    this.#before.cut(first);
    this.said = this.said.filter((said) => said.position < position);
    this.#keepUsers((said) => said.position < position);
    this.#runStart = undefined;
    return taken;
  }

  /** Drops the stored texts, except the last ones. */
  forget(butLast: number): void {
    this.said = butLast === 0 ? [] : this.said.slice(-butLast);
    const from = this.said[0]?.position ?? Number.POSITIVE_INFINITY;
    this.#keepUsers(({ position }) => position >= from);
    this.#runStart = undefined;
  }

  #keepUsers(stays: (prompt: Prompt) => boolean): void {
    this.users = this.users.filter(stays);
    this.#userCharacters = this.users.reduce((sum, { text }) => sum + text.length, 0);
  }
}

type Fields = Record<string, unknown>;

/** Usage of one call of a model. */
interface Billed {
  usage: Usage;
  /** Response of the call, if the file names it. */
  responseId: string | undefined;
}

/** Reads usage, each call once: files repeat the same count, and newer versions have it in two forms. */
class UsageBook {
  #hasRecords = false;
  #lastTotal: number | undefined;

  /** Reads usage from a `token_usage_record`; undefined when it has none. */
  readRecord(payload: Fields): Billed | undefined {
    if (!isRecord(payload["usage"])) return undefined;
    this.#hasRecords = true;
    const { response_id } = payload;
    return {
      usage: readUsage(payload["usage"]),
      responseId: typeof response_id === "string" ? response_id : undefined,
    };
  }

  /** Reads usage from a `token_count` event; undefined if it repeats an earlier one, has none, or the file has records. */
  readCount({ info }: Fields): Billed | undefined {
    if (this.#hasRecords || !isRecord(info) || !isRecord(info["last_token_usage"])) return undefined;
    const total = isRecord(info["total_token_usage"]) ? info["total_token_usage"]["total_tokens"] : undefined;
    if (typeof total === "number") {
      if (total === this.#lastTotal) return undefined;
      this.#lastTotal = total;
    }
    const usage = readUsage(info["last_token_usage"]);
    return usage.totalTokens ? { usage, responseId: undefined } : undefined;
  }
}

/**
 * Converts usage. The API's input includes tokens read from and written to its cache; the session format counts them
 * separately.
 */
function readUsage(fields: Fields): Usage {
  const cacheRead = countIn(fields, "cached_input_tokens");
  const cacheWrite = countIn(fields, "cache_write_input_tokens");
  const input = Math.max(0, countIn(fields, "input_tokens") - cacheRead - cacheWrite);
  const output = countIn(fields, "output_tokens");
  const totalTokens = countIn(fields, "total_tokens") || input + output + cacheRead + cacheWrite;
  return { input, output, cacheRead, cacheWrite, totalTokens, cost: NO_COST };
}
