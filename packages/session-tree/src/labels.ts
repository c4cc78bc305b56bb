import { label } from "./entries/label.ts";
import { type SessionInfoEntry, sessionInfo } from "./entries/session-info.ts";
import type { Entry } from "./entry.ts";
import { kindCode } from "./entry-kinds.ts";
import type { Tree } from "./tree.ts";

/** A label in force. */
export interface LabelInForce {
  label: string;
  /** The row of the `label` entry that set it. */
  row: number;
  /** When it was set, ISO 8601. */
  timestamp: string;
}

/** Labels in force, by the id they name: the last one in file order wins, over all branches; one without text clears. */
export function labelsInForce(tree: Tree): Map<string, LabelInForce> {
  const labels = new Map<string, LabelInForce>();
  for (const [row, entry] of rowsOf(tree, label.type)) {
    if (!label.is(entry)) continue;
    if (entry.label) {
      labels.set(entry.targetId, { label: entry.label, row, timestamp: entry.timestamp });
    } else labels.delete(entry.targetId);
  }
  return labels;
}

/** The session's name: the last one in file order, over all branches; undefined when it has none. */
export function sessionName(tree: Tree): string | undefined {
  return nameEntry(tree)?.name || undefined;
}

/** The entry that gave the session its name, or took it away. */
export function nameEntry(tree: Tree): SessionInfoEntry | undefined {
  const code = kindCode(sessionInfo.type);
  for (let row = tree.length - 1; row >= 0; row--) {
    if (tree.index.kind(row) !== code) continue;
    const entry = tree.entryAt(row);
    if (sessionInfo.is(entry)) return entry;
  }
  return undefined;
}

/** All rows of a type with their entries, in file order; of a known type, only their lines are read. */
export function* rowsOf(tree: Tree, type: string): Generator<[number, Entry]> {
  const code = kindCode(type);
  for (let row = 0; row < tree.length; row++) {
    if (tree.index.kind(row) !== code) continue;
    const entry = tree.entryAt(row);
    if (entry.type === type) yield [row, entry];
  }
}
