import { leaf, promptText } from "@espalier/session-tree";
import { EngineError } from "./engine-error.ts";
import type { Session } from "./session.ts";
import { lastAct } from "./undo.ts";

export interface NavigateOptions {
  /** A label for the place arrived at. */
  label?: string;
}

/** Where a navigation led. */
export interface NavigateResult {
  leafId: string | null;
  /** The branch summary that was written; null when there was none to write. */
  summaryEntryId: string | null;
  /** The text of the user message one went to, to be written anew; null for any other entry. */
  editorText: string | null;
  /** True when an extension forbade it; nothing has changed then. */
  cancelled: boolean;
}

/** Moves the leaf, and says so in the file even when nothing follows. */
export async function navigate(
  session: Session,
  targetId: string | null,
  options: NavigateOptions = {},
): Promise<NavigateResult> {
  const { placeId, editorText } = destinationOf(session, targetId);
  await session.core.moveTo(placeId);
  if (options.label && targetId !== null) await session.label(targetId, options.label);
  return { leafId: session.leafId, summaryEntryId: null, editorText, cancelled: false };
}

/** Where going to an entry leads: before a message that can be written anew, else to the entry itself. */
export function destinationOf(
  session: Session,
  targetId: string | null,
): { placeId: string | null; editorText: string | null } {
  if (targetId === null) return { placeId: null, editorText: null };
  const { tree } = session;
  const row = tree.row(targetId);
  const editorText = promptText(tree.entryAt(row));
  const placeId = session.core.placeOf(editorText === null ? targetId : tree.parentIdAt(row));
  return { placeId, editorText };
}

/** Takes back the last act; see `lastAct`. */
export async function undo(session: Session): Promise<NavigateResult> {
  const act = lastAct(session.tree, session.leafId);
  if (!act) {
    throw new EngineError(
      "nothing-to-undo",
      "There is nothing to take back: no prompt on this path and no navigation before it.",
    );
  }
  const targetId = session.core.placeOf(act.backTo);
  await session.append(leaf.of({ parentId: targetId, targetId, undoes: act.entryId }));
  return { leafId: session.leafId, summaryEntryId: null, editorText: act.editorText, cancelled: false };
}
