import type { BranchComparison, SessionStats } from "@espalier/engine/reading";
import type { Entry } from "@espalier/session-tree";
import type { CompactionView, SummaryOrigin } from "./compaction.ts";
import type { ContextGrowth, ContextView } from "./context.ts";
import type { EntryGist } from "./entry-gist.ts";
import type { FoundText, SessionFacts } from "./facts.ts";
import type { Outline } from "./outline.ts";
import type { Spending } from "./spending.ts";

/**
 * All that a page asks of a session. Answered out of the session's bytes where they are at hand, over HTTP where they
 * are not: the answers are the same. Every method throws `unknown-entry` for a row that is not there.
 */
export interface SessionReader {
  facts(): Promise<SessionFacts>;
  /** The rows `[from, to)`, or as many as there are. */
  outline(from: number, to: number): Promise<Outline>;
  gists(from: number, to: number): Promise<EntryGist[]>;
  /** Entries as they stand in the log. */
  entries(rows: readonly number[]): Promise<Entry[]>;
  /** The row of an id; -1 when there is none. */
  rowOf(id: string): Promise<number>;
  context(row: number): Promise<ContextView>;
  growth(row: number): Promise<ContextGrowth>;
  spending(): Promise<Spending>;
  stats(): Promise<SessionStats>;
  compaction(row: number): Promise<CompactionView>;
  origins(compactionRow: number, line: string): Promise<SummaryOrigin[]>;
  find(query: string): Promise<FoundText[]>;
  /** Two branches by the rows in which they end. */
  compare(a: number, b: number): Promise<BranchComparison>;
}
