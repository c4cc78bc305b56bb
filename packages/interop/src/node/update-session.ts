import type { ByteView } from "@espalier/jsonl-stream";
import { EspalierError } from "@espalier/jsonl-stream";
import {
  createId,
  DAMAGED,
  type Entry,
  EntryScan,
  kindOf,
  leaf,
  leafOf,
  type Redactor,
  readSessionLine,
  redactEntry,
  type SessionLog,
  type SessionStore,
  scanEntry,
  Tree,
} from "@espalier/session-tree";
import {
  countRows,
  type DraftOptions,
  type KnownEntry,
  type SessionCounts,
  type SessionDraft,
} from "../import/draft.ts";
import { entryOf, idFromText, lineOf } from "../import/entry.ts";
import { IdRows } from "../scratch/ids.ts";
import { ScratchIndex } from "../scratch/scratch-index.ts";
import { ScratchArea, type ScratchColumn, type ScratchSpace } from "../scratch/space.ts";

/** Characters of lines that are appended at a time. */
const BATCH = 1 << 20;

/** A session that grows. */
interface Growing {
  log: SessionLog;
  /** What stands in it. */
  session: WrittenSession;
  scratch: ScratchSpace;
}

/**
 * Appends the entries that are not there yet, and returns how many lines that were. The leaf follows the source, unless
 * it stands at an entry of its own: somebody went on with the session here.
 */
export async function updateSession(
  draft: SessionDraft,
  { log, session, scratch }: Growing,
  { redactor, summaries }: DraftWriting,
): Promise<number> {
  const area = new ScratchArea(scratch);
  try {
    const before = session.leafId;
    const appender = new Appender(log);
    const added = new AddedEntries(area);
    let standsInSource = before === null;
    let leafId = before;
    const options = { known: (id: string) => session.known(id), ...(summaries ? { summaries } : {}) };
    for (const item of draft.entries(options)) {
      const entry = item instanceof Uint8Array ? entryIn(item) : item;
      if (!entry) continue;
      standsInSource ||= entry.id === before;
      if (session.has(entry.id) || added.has(entry.id)) continue;
      added.add(entry.id, timeIn(entry.timestamp));
      leafId = leafBehind(entry, leafId);
      await appender.add(
        item instanceof Uint8Array ? decoder.decode(item) : draftLine(item, draft, redactor),
      );
    }
    const timeOf = (id: string) => added.timeOf(id) ?? timeIn(session.timeOf(id));
    // Several files can tell of one session: the newest says where it stands.
    const isNews = () =>
      timeOf(draft.leafId ?? "") >= timeOf(before ?? "") && draft.isElsewhere(before ?? "");
    const target = standsInSource || isNews() ? draft.leafId : before;
    // Copied lines say themselves where they stand.
    if (added.length > 0 && target !== undefined && target !== leafId) await appender.add(leafLine(target));
    await appender.flush();
    return appender.lines;
  } finally {
    area.close();
  }
}

const decoder = new TextDecoder();

/** Epoch milliseconds; of what cannot be read: before everything. */
function timeIn(timestamp: string | undefined): number {
  const time = Date.parse(timestamp ?? "");
  return Number.isNaN(time) ? Number.NEGATIVE_INFINITY : time;
}

/** The entry in a copied line. One whose place alone can be read comes along: what follows it would be cut off without. */
function entryIn(bytes: Uint8Array): Entry | undefined {
  const line = readSessionLine(bytes);
  if (line.is === "entry") return line.entry;
  const scan = new EntryScan();
  if (line.is !== "corrupt" || !scanEntry(bytes, 0, bytes.length, scan)) return undefined;
  const id = decoder.decode(bytes.subarray(scan.idStart, scan.idEnd));
  return { type: DAMAGED, id, parentId: null, timestamp: "" };
}

/** Appends lines in batches. Of one that was cut by a crash a beginning is there, and the next import adds the rest. */
class Appender {
  lines = 0;
  readonly #log: SessionLog;
  #waiting: string[] = [];
  #size = 0;

  constructor(log: SessionLog) {
    this.#log = log;
  }

  async add(line: string): Promise<void> {
    this.lines++;
    this.#waiting.push(line);
    this.#size += line.length;
    if (this.#size >= BATCH) await this.flush();
  }

  async flush(): Promise<void> {
    if (this.#waiting.length === 0) return;
    const lines = this.#waiting;
    this.#waiting = [];
    this.#size = 0;
    await this.#log.append(lines, { durability: "fsync" });
  }
}

/** The entries that an import added to a session: which, and when each was written. */
class AddedEntries {
  readonly #area: ScratchArea;
  readonly #rows: IdRows;
  /** Epoch milliseconds. */
  readonly #times: ScratchColumn<Float64Array>;

  constructor(area: ScratchArea) {
    this.#area = area;
    this.#rows = new IdRows(area);
    this.#times = area.floats();
  }

  get length(): number {
    return this.#rows.length;
  }

  has(id: string): boolean {
    return this.#find(id) >= 0;
  }

  /** Adds an entry that is not among them. */
  add(id: string, time: number): void {
    const newest = this.#find(id);
    this.#times.set(this.#rows.length, time);
    this.#rows.add(this.#area.hash, newest);
  }

  /** Undefined for an entry that is not among them. */
  timeOf(id: string): number | undefined {
    const row = this.#find(id);
    return row < 0 ? undefined : this.#times.get(row);
  }

  #find(id: string): number {
    this.#area.hash.hashText(id);
    return this.#rows.find(this.#area.hash);
  }
}

/** A session that is here already, looked at without keeping what it says, or anything of each line, in memory. */
export class WrittenSession {
  readonly #area: ScratchArea;
  readonly #tree: Tree;

  constructor(view: ByteView, scratch: ScratchSpace) {
    this.#area = new ScratchArea(scratch);
    this.#tree = new Tree(view, new ScratchIndex(this.#area));
  }

  /** Where it stands; null before the first entry. */
  get leafId(): string | null {
    return leafOf(this.#tree);
  }

  has(id: string): boolean {
    return this.#tree.has(id);
  }

  /** What an earlier import made of an entry; undefined where there is none. */
  known(id: string): KnownEntry | undefined {
    const row = this.#tree.index.rowOf(id);
    if (row < 0) return undefined;
    const { sourceLines, message } = (this.#entryAt(row) ?? {}) as ImportedEntry;
    return {
      lines: typeof sourceLines === "number" ? sourceLines : 1,
      isBilled: message?.usage !== undefined,
    };
  }

  /** When an entry was written, ISO 8601; undefined where there is none. */
  timeOf(id: string): string | undefined {
    const row = this.#tree.index.rowOf(id);
    return row < 0 ? undefined : this.#entryAt(row)?.timestamp;
  }

  /** Takes in what was appended. */
  takeIn(view: ByteView): void {
    this.#tree.takeIn(view);
  }

  count(): SessionCounts {
    return countRows(this.#tree.index, this.#area);
  }

  /** Gives the scratch space back. */
  close(): void {
    this.#area.close();
  }

  /** Read from its line each time: a tree would keep what it read, thousands of entries however long they are. */
  #entryAt(row: number): Entry | undefined {
    const line = readSessionLine(this.#tree.bytesAt(row));
    return line.is === "entry" ? line.entry : undefined;
  }
}

/** What can be seen of an entry that an import wrote. */
interface ImportedEntry {
  sourceLines?: unknown;
  message?: { usage?: unknown };
}

/** From so many sources on it pays to list the store once, instead of looking for each session by itself. */
const MANY = 20;

/** Finds the sessions that earlier imports wrote. */
export class SessionCatalogue {
  readonly #store: SessionStore;
  /** By id; undefined while each session is looked for by itself. */
  #refs: Map<string, string> | undefined;

  private constructor(store: SessionStore, refs: Map<string, string> | undefined) {
    this.#store = store;
    this.#refs = refs;
  }

  /** @param sources how many sessions will be looked for, about */
  static async open(store: SessionStore, sources: number): Promise<SessionCatalogue> {
    if (sources < MANY) return new SessionCatalogue(store, undefined);
    const refs = new Map<string, string>();
    for await (const { id, ref } of store.list()) refs.set(id, ref);
    return new SessionCatalogue(store, refs);
  }

  /**
   * The session that a draft was written to before, opened for reading, or the id that it gets: another one where a
   * session of other origin has its own already.
   */
  async find({
    agent,
    sourceId,
    sessionId,
  }: SessionDraft): Promise<{ id: string; log: SessionLog | undefined }> {
    for (const id of [sessionId, idFromText(`${agent}/${sourceId}`)]) {
      const log = await this.#open(id);
      if (!log) return { id, log };
      const { importedFrom } = log.header ?? {};
      if (importedFrom?.agent === agent && importedFrom.id === sourceId) return { id, log };
      await log.close();
    }
    throw new EspalierError(
      "exists",
      `The ids that the session ${sessionId} could get are taken; remove one of them.`,
    );
  }

  /** Tells of a session that was written. */
  add(id: string, ref: string): void {
    this.#refs?.set(id, ref);
  }

  async #open(id: string): Promise<SessionLog | undefined> {
    const file = this.#refs?.get(id);
    if (this.#refs && file === undefined) return undefined;
    try {
      return await this.#store.open(file === undefined ? { id } : { file }, "read");
    } catch (error) {
      if (error instanceof EspalierError && error.code === "not-found") return undefined;
      throw error;
    }
  }
}

/** How drafts are written. */
export interface DraftWriting {
  /** Takes secrets out of entries; without one they are written as they are. */
  redactor: Redactor | undefined;
  summaries?: DraftOptions["summaries"];
}

/**
 * The line of an entry of a draft, without secrets; where it could not be written as it is, the draft's report says so.
 */
export function draftLine(entry: Entry, { issues }: SessionDraft, redactor: Redactor | undefined): string {
  const written = redactor ? redactEntry(entry, redactor) : entry;
  if (written !== entry) issues.add("content", null, "What looks like a key was taken out.", entry.id);
  return lineOf(written, () => {
    const message =
      "Values that no session can hold are kept as text: nested too deeply, or under a key `__proto__`.";
    issues.add("content", null, message, entry.id);
  });
}

/** Where an entry leaves the leaf. */
export function leafBehind(entry: Entry, before: string | null): string | null {
  const kind = kindOf(entry);
  if (kind.leafTarget) return kind.leafTarget(entry);
  return kind.movesLeaf ? entry.id : before;
}

/** A line that sets the leaf. */
export function leafLine(targetId: string | null): string {
  const body = leaf.of({ targetId });
  return JSON.stringify(entryOf({ ...body }, createId(), targetId, new Date().toISOString()));
}
