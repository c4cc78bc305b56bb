// Separate from import-sessions.ts: it writes one session; the importer chooses which.
import { type ByteView, EspalierError } from "@espalier/jsonl-stream";
import {
  createId,
  type Entry,
  EntryScan,
  kindOf,
  leaf,
  leafOf,
  listingOf,
  openIfThere,
  type ParentLink,
  placeholder,
  type Redactor,
  readSessionLine,
  redactEntry,
  redactFolder,
  type SessionLog,
  type SessionStore,
  scanEntry,
  Tree,
} from "@espalier/session-tree";
import {
  CountingEntries,
  countRows,
  type DraftOptions,
  type KnownEntry,
  type SessionCounts,
  type SessionDraft,
} from "../import/draft.ts";
import { entryOf, idFromText, lineOf } from "../import/entry.ts";
import type { ImportIssue } from "../import/issue.ts";
import { ScratchIndex } from "../scratch/scratch-index.ts";
import { HashRows, ScratchArea, type ScratchSpace } from "../scratch/space.ts";

/** Destination of drafts. */
export interface Destination {
  store: SessionStore;
  /** Scratch space for the columns of an existing session. */
  scratch: ScratchSpace;
  /** Removes secrets from entries; without it they are written unchanged. */
  redactor: Redactor | undefined;
  summaries?: DraftOptions["summaries"];
}

/**
 * Writes a session, or its new part.
 *
 * @throws EspalierError `exists` when both ids that the session could get are taken; `moved` when another process created
 * it or appended to it since it was read; errors of the store
 */
export async function writeDraft(draft: SessionDraft, to: Destination): Promise<ImportReport> {
  const { id, log } = await findSession(to.store, draft);
  if (!log) return create(draft, id, to);
  if (log.header?.importedFrom?.digest === draft.source.digest()) return update(draft, log, to, false);
  await log.close();
  return update(draft, await to.store.open({ file: log.ref }, "write"), to, true);
}

async function create(draft: SessionDraft, id: string, to: Destination): Promise<ImportReport> {
  const { store, redactor, summaries } = to;
  const items = draft.entries(summaries ? { summaries } : {});
  const first = untilSaid(items);
  if (!first) {
    const message = "The file has no message; there is nothing to import.";
    draft.issues.add("not-a-session", null, message);
    return skippedReport(draft.source.path, draft.agent, draft.issues.list());
  }
  const header = { ...draft.header(), id };
  const cwd = redactFolder(header.cwd, redactor ? (text) => redactor.text(text) : false);
  const written = new CountingEntries();
  const log = await store
    .create({ ...header, cwd }, newLines([first, items], draft, redactor, written))
    .catch(rejectCreated);
  try {
    // Copied lines are counted by the importer.
    const counts = draft.counts ?? written;
    return report(draft, log, "created", counts.entries, counts, await log.load());
  } finally {
    await log.close();
  }
}

/** Throws `moved` in place of `exists`: since the session was not found, another process created it. */
function rejectCreated(error: unknown): never {
  if (!(error instanceof EspalierError && error.code === "exists")) throw error;
  throw new EspalierError("moved", error.message, { cause: error });
}

/**
 * Reads up to the first entry that a model reads, or the first copied line. Undefined without one: notes alone are no
 * conversation.
 */
function untilSaid(items: Generator<Entry | Uint8Array, void>): (Entry | Uint8Array)[] | undefined {
  const first: (Entry | Uint8Array)[] = [];
  for (let next = items.next(); !next.done; next = items.next()) {
    first.push(next.value);
    if (next.value instanceof Uint8Array || kindOf(next.value).toMessages) return first;
  }
  return undefined;
}

/** Yields the lines of a new session, with a last one that sets the leaf if the lines before set another one. */
function* newLines(
  parts: Iterable<Entry | Uint8Array>[],
  draft: SessionDraft,
  redactor: Redactor | undefined,
  written: CountingEntries,
): Generator<string | Uint8Array, void> {
  let leafId: string | null = null;
  for (const items of parts)
    for (const item of items) {
      if (item instanceof Uint8Array) yield item;
      else {
        written.add(item);
        leafId = leafBehind(item, leafId);
        yield draftLine(item, draft, redactor);
      }
    }
  const { leafId: target } = draft;
  if (target === undefined || target === leafId) return;
  written.entries++;
  yield leafLine(target);
}

/** @param isGrown true if the source has changed since the session was made from it */
async function update(
  draft: SessionDraft,
  log: SessionLog,
  to: Destination,
  isGrown: boolean,
): Promise<ImportReport> {
  const area = new ScratchArea(to.scratch);
  try {
    const written = await log.load();
    const tree = new Tree(written, new ScratchIndex(area));
    const added = isGrown ? await addMissing(draft, log, tree, area, to) : 0;
    const view = added > 0 ? await log.load() : written;
    if (added > 0) tree.takeIn(view);
    const counts = countRows(tree.index, area);
    return report(draft, log, added > 0 ? "updated" : "unchanged", added, counts, view);
  } finally {
    area.close();
    await log.close();
  }
}

function report(
  draft: SessionDraft,
  { ref, header }: SessionLog,
  status: ImportReport["status"],
  added: number,
  { entries, branches, compactions }: SessionCounts,
  view: ByteView,
): ImportReport {
  const listing = listingOf(view, { ref, modified: "" });
  return {
    ...skippedReport(draft.source.path, draft.agent, draft.issues.list()),
    file: ref,
    sessionId: header?.id ?? draft.sessionId,
    title: listing?.name ?? listing?.firstMessage ?? null,
    updatedAt: listing?.updatedAt ?? null,
    cwd: header?.cwd || null,
    parent: header?.parent ?? null,
    status,
    entries,
    added,
    branches,
    compactions,
  };
}

/** Result of the import of one session. */
export interface ImportReport {
  /** File from which the session was read. */
  source: string;
  agent: string | null;
  /** File of the imported session; null when there is none (`skipped`). */
  file: string | null;
  /** Id of the imported session; null when there is none. */
  sessionId: string | null;
  /** Name of the session, or else its first prompt, as in a list; null when it has neither. */
  title: string | null;
  /** Time of the session's last entry, ISO 8601; null when it is unknown. */
  updatedAt: string | null;
  /** Working folder of the agent; null when it is unknown. */
  cwd: string | null;
  /** The session that this one was forked from, or that started it as a sub-agent; null when there is none. */
  parent: ParentLink | null;
  /**
   * `unchanged`: the session already had all of it. `skipped`: there was nothing to import; the issues have the reason.
   */
  status: "created" | "updated" | "unchanged" | "skipped";
  /** Number of entries of the imported session, including later additions. */
  entries: number;
  /** Number of entries that this import wrote. */
  added: number;
  branches: number;
  compactions: number;
  /** Content that could not be converted, with the reason, and content that was converted to another form. */
  issues: ImportIssue[];
}

/** Makes the report of a file without an imported session. */
export function skippedReport(source: string, agent: string | null, issues: ImportIssue[]): ImportReport {
  return {
    source,
    agent,
    file: null,
    sessionId: null,
    title: null,
    updatedAt: null,
    cwd: null,
    parent: null,
    status: "skipped",
    entries: 0,
    added: 0,
    branches: 0,
    compactions: 0,
    issues,
  };
}

/** Number of characters of lines that are appended at a time. */
const BATCH = 1 << 20;

/**
 * Appends the missing entries, and returns the number of lines. The leaf follows the source, unless it is at an entry
 * that was not imported: a user then continued the session.
 */
async function addMissing(
  draft: SessionDraft,
  log: SessionLog,
  tree: Tree,
  area: ScratchArea,
  { redactor, summaries }: Destination,
): Promise<number> {
  const before = leafOf(tree);
  let lines = 0;
  let batch: string[] = [];
  let size = 0;
  /** Appends the batch; throws `moved` if another writer has appended too. After a crash, the next import adds the rest. */
  const flush = async (): Promise<void> => {
    if (batch.length > 0) await log.append(batch, { durability: "fsync", ifUnchanged: true });
    batch = [];
    size = 0;
  };
  const append = async (line: string): Promise<void> => {
    lines++;
    batch.push(line);
    size += line.length;
    if (size >= BATCH) await flush();
  };
  // Rows of added entries by id, and their times in epoch milliseconds.
  const added = new HashRows(area);
  const times = area.column(Float64Array);
  let count = 0;
  let standsInSource = before === null;
  let leafId = before;
  const options = { known: (id: string) => knownEntry(tree, id), ...(summaries ? { summaries } : {}) };
  for (const item of draft.entries(options)) {
    const entry = item instanceof Uint8Array ? entryIn(item) : item;
    if (!entry) continue;
    standsInSource ||= entry.id === before;
    if (tree.has(entry.id) || added.add(entry.id, count) < count) continue;
    times.set(count++, timeIn(entry.timestamp));
    leafId = leafBehind(entry, leafId);
    await append(item instanceof Uint8Array ? decoder.decode(item) : draftLine(item, draft, redactor));
  }
  const timeOf = (id: string) => {
    const row = added.rowOf(id);
    return row < 0 ? timeIn(entryOfId(tree, id)?.timestamp) : times.get(row);
  };
  // Several files can belong to one session: the newest one sets its leaf.
  const isNews = () =>
    timeOf(draft.leafId ?? "") >= timeOf(before ?? "") && draft.isElsewhere?.(before ?? "");
  const target = standsInSource || isNews() ? draft.leafId : before;
  // Copied lines set the leaf themselves.
  if (count > 0 && target !== undefined && target !== leafId) await append(leafLine(target));
  await flush();
  return lines;
}

const decoder = new TextDecoder();

/** Returns epoch milliseconds; for an unreadable time, a time before all others. */
function timeIn(timestamp: string | undefined): number {
  const time = Date.parse(timestamp ?? "");
  return Number.isNaN(time) ? Number.NEGATIVE_INFINITY : time;
}

/**
 * Returns the entry in a copied line; undefined when it has none. An entry of which only the position is readable is
 * returned as damaged, because its children need it.
 */
function entryIn(bytes: Uint8Array): Entry | undefined {
  const line = readSessionLine(bytes);
  if (line.is === "entry") return line.entry;
  const scan = new EntryScan();
  if (line.is !== "corrupt" || !scanEntry(bytes, 0, bytes.length, scan)) return undefined;
  return placeholder(bytes, scan);
}

/** Returns an entry of an earlier import; undefined when there is none. */
function knownEntry(tree: Tree, id: string): KnownEntry | undefined {
  if (!tree.has(id)) return undefined;
  const entry = entryOfId(tree, id) as { sourceLines?: unknown; message?: { usage?: unknown } } | undefined;
  const { sourceLines, message } = entry ?? {};
  const lines = typeof sourceLines === "number" ? sourceLines : 1;
  return { lines, isBilled: message?.usage !== undefined };
}

/**
 * Returns the entry with this id; undefined when it is missing or unreadable. Reads the line each time: a tree would keep
 * thousands of entries of any length in memory.
 */
function entryOfId(tree: Tree, id: string): Entry | undefined {
  const row = tree.index.rowOf(id);
  const line = row < 0 ? undefined : readSessionLine(tree.bytesAt(row));
  return line?.is === "entry" ? line.entry : undefined;
}

/**
 * Finds the session to which a draft was written before, opened for reading, or else the id that it gets: a different
 * one if a session of another origin has its usual id.
 *
 * @throws EspalierError `exists` when sessions of other origins have both ids
 */
async function findSession(
  store: SessionStore,
  { agent, sourceId, sessionId }: SessionDraft,
): Promise<{ id: string; log: SessionLog | undefined }> {
  for (const id of [sessionId, idFromText(`${agent}/${sourceId}`)]) {
    const log = await openIfThere(store, { id }, "read");
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

/** Returns the line of a draft's entry, without secrets. Removed secrets and changed values are issues. */
function draftLine(entry: Entry, { issues }: SessionDraft, redactor: Redactor | undefined): string {
  const written = redactor ? redactEntry(entry, redactor) : entry;
  if (written !== entry) issues.add("content", null, "A text that looks like a key was removed.", entry.id);
  return lineOf(written, (message) => issues.add("content", null, message, entry.id));
}

function leafBehind(entry: Entry, before: string | null): string | null {
  const kind = kindOf(entry);
  if (kind.leafTarget) return kind.leafTarget(entry);
  return kind.movesLeaf ? entry.id : before;
}

function leafLine(targetId: string | null): string {
  return JSON.stringify(
    entryOf({ ...leaf.of({ targetId }) }, createId(), targetId, new Date().toISOString()),
  );
}
