import type { BranchComparison, SessionStats } from "@espalier/engine/reading";
import type { Entry } from "@espalier/session-tree";
import type { CompactionView } from "../model/compaction-view.ts";
import type { ContextGrowth } from "../model/context-growth.ts";
import type { ContextView } from "../model/context-view.ts";
import type { EntryGist } from "../model/entry-gist.ts";
import type { FoundText } from "../model/find-text.ts";
import type { Outline } from "../model/outline.ts";
import type { SessionFacts } from "../model/session-facts.ts";
import type { SessionReader } from "../model/session-reader.ts";
import type { Spending } from "../model/spending.ts";
import type { SummaryOrigin } from "../model/summary-origin.ts";
import { ask } from "./ask-server.ts";

/** Rows that one address names: servers take addresses of 16 KB with everything around them. */
const ROWS = 500;

/** Reads a session over HTTP: each method is an address of the same name. */
export class RemoteReader implements SessionReader {
  readonly #base: string;

  /** @param key names the session to the server */
  constructor(key: string) {
    this.#base = `api/sessions/${encodeURIComponent(key)}`;
  }

  facts(): Promise<SessionFacts> {
    return ask(`${this.#base}/facts`);
  }

  outline(from: number, to: number): Promise<Outline> {
    return ask(`${this.#base}/outline`, { from, to });
  }

  gists(from: number, to: number): Promise<EntryGist[]> {
    return ask(`${this.#base}/gists`, { from, to });
  }

  async entries(rows: readonly number[]): Promise<Entry[]> {
    const parts = Array.from({ length: Math.ceil(rows.length / ROWS) }, (_, at) =>
      rows.slice(at * ROWS, (at + 1) * ROWS),
    );
    const read = await Promise.all(
      parts.map((part) => ask<Entry[]>(`${this.#base}/entries`, { rows: part.join(",") })),
    );
    return read.flat();
  }

  async rowOf(id: string): Promise<number> {
    return (await ask<{ row: number }>(`${this.#base}/row`, { id })).row;
  }

  context(row: number): Promise<ContextView> {
    return ask(`${this.#base}/context`, { row });
  }

  growth(row: number): Promise<ContextGrowth> {
    return ask(`${this.#base}/growth`, { row });
  }

  spending(): Promise<Spending> {
    return ask(`${this.#base}/spending`);
  }

  stats(): Promise<SessionStats> {
    return ask(`${this.#base}/stats`);
  }

  compaction(row: number): Promise<CompactionView> {
    return ask(`${this.#base}/compaction`, { row });
  }

  origins(compactionRow: number, line: string): Promise<SummaryOrigin[]> {
    return ask(`${this.#base}/origins`, { row: compactionRow, line });
  }

  find(query: string): Promise<FoundText[]> {
    return ask(`${this.#base}/find`, { q: query });
  }

  compare(a: number, b: number): Promise<BranchComparison> {
    return ask(`${this.#base}/compare`, { a, b });
  }
}
