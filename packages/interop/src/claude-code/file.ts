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
import { HashRows, ScratchArea, type ScratchSpace } from "../scratch/space.ts";
import { headOf, joinAnswers, joinCompactions } from "./joined-lines.ts";
import { type Line, LineMark } from "./line-facts.ts";
import { findRuns, has, type Lines, readLines, textOf } from "./lines.ts";

/** A file of Claude Code. Its lines are read when they are first needed. */
export class ClaudeCodeFile {
  readonly source: SourceFile;
  readonly issues = new ImportIssues();
  readonly facts: SessionFacts;
  /** Calls of the file; complete when the entries of the conversation have been read. */
  calls: CallBook;
  callsRead = false;
  readonly #reader: BlockReader;
  #lines: Lines | undefined;
  /** True when the issues of the lines have been reported. */
  #isTold = false;
  readonly #space: ScratchSpace;
  readonly #area: ScratchArea;

  constructor(source: SourceFile, space: ScratchSpace) {
    this.source = source;
    this.facts = readSessionFacts(source.view);
    this.#space = space;
    this.#area = new ScratchArea(space);
    this.calls = newCallBook(this.#area);
    this.#reader = new BlockReader(source.view);
  }

  get lines(): Lines {
    if (!this.#lines) {
      const issues = this.#isTold ? new ImportIssues() : this.issues;
      this.#lines = readLines(this.source.view, this.#area, issues);
      joinAnswers(this.#lines);
      joinCompactions(this.#lines, (row) => this.lineAt(row), issues);
      findRuns(this.#lines);
    }
    return this.#lines;
  }

  /** Returns a parsed line; undefined when it is no JSON object, or longer than `LONGEST_PARSED`. */
  lineAt(row: number): Line | undefined {
    if (this.lines.size.get(row) > LONGEST_PARSED) return undefined;
    const parsed = parseLine(this.bytesAt(row));
    return parsed.ok && isRecord(parsed.value) ? parsed.value : undefined;
  }

  /** Returns the bytes of a line, or its first `longest` bytes. */
  bytesAt(row: number, longest = Number.POSITIVE_INFINITY): Uint8Array {
    const { offset, size } = this.lines;
    return this.#reader.read(offset.get(row), Math.min(size.get(row), longest));
  }

  /**
   * Returns the id of a row's entry: the id in its line; for a copied line, the id of its original. An id that is missing,
   * used by another line, or invalid in the session format is replaced by a derived one.
   */
  idOf(row: number, line = this.lineAt(row)): string {
    const { lines, facts } = this;
    const number = lines.number.get(row);
    const own = textOf(line?.["uuid"]);
    if (has(lines, row, LineMark.renamed)) return idFromText(`${own}#${number}`);
    const copied = line?.["forkedFrom"];
    const isCopy = has(lines, row, LineMark.claimed);
    const given = isCopy ? textOf(isRecord(copied) && copied["messageUuid"]) : own;
    return given === "" ? idFromText(`${facts.sessionId ?? ""}#${number}`) : idFromSource(given);
  }

  /** Returns the id of the entry that includes a row. */
  entryIdOf(row: number): string {
    return this.idOf(headOf(row, this.lines));
  }

  /** Makes scratch space for one pass; the caller closes it. */
  newArea(): ScratchArea {
    return new ScratchArea(this.#space);
  }

  /** Releases all data of the lines; they are read again when they are needed. */
  close(): void {
    this.#area.close();
    this.#lines = undefined;
    this.calls = newCallBook(this.#area);
    this.callsRead = false;
    this.#isTold = true;
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

/** Calls of a session: the names of their tools, and their rows. Sub-agents are found by their calls. */
export type CallBook = ReturnType<typeof newCallBook>;

const newCallBook = (area: ScratchArea) => ({
  /** Names of the tools of recent calls. */
  tools: new Map<string, string>(),
  /** Rows of calls by their ids, by the sub-agents that they started, and by their prompts. */
  callers: new HashRows(area),
  agents: new HashRows(area),
  prompts: new HashRows(area),
});

/** Number of recent calls that are kept by name. A result usually follows its call soon. */
const REMEMBERED = 1_024;

/** Adds the calls of the answer that a row became; returns their number. */
export function takeAnswer(
  { tools, callers, prompts }: CallBook,
  answer: AssistantMessage,
  row: number,
): number {
  const calls = toolCalls(answer);
  for (const { id, name, arguments: input } of calls) {
    tools.set(id, name);
    if (tools.size > REMEMBERED) tools.delete(tools.keys().next().value!);
    callers.add(id, row);
    // The call of a sub-agent has its prompt, which in old files is the only link between both.
    if (isRecord(input) && typeof input["prompt"] === "string") prompts.add(input["prompt"], row);
  }
  return calls.length;
}

/** Adds the sub-agent that returned a result. */
export function takeResult({ callers, agents }: CallBook, line: Line, toolCallId: string): void {
  const result = line["toolUseResult"];
  const row = isRecord(result) && typeof result["agentId"] === "string" ? callers.rowOf(toolCallId) : -1;
  if (row >= 0) agents.add((result as { agentId: string }).agentId, row);
}

/** Returns the row that called a sub-agent, found by call, id or prompt; -1 when there is none. */
export function callerOf(calls: CallBook, { toolUseId, agentId, prompt }: CalledRun): number {
  const rowIn = (rows: HashRows, key: unknown) => (typeof key === "string" ? rows.rowOf(key) : -1);
  const rows = [rowIn(calls.callers, toolUseId), rowIn(calls.agents, agentId), rowIn(calls.prompts, prompt)];
  return rows.find((row) => row >= 0) ?? -1;
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
    const { forkedFrom: sessionId, lastCopied } = file.lines;
    // A continued session that has the id of its original names itself.
    if (sessionId !== undefined && sessionId !== sessionIdOf(file))
      return { sessionId, entryId: lastCopied < 0 ? null : file.entryIdOf(lastCopied), kind: "fork" };
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
  for (let row = file.lines.length - 1; row >= 0; row--) {
    const id = file.lineAt(row)?.["uuid"];
    if (typeof id === "string" && original.lines.ids.rowOf(id) >= 0) return file.entryIdOf(row);
  }
  return null;
}
