import { EspalierError, formatLine } from "@espalier/jsonl-stream";
import { isInWindow } from "../context/window.ts";
import { type BaseEntry, createId, FORMAT_VERSION, type NewEntry, timestamp } from "../entry/entry.ts";
import { type Entry, kindOf, type OwnKinds } from "../entry/kinds.ts";
import type { SessionTree } from "./session-tree.ts";
import type { SessionLog } from "./store.ts";

/** Entries that are ready to be written. */
export interface PreparedAppend {
  entries: Entry[];
  lines: string[];
  /** Id of the leaf after the append. */
  leafId: string | null;
}

/**
 * Fills in ids, parents and timestamps, and checks every entry before anything is written. The parent is the leaf,
 * which moves through the batch; entries outside the conversation get it too.
 *
 * @param createdIds new ids in the drafts, which need no search for duplicates
 *
 * @throws EspalierError `invalid-entry`, `duplicate-id`, `unknown-parent`, `off-path`, `unknown-entry`
 */
export function prepareAppend(
  drafts: readonly NewEntry[],
  session: SessionTree,
  kinds: OwnKinds | undefined,
  createdIds?: ReadonlySet<string>,
): PreparedAppend {
  const site = new AppendSite(session);
  const now = timestamp();
  const lines: string[] = [];
  const entries: Entry[] = [];
  for (const draft of drafts) {
    const given = fillIn(draft, site.leafId, now);
    kinds?.adopt(given);
    const idGiven = draft.id !== undefined && !createdIds?.has(draft.id);
    checkEntry(given, site, idGiven, draft.parentId !== undefined);
    const line = lineOf(given);
    // Memory must equal the log: when writing replaced lone surrogates, the entry is read back from its line.
    const entry = line.includes("\ufffd") ? (JSON.parse(line) as Entry) : given;
    if (entry !== given) kinds?.adopt(entry);
    lines.push(line);
    entries.push(entry);
    site.add(entry);
  }
  return { entries, lines, leafId: site.leafId };
}

/**
 * Returns a draft with its missing fields. The four common fields come first in the line, in any order of the draft,
 * because readers look for them there.
 */
function fillIn(draft: NewEntry, leafId: string | null, now: string): Entry {
  const entry = { type: "", id: "", parentId: leafId, timestamp: now, ...(draft as Partial<Entry>) };
  // A draft can have `undefined` for a missing field.
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

function checkEntry(entry: BaseEntry, site: AppendSite, idGiven: boolean, parentGiven: boolean): void {
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
      `The entry ${JSON.stringify(edited)} is not on the path; only entries of the path can be edited.`,
    );
  }
  if (!kind.movesLeaf) checkBeside(entry, site);
}

/** Checks an entry outside the conversation. Only a `leaf` entry moves the leaf, to its target. */
function checkBeside(entry: BaseEntry, site: AppendSite): void {
  const named = (entry as { targetId?: unknown }).targetId;
  if (typeof named === "string" && !site.has(named)) {
    throw new EspalierError("unknown-entry", `There is no entry ${JSON.stringify(named)} in this session.`);
  }
  if (!kindOf(entry).leafTarget) {
    // With another parent, opening the log again would read the entry as a move of the leaf to that parent.
    if (entry.parentId !== site.leafId)
      throw notSound(entry.type, "its parent is not the leaf; leave `parentId` out");
  } else if (typeof named === "string" && site.placeOf(named) !== named)
    throw notSound(entry.type, "`targetId` is an entry that cannot be the leaf; name the one before it");
}

const notSound = (type: string, problem: string) =>
  new EspalierError("invalid-entry", `The ${type || "new"} entry is not valid: ${problem}.`);

/** The session as it will be after the entries of the batch that were added so far. */
class AppendSite {
  leafId: string | null;
  readonly #session: SessionTree;
  readonly #added = new Map<string, Entry>();

  constructor(session: SessionTree) {
    this.#session = session;
    this.leafId = session.leafId;
  }

  /** Returns whether an entry exists. Searches the window first, and the whole tree only if it is not there. */
  has(id: string): boolean {
    return this.#added.has(id) || isInWindow(this.#session.window, id) || this.#session.tree.has(id);
  }

  isOnPath(id: string, leafId: string | null): boolean {
    let at = leafId;
    for (let entry = this.#added.get(at ?? ""); entry; entry = this.#added.get(at ?? "")) {
      if (entry.id === id) return true;
      at = entry.parentId;
    }
    return this.#session.isOnPath(id, at);
  }

  placeOf(id: string): string | null {
    const entry = this.#added.get(id);
    if (!entry) return this.#session.placeOf(id);
    return kindOf(entry).movesLeaf ? id : entry.parentId;
  }

  add(entry: Entry): void {
    this.#added.set(entry.id, entry);
    const kind = kindOf(entry);
    if (kind.leafTarget) this.leafId = kind.leafTarget(entry);
    else if (kind.movesLeaf) this.leafId = entry.id;
  }
}

/**
 * Runs `read`, which reads drafts of a caller. Their getters can throw any value.
 * @throws EspalierError `invalid-entry` for an error without a code of its own
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

/** Refuses a log that can only be read: `no-header`, or a `version` newer than this program writes. */
export function assertWritable({ header, ref }: SessionLog): void {
  if (!header)
    throw new EspalierError(
      "no-header",
      `${ref} has no session header, so it can only be read; \`espalier doctor --repair\` writes a repaired copy.`,
    );
  if (header.version > FORMAT_VERSION) {
    throw new EspalierError(
      "version",
      `${ref} has format version ${header.version}, newer than this program writes (${FORMAT_VERSION}); it can only be read.`,
    );
  }
}
