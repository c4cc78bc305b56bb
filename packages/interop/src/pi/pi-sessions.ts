import { type ByteView, parseLine, scanLines } from "@espalier/jsonl-stream";
import {
  contextEdit,
  type Entry,
  FORMAT_VERSION,
  ID_LENGTH,
  isRecord,
  isSessionId,
  LineIntake,
  type LineSource,
  type LineUpgrade,
  labelsInForce,
  lineUpgrade,
  parseHeader,
  readLineParts,
  readSessionLine,
  type SessionHeader,
  type SessionIssue,
  type SessionLine,
  type UpgradeMemory,
} from "@espalier/session-tree";
import type { NativeFile, NativeSession, NativeTarget } from "../export/export-native.ts";
import {
  type CompactionItem,
  hasEncrypted,
  isCompactionItem,
  PATH_DIFFERENCES,
  type PathItem,
} from "../export/native-path.ts";
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
import { idFromText, sessionIdFromSource } from "../import/entry.ts";
import { type ImportIssueKind, ImportIssues } from "../import/issue.ts";
import { ScratchIndex } from "../scratch/scratch-index.ts";
import { HashRows, ScratchArea, ScratchSpace, ScratchTexts } from "../scratch/space.ts";

/**
 * Reads sessions of Pi (`~/.pi/agent/sessions/<folder>/<time>_<id>.jsonl`). Its format is the session format: lines are
 * copied unchanged, and those of versions 1 and 2 are upgraded.
 */
export function piImporter({ scratch = new ScratchSpace() } = NO_SIBLINGS): SessionImporter {
  return {
    agent: "pi",
    recognises: (line) => parseHeader(line) !== undefined || isEntryOfPi(line),
    *read(source): Generator<SessionDraft, void> {
      const found = headerOf(source.view);
      if (!found) return;
      const draft = draftOf(source, found.header, scratch);
      if (found.isMade) draft.issues.add("no-header", null, NO_HEADER);
      yield draft;
    },
  };
}

function draftOf(source: SourceFile, header: SessionHeader, scratch: ScratchSpace): SessionDraft {
  const agent = "pi";
  const { cwd, version } = header;
  const sourceId = header.id === "" ? sourceName(source.path) : header.id;
  const sessionId = sessionIdFromSource(sourceId);
  const issues = new ImportIssues();
  let counts: SessionCounts | undefined;
  return {
    agent,
    sourceId,
    sessionId,
    cwd,
    source,
    issues,
    // The copied lines set the leaf.
    leafId: undefined,
    get counts() {
      return counts;
    },
    header: () => ({
      ...header,
      version: Math.max(version, FORMAT_VERSION),
      id: sessionId,
      importedFrom: { agent, version: String(version), id: sourceId, digest: source.digest() },
    }),
    *entries() {
      const area = new ScratchArea(scratch);
      try {
        const index = new ScratchIndex(area);
        yield* copiedLines(source.view, header, issues, index, area);
        counts = countRows(index, area);
      } finally {
        area.close();
      }
    },
  };
}

/** Yields the lines of a file in the current version, without its header. */
function* copiedLines(
  view: ByteView,
  header: SessionHeader,
  issues: ImportIssues,
  index: ScratchIndex,
  area: ScratchArea,
): Generator<Uint8Array, void> {
  const upgrade = lineUpgrade(header, upgradeMemory(area));
  const intake = new LineIntake(index, upgrade ? upgradedLines(view, header.version >= 2 && upgrade) : view);
  const tell = ({ kind, line, message, id }: SessionIssue): void => {
    const told = KINDS.get(kind);
    if (told) issues.add(told, line, message, id);
  };
  let hasHeader = false;
  for (const { bytes: line, offset, lineNumber, terminated } of scanLines(view)) {
    const parts = readLineParts(line);
    const [first] = parts;
    for (const { from, bytes, end } of outputLines(line, parts, upgrade, lineNumber)) {
      intake.take(bytes, 0, bytes.length, offset + from, lineNumber, terminated || end < line.length);
      if (first!.is === "blank") continue;
      const found = intake.issues.splice(0);
      for (const issue of found) tell(issue);
      // An upgraded line was already read for the upgrade.
      const isCopy = bytes.buffer === line.buffer;
      const isTold = found.some(({ kind }) => KINDS.get(kind) === UNREADABLE);
      // The intake reads only the beginning of a line.
      if (isCopy && !isTold && first!.is === "corrupt" && parts.length === 1)
        issues.add(UNREADABLE, lineNumber, `${first!.message}. Its place in the tree is kept.`);
      if (!hasHeader && isHeader(bytes)) hasHeader = true;
      else yield isCopy ? bytes.slice() : bytes;
    }
  }
  intake.settle();
  for (const issue of intake.issues) tell(issue);
}

/**
 * Returns the lines after the upgrade, if one is given. Lines of version 1 with ids of their own stay unchanged, and so
 * do lines that cannot be parsed.
 */
function upgradedLines(view: ByteView, upgrade: LineUpgrade | false): LineSource {
  return {
    read(offset, length) {
      const [line] = scanLines(view, { from: offset, blockSize: 1 << 16 });
      const { bytes } = line!;
      return (upgrade ? upgrade(bytes, 0) : bytes).slice(0, length);
    },
  };
}

/** A part of a line that becomes a separate line: `[from, end)` of the original. */
interface OutputLine {
  from: number;
  end: number;
  /** Bytes in the current version: the original bytes if nothing changes. */
  bytes: Uint8Array;
}

/**
 * Returns the parts of a line that become separate lines, after lost newlines. A torn piece stays before the entry
 * after it; an upgrade may have made an entry of a piece without an id.
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

/** Joins two parts that stay on one line: the original bytes if neither was changed. */
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

/** Kinds of damaged lines, as issues of an import. All of these lines are copied. */
const KINDS: ReadonlyMap<SessionIssue["kind"], ImportIssueKind> = new Map([
  ["corrupt", UNREADABLE],
  ["torn-tail", UNREADABLE],
  ["salvaged", "salvaged"],
  ["duplicate-id", "duplicate-id"],
  ["orphan", "phantom-parent"],
  ["version", "newer-version"],
]);

/** Returns the header of a file, or a new one for entries without a header; undefined for any other file. */
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

const NO_HEADER = "The file has no header; it got one, without a working folder.";

function isHeader(bytes: Uint8Array): boolean {
  const parsed = parseLine(bytes);
  return parsed.ok && parseHeader(parsed.value) !== undefined;
}

/** Makes room in scratch space for the ids of the lines of a file of version 1 during its upgrade. */
function upgradeMemory(area: ScratchArea): UpgradeMemory {
  /** Ids by line; empty for a line without an entry. */
  const ids = new ScratchTexts(area);
  const taken = new HashRows(area);
  return {
    get length() {
      return ids.length;
    },
    add: (id) => ids.add(id ?? ""),
    idAt: (place) => ids.get(place) || undefined,
    take(id) {
      // Ids of other lengths never collide with a generated id.
      if (id.length === ID_LENGTH) taken.add(id, 0);
    },
    isTaken: (id) => taken.rowOf(id) >= 0,
  };
}

/** Writes a path as a session file of Pi. Its format is the session format, so most lines are unchanged. */
export const piTarget: NativeTarget = {
  agent: "pi",
  callIdLength: Number.POSITIVE_INFINITY,
  toolNameLength: Number.POSITIVE_INFINITY,
  acceptsThinking: () => true,
  keepsEntries: true,
  hasBlock: () => true,
  isOwnContext: () => false,
  returningId: (id) => (isSessionId(id) ? id : sessionIdFromSource(id)),
  file: (session) => new PiEntries(session),
};

/** Entries of one file, each below the previous one. */
class PiEntries implements NativeFile {
  readonly #session: NativeSession;
  readonly #written = new Set<string>();
  /** Entries whose content differs from the session: edits of them are outdated. */
  readonly #replaced = new Set<string>();
  /** Entries that an edit leaves out of the context. */
  readonly #leftOut: ReadonlySet<string>;
  #last: { id: string; timestamp: string };

  constructor(session: NativeSession) {
    this.#session = session;
    this.#last = { id: "", timestamp: session.timestamp };
    this.#leftOut = new Set(
      session.items.flatMap(({ entry }) =>
        contextEdit.is(entry) && entry.replacement === null ? [entry.targetId] : [],
      ),
    );
  }

  *header(): Generator<object, void> {
    const { id, timestamp, cwd, header, items } = this.#session;
    const last = items.findLast(({ isMade }) => !isMade)?.entry.id ?? null;
    const parent = header && { sessionId: header.id, entryId: last, kind: "fork" };
    yield { type: "session", version: FORMAT_VERSION, id, timestamp, cwd, ...(parent ? { parent } : {}) };
  }

  *linesOf(item: PathItem): Generator<Entry, void> {
    const entry = this.#entryIn(item);
    if (!entry) return;
    const parentId = this.#written.size === 0 ? null : this.#last.id;
    this.#written.add(entry.id);
    this.#last = entry;
    yield (entry.parentId === parentId ? entry : { ...entry, parentId }) as Entry;
  }

  #entryIn(item: PathItem): Entry | undefined {
    const { entry, message, isMade } = item;
    if (isMade && message) {
      const id = this.#written.has(entry.id)
        ? idFromText(`${entry.id}/result/${this.#written.size}`)
        : entry.id;
      this.#replaced.add(id);
      return { type: "message", id, parentId: null, timestamp: entry.timestamp, message } as Entry;
    }
    if (isCompactionItem(item)) return this.#compaction(item);
    if (contextEdit.is(entry) && (!this.#written.has(entry.targetId) || this.#replaced.has(entry.targetId)))
      return undefined;
    return this.#withoutSecrets(entry);
  }

  /** A compaction whose first kept entry is the first one from which on the file has only kept entries. */
  #compaction({ entry, kept }: CompactionItem): Entry {
    const { items } = this.#session;
    const at = items.findIndex((item) => item.entry === entry);
    const stays = new Set(kept);
    const hidden = items.findLastIndex(
      (item, index) =>
        index < at && item.message !== undefined && !stays.has(item) && !this.#leftOut.has(item.entry.id),
    );
    const first = this.#written.has(entry.firstKeptEntryId)
      ? items.findIndex((item) => item.entry.id === entry.firstKeptEntryId)
      : -1;
    const firstKept =
      first > hidden
        ? entry.firstKeptEntryId
        : (items.slice(hidden + 1, at).find((item) => stays.has(item))?.entry.id ?? entry.id);
    const whole = this.#withoutSecrets(entry);
    return entry.firstKeptEntryId === firstKept
      ? whole
      : ({ ...whole, firstKeptEntryId: firstKept } as Entry);
  }

  /** Removes what Codex's provider encrypted, which only Codex can use. */
  #withoutSecrets(entry: Entry): Entry {
    if (!hasEncrypted(entry)) return entry;
    this.#session.issues.add("dropped", "reasoning", entry.id, PATH_DIFFERENCES.encrypted);
    const {
      encryptedReasoning: _secrets,
      codex,
      ...rest
    } = (entry as Entry & { details: Record<string, unknown> }).details;
    if (!isRecord(codex)) return { ...entry, details: rest } as Entry;
    const { opaque: _opaque, ...record } = codex;
    return { ...entry, details: { ...rest, codex: record } } as Entry;
  }

  *end(): Generator<Entry, void> {
    const { source, name } = this.#session;
    for (const [targetId, { label }] of labelsInForce(source.tree))
      if (this.#written.has(targetId))
        yield this.#beside(`label/${targetId}`, { type: "label", targetId, label: source.text(label) });
    if (name !== undefined) yield this.#beside("name", { type: "session_info", name });
  }

  /** Makes an entry outside the conversation, below its last entry. */
  #beside(name: string, fields: { type: string; [field: string]: unknown }): Entry {
    const { id, timestamp } = this.#last;
    const { type, ...rest } = fields;
    return { type, id: idFromText(`${id}/${name}`), parentId: id, timestamp, ...rest } as unknown as Entry;
  }
}
