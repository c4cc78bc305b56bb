import { type ByteView, parseLine, scanLines } from "@espalier/jsonl-stream";
import {
  FORMAT_VERSION,
  ID_LENGTH,
  isRecord,
  LineIntake,
  type LineSource,
  type LineUpgrade,
  lineUpgrade,
  parseHeader,
  readLineParts,
  readSessionLine,
  type SessionHeader,
  type SessionIssue,
  type SessionLine,
  type UpgradeMemory,
} from "@espalier/session-tree";
import {
  countRows,
  firstLines,
  NO_SIBLINGS,
  type SessionCounts,
  type SessionDraft,
  type SessionImporter,
  type SourceFile,
  sourceName,
} from "../import/draft.ts";
import { sessionIdFromSource } from "../import/entry.ts";
import { type ImportIssueKind, ImportIssues } from "../import/issue.ts";
import { ScratchIndex } from "../scratch/scratch-index.ts";
import { HashRows, ScratchArea, ScratchSpace, ScratchTexts } from "../scratch/space.ts";

/**
 * Reads sessions of Pi (`~/.pi/agent/sessions/<folder>/<time>_<id>.jsonl`), whose format is ours: lines are copied as they
 * are, those of versions 1 and 2 upgraded.
 */
export function piImporter({ scratch = new ScratchSpace() } = NO_SIBLINGS): SessionImporter {
  return {
    agent: "pi",
    recognises: (line) => parseHeader(line) !== undefined || isEntryOfPi(line),
    *read(source): Generator<SessionDraft, void> {
      const found = headerOf(source.view);
      if (!found) return;
      const draft = new PiDraft(source, found.header, scratch);
      if (found.isMade) draft.issues.add("no-header", null, NO_HEADER);
      yield draft;
    },
  };
}

class PiDraft implements SessionDraft {
  readonly agent = "pi";
  readonly source: SourceFile;
  readonly sourceId: string;
  readonly issues = new ImportIssues();
  lines = 0;
  /** The copied lines set it. */
  readonly leafId = undefined;
  counts: SessionCounts | undefined;
  readonly #header: SessionHeader;
  readonly #scratch: ScratchSpace;

  constructor(source: SourceFile, header: SessionHeader, scratch: ScratchSpace) {
    this.source = source;
    this.#header = header;
    this.#scratch = scratch;
    this.sourceId = header.id === "" ? sourceName(source.path) : header.id;
  }

  get sessionId(): string {
    return sessionIdFromSource(this.sourceId);
  }

  get cwd(): string {
    return this.#header.cwd;
  }

  header(): SessionHeader {
    const { version } = this.#header;
    return {
      ...this.#header,
      version: Math.max(version, FORMAT_VERSION),
      id: this.sessionId,
      importedFrom: {
        agent: this.agent,
        version: String(version),
        id: this.sourceId,
        digest: this.source.digest(),
      },
    };
  }

  *entries(): Generator<Uint8Array, void> {
    const { view } = this.source;
    const area = new ScratchArea(this.#scratch);
    try {
      const index = new ScratchIndex(area);
      const upgrade = lineUpgrade(this.#header, new ScratchUpgradeMemory(area));
      const intake = new LineIntake(index, upgrade ? this.#lineSource(upgrade) : view);
      let hasHeader = false;
      this.lines = 0;
      for (const { bytes: line, offset, lineNumber, terminated } of scanLines(view)) {
        const parts = readLineParts(line);
        if (parts[0]!.is !== "blank") this.lines++;
        for (const { from, bytes, end } of outputLines(line, parts, upgrade, lineNumber)) {
          intake.take(bytes, 0, bytes.length, offset + from, lineNumber, terminated || end < line.length);
          if (parts[0]!.is === "blank") continue;
          const found = intake.issues.length > 0 ? intake.issues.splice(0) : NOTHING;
          for (const issue of found) this.#tell(issue);
          // A line that was upgraded was read for it.
          const isCopy = bytes.buffer === line.buffer;
          if (isCopy) this.#checkBody(lineNumber, parts, found);
          if (!hasHeader && isHeader(bytes)) hasHeader = true;
          else yield isCopy ? bytes.slice() : bytes;
        }
      }
      intake.settle();
      for (const issue of intake.issues) this.#tell(issue);
      this.counts = countRows(index, area);
    } finally {
      area.close();
    }
  }

  isElsewhere(): boolean {
    return false;
  }

  /**
   * Lines as they were taken. Those of version 1 that are asked for again brought their ids with them, and stayed as they
   * were; so did all that cannot be parsed.
   */
  #lineSource(upgrade: LineUpgrade): LineSource {
    const { view } = this.source;
    return {
      read: (offset, length) => {
        const [line] = scanLines(view, { from: offset, blockSize: 1 << 16 });
        const { bytes } = line!;
        const taken = this.#header.version >= 2 ? upgrade(bytes, 0) : bytes;
        return taken.slice(0, length);
      },
    };
  }

  /** Reports a line that cannot be read and is not in `found`, since its beginning was enough to go on. */
  #checkBody(line: number, parts: readonly SessionLine[], found: readonly SessionIssue[]): void {
    if (found.some((issue) => issue.line === line && KINDS.get(issue.kind) === UNREADABLE)) return;
    const [first] = parts;
    if (first?.is === "corrupt" && parts.length === 1)
      this.issues.add(UNREADABLE, line, `${first.message}. Its place in the tree is kept.`);
  }

  #tell({ kind, line, message, id }: SessionIssue): void {
    const told = KINDS.get(kind);
    if (told) this.issues.add(told, line, message, id);
  }
}

const NOTHING: readonly SessionIssue[] = [];

/** A part of a line that gets a line of its own, `[from, end)` of the original. */
interface OutputLine {
  from: number;
  end: number;
  /** As the current version has it: the original bytes where nothing changes. */
  bytes: Uint8Array;
}

/**
 * Parts of a line that get lines of their own, where newlines were lost. A torn piece stays before the entry that is
 * behind it; an upgrade may have made an entry of one that has no id.
 */
function outputLines(
  line: Uint8Array,
  parts: readonly SessionLine[],
  upgrade: LineUpgrade | undefined,
  lineNumber: number,
): OutputLine[] {
  const lines: OutputLine[] = [];
  let isTorn = false;
  for (const [at, part] of parts.entries()) {
    const { from } = part;
    const end = parts[at + 1]?.from ?? line.length;
    const piece = line.subarray(from, end);
    const bytes = upgrade?.(piece, lineNumber) ?? piece;
    const before = isTorn ? lines.pop() : undefined;
    lines.push(before ? joined(before, { from, end, bytes }, line) : { from, end, bytes });
    isTorn = (bytes === piece ? part : readSessionLine(bytes)).is === "corrupt";
  }
  return lines;
}

/** Two parts that stay on one line: the original bytes where neither was changed. */
function joined(first: OutputLine, second: OutputLine, line: Uint8Array): OutputLine {
  const { from } = first;
  const { end } = second;
  const isCopy = [first, second].every(({ bytes }) => bytes.buffer === line.buffer);
  if (isCopy) return { from, end, bytes: line.subarray(from, end) };
  const bytes = new Uint8Array(first.bytes.length + second.bytes.length);
  bytes.set(first.bytes);
  bytes.set(second.bytes, first.bytes.length);
  return { from, end, bytes };
}

const UNREADABLE: ImportIssueKind = "unreadable-content";

/** Damage of lines, in the words of a report. All of them are copied. */
const KINDS: ReadonlyMap<SessionIssue["kind"], ImportIssueKind> = new Map([
  ["corrupt", UNREADABLE],
  ["torn-tail", UNREADABLE],
  ["salvaged", "salvaged"],
  ["duplicate-id", "duplicate-id"],
  ["orphan", "phantom-parent"],
  ["version", "newer-version"],
]);

/** The header of a file, or one made for entries that stand without it; undefined for anything else. */
function headerOf(view: ByteView): { header: SessionHeader; isMade: boolean } | undefined {
  for (const { bytes, value } of firstLines(view)) {
    if (value === undefined) {
      const [first] = readLineParts(bytes);
      if (first?.is === "header") return { header: first.header, isMade: false };
      continue;
    }
    const header = parseHeader(value);
    if (header) return { header, isMade: false };
    if (!isEntryOfPi(value)) return undefined;
    const { timestamp } = value;
    return { header: { type: "session", version: FORMAT_VERSION, id: "", timestamp, cwd: "" }, isMade: true };
  }
  return undefined;
}

/** Returns whether a line is an entry of version 2 or later, which names its parent. */
function isEntryOfPi(line: unknown): line is { timestamp: string } {
  if (!isRecord(line)) return false;
  const { type, id, parentId, timestamp } = line;
  const isPlaced = parentId === null || typeof parentId === "string";
  return [type, id, timestamp].every((field) => typeof field === "string" && field !== "") && isPlaced;
}

const NO_HEADER = "The file has no header; one was made for it, without a folder.";

function isHeader(bytes: Uint8Array): boolean {
  const parsed = parseLine(bytes);
  return parsed.ok && parseHeader(parsed.value) !== undefined;
}

/** Ids of the lines of a file of version 1 while it is upgraded, in scratch space. */
class ScratchUpgradeMemory implements UpgradeMemory {
  readonly #area: ScratchArea;
  /** By place; empty where a line is no entry. */
  readonly #ids: ScratchTexts;
  readonly #taken: HashRows;

  constructor(area: ScratchArea) {
    this.#area = area;
    this.#ids = new ScratchTexts(area);
    this.#taken = new HashRows(area);
  }

  get length(): number {
    return this.#ids.length;
  }

  add(id: string | undefined): void {
    this.#ids.add(id ?? "");
  }

  idAt(place: number): string | undefined {
    return this.#ids.get(place) || undefined;
  }

  take(id: string): void {
    // Other lengths never collide with a made id.
    if (id.length !== ID_LENGTH) return;
    this.#area.hash.hashText(id);
    this.#taken.set(this.#area.hash, 0);
  }

  isTaken(id: string): boolean {
    this.#area.hash.hashText(id);
    return this.#taken.find(this.#area.hash) >= 0;
  }
}
