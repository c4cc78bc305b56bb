import { redactFolder, type SessionLog, type SessionStore } from "@espalier/session-tree";
import type { SessionDraft } from "../import-draft.ts";
import type { ScratchSpace } from "../scratch/scratch-space.ts";
import type { SessionCounts } from "../session-counts.ts";
import type { DraftWriting } from "./draft-lines.ts";
import { type ImportReport, skippedReport } from "./import-report.ts";
import { NewSession } from "./new-session.ts";
import type { SessionCatalogue } from "./session-catalogue.ts";
import { updateSession } from "./update-session.ts";
import { WrittenSession } from "./written-session.ts";

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
