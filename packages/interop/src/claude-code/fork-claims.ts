import { isRecord } from "@espalier/session-tree";
import { HashRuns } from "../scratch/hash-runs.ts";
import type { ScratchArea } from "../scratch/scratch-area.ts";
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
  readonly #hash: ScratchArea["hash"];
  /** Rows by the hash of the original's id. */
  readonly #claims: HashRuns;

  constructor(area: ScratchArea) {
    this.#hash = area.hash;
    this.#claims = new HashRuns(area);
  }

  claim(row: number, forkedFrom: unknown): void {
    if (!isRecord(forkedFrom)) return;
    const { sessionId, messageUuid } = forkedFrom;
    if (typeof sessionId === "string") this.sessionId ??= sessionId;
    if (typeof messageUuid !== "string" || messageUuid === "") return;
    this.#hash.hashText(messageUuid);
    this.#claims.add(this.#hash, row);
  }

  /**
   * Gives copied lines the ids of their originals. An id that several lines claim is the place of the fork, and the
   * original of none of them.
   */
  apply(table: LineTable): void {
    this.#claims.forEachHash((hash, row, count) => {
      const own = table.rowOfHash(hash);
      if (count > 1 || table.has(row, LineMark.renamed) || (own >= 0 && own !== row)) return;
      table.mark(row, LineMark.claimed);
      this.lastRow = Math.max(this.lastRow, row);
    });
  }
}

/** The id of a line's original, as the line says it. */
export function originalId(line: Record<string, unknown> | undefined): unknown {
  const forkedFrom = line?.["forkedFrom"];
  return isRecord(forkedFrom) ? forkedFrom["messageUuid"] : undefined;
}
