import { EspalierError, formatLine } from "@espalier/jsonl-stream";
import { isInWindow, type PathWindow } from "../context/window.ts";
import { createId, type Entry, FORMAT_VERSION, type NewEntry, timestamp } from "../entry/entry.ts";
import { kindOf, type OwnKinds } from "../entry/kinds.ts";
import { isOnPath, type Tree } from "../tree/tree.ts";
import type { Durability, SessionLog } from "./store.ts";

/** Entries ready to be written: filled in, checked, and as lines. */
export interface PreparedAppend {
  entries: Entry[];
  lines: string[];
  /** Where the leaf is afterwards. */
  leafId: string | null;
}

/**
 * Fills in ids, parents (the leaf, as it moves through the batch) and times, and checks every entry before anything is
 * written. An entry that stands beside the conversation takes the leaf as its parent too.
 *
 * @throws EspalierError `invalid-entry`, `duplicate-id`, `unknown-parent`, `off-path`, `unknown-entry`
 */
export function prepareAppend(
  drafts: readonly NewEntry[],
  site: AppendSite,
  kinds?: OwnKinds,
  now = timestamp(),
): PreparedAppend {
  const batch = new BatchSite(site);
  const lines: string[] = [];
  const entries: Entry[] = [];
  for (const draft of drafts) {
    const given = filledIn(draft, batch.leafId, now);
    kinds?.adopt(given);
    checkEntry(given, batch, draft.id !== undefined, draft.parentId !== undefined);
    const line = lineOf(given);
    // What the log holds is the truth: where writing healed a damaged text, memory has the healed one too.
    const entry = line.includes("\ufffd") ? (JSON.parse(line) as Entry) : given;
    if (entry !== given) kinds?.adopt(entry);
    lines.push(line);
    entries.push(entry);
    batch.add(entry);
  }
  return { entries, lines, leafId: batch.leafId };
}

/** The four fields of every entry stand first in its line, whatever the draft's order: that is where readers look. */
function filledIn(draft: NewEntry, leafId: string | null, now: string): Entry {
  const entry = { type: "", id: "", parentId: leafId, timestamp: now, ...(draft as Partial<Entry>) };
  // A draft may say `undefined` where it leaves something out.
  if (draft.id === undefined) entry.id = createId();
  if (draft.parentId === undefined) entry.parentId = leafId;
  if (draft.timestamp === undefined) entry.timestamp = now;
  return entry as Entry;
}

function lineOf(entry: Entry): string {
  try {
    return formatLine(entry);
  } catch (cause) {
    if (!(cause instanceof EspalierError)) throw cause;
    throw new EspalierError("invalid-entry", `The ${entry.type} entry cannot be written: ${cause.message}`, {
      cause,
    });
  }
}

function checkEntry(entry: Entry, site: AppendSite, idGiven: boolean, parentGiven: boolean): void {
  const { id, type, parentId, timestamp } = entry;
  const invalid = (problem: string) => notSound(type, problem);
  if (typeof type !== "string" || type === "" || type === "session")
    throw invalid("`type` is missing or that of a header");
  if (typeof id !== "string" || id === "") throw invalid("`id` is not a text");
  if (parentId !== null && typeof parentId !== "string")
    throw invalid("`parentId` is neither an id nor null");
  if (typeof timestamp !== "string") throw invalid("`timestamp` is not text (ISO 8601)");
  if (idGiven && site.has(id)) {
    throw new EspalierError(
      "duplicate-id",
      `There is an entry ${JSON.stringify(id)} already; leave the id out to get a fresh one.`,
    );
  }
  if (parentGiven && parentId !== null && !site.has(parentId)) {
    const message = `The parent ${JSON.stringify(parentId)} is not in this session; append it first, or name one that is.`;
    throw new EspalierError("unknown-parent", message);
  }
  const kind = kindOf(entry);
  const problem = kind.problem?.(entry);
  if (problem) throw invalid(problem);
  const firstKept = kind.firstKept?.(entry);
  if (firstKept !== undefined && firstKept !== id && !site.isOnPath(firstKept, parentId)) {
    throw new EspalierError(
      "off-path",
      `The first kept entry ${JSON.stringify(firstKept)} is not on the path of the compaction.`,
    );
  }
  const edited = kind.edit?.(entry).targetId;
  if (edited !== undefined && !site.isOnPath(edited, parentId)) {
    throw new EspalierError(
      "off-path",
      `The entry ${JSON.stringify(edited)} is not on the path; only what is on it can be edited.`,
    );
  }
  if (!kind.movesLeaf) checkBeside(entry, site);
}

/** An entry beside the conversation says nothing of where the leaf is, except a `leaf`, which names a place for it. */
function checkBeside(entry: Entry, site: AppendSite): void {
  const named = (entry as { targetId?: unknown }).targetId;
  if (typeof named === "string" && !site.has(named)) {
    throw new EspalierError("unknown-entry", `There is no entry ${JSON.stringify(named)} in this session.`);
  }
  if (!kindOf(entry).leafTarget) {
    // Under another parent it would be taken for a move to that one when the log is opened again.
    if (entry.parentId !== site.leafId)
      throw notSound(entry.type, "its parent is not the leaf; leave `parentId` out");
  } else if (typeof named === "string" && site.placeOf(named) !== named)
    throw notSound(entry.type, "`targetId` is an entry that cannot be the leaf; name the one before it");
}

const notSound = (type: string, problem: string) =>
  new EspalierError("invalid-entry", `The ${type || "new"} entry is not sound: ${problem}.`);

/**
 * Runs `read`, which reads drafts of a caller: a getter among them may throw anything.
 * @throws EspalierError `invalid-entry` for what has no code of its own
 */
export function readDrafts<Result>(read: () => Result): Result {
  try {
    return read();
  } catch (cause) {
    if (cause instanceof Error && typeof (cause as { code?: unknown }).code === "string") throw cause;
    const reason = cause instanceof Error ? cause.message : String(cause);
    const message = `The entry cannot be read: ${reason.replace(/[.;]$/, "")}; give it plain values.`;
    throw new EspalierError("invalid-entry", message, { cause });
  }
}

/** Options of an append. */
export interface AppendOptions {
  /** What it survives once it is acknowledged. Default: what the most precious of its entries asks for. */
  durability?: Durability;
  /**
   * What becomes of it when the log cannot be written. `throw` (default): the promise is rejected, nothing of it is in
   * memory, and the caller has it still. `queue`: it is kept, in order, and the promise is settled when writing works
   * again or the session is closed; beyond 1,000 entries or 64 MiB it is rejected with `queue-full`.
   */
  onFailure?: "throw" | "queue";
  /**
   * Appends only while this is the leaf, of this session and of its log as it is now: where another writer has moved it,
   * nothing is written, and the error is `moved` with the `leafId` there is. So writers of one session make one line of
   * messages, not two branches. PostgreSQL and memory compare and append in one step; files do among all that compare,
   * while who appends without comparing may come between. Never kept by `onFailure: "queue"`.
   */
  ifLeaf?: string | null;
}

/** What the most precious entry of a batch asks for. */
export function strictestDurability(entries: readonly Entry[]): Durability {
  return entries.some((entry) => kindOf(entry).durability?.(entry) === "fsync") ? "fsync" : "flush";
}

/** What an append is checked against. */
interface AppendSite {
  leafId: string | null;
  /** Whether the log has an entry with this id. */
  has(id: string): boolean;
  /** Whether `id` is on the path that ends in `leafId`. */
  isOnPath(id: string, leafId: string | null): boolean;
  /** Where the leaf comes to stand when it is moved to an entry of the log: there, or at its nearest ancestor that can be one. */
  placeOf(id: string): string | null;
}

/** A session as an append sees it: asks the window first, and for the whole tree only when that cannot tell. */
export function appendSite(session: {
  readonly leafId: string | null;
  readonly window: PathWindow;
  readonly tree: Tree;
  placeOf(id: string): string | null;
}): AppendSite {
  const { leafId, window } = session;
  return {
    leafId,
    has: (id) => isInWindow(window, id) || session.tree.has(id),
    placeOf: (id) => session.placeOf(id),
    isOnPath(id, from) {
      if (from === null) return false;
      if (from === leafId && isInWindow(window, id)) return true;
      const { tree } = session;
      return tree.has(id) && tree.has(from) && isOnPath(tree, tree.row(id), tree.row(from));
    },
  };
}

/** The site as it will be behind the entries of the batch that were taken so far. */
class BatchSite implements AppendSite {
  leafId: string | null;
  readonly #site: AppendSite;
  readonly #added = new Map<string, Entry>();

  constructor(site: AppendSite) {
    this.#site = site;
    this.leafId = site.leafId;
  }

  has(id: string): boolean {
    return this.#added.has(id) || this.#site.has(id);
  }

  isOnPath(id: string, leafId: string | null): boolean {
    let at = leafId;
    for (let entry = this.#added.get(at ?? ""); entry; entry = this.#added.get(at ?? "")) {
      if (entry.id === id) return true;
      at = entry.parentId;
    }
    return at !== null && this.#site.isOnPath(id, at);
  }

  placeOf(id: string): string | null {
    const entry = this.#added.get(id);
    if (!entry) return this.#site.placeOf(id);
    return kindOf(entry).movesLeaf ? id : entry.parentId;
  }

  add(entry: Entry): void {
    this.#added.set(entry.id, entry);
    const kind = kindOf(entry);
    if (kind.leafTarget) this.leafId = kind.leafTarget(entry);
    else if (kind.movesLeaf) this.leafId = entry.id;
  }
}

/** Refuses a log that can be read and must not be written: `no-header`, or a `version` newer than this program writes. */
export function assertWritable({ header, ref }: SessionLog): void {
  if (!header)
    throw new EspalierError(
      "no-header",
      `${ref} has no session header, so it is only read; \`espalier doctor --repair\` writes a sound copy.`,
    );
  if (header.version > FORMAT_VERSION) {
    throw new EspalierError(
      "version",
      `${ref} has format version ${header.version}, newer than this program writes (${FORMAT_VERSION}); it is only read.`,
    );
  }
}

/** Changes drafts before they are checked and written. */
export type EntryPreparation = (drafts: readonly NewEntry[]) => Promise<readonly NewEntry[]>;
