import { branchSummary } from "./entries/branch-summary.ts";
import { compaction } from "./entries/compaction.ts";
import { contextEdit } from "./entries/context-edit.ts";
import { custom } from "./entries/custom.ts";
import { customMessage } from "./entries/custom-message.ts";
import { label } from "./entries/label.ts";
import { leaf } from "./entries/leaf.ts";
import { message } from "./entries/message.ts";
import { modelChange } from "./entries/model-change.ts";
import { sessionInfo } from "./entries/session-info.ts";
import { thinkingLevelChange } from "./entries/thinking-level-change.ts";
import { usage } from "./entries/usage.ts";
import { defineEntry, type Entry, type EntryKind } from "./entry.ts";

/**
 * Every kind of the format. A new kind is a file in `entries/` and one line here.
 * The position is the code by which an index remembers the kind; 0 stands for every type that nobody here knows.
 */
export const entryKinds: readonly EntryKind[] = [
  defineEntry<Entry>("", { movesLeaf: true }),
  message,
  compaction,
  branchSummary,
  customMessage,
  contextEdit,
  modelChange,
  thinkingLevelChange,
  custom,
  label,
  sessionInfo,
  usage,
  leaf,
] as unknown as EntryKind[];

const codes = new Map(entryKinds.map((kind, code) => [kind.type, code]));

/**
 * The kind that answers for an entry: one of the format, or one that the entry's session was given (`OwnKinds`).
 * An unknown type moves the leaf and says nothing (its bytes are kept).
 */
export function kindOf(entry: Entry): EntryKind {
  const code = codes.get(entry.type);
  return code === undefined ? (adopted.get(entry) ?? entryKinds[0]!) : entryKinds[code]!;
}

/** Entries of a type that the format lacks, each with the kind that its session was given for it. */
const adopted = new WeakMap<Entry, EntryKind>();

/** Makes a kind besides those of the format answer for one entry. */
export function adoptEntry(entry: Entry, kind: EntryKind): void {
  adopted.set(entry, kind);
}

/** The position of a type's kind in {@link entryKinds}. */
export function kindCode(type: string): number {
  return codes.get(type) ?? 0;
}
