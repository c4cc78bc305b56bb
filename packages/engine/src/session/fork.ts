import { sessionFork } from "@espalier/branch-summary";
import {
  assertWritable,
  branchSummary,
  createId,
  type Entry,
  type ForkPlan,
  type ForkPosition,
  forkHeader,
  forkLines,
  label,
  type NewEntry,
  planFork,
} from "@espalier/session-tree";
import { handledDrafts } from "./append.ts";
import { type BranchSummaryRequest, type LeftBranch, leaveBranch } from "./navigate.ts";
import type { Session } from "./session.ts";

/** Options of a fork: its end, its storage name, and the summary of the rest. */
export interface ForkOptions extends BranchSummaryRequest {
  /** End of the fork: the entry (`at`, default), or the one before it. */
  position?: ForkPosition;
  /** Storage name of the fork; by default the store chooses. */
  out?: string;
}

/** Result of a fork. */
export interface ForkResult {
  /** File of the new session, or its address in another store. */
  file: string;
  id: string;
  leafId: string | null;
  /** Text of the user message directly after the end of the fork; null otherwise. */
  selectedText: string | null;
  /** Id of the summary of the content that the fork leaves out; null when there is none. */
  summaryEntryId: string | null;
}

/**
 * Copies a path into a new session: the same lines, the same ids, and the current labels and name. With `summarize`, a
 * summary of the rest follows.
 *
 * @throws EspalierError `cancelled`, `unknown-entry`, `exists`; `version` or `no-header` for a session that can only be
 * read; then no file is made
 */
export async function forkSession(
  session: Session,
  entryId: string,
  options: ForkOptions = {},
): Promise<ForkResult> {
  // Copied lines go into a file of this version: this program must know their version.
  assertWritable(session.log);
  await session.load();
  const { position = "at" } = options;
  const plan = planFork(session.tree, entryId, position);
  // A prompt directly after the fork's end is returned for editing: it does not count as left out.
  const reachedId = plan.selectedText === null ? plan.leafId : entryId;
  const event = { kind: "fork", targetId: plan.leafId, entryId, position } as const;
  const result = await leaveBranch(session, event, reachedId, options, async (left) => {
    const additions = await additionsTo(session, plan, left);
    left.refuseAborted();
    return writeFork(session, { ...plan, additions }, options.out);
  });
  await session.tell(sessionFork, { entryId, ...result });
  return result;
}

/**
 * Makes the entries after the copied lines: first the summary, then under it the current labels and name and the new
 * label. They pass through `entry_before_append`, because they are new.
 */
async function additionsTo(
  session: Session,
  { leafId: copiedLeafId, additions }: ForkPlan,
  { summary, labelText }: LeftBranch,
): Promise<Entry[]> {
  const timestamp = new Date().toISOString();
  const added = <Drafted extends NewEntry>(draft: Drafted, parentId: string | null) =>
    ({ ...draft, id: createId(), parentId, timestamp }) as Entry;
  const first = summary && added(branchSummary.of(summary), copiedLeafId);
  const leafId = first?.id ?? copiedLeafId;
  const beside = additions.map((entry) => ({ ...entry, parentId: leafId }));
  if (labelText && leafId !== null)
    beside.push(added(label.of({ targetId: leafId, label: labelText }), leafId));
  const prepared = await handledDrafts(session, [...(first ? [first] : []), ...beside]);
  return [...prepared];
}

async function writeFork(session: Session, plan: ForkPlan, out?: string): Promise<ForkResult> {
  const now = new Date().toISOString();
  // A session without a header was refused before.
  const header = forkHeader(session.header!, session.log.ref, plan.leafId, now);
  const log = await session.store.create(header, forkLines(session.tree, plan), out);
  await log.close();
  const summary = plan.additions.find((entry) => branchSummary.is(entry));
  return {
    file: log.ref,
    id: header.id,
    leafId: summary?.id ?? plan.leafId,
    selectedText: plan.selectedText,
    summaryEntryId: summary?.id ?? null,
  };
}
