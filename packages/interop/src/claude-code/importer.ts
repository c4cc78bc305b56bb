// Separate from local-agents.ts: each agent has a folder of its own.
import { parseLine } from "@espalier/jsonl-stream";
import { type Entry, isMessage, isRecord, NO_RESULT, type ParentLink } from "@espalier/session-tree";
import {
  type DraftOptions,
  importedHeader,
  NO_SIBLINGS,
  type SessionDraft,
  type SessionImporter,
  type SiblingFiles,
} from "../import/draft.ts";
import { entryOf, idFromText, mentions, readTime, sessionIdFromSource } from "../import/entry.ts";
import { ImportIssues } from "../import/issue.ts";
import { ScratchSpace } from "../scratch/space.ts";
import { asideBody, bodiesOf, compactionBody, holdsResult, speaks } from "./bodies.ts";
import {
  type CalledRun,
  ClaudeCodeFile,
  callerOf,
  Forks,
  sessionIdOf,
  takeAnswer,
  takeResult,
} from "./file.ts";
import { joinAnswers, metadataOf, splitAnswers } from "./joined-lines.ts";
import { type Line, LineKind, LineMark } from "./line-facts.ts";
import { type Boundary, has, MAIN } from "./lines.ts";
import {
  answered,
  entryRow,
  grow,
  idsOf,
  idUnder,
  isPlaced,
  lastRow,
  lineIds,
  linesOf,
  newPass,
  type Pass,
  type Place,
  placeOf,
  ROOT_PLACE,
  settle,
  type UnplacedEntry,
} from "./pass.ts";

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
  for (const run of file.lines.runs) {
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
        const above = file.lines.parent.get(run);
        const caller = callerOf(file.calls, { agentId, prompt: promptIn(line) });
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
      leafId = yield* entriesOf(file, run, issues, options, prelude);
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
      const row = callerOf(caller.calls, run);
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
  for (const _ of entriesOf(file, MAIN, new ImportIssues()));
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

/**
 * Yields the entries of one session in one pass over its rows; returns the leaf. Each row is converted to its entries,
 * after the rows that it follows.
 *
 * @param run first row of a sub-agent's run, or `MAIN`
 * @param prelude entries before those of the first line
 */
function* entriesOf(
  file: ClaudeCodeFile,
  run: number,
  issues: ImportIssues,
  { known }: DraftOptions = {},
  prelude: readonly UnplacedEntry[] = [],
): Generator<Entry, string | null> {
  const area = file.newArea();
  const { lines } = file;
  const pass = newPass(file, run, issues, area);
  try {
    compareWithEarlier(pass, known);
    for (const entry of prelude) yield behind(pass, entry);
    for (let row = 0; row < lines.length; row++) {
      if (isPlaced(pass, row)) yield* writeWithAncestors(pass, entryRow(pass, row));
      else if (run === lines.run.get(row) && lines.kind.get(row) === LineKind.aside) yield aside(pass, row);
    }
    if (run === MAIN) file.callsRead = true;
    const leaf = leafRow(pass);
    const compacted = lines.keeping.get(leaf)?.at(-1);
    return idUnder(pass, leaf < 0 ? -1 : lastRow(pass, compacted ? compacted.summary : leaf));
  } finally {
    area.close();
  }
}

/** Finds the lines that become other entries than in an import of the whole file, because of an earlier import. */
function compareWithEarlier({ file, lines, issues, alone, made }: Pass, known: DraftOptions["known"]): void {
  if (lines.split.size > 0) joinAnswers(lines);
  if (known) splitAnswers(lines, (row) => file.idOf(row), known);
  for (const { row, summary } of lines.boundaries.values()) {
    if (summary < 0) issues.add("no-summary", lines.number.get(row), NO_SUMMARY);
    else if (known?.(file.idOf(row)) !== undefined || !file.lineAt(summary)) alone.add(row);
  }
  if (!known) return;
  for (let row = 0; row < lines.length; row++)
    if (lines.kind.get(row) === LineKind.user && !known(file.idOf(row)) && isMadeResult(file.lineAt(row)))
      made.add(row);
}

/**
 * Returns the row of the leaf according to the file: the last line without children that is not synthetic, else the last
 * line; -1 when there are no lines.
 */
function leafRow(pass: Pass): number {
  let last = -1;
  for (let row = pass.lines.length - 1; row >= 0; row--) {
    if (!isPlaced(pass, row)) continue;
    if (last < 0) last = row;
    if (!has(pass.lines, row, LineMark.followed) && !has(pass.lines, row, LineMark.synthetic)) return row;
  }
  return last;
}

/** Yields the entries of a row, after those of rows above it that are not written yet. */
function* writeWithAncestors(pass: Pass, first: number): Generator<Entry, void> {
  const { count, waiting } = pass;
  if (count.get(first) !== 0) return;
  const open = [first];
  for (let row = open.at(-1); row !== undefined; row = open.at(-1)) {
    let place = placeOf(pass, row);
    if (place.row >= 0 && count.get(place.row) === 0) {
      if (waiting.get(place.row) === 0 && place.row !== row) {
        waiting.set(row, 1);
        open.push(place.row);
        continue;
      }
      pass.issues.add("cycle", pass.lines.number.get(row), CYCLE);
      place = ROOT_PLACE;
    }
    open.pop();
    for (const entry of write(pass, row, place)) yield entry;
  }
}

function write(pass: Pass, row: number, from: Place): Entry[] {
  const { file, lines } = pass;
  const boundary = lines.boundaries.get(row);
  if (boundary && boundary.summary >= 0 && !pass.alone.has(row))
    return compact(pass, row, boundary.summary, boundary, from);
  if (has(lines, row, LineMark.summary) && file.lineAt(row))
    return compact(pass, row, row, lines.summaries.get(row), from);
  const read = linesOf(pass, row);
  const [line] = read;
  const id = file.idOf(row, line);
  pass.time = readTime(line?.["timestamp"], pass.time);
  const { row: above, unfollowed } = settle(pass, row, from, line !== undefined && holdsResult(line));
  const bodies = bodiesOf(pass, row, read);
  for (const { path, message } of pass.content.taken())
    pass.issues.add("content", Number.parseInt(path, 10), message);
  const ids = lineIds(id, bodies.length);
  const onPath = new Set(pathDownTo(unfollowed, above, pass));
  const unplaced = leaveOut(
    pass,
    unfollowed.filter((kept) => onPath.has(kept)),
    id,
  );
  if (has(lines, row, LineMark.bridged)) unplaced.unshift(gapMark(id));
  for (const [at, body] of bodies.entries()) unplaced.push({ id: ids[at]!, body });
  const count = speaks(bodies) ? bodies.length : -bodies.length;
  const entries = grow(pass, row, above, unplaced, { own: id, count });
  let calls = 0;
  for (const entry of entries) {
    if (isMessage(entry, "assistant")) {
      pass.model = entry.message.model;
      calls += takeAnswer(file.calls, entry.message, row);
    } else if (line && isMessage(entry, "toolResult")) takeResult(file.calls, line, entry.message.toolCallId);
  }
  if (calls > 0) answered(pass, row, calls);
  return entries;
}

/**
 * Makes a compaction, with the id of its summary, and edits after it. The edits leave out rows that the compaction does
 * not keep although they are after its first kept entry.
 */
function compact(
  pass: Pass,
  row: number,
  summaryRow: number,
  boundary: Boundary | undefined,
  { row: above }: Place,
): Entry[] {
  const { file, lines } = pass;
  const summary = file.lineAt(summaryRow) as Line;
  const id = file.idOf(summaryRow, summary);
  pass.time = readTime(summary["timestamp"], pass.time);
  const { first, leftOut, elsewhere } = keptLines(pass, boundary, above);
  if (elsewhere > 0) pass.issues.add("kept-elsewhere", lines.number.get(summaryRow), KEPT_ELSEWHERE, id);
  const metadata = metadataOf(boundary && file.lineAt(boundary.row));
  const body = compactionBody(summary, metadata, first < 0 ? id : idsOf(pass, first)[0]!, pass.model);
  // An older compaction before a newer one is already out of the context: no edit is needed.
  const own = row === summaryRow ? id : undefined;
  return grow(pass, row, above, [{ id, body }, ...leaveOut(pass, leftOut, id)], { own, count: -1 });
}

/** Returns edits that leave rows out of the context from here on. */
function leaveOut(pass: Pass, rows: readonly number[], id: string): UnplacedEntry[] {
  return rows
    .filter((row) => pass.count.get(row) > 0)
    .flatMap((row) => idsOf(pass, row))
    .map((targetId) => ({
      id: idFromText(`${id}/without/${targetId}`),
      body: { type: "context_edit", targetId, replacement: null },
    }));
}

function aside(pass: Pass, row: number): Entry {
  const line = pass.file.lineAt(row);
  const body = asideBody(pass, row, line);
  pass.time = readTime(line?.["timestamp"], pass.time);
  return behind(pass, { id: pass.file.idOf(row, {}), body });
}

/** Makes an entry after the row that was written last. The next child of that row follows it, unless it is a name. */
function behind(pass: Pass, { id, body }: UnplacedEntry): Entry {
  const entry = entryOf(body, id, idUnder(pass, pass.last), pass.time.iso);
  if (body.type !== "session_info") pass.behind = id;
  return entry;
}

const NO_SUMMARY = "A compaction has no summary in the file; it is not shown as a compaction.";
const CYCLE = "The file refers to itself; shown as a separate branch.";
const KEPT_ELSEWHERE = "A compaction keeps messages that are not above it; they are left out after it.";

/**
 * Makes the entry `claude-code.gap`. It marks lost lines between its parent and its child: the child is the next line
 * in the file, not a reply to the parent.
 */
function gapMark(id: string): UnplacedEntry {
  return { id: idFromText(`${id}/gap`), body: { type: "custom", customType: "claude-code.gap", data: {} } };
}

/**
 * Finds the lines that a compaction keeps on the path that ends at `above`. A compaction in the session format keeps
 * everything from one entry on; Claude Code names each kept line. Lines in between that are not named have to be left
 * out one by one.
 *
 * Returns the row of the first kept entry (-1 for none), the later rows that are not kept, and the number of kept
 * lines outside the path.
 */
function keptLines(
  pass: Pass,
  boundary: Boundary | undefined,
  above: number,
): { first: number; leftOut: number[]; elsewhere: number } {
  const kept = new Set(boundary?.kept.map((row) => entryRow(pass, row)));
  const path = pathDownTo(kept, above, pass);
  const firstAt = path.findLastIndex((row) => kept.has(row));
  const after = path.slice(0, Math.max(0, firstAt));
  const leftOut = after.filter((row) => !kept.has(row)).reverse();
  return { first: path[firstAt] ?? -1, leftOut, elsewhere: kept.size - (firstAt + 1 - leftOut.length) };
}

/** Returns the path that ends at `above`, last row first, down to the lowest of the given rows. */
function pathDownTo(rows: Iterable<number>, above: number, { above: parents }: Pass): number[] {
  // `Math.min(...rows)` would fail: a call cannot have a hundred thousand arguments.
  let lowest = Number.POSITIVE_INFINITY;
  for (const row of rows) lowest = Math.min(lowest, row);
  const path: number[] = [];
  for (let row = above; row >= lowest; row = parents.get(row)) path.push(row);
  return path;
}
