import { createId, type Entry, kindOf, leaf, type Redactor, redactEntry } from "@espalier/session-tree";
import type { DraftOptions, SessionDraft } from "../import-draft.ts";
import { entryOf } from "../import-entry.ts";
import { lineOf } from "../import-line.ts";

/** How drafts are written. */
export interface DraftWriting {
  /** Takes secrets out of entries; without one they are written as they are. */
  redactor: Redactor | undefined;
  summaries?: DraftOptions["summaries"];
}

/**
 * The line of an entry of a draft, without secrets; where it could not be written as it is, the draft's report says so.
 */
export function draftLine(entry: Entry, { issues }: SessionDraft, redactor: Redactor | undefined): string {
  const written = redactor ? redactEntry(entry, redactor) : entry;
  if (written !== entry) issues.add("content", null, "What looks like a key was taken out.", entry.id);
  return lineOf(written, () => {
    const message =
      "Values that no session can hold are kept as text: nested too deeply, or under a key `__proto__`.";
    issues.add("content", null, message, entry.id);
  });
}

/** Where an entry leaves the leaf. */
export function leafBehind(entry: Entry, before: string | null): string | null {
  const kind = kindOf(entry);
  if (kind.leafTarget) return kind.leafTarget(entry);
  return kind.movesLeaf ? entry.id : before;
}

/** A line that sets the leaf. */
export function leafLine(targetId: string | null): string {
  const body = leaf.of({ targetId });
  return JSON.stringify(entryOf({ ...body }, createId(), targetId, new Date().toISOString()));
}
