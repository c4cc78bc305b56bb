import type { ContentBlock, Entry, Usage } from "@espalier/session-tree";
import { FormatIssues } from "../formats/format-issue.ts";
import type { DraftOptions } from "../import-draft.ts";
import { type EntryBody, NO_TIME, readTime, type SourceTime } from "../import-entry.ts";
import { idFromText } from "../import-ids.ts";
import type { ImportIssueKind, ImportIssues } from "../import-issue.ts";
import type { ScratchArea } from "../scratch/scratch-area.ts";
import { type CodexSettings, NO_CODEX_SETTINGS } from "./codex-settings.ts";
import type { Reading } from "./item-blocks.ts";
import type { LogicalLine } from "./logical-line.ts";
import { OpenAnswer } from "./open-answer.ts";
import { Trail } from "./trail.ts";
import { type Billed, UsageBook } from "./usage-book.ts";

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
