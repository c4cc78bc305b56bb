import {
  type Entry,
  kindOf,
  type Redactor,
  redactFolder,
  type SessionLog,
  type SessionStore,
} from "@espalier/session-tree";
import { CountingEntries, type SessionCounts, type SessionDraft } from "../import/draft.ts";
import type { ImportIssue } from "../import/issue.ts";
import type { ScratchSpace } from "../scratch/space.ts";
import {
  type DraftWriting,
  draftLine,
  leafBehind,
  leafLine,
  type SessionCatalogue,
  updateSession,
  WrittenSession,
} from "./update-session.ts";

/** Where drafts are written. */
export interface Destination extends DraftWriting {
  store: SessionStore;
  catalogue: SessionCatalogue;
  /** Room for what is remembered of a session that is here already. */
  scratch: ScratchSpace;
}

/** Writes a session, or what is new of it. */
export async function writeDraft(draft: SessionDraft, to: Destination): Promise<ImportReport> {
  const { id, log } = await to.catalogue.find(draft);
  if (!log) return create(draft, id, to);
  if (log.header?.importedFrom?.digest === draft.source.digest()) return update(draft, log, to, false);
  await log.close();
  return update(draft, await to.store.open({ file: log.ref }, "write"), to, true);
}

async function create(draft: SessionDraft, id: string, to: Destination): Promise<ImportReport> {
  const session = new NewSession(draft, to);
  if (!session.hasConversation()) {
    const message = "Nothing in the file is said by or to a model; no session was made of it.";
    draft.issues.add("not-a-session", null, message);
    return skippedReport(draft.source.path, draft.agent, draft.issues.list());
  }
  const header = { ...draft.header(), id };
  const { redactor } = to;
  const cwd = redactFolder(header.cwd, redactor ? (text) => redactor.text(text) : false);
  const log = await to.store.create({ ...header, cwd }, session.lines());
  to.catalogue.add(id, log.ref);
  await log.close();
  const { counts } = session;
  return report(draft, log, "created", counts.entries, counts);
}

/** @param isGrown whether the source is another one than the session was made of */
async function update(
  draft: SessionDraft,
  log: SessionLog,
  to: Destination,
  isGrown: boolean,
): Promise<ImportReport> {
  const { scratch } = to;
  let session: WrittenSession | undefined;
  try {
    session = new WrittenSession(await log.load(), scratch);
    const added = isGrown ? await updateSession(draft, { log, session, scratch }, to) : 0;
    if (added > 0) session.takeIn(await log.load());
    return report(draft, log, added > 0 ? "updated" : "unchanged", added, session.count());
  } finally {
    session?.close();
    await log.close();
  }
}

function report(
  draft: SessionDraft,
  { ref, header }: SessionLog,
  status: ImportReport["status"],
  added: number,
  { entries, branches, compactions }: SessionCounts,
): ImportReport {
  return {
    source: draft.source.path,
    agent: draft.agent,
    file: ref,
    sessionId: header?.id ?? draft.sessionId,
    status,
    entries,
    added,
    branches,
    compactions,
    issues: draft.issues.list(),
  };
}

/** A session that is written for the first time: its lines one at a time, counted as they go. */
class NewSession {
  readonly #written = new CountingEntries();
  readonly #draft: SessionDraft;
  readonly #items: Generator<Entry | Uint8Array, void>;
  /** Items that were looked at before they are written. */
  readonly #first: (Entry | Uint8Array)[] = [];
  readonly #redactor: Redactor | undefined;

  constructor(draft: SessionDraft, { redactor, summaries }: DraftWriting) {
    this.#draft = draft;
    this.#redactor = redactor;
    this.#items = draft.entries(summaries ? { summaries } : {});
  }

  /** What is in it; complete with the lines. Lines that are copied are counted by who copies them. */
  get counts(): SessionCounts {
    return this.#draft.counts ?? this.#written;
  }

  /** Whether anything is said in it; a session of notes alone is none. */
  hasConversation(): boolean {
    for (let next = this.#items.next(); !next.done; next = this.#items.next()) {
      this.#first.push(next.value);
      if (next.value instanceof Uint8Array || kindOf(next.value).toMessages) return true;
    }
    return false;
  }

  /** The lines, with a last one that sets the leaf where those before leave it elsewhere. */
  *lines(): Generator<string | Uint8Array, void> {
    let leafId: string | null = null;
    for (const items of [this.#first, this.#items]) {
      for (const item of items) {
        if (item instanceof Uint8Array) {
          yield item;
        } else {
          this.#written.add(item);
          leafId = leafBehind(item, leafId);
          yield draftLine(item, this.#draft, this.#redactor);
        }
      }
    }
    const { leafId: target } = this.#draft;
    if (target === undefined || target === leafId) return;
    this.#written.entries++;
    yield leafLine(target);
  }
}

/** What became of one session of another agent. */
export interface ImportReport {
  /** The file it was read from. */
  source: string;
  agent: string | null;
  /** Where it is kept here; null when nothing was written. */
  file: string | null;
  /** Its id here. */
  sessionId: string | null;
  /** `unchanged`: all of it was here already. `skipped`: there was nothing to import, the issues say why. */
  status: "created" | "updated" | "unchanged" | "skipped";
  /** Entries of the session here, those that were added since included. */
  entries: number;
  /** Entries that this import wrote. */
  added: number;
  branches: number;
  compactions: number;
  /** What could not be mapped and why, and what was mapped in another way than it stood. */
  issues: ImportIssue[];
}

/** The report of a file that gave nothing. */
export function skippedReport(source: string, agent: string | null, issues: ImportIssue[]): ImportReport {
  return {
    source,
    agent,
    file: null,
    sessionId: null,
    status: "skipped",
    entries: 0,
    added: 0,
    branches: 0,
    compactions: 0,
    issues,
  };
}
