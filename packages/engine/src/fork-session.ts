import { type ForkPosition, forkHeader, forkLines, planFork } from "@espalier/session-tree";
import type { Session } from "./session.ts";

export interface ForkOptions {
  /** Whether the fork ends with the entry (`at`, default) or before it. */
  position?: ForkPosition;
  /** Where to keep the fork; by default the store chooses. */
  out?: string;
}

/** The session that was made. */
export interface ForkResult {
  /** Its file, or its address in another store. */
  file: string;
  id: string;
  leafId: string | null;
  /** The text of the user message that the fork stops before; null otherwise. */
  selectedText: string | null;
  /** The summary of what the fork leaves out; null when there is none. */
  summaryEntryId: string | null;
}

/** Copies a path into a session of its own: the same lines, the same ids, and the labels and name in force. */
export async function forkSession(
  session: Session,
  entryId: string,
  options: ForkOptions = {},
): Promise<ForkResult> {
  const { tree, file } = session;
  const plan = planFork(tree, entryId, options.position);
  const source = session.header ?? {
    type: "session" as const,
    version: 3,
    id: "",
    timestamp: "",
    cwd: process.cwd(),
  };
  const header = forkHeader(source, file, plan.leafId, new Date().toISOString());
  const log = await session.store.create(header, forkLines(tree, plan), options.out);
  await log.close();
  return {
    file: log.ref,
    id: header.id,
    leafId: plan.leafId,
    selectedText: plan.selectedText,
    summaryEntryId: null,
  };
}
