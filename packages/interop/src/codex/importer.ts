import { parseLine, scanLines } from "@espalier/jsonl-stream";
import {
  type Entry,
  FORMAT_VERSION,
  isRecord,
  type ParentLink,
  type SessionHeader,
} from "@espalier/session-tree";
import {
  ALONE,
  type DraftOptions,
  type SessionDraft,
  type SessionImporter,
  type SourceFile,
  type Surroundings,
} from "../import/draft.ts";
import { idFromText, NO_TIME, readTime, sessionIdFromSource } from "../import/entry.ts";
import { ImportIssues } from "../import/issue.ts";
import { ScratchArea } from "../scratch/space.ts";
import { type LineCount, type LogicalLine, logicalLines } from "./logical-lines.ts";
import { RolloutFile, RolloutLibrary, readRolloutLine } from "./rollout.ts";
import { takeLine } from "./take-line.ts";
import { ThreadHistory } from "./thread-history.ts";

/**
 * Reads rollouts of Codex (`~/.codex/sessions/YYYY/MM/DD/rollout-….jsonl`) of all generations. A file is read once, line
 * by line; what is kept in memory does not grow with it.
 */
export function codexImporter(surroundings: Surroundings = ALONE): SessionImporter {
  const library = new RolloutLibrary(surroundings);
  const names = new ThreadNames(surroundings);
  return {
    agent: "codex",
    recognises: (line) =>
      isRecord(line) &&
      line["type"] !== "session" &&
      !("uuid" in line) &&
      readRolloutLine(line) !== undefined,
    *read(source): Generator<SessionDraft, void> {
      const file = new RolloutFile(source);
      yield new CodexDraft(file, library, names.nameOf(file.threadId));
    },
  };
}

/** A thread of Codex, as far as one of its files tells it. Several files of a thread give one session. */
class CodexDraft implements SessionDraft {
  readonly agent = "codex";
  readonly issues = new ImportIssues();
  leafId: string | null | undefined;
  readonly #file: RolloutFile;
  readonly #library: RolloutLibrary;
  readonly #count: LineCount = { lines: 0 };
  /** A name that is not in the file. */
  readonly #name: string | undefined;

  constructor(file: RolloutFile, library: RolloutLibrary, name: string | undefined) {
    this.#file = file;
    this.#library = library;
    this.#name = name;
  }

  get sourceId(): string {
    return this.#file.threadId;
  }

  get sessionId(): string {
    return sessionIdFromSource(this.sourceId);
  }

  get cwd(): string {
    const { cwd } = this.#file.meta;
    return typeof cwd === "string" ? cwd : "";
  }

  get source(): SourceFile {
    return this.#file.source;
  }

  get lines(): number {
    return this.#count.lines;
  }

  header(): SessionHeader {
    const { meta, timestamp, source } = this.#file;
    const { cli_version: version } = meta;
    const parent = this.#parent();
    return {
      type: "session",
      version: FORMAT_VERSION,
      id: this.sessionId,
      timestamp: readTime(timestamp, NO_TIME).iso,
      cwd: this.cwd,
      ...(parent ? { parent } : {}),
      importedFrom: {
        agent: this.agent,
        ...(typeof version === "string" ? { version } : {}),
        id: this.sourceId,
        digest: source.digest(),
      },
    };
  }

  *entries(options: DraftOptions = {}): Generator<Entry, void> {
    const area = new ScratchArea(this.#library.scratch);
    try {
      const history = new ThreadHistory(this.issues, options, area);
      const lines = logicalLines(this.#file, this.#library, this.issues, this.#count);
      yield* grow(history, lines);
      if (this.#name !== undefined) {
        const id = idFromText(`${this.sourceId}/name/${this.#name}`);
        yield history.trail.grow({ type: "session_info", name: this.#name }, id, history.time);
      }
      this.leafId = history.trail.leafId;
    } finally {
      area.close();
    }
  }

  /** A thread goes back by going on in another file: that one has entries of the same session. */
  isElsewhere(id: string): boolean {
    return this.#library.othersOf(this.#file).some((file) => {
      for (const entry of new CodexDraft(file, this.#library, undefined).entries())
        if (entry.id === id) return true;
      return false;
    });
  }

  /** A fork names the thread it began as; a sub-agent the one it works for. */
  #parent(): ParentLink | undefined {
    const { meta, forkedFrom, threadId } = this.#file;
    const root = meta["session_id"];
    const isSubAgent = isRecord(meta["source"]) && "subagent" in meta["source"];
    if (isSubAgent && typeof root === "string" && root !== threadId)
      return { sessionId: root, entryId: null, kind: "subagent" };
    if (forkedFrom === undefined || forkedFrom === threadId) return undefined;
    return { sessionId: forkedFrom, entryId: this.#forkPoint(), kind: "fork" };
  }

  /** The leaf behind the last line that the other thread wrote. */
  #forkPoint(): string | null {
    const issues = new ImportIssues();
    const area = new ScratchArea(this.#library.scratch);
    try {
      const history = new ThreadHistory(issues, {}, area);
      const inherited = untilOwn(logicalLines(this.#file, this.#library, issues));
      for (const _ of grow(history, inherited));
      return history.trail.leafId;
    } finally {
      area.close();
    }
  }
}

function* untilOwn(lines: Iterable<LogicalLine>): Generator<LogicalLine, void> {
  for (const line of lines) {
    if (!line.isInherited) return;
    yield line;
  }
}

/** Takes line after line, each with the one behind it at hand. */
function* grow(history: ThreadHistory, lines: Iterable<LogicalLine>): Generator<Entry, void> {
  let waiting: LogicalLine | undefined;
  for (const line of lines) {
    if (waiting) yield* takeLine(history, waiting, line);
    waiting = line;
  }
  if (waiting) yield* takeLine(history, waiting, undefined);
  yield* history.end();
}

/** The file in which Codex keeps the names of its threads. */
export const THREAD_INDEX = "session_index.jsonl";

/** Names that threads were given; they stand in no rollout. */
class ThreadNames {
  readonly #surroundings: Surroundings;
  #names: Map<string, string> | undefined;

  constructor(surroundings: Surroundings) {
    this.#surroundings = surroundings;
  }

  /** The newest name of a thread. */
  nameOf(threadId: string): string | undefined {
    this.#names ??= this.#read();
    return this.#names.get(threadId);
  }

  #read(): Map<string, string> {
    const names = new Map<string, string>();
    for (const path of this.#surroundings.files) {
      const source = path.endsWith(THREAD_INDEX) ? this.#surroundings.open(path) : undefined;
      if (!source) continue;
      for (const { bytes } of scanLines(source.view)) {
        const parsed = parseLine(bytes);
        const { id, thread_name } = parsed.ok && isRecord(parsed.value) ? parsed.value : {};
        if (typeof id === "string" && typeof thread_name === "string" && thread_name !== "")
          names.set(id, thread_name);
      }
    }
    return names;
  }
}
