import {
  type Entry,
  referenceIssues,
  type SessionHeader,
  type SessionIssue,
  sessionName,
} from "@espalier/session-tree";
import type { ExportSource } from "./export-source.ts";
import { jsonFields } from "./json-fields.ts";

/** A whole session as one JSON value. */
export interface SessionDocument {
  format: "espalier-session";
  /** Of this shape. */
  version: 1;
  /** The first line; null where the log has none. */
  session: SessionHeader | null;
  name: string | null;
  leafId: string | null;
  /** In file order, each as its line says; one that can no longer be read has the type `damaged`. */
  entries: Entry[];
  /** What is wrong with lines and references; empty for a sound session. */
  issues: SessionIssue[];
}

/** A {@link SessionDocument}, one entry a line; returns how many those are. */
export function* exportJson(source: ExportSource, rows: readonly number[]): Generator<string, number> {
  const { tree, header, endId } = source;
  const name = sessionName(tree);
  yield* jsonFields({
    format: "espalier-session",
    version: 1,
    session: header,
    name: name === undefined ? null : source.text(name),
    leafId: endId,
    entries: entriesOf(source, rows),
    issues: [...tree.issues, ...referenceIssues(tree)],
  } satisfies Record<keyof SessionDocument, unknown>);
  return rows.length;
}

function* entriesOf(source: ExportSource, rows: readonly number[]): Generator<Entry> {
  for (const row of rows) yield source.entryAt(row);
}
