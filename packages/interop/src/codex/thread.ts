// Separate from importer.ts: it keeps the state of a thread, line by line.
import { type ContentBlock, type Entry, isRecord, type Usage } from "@espalier/session-tree";
import { countIn, FormatIssues } from "../formats/conversation.ts";
import type { DraftOptions, KnownEntry } from "../import/draft.ts";
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
import { itemKeys, type Prompt, type Said } from "./compaction.ts";
import { type CodexSettings, NO_CODEX_SETTINGS, type Reading } from "./items.ts";
import type { LogicalLine } from "./logical-lines.ts";
import { textOf } from "./rollout.ts";

type Fields = Record<string, unknown>;

/** Usage of one call of a model whose answer has not been found yet. */
interface LooseBill {
  id: string;
  time: SourceTime;
  usage: Usage;
  /** Response of the call, if the file names it. */
  responseId: string | undefined;
}

/** Items of one answer, collected until another item follows. */
interface OpenAnswer {
  id: string;
  time: SourceTime;
  /** Entry of an earlier import. */
  known: KnownEntry | undefined;
  lines: number;
  blocks: ContentBlock[];
  /** Parts that only the provider can read. */
  encrypted: Fields[];
  keys: string[];
}

/** Minimum number of newest entries whose text is kept; at twice this number, the older ones are dropped. */
const REMEMBERED = 256;

/**
 * Maximum number of characters of the user's messages that are kept: as many as Codex itself keeps when it compacts
 * (20,000 tokens).
 */
const USER_CHARACTERS = 80_000;

/** A thread while its lines are read: its written entries, the open answer, and the position. */
export class Thread {
  readonly options: DraftOptions;
  settings: CodexSettings = NO_CODEX_SETTINGS;
  /** Settings of the last turn, as text. */
  lastTurn = "";
  /** Tokens of the context at the last answer. */
  contextTokens = 0;
  /** Names of the tools whose results are still missing, by call. */
  readonly toolNames = new Map<string, string>();
  leafId: string | null = null;
  time = NO_TIME;
  /** Newest messages, in order. */
  said: Said[] = [];
  /** Newest prompts, in order. */
  prompts: Prompt[] = [];
  readonly #issues: ImportIssues;
  /** Entries that the caller has not taken yet. */
  readonly #entries: Entry[] = [];
  /** Issues of the content of the current line. */
  readonly #content = new FormatIssues();
  #line: Pick<LogicalLine, "seed" | "lineNumber"> = { seed: "", lineNumber: null };
  #open: OpenAnswer | undefined;
  #bill: LooseBill | undefined;
  /** True if the file has usage records: its counts repeat them. */
  #hasRecords = false;
  /** Total of the last count. */
  #total: unknown;
  /** Number of written entries that move the leaf. */
  #position = 0;
  /** Start of each turn that can be undone: the id of the entry before it, empty when there is none, and its position. */
  readonly #turns: ScratchTexts;
  readonly #turnPositions: ScratchColumn<Float64Array>;
  /** Start of the run of entries that has no answer yet. */
  #runStart: { before: string | null; position: number } | undefined;

  constructor(area: ScratchArea, issues: ImportIssues, options: DraftOptions) {
    this.#issues = issues;
    this.options = options;
    this.#turns = new ScratchTexts(area);
    this.#turnPositions = area.column(Float64Array);
  }

  /** Starts the next line. */
  begin(line: Pick<LogicalLine, "seed" | "timestamp" | "lineNumber">): void {
    this.#noteContent();
    this.#line = line;
    this.time = readTime(line.timestamp, this.time);
  }

  /** Id of the entry that the line becomes; most lines become none. */
  get id(): string {
    return idFromText(this.#line.seed);
  }

  get reading(): Reading {
    return { provider: this.settings.provider, issues: this.#content };
  }

  /** Adds an issue of the line; issues of other files are reported when those files are imported. */
  note(kind: ImportIssueKind, message: string): void {
    const { lineNumber } = this.#line;
    if (lineNumber !== null) this.#issues.add(kind, lineNumber, message);
  }

  #noteContent(): void {
    for (const { message } of this.#content.taken()) this.note("content", message);
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

  /** Adds an entry that a model reads, which a compaction can name by its keys. */
  say(body: EntryBody, keys: readonly string[], name?: string): void {
    this.write(body, name);
    this.#remember(keys);
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

  /** Adds the line to the open answer; only its provider can read `encrypted`. */
  answer(item: Fields, blocks: readonly ContentBlock[], encrypted?: Fields): void {
    // Lines that were added since an earlier import are a separate answer.
    if (this.#open && isComplete(this.#open)) this.flush();
    if (!this.#open) {
      this.settle();
      const { id, time } = this;
      const known = this.options.known?.(id);
      this.#open = { id, time, known, lines: 0, blocks: [], encrypted: [], keys: [] };
    }
    const open = this.#open;
    open.lines++;
    if (encrypted) open.encrypted.push(encrypted);
    for (const key of itemKeys(item)) open.keys.push(key);
    for (const block of blocks) {
      open.blocks.push(block);
      if (block.type === "toolCall") this.toolNames.set(block.id, block.name);
    }
  }

  /** Ends the open answer. */
  flush(usage?: Usage): void {
    const open = this.#open;
    if (!open) return;
    this.#open = undefined;
    const { known, lines, blocks, encrypted, time } = open;
    const { provider, model = "unknown" } = this.settings;
    // An answer that another branch continued is a separate entry.
    const id = known && known.lines > lines ? idFromText(`${open.id}/first/${lines}`) : open.id;
    const body = {
      type: "message",
      message: {
        role: "assistant",
        content: blocks,
        api: "openai-responses",
        provider,
        model,
        ...(usage ? { usage } : {}),
        stopReason: blocks.some(({ type }) => type === "toolCall") ? "toolUse" : "stop",
        timestamp: time.ms,
      },
      ...(lines > 1 ? { sourceLines: lines } : {}),
      // In the details and not in the message, where requests to another provider would include it.
      ...(encrypted.length > 0 ? { details: { provider, encryptedReasoning: encrypted } } : {}),
    };
    this.#grow(body, id, time);
    this.endRun();
    this.#remember(open.keys);
  }

  /** Adds the name of the thread; it is not part of the conversation, so an open answer goes on. */
  name(name: string, id = this.id): void {
    this.#grow({ type: "session_info", name }, id);
  }

  /** Adds usage from a `token_usage_record`; returns false when it has none. */
  billRecord({ usage, response_id: responseId }: Fields): boolean {
    if (!isRecord(usage)) return false;
    this.#hasRecords = true;
    return this.#add(readUsage(usage), textOf(responseId));
  }

  /** Adds usage from a `token_count` event; returns false if it repeats an earlier one, has none, or the file has records. */
  billCount({ info }: Fields): boolean {
    const { total_token_usage: counted, last_token_usage: last } = isRecord(info) ? info : {};
    const total = isRecord(counted) ? counted["total_tokens"] : undefined;
    if (this.#hasRecords || !isRecord(last) || (total !== undefined && total === this.#total)) return false;
    this.#total = total ?? this.#total;
    const usage = readUsage(last);
    return usage.totalTokens !== 0 && this.#add(usage, undefined);
  }

  /**
   * Adds usage to the open answer, and ends the answer. Without an open answer, keeps the usage for a compaction. If an
   * earlier import wrote the answer without usage, the usage becomes a separate entry.
   */
  #add(usage: Usage, responseId: string | undefined): true {
    const open = this.#open;
    const lacksBill = open && isComplete(open) && open.known?.isBilled === false;
    if (open) this.contextTokens = usage.totalTokens ?? 0;
    this.flush(lacksBill ? undefined : usage);
    if (!open || lacksBill) {
      this.settle();
      this.#bill = { id: this.id, time: this.time, usage, responseId };
    }
    return true;
  }

  /**
   * Returns the usage of the current compaction; undefined when none is kept, when it is of another response, or when an
   * earlier import wrote it.
   */
  takeBill(responseId: unknown): Usage | undefined {
    const bill = this.#bill;
    const isOther = typeof responseId === "string" && (bill?.responseId ?? responseId) !== responseId;
    if (!bill || isOther) return undefined;
    this.#bill = undefined;
    // An earlier import ended here, and wrote the usage as a separate entry.
    return this.options.known?.(bill.id) ? undefined : bill.usage;
  }

  /** Writes usage that belongs to no answer as a separate entry. */
  settle(): void {
    if (!this.#bill) return;
    const { id, time, usage } = this.#bill;
    this.#bill = undefined;
    const { provider, model = "unknown" } = this.settings;
    this.#grow({ type: "usage", kind: "codex", provider, model, usage }, id, time);
  }

  /** Writes the open answer and usage, when all lines have been read. */
  end(): void {
    this.flush();
    this.settle();
    this.#noteContent();
  }

  /** Begins a user turn at the first entry of the run that ends in the prompt. The prompt is at the leaf. */
  beginTurn(text: string): void {
    const { before, position } = this.#runStart!;
    this.#turnPositions.set(this.#turns.length, position);
    this.#turns.add(before ?? "");
    this.#runStart = undefined;
    const start = this.prompts.at(-1)?.end ?? 0;
    const end = start + text.length;
    this.prompts.push({ text, end, position: this.#position - 1 });
    // The newest prompt is always kept, regardless of its length.
    const first = this.prompts.findIndex(
      (prompt) => end - prompt.end + prompt.text.length <= USER_CHARACTERS,
    );
    this.prompts.splice(0, first < 0 ? this.prompts.length - 1 : first);
  }

  /** Ends a run of entries before an answer, a result or a new task. */
  endRun(): void {
    this.#runStart = undefined;
  }

  /**
   * Moves the leaf back by a number of turns, at most to the start of the first turn, and returns the number of turns
   * undone. These stay as a branch.
   */
  rollBack(turns: number): number {
    this.end();
    const undone = Math.min(turns, this.#turns.length);
    if (undone > 0) {
      const first = this.#turns.length - undone;
      const position = this.#turnPositions.get(first);
      this.leafId = this.#turns.get(first) || null;
      this.#turns.cut(first);
      this.said = this.said.filter((each) => each.position < position);
      this.prompts = this.prompts.filter((each) => each.position < position);
      this.endRun();
    }
    const { leafId: targetId } = this;
    this.#entries.push(entryOf({ type: "leaf", targetId }, this.id, targetId, this.time.iso));
    return undone;
  }

  /** Drops the stored texts, except the last ones. */
  forget(butLast: number): void {
    this.said = this.said.slice(this.said.length - butLast);
    const first = this.said[0]?.position ?? Number.POSITIVE_INFINITY;
    this.prompts = this.prompts.filter(({ position }) => position >= first);
    this.endRun();
  }

  /** Stores the message at the leaf by its keys. */
  #remember(keys: readonly string[]): void {
    this.said.push({ id: this.leafId!, keys, position: this.#position - 1 });
    if (this.said.length > 2 * REMEMBERED) this.said = this.said.slice(-REMEMBERED);
  }

  /** Adds an entry at the leaf. */
  #grow(body: EntryBody, id: string, time = this.time): void {
    const { type } = body;
    this.#entries.push(entryOf(body, id, this.leafId, time.iso));
    // Names and usage are not part of the conversation.
    if (type === "session_info" || type === "usage") return;
    this.#runStart ??= { before: this.leafId, position: this.#position };
    this.#position++;
    this.leafId = id;
  }
}

/** Returns whether the answer is already in the session: no further line belongs to it. */
const isComplete = ({ known, lines }: OpenAnswer): boolean => lines === known?.lines;

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
