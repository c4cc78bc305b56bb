import { isRecord } from "../formats/json-record.ts";
import { LineMark } from "./line-kind.ts";
import type { LineTable } from "./line-table.ts";

/**
 * What the lines of a fork say of where they were copied from. A copied line gets the id of its original, so that the
 * two are one entry and its tokens are counted once.
 */
export class ForkClaims {
  /** The session that the file was forked from. */
  sessionId: string | undefined;
  /** The last copied row; -1 when there is none. */
  lastRow = -1;
  /** By the original's id; -1 for an id that several lines claim: those name the place of the fork, not their original. */
  readonly #claims = new Map<string, number>();

  claim(row: number, forkedFrom: unknown): void {
    if (!isRecord(forkedFrom)) return;
    const { sessionId, messageUuid } = forkedFrom;
    if (typeof sessionId === "string") this.sessionId ??= sessionId;
    if (typeof messageUuid === "string" && messageUuid !== "")
      this.#claims.set(messageUuid, this.#claims.has(messageUuid) ? -1 : row);
  }

  /** Gives copied lines the ids of their originals. */
  apply(table: LineTable): void {
    for (const [id, row] of this.#claims) {
      if (row < 0 || table.has(row, LineMark.renamed) || (table.rowOf(id) >= 0 && table.rowOf(id) !== row))
        continue;
      table.mark(row, LineMark.renamed);
      table.renamed.set(row, id);
      this.lastRow = Math.max(this.lastRow, row);
    }
  }
}
