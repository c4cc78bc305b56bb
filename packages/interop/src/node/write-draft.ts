import {
  createId,
  type Entry,
  kindOf,
  leaf,
  readSessionLine,
  type SessionLog,
  type SessionStore,
  SessionTree,
  Tree,
} from "@espalier/session-tree";
import type { DraftOptions, SessionDraft } from "../import-draft.ts";
import { entryOf } from "../import-entry.ts";
import { lineOf } from "../import-line.ts";
import { type ImportReport, skippedReport } from "./import-report.ts";
import type { SessionCatalogue } from "./session-catalogue.ts";
import { CountingEntries, countTree, type SessionCounts } from "./session-counts.ts";

/** Characters of lines that are appended at a time. */
const BATCH = 1 << 20;

/** Where drafts are written. */
export interface Destination {
  store: SessionStore;
  catalogue: SessionCatalogue;
  summaries?: DraftOptions["summaries"];
}

/** Writes a session, or what is new of it. */
export async function writeDraft(draft: SessionDraft, to: Destination): Promise<ImportReport> {
  const { id, log } = await to.catalogue.find(draft);
  if (!log) return createSession(draft, id, to);
  if (log.header?.importedFrom?.digest === draft.source.digest()) return report(draft, log, "unchanged", 0);
  await log.close();
  return updateSession(draft, await to.store.open(log.ref, "write"), to);
}

async function createSession(draft: SessionDraft, id: string, to: Destination): Promise<ImportReport> {
  const lines = new DraftLines(draft, to.summaries);
  if (!lines.hasConversation()) {
    draft.issues.add(
      "not-a-session",
      null,
      "Nothing in the file is said by or to a model; no session was made of it.",
    );
    return skippedReport(draft.source.path, draft.agent, draft.issues.list());
  }
  const log = await to.store.create({ ...draft.header(), id }, lines.all());
  to.catalogue.add(id, log.ref);
  return report(draft, log, "created", lines.counts.entries, lines.hasBytes ? undefined : lines.counts);
}

/** The lines of a draft, with a last one that sets the leaf where the lines before leave it elsewhere. */
class DraftLines {
  readonly counts = new CountingEntries();
  /** True when lines were copied, which are not counted as they go. */
  hasBytes = false;
  readonly #draft: SessionDraft;
  readonly #items: Generator<Entry | Uint8Array, void>;
  /** Items that were looked at before they are written. */
  readonly #first: (Entry | Uint8Array)[] = [];

  constructor(draft: SessionDraft, summaries: DraftOptions["summaries"]) {
    this.#draft = draft;
    this.#items = draft.entries(summaries ? { summaries } : {});
  }

  /** Whether anything is said in it; a session of notes alone is none. */
  hasConversation(): boolean {
    for (let next = this.#items.next(); !next.done; next = this.#items.next()) {
      this.#first.push(next.value);
      if (next.value instanceof Uint8Array || kindOf(next.value.type).toMessages) return true;
    }
    return false;
  }

  *all(): Generator<string | Uint8Array, void> {
    let leafId: string | null = null;
    for (const items of [this.#first, this.#items]) {
      for (const item of items) {
        if (item instanceof Uint8Array) {
          this.hasBytes = true;
          this.counts.entries++;
          yield item;
        } else {
          this.counts.add(item);
          leafId = leafBehind(item, leafId);
          yield draftLine(item, this.#draft);
        }
      }
    }
    const { leafId: target } = this.#draft;
    if (target === undefined || target === leafId) return;
    this.counts.entries++;
    yield leafLine(target);
  }
}

/** Appends the entries that are not there yet. The leaf follows the source, unless it stands at an entry of its own. */
async function updateSession(draft: SessionDraft, log: SessionLog, to: Destination): Promise<ImportReport> {
  const session = await SessionTree.open(log);
  const tree = await session.load();
  const before = session.leafId;
  const known = (id: string) => {
    const entry = tree.getEntry(id) as (Entry & { sourceLines?: unknown }) | undefined;
    return entry && (typeof entry.sourceLines === "number" ? entry.sourceLines : 1);
  };
  const appender = new Appender(log);
  const fresh = new Set<string>();
  let standsInSource = before === null;
  let leafId = before;
  const { summaries } = to;
  for (const item of draft.entries({ known, ...(summaries ? { summaries } : {}) })) {
    const entry = item instanceof Uint8Array ? entryIn(item) : item;
    if (!entry) continue;
    standsInSource ||= entry.id === before;
    if (tree.has(entry.id) || fresh.has(entry.id)) continue;
    fresh.add(entry.id);
    leafId = leafBehind(entry, leafId);
    await appender.add(item instanceof Uint8Array ? new TextDecoder().decode(item) : draftLine(item, draft));
  }
  if (fresh.size > 0) {
    const source = draft.leafId === undefined ? leafId : draft.leafId;
    const target = standsInSource && !isOlder(tree, source, before, fresh) ? source : before;
    if (target !== leafId) await appender.add(leafLine(target));
  }
  await appender.flush();
  return report(draft, log, fresh.size > 0 ? "updated" : "unchanged", appender.lines);
}

/** Several files can tell of one session: the newest says where it stands. */
function isOlder(tree: Tree, id: string | null, than: string | null, fresh: ReadonlySet<string>): boolean {
  if (id === null || than === null || fresh.has(id)) return false;
  return (tree.getEntry(id)?.timestamp ?? "") < (tree.getEntry(than)?.timestamp ?? "");
}

/** Appends lines in batches; a batch that was cut by a crash is a prefix, and the next import adds the rest. */
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

function draftLine(entry: Entry, { issues }: SessionDraft): string {
  return lineOf(entry, () => {
    const message =
      "Values that no session can hold are kept as text: nested too deeply, or under a key `__proto__`.";
    issues.add("content", null, message, entry.id);
  });
}

function leafBehind(entry: Entry, before: string | null): string | null {
  const kind = kindOf(entry.type);
  if (kind.leafTarget) return kind.leafTarget(entry);
  return kind.movesLeaf ? entry.id : before;
}

function leafLine(targetId: string | null): string {
  const { type, ...body } = leaf.of({ targetId });
  return JSON.stringify(entryOf({ type, ...body }, createId(), targetId, new Date().toISOString()));
}

function entryIn(bytes: Uint8Array): Entry | undefined {
  const line = readSessionLine(bytes);
  return line.is === "entry" ? line.entry : undefined;
}

/** @param counted what is known of the session without reading it again */
async function report(
  draft: SessionDraft,
  log: SessionLog,
  status: ImportReport["status"],
  added: number,
  counted?: SessionCounts,
): Promise<ImportReport> {
  const { entries, branches, compactions } = counted ?? countTree(new Tree(await log.load()));
  await log.close();
  return {
    source: draft.source.path,
    agent: draft.agent,
    file: log.ref,
    sessionId: log.header?.id ?? draft.sessionId,
    status,
    entries,
    added,
    branches,
    compactions,
    issues: draft.issues.list(),
  };
}
