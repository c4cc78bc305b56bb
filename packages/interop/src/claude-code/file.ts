// Separate from importer.ts: it reads the lines of a file; the importer makes entries of them.
import { type ByteView, LONGEST_PARSED, parseLine } from "@espalier/jsonl-stream";
import {
  type AssistantMessage,
  BlockReader,
  isRecord,
  type ParentLink,
  toolCalls,
} from "@espalier/session-tree";
import { firstLines, type SiblingFiles, type SourceFile, sourceName } from "../import/draft.ts";
import { idFromSource, idFromText, NO_TIME, readTime, type SourceTime } from "../import/entry.ts";
import { ImportIssues } from "../import/issue.ts";
import { HashRows, ScratchArea, type ScratchColumn, type ScratchSpace } from "../scratch/space.ts";
import { hasPlace, type Line, LineMark } from "./line-facts.ts";
import { type FileLines, type LineTable, originalId, readLineTable } from "./line-table.ts";
import { AnswerParts, Boundaries } from "./places.ts";

/** A file of Claude Code. Its lines are read when they are first needed. */
export class ClaudeCodeFile {
  readonly source: SourceFile;
  readonly issues = new ImportIssues();
  /** Calls of the file; complete when the entries of the conversation have been read. */
  calls: CallBook;
  callsRead = false;
  readonly #reader: BlockReader;
  #facts: SessionFacts | undefined;
  #lines: FileLines | undefined;
  #boundaries: Boundaries | undefined;
  #runs: Sidechains | undefined;
  #answers: AnswerParts | undefined;
  /** True when the issues of the lines have been reported. */
  #isTold = false;
  readonly #space: ScratchSpace;
  readonly #area: ScratchArea;

  constructor(source: SourceFile, space: ScratchSpace) {
    this.source = source;
    this.#space = space;
    this.#area = new ScratchArea(space);
    this.calls = new CallBook(this.#area);
    this.#reader = new BlockReader(source.view);
  }

  get facts(): SessionFacts {
    this.#facts ??= readSessionFacts(this.source.view);
    return this.#facts;
  }

  get lines(): FileLines {
    this.#lines ??= readLineTable(this.source.view, this.#area, this.#news);
    return this.#lines;
  }

  get boundaries(): Boundaries {
    this.#boundaries ??= new Boundaries(this.lines.table, (row) => this.lineAt(row), this.#news);
    return this.#boundaries;
  }

  get runs(): Sidechains {
    this.#runs ??= new Sidechains(this.lines.table, this.#area);
    return this.#runs;
  }

  /** Returns a parsed line; undefined when it is no JSON object, or longer than `LONGEST_PARSED`. */
  lineAt(row: number): Line | undefined {
    if (this.lines.table.lineLength.get(row) > LONGEST_PARSED) return undefined;
    const parsed = parseLine(this.bytesAt(row));
    return parsed.ok && isRecord(parsed.value) ? parsed.value : undefined;
  }

  /** Returns the bytes of a line, or its first `longest` bytes. */
  bytesAt(row: number, longest = Number.POSITIVE_INFINITY): Uint8Array {
    const { table } = this.lines;
    return this.#reader.read(table.offset.get(row), Math.min(table.lineLength.get(row), longest));
  }

  /**
   * Returns the id of a row's entry: the id in its line; for a copied line, the id of its original. An id that is missing,
   * used by another line, or invalid in the session format is replaced by a derived one.
   */
  idOf(row: number, line = this.lineAt(row)): string {
    const { table } = this.lines;
    const own = line?.["uuid"];
    if (table.has(row, LineMark.renamed))
      return idFromText(`${typeof own === "string" ? own : ""}#${table.lineNumber.get(row)}`);
    const given = table.has(row, LineMark.claimed) ? originalId(line) : own;
    if (typeof given === "string" && given !== "") return idFromSource(given);
    return idFromText(`${this.facts.sessionId ?? ""}#${table.lineNumber.get(row)}`);
  }

  /** Makes scratch space for one pass; the caller closes it. */
  newArea(): ScratchArea {
    return new ScratchArea(this.#space);
  }

  /** Releases all data of the lines; they are read again when they are needed. */
  close(): void {
    this.#area.close();
    this.#lines = undefined;
    this.#boundaries = undefined;
    this.#runs = undefined;
    this.#answers = undefined;
    this.calls = new CallBook(this.#area);
    this.callsRead = false;
    this.#isTold = true;
  }

  get #news(): ImportIssues {
    return this.#isTold ? new ImportIssues() : this.issues;
  }

  /** Returns the id of the entry that includes a row. */
  entryIdOf(row: number): string {
    this.#answers ??= new AnswerParts(this.lines.table, this.#area, () => "");
    return this.idOf(this.#answers.headOf(row));
  }
}

const UUID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i;

/**
 * Returns the session's id: the file's name if it is a UUID, because lines that were copied from an older file may have
 * that file's id; else the id in the first lines, else the name.
 */
export function sessionIdOf({ source, facts }: ClaudeCodeFile): string {
  const name = sourceName(source.path);
  return UUID.test(name) ? name : (facts.sessionId ?? name);
}

/** Fields in which the run of a sub-agent refers to its call. */
export interface CalledRun {
  toolUseId?: unknown;
  agentId?: unknown;
  prompt?: unknown;
}

/** Number of recent calls that are kept by name. A result usually follows its call soon. */
const REMEMBERED = 1_024;

/** Calls of a session: the names of their tools, and their rows. Sub-agents are found by their calls. */
class CallBook {
  /** Names of tools, by call. */
  readonly #tools = new Map<string, string>();
  readonly #callers: HashRows;
  readonly #agents: HashRows;
  readonly #prompts: HashRows;

  constructor(area: ScratchArea) {
    this.#callers = new HashRows(area);
    this.#agents = new HashRows(area);
    this.#prompts = new HashRows(area);
  }

  /** Adds the calls of the answer that a row became; returns their number. */
  takeAnswer(answer: AssistantMessage, row: number): number {
    const calls = toolCalls(answer);
    for (const { id, name, arguments: input } of calls) {
      this.#remember(id, name);
      this.#callers.add(id, row);
      // The call of a sub-agent has its prompt, which in old files is the only link between both.
      if (isRecord(input) && typeof input["prompt"] === "string") this.#prompts.add(input["prompt"], row);
    }
    return calls.length;
  }

  /** Adds the sub-agent that returned a result. */
  takeResult(line: Line, toolCallId: string): void {
    const result = line["toolUseResult"];
    if (!isRecord(result) || typeof result["agentId"] !== "string") return;
    const row = this.rowOf(toolCallId);
    if (row >= 0) this.#agents.add(result["agentId"], row);
  }

  /** Returns the name of a recent call's tool. */
  recentTool(callId: string): string | undefined {
    return this.#tools.get(callId);
  }

  /** Returns the row of a call; -1 when there is none. */
  rowOf(callId: string): number {
    return this.#callers.rowOf(callId);
  }

  /** Returns the row that called a sub-agent, found by call, id or prompt; -1 when there is none. */
  callerOf({ toolUseId, agentId, prompt }: CalledRun): number {
    const rowIn = (rows: HashRows, key: unknown) => (typeof key === "string" ? rows.rowOf(key) : -1);
    const rows = [
      rowIn(this.#callers, toolUseId),
      rowIn(this.#agents, agentId),
      rowIn(this.#prompts, prompt),
    ];
    return rows.find((row) => row >= 0) ?? -1;
  }

  #remember(callId: string, name: string): void {
    this.#tools.set(callId, name);
    if (this.#tools.size <= REMEMBERED) return;
    const [oldest] = this.#tools.keys();
    this.#tools.delete(oldest!);
  }
}

/** Facts about the session in the first lines of a file. */
interface SessionFacts {
  sessionId: string | undefined;
  agentId: string | undefined;
  /** True if the first line with a position in the tree belongs to a sub-agent. */
  isSidechain: boolean;
  /** Id of the first line that has a position in the tree. Forks keep it. */
  rootId: string | undefined;
  cwd: string;
  version: string | undefined;
  time: SourceTime;
}

/** Maximum number of lines that are read for the facts: each line of the conversation has them. */
const MOST_LINES = 200;

function readSessionFacts(view: ByteView): SessionFacts {
  const facts: SessionFacts = {
    sessionId: undefined,
    agentId: undefined,
    isSidechain: false,
    rootId: undefined,
    cwd: "",
    version: undefined,
    time: NO_TIME,
  };
  for (const { value } of firstLines(view, MOST_LINES)) {
    if (!isRecord(value)) continue;
    const { sessionId, agentId, uuid, cwd, version, timestamp, isSidechain } = value;
    if (typeof sessionId === "string") facts.sessionId ??= sessionId;
    if (facts.time === NO_TIME) facts.time = readTime(timestamp, NO_TIME);
    if (typeof uuid !== "string") continue;
    facts.rootId = uuid;
    facts.isSidechain = isSidechain === true;
    if (typeof agentId === "string") facts.agentId = agentId;
    if (typeof cwd === "string") facts.cwd = cwd;
    if (typeof version === "string") facts.version = version;
    if (facts.sessionId !== undefined) break;
  }
  return facts;
}

/** Mark of a row that belongs to the main conversation. */
export const MAIN = -1;

/**
 * Rows of sub-agents. Old versions wrote the runs of sub-agents between the lines of the conversation. A file that has
 * no other lines is one run, which is its own conversation.
 */
class Sidechains {
  readonly #table: LineTable;
  /** For each row, the first row of its run, or {@link MAIN}. */
  readonly #runs: ScratchColumn<Int32Array>;
  /** First rows of all runs, in file order. */
  readonly all = new Set<number>();

  constructor(table: LineTable, area: ScratchArea) {
    this.#table = table;
    this.#runs = area.column(Int32Array, MAIN);
    if (!this.#hasMain()) return;
    for (let row = 0; row < table.length; row++) {
      if (!this.#isSide(row)) continue;
      this.#claim(row);
      this.all.add(this.runOf(row));
    }
  }

  runOf(row: number): number {
    return this.#runs.get(row);
  }

  #hasMain(): boolean {
    for (let row = 0; row < this.#table.length; row++)
      if (hasPlace(this.#table.kind(row)) && !this.#table.has(row, LineMark.sidechain)) return true;
    return false;
  }

  /** Walks up to the first row of the run, or to a row whose run is known, and sets the run of all rows on the way. */
  #claim(row: number): void {
    const walked: number[] = [];
    let at = row;
    for (; this.#isSide(at) && this.runOf(at) === MAIN; at = this.#table.parent.get(at)) {
      walked.push(at);
      // Set before the walk continues, so that a circle ends it.
      this.#runs.set(at, row);
    }
    const isKnown = this.#isSide(at) && this.runOf(at) !== row;
    for (const member of walked) this.#runs.set(member, isKnown ? this.runOf(at) : walked.at(-1)!);
  }

  #isSide(row: number): boolean {
    return hasPlace(this.#table.kind(row)) && this.#table.has(row, LineMark.sidechain);
  }
}

/**
 * Parents of forked files. A fork by the library names its parent in each copied line. A fork by the command line has
 * the same first line as other files. The original is then the file that is named after the session of that line, or
 * else the oldest file.
 */
export class Forks {
  readonly #siblings: Required<SiblingFiles>;
  /** Paths of the original files by the id of their first line. */
  #originals: Map<string, string> | undefined;

  constructor(siblings: Required<SiblingFiles>) {
    this.#siblings = siblings;
  }

  parentOf(file: ClaudeCodeFile): ParentLink | undefined {
    const { forks } = file.lines;
    // A continued session that has the id of its original names itself.
    if (forks.sessionId !== undefined && forks.sessionId !== sessionIdOf(file)) {
      const entryId = forks.lastRow < 0 ? null : file.entryIdOf(forks.lastRow);
      return { sessionId: forks.sessionId, entryId, kind: "fork" };
    }
    const original = this.#originalOf(file);
    if (!original) return undefined;
    const entryId = lastShared(file, original);
    original.close();
    return { sessionId: sessionIdOf(original), entryId, kind: "fork" };
  }

  #originalOf({ facts, source }: ClaudeCodeFile): ClaudeCodeFile | undefined {
    if (facts.rootId === undefined) return undefined;
    this.#originals ??= this.#findOriginals();
    const original = this.#originals.get(facts.rootId);
    if (original === undefined || original === source.path) return undefined;
    const opened = this.#siblings.open(original);
    return opened && new ClaudeCodeFile(opened, this.#siblings.scratch);
  }

  #findOriginals(): Map<string, string> {
    const originals = new Map<string, string>();
    const named = new Set<string>();
    // Files are sorted, oldest first.
    for (const path of this.#siblings.files) {
      const source = this.#siblings.open(path);
      if (!source) continue;
      const { rootId, isSidechain, sessionId } = readSessionFacts(source.view);
      if (rootId === undefined || isSidechain || named.has(rootId)) continue;
      if (sessionId === sourceName(path)) named.add(rootId);
      else if (originals.has(rootId)) continue;
      originals.set(rootId, path);
    }
    return originals;
  }
}

/** Returns the id of the entry of the last line that both files have; null when there is none. */
function lastShared(file: ClaudeCodeFile, original: ClaudeCodeFile): string | null {
  const { table } = file.lines;
  const older = original.lines.table;
  for (let row = table.length - 1; row >= 0; row--) {
    const id = file.lineAt(row)?.["uuid"];
    if (typeof id === "string" && older.rowOf(id) >= 0) return file.entryIdOf(row);
  }
  return null;
}
