import { type ContentBlock, type Entry, isRecord, type Usage } from "@espalier/session-tree";
import { FormatIssues } from "../formats/conversation.ts";
import type { DraftOptions } from "../import/draft.ts";
import {
  type EntryBody,
  entryOf,
  idFromText,
  NO_COST,
  NO_TIME,
  readTime,
  type SourceTime,
} from "../import/entry.ts";
import type { ImportIssueKind, ImportIssues } from "../import/issue.ts";
import { IdColumn } from "../scratch/ids.ts";
import type { ScratchArea, ScratchColumn } from "../scratch/space.ts";
import { OpenAnswer, type Reading } from "./blocks.ts";
import type { LogicalLine } from "./logical-lines.ts";
import { type CodexSettings, NO_CODEX_SETTINGS } from "./settings.ts";

/** What was billed for a call whose answer has not been found yet. */
interface LooseBill extends Billed {
  id: string;
  time: SourceTime;
}

/** A thread while its lines are read: what has been written of it, and what waits to be. */
export class ThreadHistory {
  readonly trail: Trail;
  readonly usage = new UsageBook();
  /** Names of the tools whose results have not come yet, by call. */
  readonly toolNames = new Map<string, string>();
  readonly options: DraftOptions;
  settings: CodexSettings = NO_CODEX_SETTINGS;
  /** The settings of the last turn, as text. */
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
  /** What was noticed inside the line that is being read. */
  #content = new FormatIssues();

  constructor(issues: ImportIssues, options: DraftOptions, area: ScratchArea) {
    this.trail = new Trail(area);
    this.#issues = issues;
    this.options = options;
  }

  /** Turns to the next line. */
  begin(line: Pick<LogicalLine, "seed" | "timestamp" | "lineNumber">): void {
    this.#tellContentIssues();
    this.#seed = line.seed;
    this.#id = undefined;
    this.time = readTime(line.timestamp, this.time);
    this.#lineNumber = line.lineNumber;
  }

  /** The id of the entry that the line becomes; most lines become none. */
  get id(): string {
    this.#id ??= idFromText(this.#seed);
    return this.#id;
  }

  get reading(): Reading {
    return { place: String(this.#lineNumber ?? 0), provider: this.settings.provider, issues: this.#content };
  }

  /** Tells something about the line; lines of other files are told of where those are read. */
  note(kind: ImportIssueKind, message: string): void {
    if (this.#lineNumber !== null) this.#issues.add(kind, this.#lineNumber, message, null);
  }

  /** An entry out of the line; `name` for one beside the line's own. */
  *write(body: EntryBody, name?: string): Generator<Entry, void> {
    yield* this.flush();
    yield* this.settle();
    yield this.trail.grow(body, name === undefined ? this.id : idFromText(`${this.id}/${name}`), this.time);
  }

  /** The line as state of the agent. */
  *state(name: string, data: unknown): Generator<Entry, void> {
    const customType = `codex.${name.replace(/[^\w.-]+/g, "-").slice(0, 64)}`;
    yield* this.write({ type: "custom", customType, data });
  }

  /** The same, while what was billed still waits for what it was for. */
  *aside(name: string, data: unknown): Generator<Entry, void> {
    yield* this.flush();
    yield this.trail.grow({ type: "custom", customType: `codex.${name}`, data }, this.id, this.time);
  }

  /** The line as a part of the answer that is being given. */
  *answer(blocks: readonly ContentBlock[], encrypted?: Record<string, unknown>): Generator<Entry, void> {
    yield* this.settle();
    // Lines that were written since an earlier import are an answer of their own.
    if (this.#answer?.isComplete) yield* this.flush();
    this.#answer ??= new OpenAnswer(this.id, this.time, this.options.known?.(this.id));
    this.#answer.add(blocks, encrypted);
  }

  /** Ends the answer that is being given. */
  *flush(usage?: Usage): Generator<Entry, void> {
    const answer = this.#answer;
    if (!answer) return;
    this.#answer = undefined;
    const body = answer.body(this.settings, usage);
    for (const [callId, name] of answer.calls()) this.toolNames.set(callId, name);
    yield this.trail.grow(body, answer.entryId, answer.time);
    this.trail.remember("assistant", answer.text());
    this.trail.endRun();
  }

  /** What was billed belongs to the answer that is being given, or waits for a compaction. */
  *bill(billed: Billed): Generator<Entry, void> {
    const answer = this.#answer;
    if (answer) {
      this.contextTokens = billed.usage.totalTokens ?? 0;
      yield* this.flush(answer.lacksBill ? undefined : billed.usage);
    }
    if (answer && !answer.lacksBill) return;
    yield* this.settle();
    this.#loose = { ...billed, id: this.id, time: this.time };
  }

  /** What was billed for the compaction that is being read. */
  takeBill(responseId: unknown): Usage | undefined {
    const loose = this.#loose;
    if (
      !loose ||
      (typeof responseId === "string" && loose.responseId !== undefined && loose.responseId !== responseId)
    )
      return undefined;
    this.#loose = undefined;
    // An earlier import ended here, and could not know what it was for.
    return this.options.known?.(loose.id) === undefined ? loose.usage : undefined;
  }

  /** What was billed and belongs to nothing that was said stands alone. */
  *settle(): Generator<Entry, void> {
    const loose = this.#loose;
    if (!loose) return;
    this.#loose = undefined;
    const { provider, model = "unknown" } = this.settings;
    const body = { type: "usage", kind: "codex", provider, model, usage: loose.usage };
    yield this.trail.grow(body, loose.id, loose.time);
  }

  /** Writes what still waits, when all lines have been read. */
  *end(): Generator<Entry, void> {
    yield* this.flush();
    yield* this.settle();
    this.#tellContentIssues();
  }

  #tellContentIssues(): void {
    if (this.#content.isEmpty) return;
    for (const { message } of this.#content.list()) this.note("content", message);
    this.#content = new FormatIssues();
  }
}

/** How many of the newest entries are remembered by what they say. */
const REMEMBERED = 256;

/** How much of what the user said is remembered, in characters: as much as Codex itself keeps when it compacts (20,000 tokens). */
const USER_CHARACTERS = 80_000;

/** Something that was said, on the path. */
export interface Said {
  id: string;
  role: string;
  text: string;
  /** Its position among all entries that were written. */
  position: number;
}

/** Where a thread stands: the leaf, the turns that can be taken back, and what was said last. */
class Trail {
  leafId: string | null = null;
  #position = 0;
  /** Where each turn began that can be taken back: what stood before it, and at which position. */
  readonly #before: IdColumn;
  readonly #began: ScratchColumn<Float64Array>;
  #turns = 0;
  /** Where the run of entries began that nobody has answered yet. */
  #runStart: { before: string | null; position: number } | undefined;
  #said: Said[] = [];
  #users: Said[] = [];
  #userCharacters = 0;

  constructor(area: ScratchArea) {
    this.#before = new IdColumn(area);
    this.#began = area.floats();
  }

  /** Writes an entry at the leaf. */
  grow(body: EntryBody, id: string, time: SourceTime): Entry {
    const entry = entryOf(body, id, this.leafId, time.iso);
    this.#position++;
    // Names and bills stand beside the conversation.
    if (body.type === "session_info" || body.type === "usage") return entry;
    this.#runStart ??= { before: this.leafId, position: this.#position };
    this.leafId = id;
    return entry;
  }

  /** Remembers what the entry at the leaf says; `isPrompt` where the user said it. */
  remember(role: string, text: string, isPrompt = false): void {
    const said = { id: this.leafId ?? "", role, text, position: this.#position };
    this.#said.push(said);
    if (this.#said.length > 2 * REMEMBERED) this.#said = this.#said.slice(-REMEMBERED);
    if (!isPrompt) return;
    this.#users.push(said);
    this.#userCharacters += text.length;
    // The newest prompt stays, however long it is.
    while (this.#userCharacters > USER_CHARACTERS && this.#users.length > 1)
      this.#userCharacters -= this.#users.shift()!.text.length;
  }

  /** A user turn begins with the run of entries that leads to the prompt, and the prompt itself is at the leaf. */
  beginTurn(): void {
    const start = this.#runStart ?? { before: this.leafId, position: this.#position };
    this.#before.set(this.#turns, start.before);
    this.#began.set(this.#turns++, start.position);
    this.#runStart = undefined;
  }

  /** What comes next is no part of what was before: an answer, a result, a new task. */
  endRun(): void {
    this.#runStart = undefined;
  }

  /** Goes back so many user turns, or to the beginning; returns how many could be taken back. */
  rollBack(turns: number): number {
    const taken = Math.min(turns, this.#turns);
    if (taken === 0) return 0;
    this.#turns -= taken;
    const position = this.#began.get(this.#turns);
    this.leafId = this.#before.get(this.#turns);
    this.#said = this.#said.filter((said) => said.position < position);
    this.#keepUsers((said) => said.position < position);
    this.#runStart = undefined;
    return taken;
  }

  /** From here on nothing that was said before counts, but for the last so many things. */
  forget(butLast = 0): void {
    this.#said = butLast === 0 ? [] : this.#said.slice(-butLast);
    const from = this.#said[0]?.position ?? Number.POSITIVE_INFINITY;
    this.#keepUsers(({ position }) => position >= from);
    this.#runStart = undefined;
  }

  /** The newest of what was said, the last one last. */
  get said(): readonly Said[] {
    return this.#said;
  }

  /** What the user said, as far as it is remembered. */
  get users(): readonly Said[] {
    return this.#users;
  }

  #keepUsers(stays: (said: Said) => boolean): void {
    this.#users = this.#users.filter(stays);
    this.#userCharacters = this.#users.reduce((sum, { text }) => sum + text.length, 0);
  }
}

type Fields = Record<string, unknown>;

/** What one call of a model was billed. */
interface Billed {
  usage: Usage;
  /** The response it was billed for, where the file says that. */
  responseId: string | undefined;
}

/** Reads what was billed, each call once: files repeat the same count, and newer ones say it in two ways. */
class UsageBook {
  #hasRecords = false;
  #lastTotal: number | undefined;

  /** From a `token_usage_record`. */
  readRecord(payload: Fields): Billed | undefined {
    if (!isRecord(payload["usage"])) return undefined;
    this.#hasRecords = true;
    const { response_id } = payload;
    return {
      usage: readUsage(payload["usage"]),
      responseId: typeof response_id === "string" ? response_id : undefined,
    };
  }

  /** From a `token_count` event; undefined when it tells nothing new. */
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

/** The API counts what it read from and wrote to its cache as input too; the session format counts them apart. */
function readUsage(fields: Fields): Usage {
  const count = (field: string): number => {
    const value = fields[field];
    return typeof value === "number" ? value : 0;
  };
  const cacheRead = count("cached_input_tokens");
  const cacheWrite = count("cache_write_input_tokens");
  const input = Math.max(0, count("input_tokens") - cacheRead - cacheWrite);
  const output = count("output_tokens");
  const totalTokens = count("total_tokens") || input + output + cacheRead + cacheWrite;
  return { input, output, cacheRead, cacheWrite, totalTokens, cost: NO_COST };
}
