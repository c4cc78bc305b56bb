// Separate from local-agents.ts: each agent has a folder of its own.
import { parseLine } from "@espalier/jsonl-stream";
import { type Entry, isRecord, NO_RESULT, type ParentLink } from "@espalier/session-tree";
import {
  type DraftOptions,
  importedHeader,
  NO_SIBLINGS,
  type SessionDraft,
  type SessionImporter,
  type SiblingFiles,
} from "../import/draft.ts";
import { idFromText, mentions, sessionIdFromSource } from "../import/entry.ts";
import { ImportIssues } from "../import/issue.ts";
import { type ScratchArea, type ScratchColumn, ScratchSpace } from "../scratch/space.ts";
import { holdsResult, LineBodies, speaks } from "./bodies.ts";
import { type CalledRun, ClaudeCodeFile, Forks, MAIN, sessionIdOf } from "./file.ts";
import { hasPlace, type Line, LineKind, LineMark } from "./line-facts.ts";
import type { LineTable } from "./line-table.ts";
import {
  AnswerParts,
  type Boundary,
  lineIds,
  metadataOf,
  type Place,
  Placement,
  ROOT_PLACE,
  type UnplacedEntry,
  WrittenRows,
} from "./places.ts";

/**
 * Reads sessions of Claude Code (`~/.claude/projects/<folder>/<session>.jsonl`, sub-agents in `<session>/subagents`).
 *
 * A file is read twice: first for the position of each line, which is kept in the scratch space, then for the content,
 * which is not kept.
 */
export function claudeCodeImporter(given: SiblingFiles = NO_SIBLINGS): SessionImporter {
  const siblings = { scratch: new ScratchSpace(), ...given };
  const forks = new Forks(siblings);
  const agents = new SubAgents(siblings);
  return {
    agent: "claude-code",
    recognises: (line) =>
      isRecord(line) &&
      typeof line["type"] === "string" &&
      ["sessionId", "uuid", "parentUuid", "leafUuid"].some((field) => field in line),
    *read(source): Generator<SessionDraft, void> {
      const file = new ClaudeCodeFile(source, siblings.scratch);
      const { agentId, isSidechain } = file.facts;
      if (isSidechain && agentId !== undefined) {
        yield agents.draftOf(file, agentId);
        return;
      }
      const sourceId = sessionIdOf(file);
      agents.enter(sourceId, file);
      yield draftOf({ file, sourceId, parent: () => forks.parentOf(file) });
      // A search takes less time than reading the lines. If the lines have been read, their facts are used.
      if (file.callsRead || mentions(source.view, /"isSidechain":\s*true/)) yield* runsWithin(file, sourceId);
    },
  };
}

/** Yields the runs of sub-agents that old versions wrote between the lines of a conversation. */
function* runsWithin(file: ClaudeCodeFile, sessionId: string): Generator<SessionDraft, void> {
  const taken = new Set<string>();
  for (const run of file.runs.all) {
    const line = file.lineAt(run) ?? {};
    const { agentId } = line;
    const name = typeof agentId === "string" && !taken.has(agentId) ? agentId : file.idOf(run, line);
    taken.add(name);
    yield draftOf({
      file,
      run,
      sourceId: agentSessionId(sessionId, name),
      parent: () => {
        readCalls(file);
        const above = file.lines.table.parent.get(run);
        const caller = file.calls.callerOf({ agentId, prompt: promptIn(line) });
        const entryId = caller >= 0 ? file.idOf(caller) : above < 0 ? null : file.entryIdOf(above);
        return { sessionId, entryId, kind: "subagent" };
      },
    });
  }
}

/** Parts of a draft. */
interface DraftParts {
  file: ClaudeCodeFile;
  sourceId: string;
  /** First row of a sub-agent's run within the file. Default: the conversation. */
  run?: number;
  /** Returns the parent; called when the header is made. */
  parent: () => ParentLink | undefined;
  prelude?: readonly UnplacedEntry[];
}

/** Makes a session draft from a conversation of Claude Code, or from the run of a sub-agent. */
function draftOf({ file, sourceId, run = MAIN, parent, prelude = [] }: DraftParts): SessionDraft {
  const issues = run === MAIN ? file.issues : new ImportIssues();
  let leafId: string | null | undefined;
  return {
    agent: "claude-code",
    sourceId,
    sessionId: sessionIdFromSource(sourceId),
    cwd: file.facts.cwd,
    source: file.source,
    issues,
    get leafId() {
      return leafId;
    },
    header() {
      const { version, time } = file.facts;
      return importedHeader(this, { timestamp: time.iso, version, parent: parent() });
    },
    *entries(options = {}) {
      leafId = yield* new Conversation(file, run, issues, options).entries(prelude);
    },
  };
}

/** Links the runs of sub-agents to the calls that started them. Keeps one conversation and its sub-agents at a time. */
class SubAgents {
  readonly #siblings: Required<SiblingFiles>;
  #conversation: string | undefined;
  /** The conversation, and its sub-agents that were read before: a sub-agent can have sub-agents. */
  readonly #callers = new Map<string, ClaudeCodeFile>();

  constructor(siblings: Required<SiblingFiles>) {
    this.#siblings = siblings;
  }

  /** Registers a conversation whose sub-agents may follow. */
  enter(sessionId: string, file: ClaudeCodeFile): void {
    this.#turnTo(sessionId);
    this.#callers.set(sessionId, file);
  }

  /** Returns the session of a sub-agent that has its own file, with the metadata from the file next to it. */
  draftOf(file: ClaudeCodeFile, agentId: string): SessionDraft {
    const sessionId = file.facts.sessionId ?? "";
    const sourceId = agentSessionId(sessionId, agentId);
    this.#turnTo(sessionId);
    const about = this.#readAbout(file.source.path);
    const draft = draftOf({
      file,
      sourceId,
      prelude: preludeOf(about, sourceId),
      parent: () =>
        this.#callerOf(sessionId, file, {
          toolUseId: about["toolUseId"],
          agentId,
          prompt: promptIn(file.lineAt(0)),
        }),
    });
    this.#callers.set(sourceId, file);
    return draft;
  }

  #callerOf(sessionId: string, own: ClaudeCodeFile, run: CalledRun): ParentLink {
    if (!this.#callers.has(sessionId)) this.#openConversation(sessionId);
    for (const [callerId, caller] of this.#callers) {
      if (caller === own) continue;
      readCalls(caller);
      const row = caller.calls.callerOf(run);
      if (row >= 0) return { sessionId: callerId, entryId: caller.idOf(row), kind: "subagent" };
    }
    return { sessionId, entryId: null, kind: "subagent" };
  }

  /** Opens a conversation of which only the sub-agent is imported. */
  #openConversation(sessionId: string): void {
    const path = this.#siblings.files.find((file) => file.endsWith(`${sessionId}.jsonl`));
    const source = path === undefined ? undefined : this.#siblings.open(path);
    if (source) this.enter(sessionId, new ClaudeCodeFile(source, this.#siblings.scratch));
  }

  #turnTo(sessionId: string): void {
    if (sessionId === this.#conversation) return;
    for (const caller of this.#callers.values()) caller.close();
    this.#callers.clear();
    this.#conversation = sessionId;
  }

  #readAbout(path: string): Line {
    const file = this.#siblings.open(path.replace(/\.jsonl$/, ".meta.json"));
    const parsed = file ? parseLine(file.view.read(0, file.view.size)) : undefined;
    return parsed?.ok && isRecord(parsed.value) ? parsed.value : {};
  }
}

/**
 * Returns the id of a sub-agent's session: the conversation's id and the sub-agent's, which is unique only in its
 * conversation.
 */
const agentSessionId = (sessionId: string, agentId: string): string => `${sessionId}.agent-${agentId}`;

/** Reads a conversation only for its calls, unless they were read before. */
function readCalls(file: ClaudeCodeFile): void {
  if (file.callsRead) return;
  for (const _ of new Conversation(file, MAIN, new ImportIssues(), {}).entries([]));
}

function preludeOf(about: Line, sourceId: string): UnplacedEntry[] {
  if (Object.keys(about).length === 0) return [];
  const { description } = about;
  const entry = (name: string, body: UnplacedEntry["body"]): UnplacedEntry => ({
    id: idFromText(`${sourceId}/${name}`),
    body,
  });
  return [
    entry("agent", { type: "custom", customType: "claude-code.agent", data: about }),
    ...(typeof description === "string" ? [entry("name", { type: "session_info", name: description })] : []),
  ];
}

function promptIn(line: Line | undefined): unknown {
  const message = line?.["message"];
  return isRecord(message) ? message["content"] : undefined;
}

/** Returns whether a line is the result that an export made for a call without one. */
function isMadeResult(line: Line | undefined): boolean {
  const said = promptIn(line);
  return Array.isArray(said) && said.length === 1 && isRecord(said[0]) && said[0]["content"] === NO_RESULT;
}

/** Maximum number of steps from a line of the conversation up through lines of sub-agents. */
const REACH = 10_000;

/** One pass over the rows of one session. Each row is converted to its entries, after the rows that it follows. */
class Conversation {
  readonly #file: ClaudeCodeFile;
  readonly #table: LineTable;
  readonly #run: number;
  readonly #issues: ImportIssues;
  readonly #parts: AnswerParts;
  readonly #placement: Placement;
  readonly #written: WrittenRows;
  readonly #bodies: LineBodies;
  /** Results that an export made for calls of the session: its session goes on without them. */
  readonly #made = new Set<number>();
  /** 1 for rows whose parent is written first, now or earlier. */
  readonly #waiting: ScratchColumn<Int32Array>;
  readonly #area: ScratchArea;

  /** @param run first row of a sub-agent's run, or `MAIN`, see `ClaudeCodeFile.runs` */
  constructor(file: ClaudeCodeFile, run: number, issues: ImportIssues, { known }: DraftOptions) {
    const { table } = file.lines;
    const area = file.newArea();
    this.#area = area;
    this.#file = file;
    this.#table = table;
    this.#run = run;
    this.#issues = issues;
    this.#parts = new AnswerParts(table, area, (row) => file.idOf(row), known);
    this.#placement = new Placement(table, file.boundaries, this.#parts, area);
    this.#written = new WrittenRows(area, file.facts.time, (row) => file.idOf(row));
    this.#bodies = new LineBodies(file, area, issues, (row) => this.#linesOf(row));
    this.#waiting = area.column(Int32Array);
    for (const { row, summary } of file.boundaries.all()) {
      if (summary < 0) issues.add("no-summary", table.lineNumber.get(row), NO_SUMMARY);
      else if (known?.(file.idOf(row)) !== undefined || !file.lineAt(summary))
        this.#placement.standAlone(row);
    }
    if (!known) return;
    for (let row = 0; row < table.length; row++)
      if (table.kind(row) === LineKind.user && !known(file.idOf(row)) && isMadeResult(file.lineAt(row)))
        this.#made.add(row);
  }

  /**
   * Yields the entries; returns the leaf.
   *
   * @param prelude entries before those of the first line
   */
  *entries(prelude: readonly UnplacedEntry[]): Generator<Entry, string | null> {
    try {
      for (const entry of prelude) yield this.#written.behind(entry);
      for (let row = 0; row < this.#table.length; row++) {
        if (this.#isPlaced(row)) yield* this.#writeWithAncestors(this.#placement.entryRow(row));
        else if (this.#run === this.#file.runs.runOf(row) && this.#table.kind(row) === LineKind.aside)
          yield this.#aside(row);
      }
      if (this.#run === MAIN) this.#file.callsRead = true;
      return this.#leaf();
    } finally {
      this.#area.close();
    }
  }

  #leaf(): string | null {
    const row = leafRow(this.#table, (candidate) => this.#isPlaced(candidate));
    if (row < 0) return this.#written.under(-1);
    const compacted = this.#file.boundaries.keeping(row, this.#table.length);
    return this.#written.under(this.#placement.lastRow(compacted ? compacted.summary : row));
  }

  #isPlaced(row: number): boolean {
    return (
      hasPlace(this.#table.kind(row)) && this.#file.runs.runOf(row) === this.#run && !this.#made.has(row)
    );
  }

  /** Yields the entries of a row, after those of rows above it that are not written yet. */
  *#writeWithAncestors(first: number): Generator<Entry, void> {
    if (this.#written.has(first)) return;
    const open = [first];
    for (let row = open.at(-1); row !== undefined; row = open.at(-1)) {
      let place = this.#placeOf(row);
      if (place.row >= 0 && !this.#written.has(place.row)) {
        if (this.#waiting.get(place.row) === 0 && place.row !== row) {
          this.#waiting.set(row, 1);
          open.push(place.row);
          continue;
        }
        this.#issues.add("cycle", this.#table.lineNumber.get(row), CYCLE);
        place = ROOT_PLACE;
      }
      open.pop();
      for (const entry of this.#write(row, place)) yield entry;
    }
  }

  /** Returns the position of a row; lines of other sessions in between are skipped. */
  #placeOf(row: number): Place {
    const place = this.#placement.placeOf(row);
    let above = place.row;
    for (let step = 0; above >= 0 && !this.#isPlaced(above) && step < REACH; step++)
      above = this.#table.parent.get(above);
    return this.#isPlaced(above) ? { ...place, row: this.#placement.lastRow(above) } : ROOT_PLACE;
  }

  #write(row: number, from: Place): Entry[] {
    const boundary = this.#file.boundaries.at(row);
    if (boundary && boundary.summary >= 0 && this.#placement.entryRow(boundary.summary) === row) {
      return this.#compact(row, boundary.summary, boundary, from);
    }
    if (this.#table.has(row, LineMark.summary) && this.#file.lineAt(row)) {
      return this.#compact(row, row, this.#file.boundaries.ofSummary(row), from);
    }
    const lines = this.#linesOf(row);
    const [line] = lines;
    const id = this.#file.idOf(row, line);
    this.#written.at(line?.["timestamp"]);
    const place = this.#placement.settle(row, from, line !== undefined && holdsResult(line));
    const bodies = this.#bodies.bodies(row, lines, this.#written.time.ms);
    this.#bodies.tellContentIssues();
    const ids = lineIds(id, bodies.length);
    const onPath = new Set(pathDownTo(place.unfollowed, place.row, this.#written));
    const unplaced = this.#leaveOut(
      place.unfollowed.filter((unfollowed) => onPath.has(unfollowed)),
      id,
    );
    if (this.#table.has(row, LineMark.bridged)) unplaced.unshift(gapMark(id));
    for (const [at, body] of bodies.entries()) unplaced.push({ id: ids[at]!, body });
    const said = { own: id, count: bodies.length, speaks: speaks(bodies) };
    const entries = this.#written.grow(row, place.row, unplaced, said);
    let calls = 0;
    for (const entry of entries) calls += this.#bodies.notice(entry, line, row);
    if (calls > 0) this.#placement.answered(row, calls);
    return entries;
  }

  #linesOf(row: number): Line[] {
    const lines: Line[] = [];
    for (const part of this.#parts.partsOf(row)) {
      const line = this.#file.lineAt(part);
      if (line) lines.push(line);
    }
    return lines;
  }

  /**
   * Makes a compaction, with the id of its summary, and edits after it. The edits leave out rows that the compaction does
   * not keep although they are after its first kept entry.
   */
  #compact(row: number, summaryRow: number, boundary: Boundary | undefined, place: Place): Entry[] {
    const summary = this.#file.lineAt(summaryRow) as Line;
    const id = this.#file.idOf(summaryRow, summary);
    this.#written.at(summary["timestamp"]);
    const kept = keptLines(boundary, place.row, this.#written, this.#placement);
    if (kept.elsewhere > 0)
      this.#issues.add("kept-elsewhere", this.#table.lineNumber.get(summaryRow), KEPT_ELSEWHERE, id);
    const firstKept = kept.first < 0 ? id : this.#idsOf(kept.first)[0]!;
    const marked = boundary && this.#file.lineAt(boundary.row);
    const body = this.#bodies.compaction(summary, marked ? metadataOf(marked) : {}, firstKept);
    const entries = [{ id, body }, ...this.#leaveOut(kept.leftOut, id)];
    // An older compaction before a newer one is already out of the context: no edit is needed.
    return this.#written.grow(row, place.row, entries, {
      own: row === summaryRow ? id : undefined,
      count: 1,
      speaks: false,
    });
  }

  /** Returns edits that leave rows out of the context from here on. */
  #leaveOut(rows: readonly number[], id: string): UnplacedEntry[] {
    return rows
      .filter((row) => this.#written.speaks(row))
      .flatMap((row) => this.#idsOf(row))
      .map((targetId) => ({
        id: idFromText(`${id}/without/${targetId}`),
        body: { type: "context_edit", targetId, replacement: null },
      }));
  }

  #idsOf(row: number): string[] {
    return this.#written.ids(row, this.#file.idOf(row));
  }

  #aside(row: number): Entry {
    const line = this.#file.lineAt(row);
    const id = this.#file.idOf(row, {});
    const body = this.#bodies.aside(row, line);
    this.#written.at(line?.["timestamp"]);
    return this.#written.behind({ id, body });
  }
}

const NO_SUMMARY = "A compaction has no summary in the file; it is not shown as a compaction.";

/**
 * Makes the entry `claude-code.gap`. It marks lost lines between its parent and its child: the child is the next line
 * in the file, not a reply to the parent.
 */
function gapMark(id: string): UnplacedEntry {
  return { id: idFromText(`${id}/gap`), body: { type: "custom", customType: "claude-code.gap", data: {} } };
}

const CYCLE = "The file refers to itself; shown as a separate branch.";
const KEPT_ELSEWHERE = "A compaction keeps messages that are not above it; they are left out after it.";

/**
 * Finds the lines that a compaction keeps on the path that ends at `above`. A compaction in the session format keeps
 * everything from one entry on; Claude Code names each kept line. Lines in between that are not named have to be left
 * out one by one.
 *
 * Returns the row of the first kept entry (-1 for none), the later rows that are not kept, and the number of kept
 * lines outside the path.
 */
function keptLines(
  boundary: Boundary | undefined,
  above: number,
  written: WrittenRows,
  placement: Placement,
): { first: number; leftOut: number[]; elsewhere: number } {
  const kept = new Set(boundary?.kept.map((row) => placement.entryRow(row)));
  const path = pathDownTo(kept, above, written);
  const firstAt = path.findLastIndex((row) => kept.has(row));
  const after = path.slice(0, Math.max(0, firstAt));
  const leftOut = after.filter((row) => !kept.has(row)).reverse();
  return { first: path[firstAt] ?? -1, leftOut, elsewhere: kept.size - (firstAt + 1 - leftOut.length) };
}

/** Returns the path that ends at `above`, last row first, down to the lowest of the given rows. */
function pathDownTo(rows: Iterable<number>, above: number, written: WrittenRows): number[] {
  // `Math.min(...rows)` would fail: a call cannot have a hundred thousand arguments.
  let lowest = Number.POSITIVE_INFINITY;
  for (const row of rows) lowest = Math.min(lowest, row);
  const path: number[] = [];
  for (let row = above; row >= lowest; row = written.parent(row)) path.push(row);
  return path;
}

/**
 * Returns the row of the leaf according to the file: the last line without children that is not synthetic, else the last
 * line; -1 when there are no lines.
 */
function leafRow(table: LineTable, isOfSession: (row: number) => boolean): number {
  let last = -1;
  for (let row = table.length - 1; row >= 0; row--) {
    if (!isOfSession(row)) continue;
    if (last < 0) last = row;
    if (!table.has(row, LineMark.followed) && !table.has(row, LineMark.synthetic)) return row;
  }
  return last;
}
