import { type SessionLog, type SessionStore, Tree } from "@espalier/session-tree";
import type { SessionDraft } from "../import-draft.ts";
import type { DraftWriting } from "./draft-lines.ts";
import { type ImportReport, skippedReport } from "./import-report.ts";
import { NewSession } from "./new-session.ts";
import type { SessionCatalogue } from "./session-catalogue.ts";
import { countTree, type SessionCounts } from "./session-counts.ts";
import { updateSession } from "./update-session.ts";

/** Where drafts are written. */
export interface Destination extends DraftWriting {
  store: SessionStore;
  catalogue: SessionCatalogue;
}

/** Writes a session, or what is new of it. */
export async function writeDraft(draft: SessionDraft, to: Destination): Promise<ImportReport> {
  const { id, log } = await to.catalogue.find(draft);
  if (!log) return create(draft, id, to);
  if (log.header?.importedFrom?.digest === draft.source.digest()) return report(draft, log, "unchanged", 0);
  await log.close();
  const grown = await to.store.open(log.ref, "write");
  const added = await updateSession(draft, grown, to);
  return report(draft, grown, added > 0 ? "updated" : "unchanged", added);
}

async function create(draft: SessionDraft, id: string, to: Destination): Promise<ImportReport> {
  const session = new NewSession(draft, to);
  if (!session.hasConversation()) {
    const message = "Nothing in the file is said by or to a model; no session was made of it.";
    draft.issues.add("not-a-session", null, message);
    return skippedReport(draft.source.path, draft.agent, draft.issues.list());
  }
  const log = await to.store.create({ ...draft.header(), id }, session.lines());
  to.catalogue.add(id, log.ref);
  return report(draft, log, "created", session.counts.entries, session.isCopied ? undefined : session.counts);
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
